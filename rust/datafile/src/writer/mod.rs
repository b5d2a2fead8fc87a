//! Record batches to a data file of version 2.0, 2.1 or 2.2.
//!
//! Files of version 2.0 are written by `array_encoding`. In the others each leaf of the schema is a column of its
//! own (file format 1.6); columns fill pages independently of each other, and full pages are encoded on all cores.
//! Memory is bounded by the 96 MiB that columns gather and two times the 24 MiB and one page that may be in flight,
//! and by the current batch; in files of version 2.0 each column may gather a page.

pub(crate) mod blob;
mod choose;
mod codec;
mod column;
pub(crate) mod conform;
mod constant;
mod copied;
mod dictionary;
mod full_zip;
mod level_codec;
mod levels;
mod mini_block;
pub(crate) mod options;
pub(crate) mod packed;
mod page;
mod plan;
mod pool;
#[cfg(test)]
mod round_trip;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;
mod values;

use std::collections::BTreeMap;
use std::io::Write;

use arrow_array::{ArrayRef, RecordBatch};
use pennon_core::error::ResultExt;
use pennon_core::file::{FileDescriptor, FileVersion};
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, FieldId, Result};

use crate::array_encoding::encode::FieldWriter;
use crate::container::writer::ContainerWriter;
use crate::container::{fields_with_column, is_packed};
use crate::repdef::shred::LeafPath;
use crate::statistics;
use column::ColumnWriter;
use options::FieldOptions;
use page::{Encoding, Storage, check_supported};
use pool::{Job, Pool};

/// Bytes that all columns together gather for their next pages: what 12 columns do by default.
const GATHERED: usize = 96 << 20;

/// How to write a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Version of the file: 2.0, 2.1 or 2.2.
    pub version: FileVersion,
    /// Bytes of values and levels after which a page of a column is written. One row is never split.
    pub max_page_bytes: usize,
}

impl Default for WriteOptions {
    /// Version 2.2, pages of 8 MiB.
    fn default() -> Self {
        Self { version: FileVersion::STABLE, max_page_bytes: 8 << 20 }
    }
}

/// What was written, as a manifest's data file entry needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub size: u64,
    /// Ids of the fields that have a column, in column order (table format 3.2).
    pub fields: Vec<FieldId>,
    /// The column of each.
    pub column_indices: Vec<i32>,
}

/// Writes record batches of one schema to a sink, front to back.
///
/// After an error the file is incomplete: every later call fails.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int64Array, RecordBatch};
/// use pennon_core::schema::Schema;
/// use pennon_datafile::{FileWriter, WriteOptions};
///
/// let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)]).unwrap();
/// let schema = Schema::from_arrow(&batch.schema())?;
/// let mut writer = FileWriter::try_new(Vec::new(), schema, WriteOptions::default())?;
/// writer.write(&batch)?;
/// let (finished, bytes) = writer.finish()?;
/// assert_eq!((finished.rows, finished.size), (3, bytes.len() as u64));
/// # Ok::<(), pennon_core::Error>(())
/// ```
#[derive(Debug)]
pub struct FileWriter<W> {
    out: ContainerWriter<W>,
    schema: Schema,
    version: FileVersion,
    /// Columns of each top-level field.
    columns: Vec<Vec<ColumnWriter>>,
    /// Used instead of `columns` in a file of version 2.0: each top-level field.
    arrays: Vec<FieldWriter>,
    /// Top-level fields whose pages are those of another file, and their rows.
    copied: BTreeMap<usize, u64>,
    pool: Pool,
    rows: u64,
    failed: bool,
}

impl<W: Write> FileWriter<W> {
    /// A writer of batches of this schema, whose field ids the file keeps.
    ///
    /// The metadata of a field may request an encoding (`lance-encoding:compression` and others, file format 4.9).
    ///
    /// Errors: `Unsupported` for a version or a type that cannot be written, `InvalidInput` for metadata that
    /// requests an unknown encoding, both with the field's path.
    pub fn try_new(sink: W, schema: Schema, options: WriteOptions) -> Result<Self> {
        let WriteOptions { version, max_page_bytes } = options;
        check_writable(version)?;
        blob::refuse_blob_v2(&schema)?;
        let mut num_columns = 0;
        let mut columns = Vec::with_capacity(schema.fields.len());
        let mut arrays = Vec::new();
        let mut nothing: Option<String> = None;
        for field in &schema.fields {
            if !version.is_structural() {
                arrays.push(FieldWriter::new(field, &mut num_columns, max_page_bytes.max(1))?);
                continue;
            }
            let mut of_field = Vec::new();
            for_each_leaf(&mut vec![field], version, &mut |fields, leaf| {
                let path = LeafPath::new(fields)?;
                let storage = Storage::of(leaf, version).at(|| format!("field `{}`", path.name()))?;
                if matches!(storage, Storage::Blob(_)) && (path.max_rep() > 0 || path.repeated() > 1) {
                    return Err(Error::unsupported(format!(
                        "field `{}`: blobs in lists cannot be written in file version {version}",
                        path.name()
                    )));
                }
                if matches!(storage, Storage::Nothing(_)) {
                    nothing = Some(path.name().to_owned());
                } else if let Some(nothing) = &nothing {
                    return Err(Error::unsupported(format!(
                        "field `{nothing}`: behind a struct without members the reference reads wrong values, here those \
                         of `{}`: put it last, or use file version 2.0",
                        path.name()
                    )));
                }
                let encoding = Encoding { version, options: FieldOptions::of(leaf, path.name())? };
                of_field.push(ColumnWriter::new(num_columns, path, storage, encoding, max_page_bytes.max(1)));
                num_columns += 1;
                Ok(())
            })?;
            columns.push(of_field);
        }
        let out = ContainerWriter::new(sink, num_columns);
        let (copied, pool) = (BTreeMap::new(), Pool::default());
        Ok(Self { out, schema, version, columns, arrays, copied, pool, rows: 0, failed: false })
    }

    /// Appends the rows of a batch. Columns are found by name; columns the schema does not have are left out.
    ///
    /// Errors: `SchemaMismatch` for nulls in a field that must not have any, a missing column or another type; `Store`
    /// when the sink fails.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_alive()?;
        self.failed = true;
        for (field, writer) in self.schema.fields.iter().zip(&mut self.arrays) {
            writer.append(column_of(batch, field)?, &mut self.out)?;
        }
        let fields = self.schema.fields.iter().zip(&mut self.columns).enumerate();
        for (_, (field, columns)) in fields.filter(|(at, _)| !self.copied.contains_key(at)) {
            let array = column_of(batch, field)?;
            let stored = blob::store(field, array, None, &mut self.out)?;
            let array = stored.as_ref().unwrap_or(array);
            for column in columns {
                column.append(array, &mut |page| {
                    submit_page(page, Pool::is_full, &mut self.pool, &mut self.out)
                })?;
            }
        }
        self.flush_largest()?;
        self.rows += batch.num_rows() as u64;
        self.failed = false;
        Ok(())
    }

    /// Sets a key of the schema's metadata.
    pub fn add_schema_metadata(&mut self, key: String, value: String) {
        self.schema.metadata.insert(key, value);
    }

    /// Stores bytes of the application in the file. Returns their index among the global buffers, 1 or more.
    ///
    /// Errors: `Store` when the sink fails.
    pub fn add_global_buffer(&mut self, bytes: &[u8]) -> Result<u32> {
        self.check_alive()?;
        self.failed = true;
        let index = self.out.global_buffer(bytes)?;
        self.failed = false;
        Ok(index)
    }

    /// Stores the bytes of a blob between the pages. Returns their position.
    ///
    /// Errors: `Store` when the sink fails.
    pub fn write_blob(&mut self, bytes: &[u8]) -> Result<u64> {
        self.check_alive()?;
        self.failed = true;
        let range = self.out.blob(bytes)?;
        self.failed = false;
        Ok(range.start)
    }

    /// The schema of the batches and of the file.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Bytes in the file so far and gathered for the next pages.
    pub fn bytes_written(&self) -> u64 {
        let pending: usize = self.columns.iter().flatten().map(ColumnWriter::pending_bytes).sum();
        let arrays: usize = self.arrays.iter().map(FieldWriter::pending_bytes).sum();
        self.out.bytes() + (pending + arrays + self.pool.bytes()) as u64
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes what is left and the footer. The sink is flushed, but not synced.
    pub fn finish(mut self) -> Result<(Finished, W)> {
        self.check_copied()?;
        self.flush()?;
        for field in &mut self.arrays {
            field.finish(&mut self.out)?;
        }
        let columns = self.columns.iter_mut().flatten();
        let mut statistics: Vec<_> = columns.map(ColumnWriter::take_statistics).collect();
        self.arrays.iter_mut().for_each(|field| field.take_statistics(&mut statistics));
        if let Some(bytes) = statistics::encode(statistics, self.rows, self.out.bytes()) {
            self.out.global_buffer(&bytes)?;
        }
        let fields: Vec<FieldId> =
            fields_with_column(&self.schema, self.version).map(|field| field.id).collect();
        let column_indices = (0i32..).take(fields.len()).collect();
        let descriptor = FileDescriptor { schema: self.schema, num_rows: self.rows };
        let (size, sink) = self.out.finish(&descriptor, self.version)?;
        Ok((Finished { rows: self.rows, size, fields, column_indices }, sink))
    }

    /// Writes the pages that are gathered: what is added then lies behind them, near the end of the file.
    ///
    /// Errors: as [`Self::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.check_alive()?;
        self.failed = true;
        for column in self.columns.iter_mut().flatten() {
            column
                .flush(&mut |page| submit_page(page, Pool::is_full_at_end, &mut self.pool, &mut self.out))?;
        }
        write_while(|_| true, &mut self.pool, &mut self.out)?;
        self.failed = false;
        Ok(())
    }

    /// Submits pages of the fullest columns until less than [`GATHERED`] is gathered.
    fn flush_largest(&mut self) -> Result<()> {
        loop {
            let columns = self.columns.iter_mut().flatten();
            let total: usize = columns.map(|column| column.pending_bytes()).sum();
            let fullest = self.columns.iter_mut().flatten().max_by_key(|column| column.pending_bytes());
            let Some(column) = fullest.filter(|_| total > GATHERED) else { return Ok(()) };
            column.flush(&mut |page| submit_page(page, Pool::is_full, &mut self.pool, &mut self.out))?;
        }
    }

    fn check_alive(&self) -> Result<()> {
        if self.failed {
            return Err(Error::invalid_input("the data file is incomplete: an earlier write failed"));
        }
        Ok(())
    }
}

/// Errors: `Unsupported` for a version that files cannot be written in, with the reason.
pub fn check_writable(version: FileVersion) -> Result<()> {
    let why = match version {
        FileVersion::V2_0 | FileVersion::V2_1 | FileVersion::V2_2 => return Ok(()),
        FileVersion::Legacy => "they are only read",
        FileVersion::V2_3 => "it is not stable: files might become unreadable",
    };
    Err(Error::unsupported(format!(
        "data files of version {version} cannot be written, {why} (2.0, 2.1 and 2.2 can)"
    )))
}

fn column_of<'a>(batch: &'a RecordBatch, field: &Field) -> Result<&'a ArrayRef> {
    batch
        .column_by_name(&field.name)
        .ok_or_else(|| Error::schema_mismatch(format!("the data has no column `{}`", field.name)))
}

/// Submits a page for encoding, and writes older pages when enough are in flight.
fn submit_page<W: Write>(
    job: Job,
    is_enough: impl Fn(&Pool) -> bool,
    pool: &mut Pool,
    out: &mut ContainerWriter<W>,
) -> Result<()> {
    write_while(is_enough, pool, out)?;
    pool.submit(job);
    Ok(())
}

/// Writes the oldest pages while `wanted` is true.
fn write_while<W: Write>(
    wanted: impl Fn(&Pool) -> bool,
    pool: &mut Pool,
    out: &mut ContainerWriter<W>,
) -> Result<()> {
    while wanted(pool)
        && let Some(done) = pool.take()?
    {
        out.page(done.column, done.page, done.first_row)?;
    }
    Ok(())
}

/// Calls `visit` with the path to each leaf, in column order.
fn for_each_leaf<'a>(
    way: &mut Vec<&'a Field>,
    version: FileVersion,
    visit: &mut impl FnMut(&[&'a Field], &'a Field) -> Result<()>,
) -> Result<()> {
    let Some(&field) = way.last() else { return Ok(()) };
    let path = || way.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(".");
    check_supported(field, &path(), version)?;
    if field.is_leaf() || is_packed(field) {
        return visit(way, field);
    }
    for child in &field.children {
        way.push(child);
        for_each_leaf(way, version, visit)?;
        way.pop();
    }
    Ok(())
}
