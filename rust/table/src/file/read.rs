//! Reading one data file.
//!
//! Rows are read in units of several batches, so that small batches do not cost a request each; a few units are
//! in flight at a time.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use pennon_core::file::{FileVersion, Footer};
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, ColumnMap, FileMetadata, FileReader};

use crate::batches::batch_with_rows;
use crate::runtime::processors;
use crate::scan::BatchStream;
use crate::store::{StorageOptions, Store};

/// Bytes of the file that a unit covers, about, unless a batch alone covers more.
const UNIT_BYTES: u64 = 4 << 20;
/// Rows of a unit, at most, unless a batch alone has more.
const UNIT_ROWS: u64 = 64 << 10;
/// Bytes of a unit in memory, about, unless a batch alone has more: one value may stand for many rows.
const UNIT_MEMORY: u64 = 64 << 20;

/// Which rows of a file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRows {
    /// All of them.
    All,
    /// Consecutive rows.
    Range {
        /// The first.
        start: u64,
        /// How many.
        count: u64,
    },
    /// Rows by number, in strictly ascending order.
    Indices(Vec<u64>),
}

/// How the bytes of a file are divided up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSizes {
    /// Pages and the padding between them.
    pub data: u64,
    /// Column metadata and the table of where it is.
    pub column_metadata: u64,
    /// Global buffers.
    pub global_buffers: u64,
}

/// An open data file, for some of its columns. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DataFileReader {
    source: Arc<dyn ByteSource>,
    reader: Arc<FileReader>,
    fields: Arc<[Field]>,
    columns: Arc<ColumnMap>,
    schema: SchemaRef,
}

impl DataFileReader {
    /// Opens a file, for the named columns or paths of nested fields, or for all.
    ///
    /// Errors: `NotFound`; `InvalidInput` for an address that cannot be understood and for unknown columns;
    /// `Unsupported` and `Corrupt` as [`FileMetadata::read`].
    pub async fn open(uri: &str, columns: Option<&[String]>, options: &StorageOptions) -> Result<Self> {
        let (store, path) = Store::of_file(uri, options)?;
        let source = store.source(&path, None);
        let opened = Arc::clone(&source);
        let reader = crate::runtime::blocking(move || FileReader::open(opened)).await?;
        let schema_of_file = &reader.metadata().schema;
        let schema = match columns {
            None => schema_of_file.clone(),
            Some([]) => {
                return Err(Error::invalid_input(
                    "No columns to read from the file: at least one must be named",
                ));
            }
            Some(columns) => schema_of_file.project(columns)?,
        };
        let columns = Arc::new(reader.column_map());
        let arrow = Arc::new(schema.to_arrow());
        let Schema { fields, .. } = schema;
        Ok(Self { source, reader: Arc::new(reader), fields: fields.into(), columns, schema: arrow })
    }

    /// What the file says about itself; the schema is that of all its columns.
    pub fn metadata(&self) -> &FileMetadata {
        self.reader.metadata()
    }

    /// Schema of what is read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// For each column of the file the path of the field it belongs to, if it belongs to one.
    pub fn column_names(&self) -> Vec<Option<String>> {
        let schema = &self.metadata().schema;
        let mut names = vec![None; self.metadata().columns.len()];
        for field in schema.depth_first() {
            let column = self.columns.column(field.id).and_then(|column| usize::try_from(column).ok());
            if let Some(name) = column.and_then(|column| names.get_mut(column)) {
                *name = schema.path_of(field.id);
            }
        }
        names
    }

    /// How the bytes of the file are divided up.
    pub async fn sizes(&self) -> Result<FileSizes> {
        let source = Arc::clone(&self.source);
        let size = self.metadata().size;
        if self.metadata().version == FileVersion::Legacy {
            // Where pages end is not recorded.
            return Ok(FileSizes { data: size, column_metadata: 0, global_buffers: 0 });
        }
        let footer_start = size.saturating_sub(Footer::SIZE as u64);
        let footer = crate::runtime::blocking(move || {
            let bytes = source.read(&[footer_start..size])?.pop().unwrap_or_default();
            Footer::decode(&bytes).map_err(|e| e.in_data_file(source.name()))
        })
        .await?;
        let global_buffers = self.metadata().global_buffers.iter().map(|b| b.end - b.start).sum();
        Ok(FileSizes {
            data: footer.column_metadata.saturating_sub(global_buffers),
            column_metadata: footer.global_buffer_table.saturating_sub(footer.column_metadata),
            global_buffers,
        })
    }

    /// The bytes of a global buffer; 0 is the schema. Errors: `InvalidInput` if there is no such buffer.
    pub async fn global_buffer(&self, index: u32) -> Result<Bytes> {
        let buffers = &self.metadata().global_buffers;
        if usize::try_from(index).ok().and_then(|index| buffers.get(index)).is_none() {
            return Err(Error::invalid_input(format!(
                "request for global buffer at index {index} but there were only {} global buffers in the file",
                buffers.len()
            )));
        }
        let reader = Arc::clone(&self.reader);
        crate::runtime::blocking(move || reader.global_buffer(index)).await
    }

    /// Reads rows in batches of a number of rows, of which the last may have fewer.
    ///
    /// `readahead` is how many units are read at a time, at most.
    ///
    /// Errors: `InvalidInput` for rows that the file does not have and for indices out of order.
    pub fn batches(&self, rows: FileRows, batch_size: usize, readahead: usize) -> Result<BatchStream> {
        if batch_size == 0 {
            return Err(Error::invalid_input("batch_size is 0, expected at least 1"));
        }
        let mut units = Vec::new();
        for unit in self.units(rows, batch_size as u64)? {
            self.push_parts(unit, batch_size as u64, &mut units)?;
        }
        let cores = processors();
        let this = self.clone();
        let read = move |unit: RowRanges| {
            let this = this.clone();
            crate::runtime::blocking(move || this.read(&unit, batch_size))
        };
        let done = stream::iter(units).map(read).buffered(readahead.clamp(1, cores));
        Ok(done.map_ok(|batches| stream::iter(batches.into_iter().map(Ok))).try_flatten().boxed())
    }

    /// The rows of each unit.
    fn units(&self, rows: FileRows, batch_size: u64) -> Result<Vec<RowRanges>> {
        let metadata = self.metadata();
        let found = metadata.num_rows;
        let beyond =
            |what: String| Error::invalid_input(format!("cannot read {what} from columns with {found} rows"));
        let bytes_per_row = (metadata.size / found.max(1)).max(1);
        let batches = (UNIT_BYTES / bytes_per_row).min(UNIT_ROWS) / batch_size;
        let unit = batches.max(1).saturating_mul(batch_size);
        let range = match rows {
            FileRows::All => 0..found,
            FileRows::Range { start, count } => {
                let end = start.saturating_add(count);
                if end > found {
                    return Err(beyond(format!("Range({start}..{end})")));
                }
                start..end
            }
            FileRows::Indices(indices) => {
                let descent = |pair: &[u64]| match pair {
                    [before, after] if before >= after => Some((*before, *after)),
                    _ => None,
                };
                if let Some((before, after)) = indices.windows(2).find_map(descent) {
                    return Err(Error::invalid_input(format!(
                        "Requested row indices are not strictly increasing: {before} then {after}"
                    )));
                }
                if let Some(last) = indices.last().filter(|last| **last >= found) {
                    return Err(beyond(format!("Indices(... {last})")));
                }
                let unit = usize::try_from(unit).unwrap_or(usize::MAX);
                return Ok(indices.chunks(unit).map(|unit| unit.iter().copied().collect()).collect());
            }
        };
        Ok(RowRanges::from(range).split_by(unit).collect())
    }

    /// The parts of a unit that memory has room for.
    fn push_parts(&self, unit: RowRanges, batch_size: u64, parts: &mut Vec<RowRanges>) -> Result<()> {
        let fields: Vec<&Field> = self.fields.iter().collect();
        let bytes = self.reader.bytes_in_memory(&fields, &self.columns, &unit)?;
        if bytes <= UNIT_MEMORY {
            parts.push(unit);
            return Ok(());
        }
        let batch_bytes = (bytes / unit.count().max(1)).saturating_mul(batch_size).max(1);
        parts.extend(unit.split_by((UNIT_MEMORY / batch_bytes).max(1).saturating_mul(batch_size)));
        Ok(())
    }

    fn read(&self, rows: &RowRanges, batch_size: usize) -> Result<Vec<RecordBatch>> {
        let arrays = self.reader.read(&self.fields, &self.columns, rows)?;
        let count = rows.count();
        let count =
            usize::try_from(count).map_err(|_| Error::invalid_input(format!("{count} rows at once")))?;
        let all = batch_with_rows(Arc::clone(&self.schema), arrays, count)
            .map_err(|e| Error::corrupt(format!("data file {}: {e}", self.source.name())))?;
        let starts = (0..count).step_by(batch_size);
        Ok(starts.map(|start| all.slice(start, batch_size.min(count - start))).collect())
    }
}
