//! Zone maps: bounds of the values of each zone.
//!
//! Neither null nor NaN is a bound. A zone with a NaN has a NaN as `max`, which says nothing of the other values; one
//! without an ordinary value has no `min`. Types whose values are not compared have no bounds at all, although there are
//! values: such a zone may have any.

use std::cmp::Ordering;

use arrow_schema::DataType;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::{Bound, Bounds, Zone};

use super::stored::StoredZones;
use super::{DEFAULT_ZONE_ROWS, MAP_FILE, MAP_ROWS};
use crate::answer::Answer;
use crate::files::IndexFiles;
use crate::value_test::ValueTest;
use crate::values::{Value, value_at};

/// A zone map that was opened.
#[derive(Debug)]
pub struct ZoneMapIndex {
    pub(super) stored: StoredZones,
    known: Vec<KnownZone>,
    zone_rows: u32,
}

/// What is known of the values of a zone.
#[derive(Debug)]
struct KnownZone {
    has_null: bool,
    /// `None` if it may have any values.
    bounds: Option<Zone>,
}

impl ZoneMapIndex {
    /// Reads all of it. Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn open(files: &dyn IndexFiles) -> Result<Self> {
        let stored = StoredZones::open(files, MAP_FILE)?;
        let known = Self::read(&stored).map_err(|e| e.in_file(&stored.name))?;
        let zone_rows = stored.metadata(MAP_ROWS, DEFAULT_ZONE_ROWS)?;
        Ok(Self { stored, known, zone_rows })
    }

    fn read(stored: &StoredZones) -> Result<Vec<KnownZone>> {
        let all = stored.all();
        let (min, max) = (stored.column("min", &all)?, stored.column("max", &all)?);
        let (nulls, nans) = (stored.counts("null_count", &all)?, stored.counts("nan_count", &all)?);
        let with_counts = stored.zones.iter().zip(nulls.into_iter().zip(nans)).enumerate();
        let known = with_counts.map(|(at, (zone, (nulls, nans)))| {
            if nulls > u64::from(zone.len()) {
                return Err(Error::corrupt(format!("zone {at} has {nulls} nulls in {} rows", zone.len())));
            }
            let values = (value_at(min.as_ref(), at), value_at(max.as_ref(), at));
            if let (Some(min), Some(max)) = &values
                && min.compare(max) == Ordering::Greater
            {
                return Err(Error::corrupt(format!("zone {at} has the bounds {min:?} and {max:?}")));
            }
            let is_all_null = nulls == u64::from(zone.len());
            let bounds = bounds_of(values, nans > 0, is_all_null);
            let zone = bounds.map(|bounds| Zone { nulls, has_nan: nans > 0, bounds });
            Ok(KnownZone { has_null: nulls > 0, bounds: zone })
        });
        known.collect()
    }

    /// How many zones there are.
    pub fn num_zones(&self) -> usize {
        self.known.len()
    }

    /// Whether the file says which rows are null.
    pub fn has_nulls(&self) -> bool {
        self.stored.nulls.is_some()
    }

    /// Rows of a zone, at most.
    pub fn zone_rows(&self) -> u32 {
        self.zone_rows
    }

    /// The rows for which tests may hold, all of them; nulls exactly if the file says where they are. `None` for tests
    /// that bounds say nothing of.
    pub fn search(&self, tests: &[&ValueTest]) -> Option<Answer> {
        if let [test] = tests
            && let Some(answer) =
                self.stored.of_nulls(test, |at| self.known.get(at).is_none_or(|zone| zone.has_null))
        {
            return Some(answer);
        }
        let may_hold = |at: usize| {
            let bounds = self.known.get(at).and_then(|zone| zone.bounds.as_ref());
            let rows = self.stored.zones.get(at).map_or(0, |zone| u64::from(zone.len()));
            bounds.is_none_or(|bounds| tests.iter().all(|test| test.may_hold_in(bounds, rows)))
        };
        let is_known =
            tests.iter().all(|test| !test.is_of_items() && !matches!(test, ValueTest::Contains(_)));
        is_known.then(|| self.stored.candidates(may_hold))
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |bound: &Bound| match bound {
            Bound::Bytes(bytes) => bytes.len(),
            Bound::Int(_) | Bound::Float(_) => 0,
        };
        let of_bounds = |bounds: &Bounds| bytes(&bounds.min) + bounds.max.as_ref().map_or(0, bytes);
        let zones = self.known.iter().map(|zone| {
            let bounds = zone.bounds.as_ref().and_then(|zone| zone.bounds.as_ref());
            size_of::<KnownZone>() + bounds.map_or(0, of_bounds)
        });
        self.stored.memory_bytes() + zones.sum::<usize>()
    }
}

/// The bounds of the ordinary values of a zone; the inner `None` if there are none, the outer one if there may be any.
fn bounds_of(
    (min, max): (Option<Value<'_>>, Option<Value<'_>>),
    has_nan: bool,
    is_all_null: bool,
) -> Option<Option<Bounds>> {
    let is_nan = |value: &Value<'_>| matches!(value, Value::Float(value) if value.is_nan());
    match (min, max) {
        (Some(min), _) if is_nan(&min) => None,
        (Some(min), Some(max)) if !is_nan(&max) => {
            Some(Some(Bounds { min: lowered(min), max: Some(raised(max)) }))
        }
        (Some(min), Some(_)) if has_nan => Some(Some(Bounds { min: lowered(min), max: None })),
        (None, _) if has_nan || is_all_null => Some(None),
        _ => None,
    }
}

/// As a lower bound: zeros are equal to whoever compares them otherwise.
fn lowered(value: Value<'_>) -> Bound {
    if matches!(value, Value::Float(value) if value == 0.0) { Bound::Float(-0.0) } else { value.to_bound() }
}

fn raised(value: Value<'_>) -> Bound {
    if matches!(value, Value::Float(value) if value == 0.0) { Bound::Float(0.0) } else { value.to_bound() }
}

/// The details of a zone map in its entry, as the reference writes them: field 1 the rows of a zone, 2 whether later
/// data files carry their zones along, which the reference does for values that are long to read, 3 that nulls are
/// known.
///
/// ```
/// use arrow_schema::DataType;
/// assert_eq!(pennon_index::zone_map_details(8192, &DataType::Int64), [0x08, 0x80, 0x40, 0x10, 0, 0x18, 1]);
/// ```
pub fn zone_map_details(zone_rows: u32, data_type: &DataType) -> Vec<u8> {
    let mut bytes = vec![0x08];
    let mut rest = zone_rows;
    while rest >= 0x80 {
        bytes.push(0x80 | rest.to_le_bytes()[0]);
        rest >>= 7;
    }
    bytes.push(rest.to_le_bytes()[0]);
    let carried = matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::FixedSizeList(..)
    );
    bytes.extend([0x10, u8::from(carried), 0x18, 1]);
    bytes
}
