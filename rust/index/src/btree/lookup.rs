//! The bounds of all pages, in memory.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pennon_core::file::FileVersion;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result};
use pennon_datafile::{Ahead, ByteSource, FileReader, FileWriter};

use super::page::seek;
use super::{DEFAULT_PAGE_ROWS, LOOKUP_FILE, PAGE_ROWS, RANGE_PARTITIONED, options};
use crate::files::{self, WrittenFile};
use crate::intervals::Interval;
use crate::values::{TypedValues, Value, value_at};

/// The bounds of all pages.
#[derive(Debug)]
pub(super) struct Lookup {
    /// First value of each page; null if that is null.
    pub(super) min: ArrayRef,
    /// Last value of each page; null if all are null.
    pub(super) max: ArrayRef,
    pub(super) null_counts: Vec<u32>,
    /// Rows of each page but the last.
    pub(super) page_rows: u64,
}

impl Lookup {
    /// Reads all of it. Errors: `Corrupt`, naming the file, unless it is a lookup file.
    pub(super) fn read(source: Arc<dyn ByteSource>) -> Result<Self> {
        let name = source.name().to_owned();
        let reader = FileReader::open_ahead(source, Ahead::Kept)?;
        Self::from_file(&reader).map_err(|e| e.in_file(name))
    }

    fn from_file(reader: &FileReader) -> Result<Self> {
        let metadata = reader.metadata();
        let schema = &metadata.schema;
        let page_rows = match schema.metadata.get(PAGE_ROWS) {
            None => u64::from(DEFAULT_PAGE_ROWS),
            Some(text) => text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| {
                Error::corrupt(format!("`{PAGE_ROWS}` is {text:?}, expected a number of rows"))
            })?,
        };
        let mut fields = Vec::with_capacity(4);
        for column in ["min", "max", "null_count", "page_idx"] {
            fields.push(files::column(reader, column)?);
        }
        let rows = RowRanges::from(0..metadata.num_rows);
        let arrays = reader.read(&fields, &reader.column_map(), &rows)?;
        let [min, max, nulls, pages] = <[ArrayRef; 4]>::try_from(arrays)
            .map_err(|arrays| Error::internal(format!("{} columns of a lookup file", arrays.len())))?;
        if min.data_type() != max.data_type() {
            return Err(Error::corrupt(format!(
                "`min` has the type {} and `max` the type {}",
                min.data_type(),
                max.data_type()
            )));
        }
        let counts = |array: &ArrayRef, name: &str| -> Result<Vec<u32>> {
            let values = array.as_primitive_opt::<UInt32Type>().filter(|array| array.null_count() == 0);
            let values = values.ok_or_else(|| {
                Error::corrupt(format!(
                    "`{name}` has the type {}, expected uint32 without nulls",
                    array.data_type()
                ))
            })?;
            Ok(values.values().to_vec())
        };
        let pages = counts(&pages, "page_idx")?;
        if let Some((at, page)) = pages.iter().enumerate().find(|(at, page)| u32::try_from(*at) != Ok(**page))
        {
            return Err(Error::corrupt(format!("row {at} has the page {page}")));
        }
        Ok(Self { min, max, null_counts: counts(&nulls, "null_count")?, page_rows })
    }

    /// Writes the file.
    pub(super) fn write<W: Write>(&self, sink: W, version: FileVersion) -> Result<WrittenFile<W>> {
        let fields = vec![
            Field::new("min", self.data_type().clone(), true),
            Field::new("max", self.data_type().clone(), true),
            Field::new("null_count", DataType::UInt32, false),
            Field::new("page_idx", DataType::UInt32, false),
        ];
        let metadata = HashMap::from([
            (PAGE_ROWS.to_owned(), self.page_rows.to_string()),
            (RANGE_PARTITIONED.to_owned(), "false".to_owned()),
        ]);
        let schema = Arc::new(ArrowSchema::new_with_metadata(fields, metadata));
        let pages = u32::try_from(self.pages())
            .map_err(|_| Error::unsupported(format!("{} pages of an index", self.pages())))?;
        let columns: Vec<ArrayRef> = vec![
            Arc::clone(&self.min),
            Arc::clone(&self.max),
            Arc::new(UInt32Array::from(self.null_counts.clone())),
            Arc::new(UInt32Array::from_iter_values(0..pages)),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
            .map_err(|e| Error::internal(format!("bounds of pages: {e}")))?;
        let mut writer = FileWriter::try_new(sink, Schema::from_arrow(&schema)?, options(version))?;
        writer.write(&batch)?;
        let (written, sink) = writer.finish()?;
        Ok(WrittenFile { name: LOOKUP_FILE, size: written.size, sink })
    }

    /// How many pages there are.
    pub(super) fn pages(&self) -> usize {
        self.null_counts.len()
    }

    /// Type of the values.
    pub(super) fn data_type(&self) -> &DataType {
        self.min.data_type()
    }

    pub(super) fn null_count(&self, page: usize) -> u32 {
        self.null_counts.get(page).copied().unwrap_or(0)
    }

    pub(super) fn null_counts(&self) -> &[u32] {
        &self.null_counts
    }

    /// First and last value of a page; `None` for null.
    pub(super) fn bounds(&self, page: usize) -> (Option<Value<'_>>, Option<Value<'_>>) {
        (value_at(self.min.as_ref(), page), value_at(self.max.as_ref(), page))
    }

    /// The largest value; `None` if all are null.
    pub(super) fn max(&self) -> Option<Value<'_>> {
        self.pages().checked_sub(1).and_then(|last| value_at(self.max.as_ref(), last))
    }

    /// The pages that may have values in each of some intervals, which ascend.
    pub(super) fn pages_of<'i>(
        &self,
        intervals: &'i [Interval],
    ) -> impl Iterator<Item = (&'i Interval, Range<usize>)> {
        let (min, max) = (TypedValues::of(self.min.as_ref()), TypedValues::of(self.max.as_ref()));
        let (mut first, pages) = (0, self.pages());
        intervals.iter().map(move |interval| {
            first = seek(max, first, pages, |max| !interval.is_above(max));
            (interval, first..seek(min, first, pages, |min| interval.is_below(min)))
        })
    }

    /// Whether every row of a page is in an interval.
    pub(super) fn is_inside(&self, page: usize, interval: &Interval) -> bool {
        match (self.null_count(page), self.bounds(page)) {
            (0, (Some(min), Some(max))) => !interval.is_above(&min) && !interval.is_below(&max),
            _ => false,
        }
    }

    /// The rows of a page in the data file, of so many rows.
    pub(super) fn rows_of(&self, page: usize, all: u64) -> Range<u64> {
        let start = u64::try_from(page).unwrap_or(u64::MAX).saturating_mul(self.page_rows).min(all);
        start..start.saturating_add(self.page_rows).min(all)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.min.get_array_memory_size() + self.max.get_array_memory_size() + 4 * self.null_counts.len()
    }
}
