//! Writing: sorted values go to the file with the pages, and the bounds of the pages are gathered on the way.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, new_empty_array};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take;
use pennon_core::file::FileVersion;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result};
use pennon_datafile::FileWriter;

use super::lookup::Lookup;
use super::{DATA_FILE, options};
use crate::files::WrittenFile;
use crate::sort::SortedRun;

/// Writes the files of a B-tree index.
pub struct BTreeWriter<W> {
    data: FileWriter<W>,
    schema: SchemaRef,
    version: FileVersion,
    page_rows: u32,
    /// Rows so far.
    rows: u64,
    /// First and last values of pages, in pieces.
    min: Vec<ArrayRef>,
    max: Vec<ArrayRef>,
    null_counts: Vec<u32>,
    /// The value that was written last.
    last: Option<ArrayRef>,
}

impl<W: Write> BTreeWriter<W> {
    /// A writer of values of a type, `page_rows` to a page; `page_data` becomes the file of that name.
    ///
    /// Errors: `InvalidInput` for pages without rows; those of [`FileWriter::try_new`].
    pub fn try_new(page_data: W, data_type: &DataType, version: FileVersion, page_rows: u32) -> Result<Self> {
        if page_rows == 0 {
            return Err(Error::invalid_input("a page of an index has 0 rows, expected at least 1"));
        }
        let schema = Arc::new(ArrowSchema::new(vec![
            Field::new("values", data_type.clone(), true),
            Field::new("ids", DataType::UInt64, false),
        ]));
        let data = FileWriter::try_new(page_data, Schema::from_arrow(&schema)?, options(version))?;
        let (min, max, null_counts, last) = (Vec::new(), Vec::new(), Vec::new(), None);
        Ok(Self { data, schema, version, page_rows, rows: 0, min, max, null_counts, last })
    }

    /// Appends values that are not below those before.
    pub fn write(&mut self, run: &SortedRun) -> Result<()> {
        let (values, rows) = (run.values(), run.rows());
        if values.is_empty() {
            return Ok(());
        }
        let page_rows = u64::from(self.page_rows);
        let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
        let mut start = 0_usize;
        while start < values.len() {
            let in_page = self.rows % page_rows;
            let left = usize::try_from(page_rows - in_page).unwrap_or(usize::MAX);
            let len = left.min(values.len() - start);
            if in_page == 0 {
                firsts.push(start as u64);
                self.null_counts.push(0);
            }
            if len == left {
                lasts.push((start + len - 1) as u64);
            }
            if let Some(count) = self.null_counts.last_mut() {
                let nulls = values.slice(start, len).null_count();
                *count = count.saturating_add(u32::try_from(nulls).unwrap_or(u32::MAX));
            }
            self.rows += len as u64;
            start += len;
        }
        self.min.push(pick(values, firsts)?);
        self.max.push(pick(values, lasts)?);
        self.last = Some(pick(values, vec![values.len() as u64 - 1])?);
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::clone(values), Arc::new(rows.clone())]);
        self.data.write(&batch.map_err(|e| Error::schema_mismatch(format!("values of an index: {e}")))?)
    }

    /// Writes what is left; `page_lookup` becomes the file of that name. Both are flushed, not synced.
    pub fn finish(mut self, page_lookup: W) -> Result<[WrittenFile<W>; 2]> {
        if !self.rows.is_multiple_of(u64::from(self.page_rows)) {
            self.max.extend(self.last.take());
        }
        let data_type = self.schema.field(0).data_type();
        let lookup = Lookup {
            min: joined(&self.min, data_type)?,
            max: joined(&self.max, data_type)?,
            null_counts: self.null_counts,
            page_rows: self.page_rows.into(),
        };
        let (data, data_sink) = self.data.finish()?;
        Ok([
            WrittenFile { name: DATA_FILE, size: data.size, sink: data_sink },
            lookup.write(page_lookup, self.version)?,
        ])
    }
}

fn pick(values: &ArrayRef, at: Vec<u64>) -> Result<ArrayRef> {
    take(values.as_ref(), &UInt64Array::from(at), None)
        .map_err(|e| Error::internal(format!("bounds of pages: {e}")))
}

fn joined(pieces: &[ArrayRef], data_type: &DataType) -> Result<ArrayRef> {
    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    if pieces.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    concat(&pieces).map_err(|e| Error::internal(format!("bounds of pages: {e}")))
}
