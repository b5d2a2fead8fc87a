//! What some rows say of their zones, on any thread: zones are made of it, in whatever order it comes.
//!
//! A zone has the rows whose offset in their fragment, divided by the rows of a zone, is the same: of a fragment without
//! deletions those are the zones of the reference.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::DataType;
use arrow_select::take::take;
use pennon_core::transaction::BloomFilter;
use pennon_core::{Error, Result};

use super::hashed::hashes;
use crate::kind::IndexKind;
use crate::row_set::{lower, upper};
use crate::values::{Value, compare_at, value_at};

/// What the zones of an index are.
#[derive(Debug, Clone)]
pub struct ZoneForm {
    pub(super) content: ContentForm,
    pub(super) data_type: DataType,
    pub(super) zone_rows: u32,
}

/// What is known of the values of a zone.
#[derive(Debug, Clone)]
pub(super) enum ContentForm {
    Bounds,
    /// A filter without values.
    Filter(BloomFilter),
}

/// What some rows say of a zone.
#[derive(Debug)]
pub struct ZonePart {
    pub(super) zone: ZoneKey,
    /// First and last offset.
    pub(super) rows: (u32, u32),
    /// Addresses of nulls.
    pub(super) nulls: Vec<u64>,
    pub(super) content: PartContent,
}

/// The fragment, and the number of the zone in it. Ascend as addresses do.
pub(super) type ZoneKey = (u32, u32);

#[derive(Debug)]
pub(super) enum PartContent {
    Bounds(ValueBounds),
    Hashes(Vec<u64>),
}

/// Bounds of the values that are neither null nor NaN.
#[derive(Debug, Default)]
pub(super) struct ValueBounds {
    /// Arrays of one value.
    pub(super) min: Option<ArrayRef>,
    pub(super) max: Option<ArrayRef>,
    pub(super) nans: u32,
}

impl ZoneForm {
    /// Zones of so many rows for an index of a kind over values of a type; the probability is that of Bloom filters.
    ///
    /// Errors: `InvalidInput` for zones without rows and a probability that is none; `Internal` for other kinds.
    pub fn try_new(kind: IndexKind, data_type: DataType, zone_rows: u32, probability: f64) -> Result<Self> {
        if zone_rows == 0 {
            return Err(Error::invalid_input("zones of 0 rows, expected at least 1"));
        }
        let content = match kind {
            IndexKind::ZoneMap => ContentForm::Bounds,
            IndexKind::BloomFilter => {
                ContentForm::Filter(BloomFilter::with_room(zone_rows.into(), probability)?)
            }
            other => {
                return Err(Error::internal(format!("an index of the kind {} has no zones", other.name())));
            }
        };
        Ok(Self { content, data_type, zone_rows })
    }

    /// What rows say of their zones, by the addresses of these. Errors: `InvalidInput` for as many addresses as values are
    /// not; `Unsupported` for values of another type than the index has.
    pub fn gather(&self, values: &ArrayRef, addresses: &UInt64Array) -> Result<Vec<ZonePart>> {
        if values.len() != addresses.len() {
            return Err(Error::invalid_input(format!("{} values of {} rows", values.len(), addresses.len())));
        }
        if *values.data_type() != self.data_type {
            let (found, expected) = (values.data_type(), &self.data_type);
            return Err(Error::unsupported(format!("values of type {found} for an index of {expected}")));
        }
        let all = addresses.values();
        let hashes = match self.content {
            ContentForm::Bounds => Vec::new(),
            ContentForm::Filter(_) => hashes(values)?,
        };
        let mut parts = Vec::new();
        let mut start = 0;
        for run in all.chunk_by(|a, b| self.zone_of(*a) == self.zone_of(*b)) {
            let rows = start..start + run.len();
            start = rows.end;
            let Some(first) = run.first() else { continue };
            let offsets = run.iter().map(|address| lower(*address));
            let (low, high) = offsets.fold((u32::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
            let is_null = |at: &usize| values.is_null(*at);
            let nulls = rows.clone().filter(is_null).filter_map(|at| all.get(at).copied()).collect();
            let content = match self.content {
                ContentForm::Bounds => PartContent::Bounds(bounds(values, rows)?),
                ContentForm::Filter(_) => {
                    let of_run = hashes.get(rows).unwrap_or_default();
                    PartContent::Hashes(of_run.iter().flatten().copied().collect())
                }
            };
            parts.push(ZonePart { zone: self.zone_of(*first), rows: (low, high), nulls, content });
        }
        Ok(parts)
    }

    /// The zone of an address.
    pub(super) fn zone_of(&self, address: u64) -> ZoneKey {
        (upper(address), lower(address) / self.zone_rows)
    }
}

impl ValueBounds {
    pub(super) fn merge(&mut self, other: Self) {
        let is_below = |a: &ArrayRef, b: &ArrayRef| compare_at((a.as_ref(), 0), (b.as_ref(), 0)).is_lt();
        self.min = match (self.min.take(), other.min) {
            (Some(a), Some(b)) => Some(if is_below(&b, &a) { b } else { a }),
            (a, b) => a.or(b),
        };
        self.max = match (self.max.take(), other.max) {
            (Some(a), Some(b)) => Some(if is_below(&a, &b) { b } else { a }),
            (a, b) => a.or(b),
        };
        self.nans = self.nans.saturating_add(other.nans);
    }
}

/// The bounds of some values.
fn bounds(values: &ArrayRef, rows: Range<usize>) -> Result<ValueBounds> {
    let mut found = ValueBounds::default();
    let mut ends: Option<((usize, Value<'_>), (usize, Value<'_>))> = None;
    for at in rows {
        match value_at(values.as_ref(), at) {
            None => {}
            Some(Value::Float(value)) if value.is_nan() => found.nans += 1,
            Some(value) => match &mut ends {
                None => ends = Some(((at, value), (at, value))),
                Some((min, max)) => {
                    if value.compare(&min.1).is_lt() {
                        *min = (at, value);
                    } else if value.compare(&max.1).is_gt() {
                        *max = (at, value);
                    }
                }
            },
        }
    }
    if let Some(((min, _), (max, _))) = ends {
        let single = |at: usize| {
            take(values.as_ref(), &UInt64Array::from(vec![at as u64]), None)
                .map_err(|e| Error::internal(format!("a bound of a zone: {e}")))
        };
        (found.min, found.max) = (Some(single(min)?), Some(single(max)?));
    }
    Ok(found)
}
