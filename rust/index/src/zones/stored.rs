//! Zones that were opened: where each lies, and which rows are null.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::filter::filter;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};
use pennon_datafile::{Ahead, ColumnMap, FileReader};

use super::NULLS;
use crate::answer::Answer;
use crate::files::{self, AHEAD, IndexFiles, rows_in_buffer};
use crate::row_set::RowSet;
use crate::value_test::ValueTest;

/// Zones that are copied at a time.
const COPIED: u64 = 1024;

/// Physical rows of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZoneRows {
    pub(super) fragment: u32,
    pub(super) rows: Range<u32>,
}

impl ZoneRows {
    pub(super) fn len(&self) -> u32 {
        self.rows.end - self.rows.start
    }
}

/// The zones of a file.
#[derive(Debug)]
pub(super) struct StoredZones {
    pub(super) zones: Vec<ZoneRows>,
    /// Rows whose value is null; `None` if the file does not say, or not rightly.
    pub(super) nulls: Option<RowSet>,
    pub(super) reader: FileReader,
    pub(super) columns: ColumnMap,
    pub(super) name: String,
}

impl StoredZones {
    /// Reads where the zones are. Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub(super) fn open(files: &dyn IndexFiles, file: &str) -> Result<Self> {
        let source = files.open(file)?;
        let name = source.name().to_owned();
        let reader = FileReader::open_ahead(source, Ahead::Held(AHEAD))?;
        let nulls = rows_in_buffer(&reader, NULLS).map_err(|e| e.in_file(&name))?;
        let columns = reader.column_map();
        let mut stored = Self { zones: Vec::new(), nulls, reader, columns, name };
        stored.zones = stored.read_zones().map_err(|e| e.in_file(&stored.name))?;
        if stored.overlap() {
            stored.nulls = None;
        }
        Ok(stored)
    }

    /// Whether a row is in two zones: the reference keeps the zones of values that were replaced in their fragment next to
    /// those of the new values, and their nulls among the others. Zones may have too much; the nulls are not to be trusted.
    fn overlap(&self) -> bool {
        let mut zones: Vec<(u32, u32, u32)> =
            self.zones.iter().map(|zone| (zone.fragment, zone.rows.start, zone.rows.end)).collect();
        zones.sort_unstable();
        let mut pairs = zones.iter().zip(zones.iter().skip(1));
        pairs.any(|((before, _, end), (fragment, start, _))| before == fragment && start < end)
    }

    fn read_zones(&self) -> Result<Vec<ZoneRows>> {
        let all = self.all();
        let fragments = self.counts("fragment_id", &all)?;
        let (starts, lengths) = (self.counts("zone_start", &all)?, self.counts("zone_length", &all)?);
        let zone = |((fragment, start), length): ((u64, u64), u64)| {
            let rows = u32::try_from(start).ok().zip(start.checked_add(length)?.try_into().ok());
            let (start, end) = rows.filter(|(start, end)| start < end)?;
            Some(ZoneRows { fragment: u32::try_from(fragment).ok()?, rows: start..end })
        };
        let found = fragments.into_iter().zip(starts).zip(lengths).enumerate();
        let zones = found.map(|(at, stored)| {
            zone(stored).ok_or_else(|| {
                let ((fragment, start), length) = stored;
                Error::corrupt(format!(
                    "zone {at} has {length} rows from row {start} of fragment {fragment}, expected some rows of a fragment"
                ))
            })
        });
        zones.collect()
    }

    /// All zones.
    pub(super) fn all(&self) -> RowRanges {
        RowRanges::from(0..self.reader.metadata().num_rows)
    }

    /// A column of some zones. Errors: `Corrupt` if there is no such column.
    pub(super) fn column(&self, name: &str, zones: &RowRanges) -> Result<ArrayRef> {
        let read = self.reader.read(&[files::column(&self.reader, name)?], &self.columns, zones)?;
        read.into_iter().next().ok_or_else(|| Error::internal("a column was not read"))
    }

    /// A column of whole numbers without nulls.
    pub(super) fn counts(&self, name: &str, zones: &RowRanges) -> Result<Vec<u64>> {
        let array = self.column(name, zones)?;
        let wrong = || {
            let found = array.data_type();
            Error::corrupt(format!("`{name}` has the type {found}, expected whole numbers without nulls"))
        };
        if !matches!(array.data_type(), DataType::UInt32 | DataType::UInt64) || array.null_count() > 0 {
            return Err(wrong());
        }
        let cast = cast(&array, &DataType::UInt64).map_err(|_| wrong())?;
        Ok(cast.as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?.values().to_vec())
    }

    /// What a key of the schema's metadata says; `default` without it.
    pub(super) fn metadata<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.reader.metadata().schema.metadata.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                Error::corrupt(format!("`{key}` is {text:?}, expected a number")).in_file(&self.name)
            }),
        }
    }

    /// The rows that are null, or that are not; for files without these rows the zones are named, of which `has_null` says
    /// whether they have nulls. `None` for other tests.
    pub(super) fn of_nulls(&self, test: &ValueTest, has_null: impl Fn(usize) -> bool) -> Option<Answer> {
        let is_null = match test {
            ValueTest::IsNull => true,
            ValueTest::NotNull => false,
            _ => return None,
        };
        Some(match &self.nulls {
            Some(nulls) if is_null => Answer::exact(nulls.clone()),
            Some(nulls) => Answer::exact_except(nulls.clone()),
            None => self.candidates(|at| !is_null || has_null(at)),
        })
    }

    /// All rows of the zones that are kept.
    pub(super) fn candidates(&self, is_kept: impl Fn(usize) -> bool) -> Answer {
        let mut rows = RowSet::new();
        for (_, zone) in self.zones.iter().enumerate().filter(|(at, _)| is_kept(*at)) {
            rows.insert_range(zone.fragment, zone.rows.clone());
        }
        Answer::candidates(rows)
    }

    /// The zones of some fragments with all their columns, as a file of this schema has them, some at a time; and the rows
    /// of these fragments that are null.
    ///
    /// Errors: `Unsupported` if the file does not say which rows are null; those of reading.
    pub(super) fn copy(
        &self,
        schema: &SchemaRef,
        is_kept: impl Fn(u32) -> bool,
        give: &mut dyn FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<RowSet> {
        let Some(mut nulls) = self.nulls.clone() else {
            return Err(Error::unsupported("zones that do not say which rows are null").in_file(&self.name));
        };
        nulls.retain_uppers(&is_kept);
        let failed = |e| Error::unsupported(format!("zones of an index: {e}")).in_file(&self.name);
        for zones in self.all().split_by(COPIED) {
            let start = zones.iter().next().map_or(0, |range| range.start);
            let of_range = self.zones.iter().skip(usize::try_from(start).unwrap_or(usize::MAX));
            let count = usize::try_from(zones.count()).unwrap_or(usize::MAX);
            let mask: BooleanArray = of_range.take(count).map(|zone| Some(is_kept(zone.fragment))).collect();
            if mask.true_count() == 0 {
                continue;
            }
            let mut arrays = Vec::with_capacity(schema.fields().len());
            for field in schema.fields() {
                let array = self.column(field.name(), &zones).map_err(|e| e.in_file(&self.name))?;
                let array = cast(&array, field.data_type()).map_err(failed)?;
                arrays.push(filter(array.as_ref(), &mask).map_err(failed)?);
            }
            give(&RecordBatch::try_new(Arc::clone(schema), arrays).map_err(failed)?)?;
        }
        Ok(nulls)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let nulls = self.nulls.as_ref().map_or(0, RowSet::memory_bytes);
        self.zones.len() * size_of::<ZoneRows>() + nulls + self.reader.memory_size()
    }
}
