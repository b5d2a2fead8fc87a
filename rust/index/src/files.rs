//! What an index needs of its caller: its files, and a place for pages that were decoded.

use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BinaryBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use pennon_core::file::FileVersion;
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, FileReader, FileWriter, WriteOptions};

use crate::{BTreePage, RowSet};

/// Bytes of the end of a file that are requested with its metadata: often that is all of it.
pub(crate) const AHEAD: u64 = 64 << 10;
/// Bytes that are gathered before they are written.
pub(crate) const GATHERED: usize = 4 << 20;

/// The files of one index.
pub trait IndexFiles: Send + Sync + Debug {
    /// A file by its name in the directory of the index. Errors: `NotFound`, `Store`.
    fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>>;

    /// Files of which so many of the last bytes are wanted first: where a request takes long, those of all files are
    /// read at once. Errors: those of [`Self::open`] and of reading.
    fn open_with_ends(&self, files: &[(&str, u64)]) -> Result<Vec<Arc<dyn ByteSource>>> {
        files.iter().map(|(name, _)| self.open(name)).collect()
    }
}

/// Two files, as [`IndexFiles::open_with_ends`] opens them.
pub(crate) fn open_both(
    files: &dyn IndexFiles,
    wanted: [(&str, u64); 2],
) -> Result<[Arc<dyn ByteSource>; 2]> {
    let opened = files.open_with_ends(&wanted)?;
    opened.try_into().map_err(|_| Error::internal("two files of an index were asked for"))
}

/// Pages that were decoded, for the next search.
pub trait PageCache: Sync {
    /// A page that was put there before.
    fn get(&self, page: u32) -> Option<Arc<BTreePage>>;

    /// Keeps a page, if there is room.
    fn put(&self, page: u32, content: &Arc<BTreePage>);

    /// Does work of which each thread takes the next part, on this thread and maybe on others: on `most` at most.
    fn on_threads(&self, _most: usize, work: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
        work()
    }
}

/// Keeps nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoPageCache;

impl PageCache for NoPageCache {
    fn get(&self, _: u32) -> Option<Arc<BTreePage>> {
        None
    }

    fn put(&self, _: u32, _: &Arc<BTreePage>) {}
}

/// A file of an index that was written and not yet completed by the caller.
#[derive(Debug)]
pub struct WrittenFile<W> {
    /// Its name in the directory of the index.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: u64,
    /// What it was written to.
    pub sink: W,
}

/// A column of a file. Errors: `Corrupt` without it.
pub(crate) fn column(reader: &FileReader, name: &str) -> Result<Field> {
    let field = reader.metadata().schema.field(name).cloned();
    field.ok_or_else(|| Error::corrupt(format!("there is no column `{name}`")))
}

/// A file of keys, each with a set of rows, while it is written.
pub(crate) struct SetsWriter<W> {
    pub(crate) file: FileWriter<W>,
    schema: SchemaRef,
    /// Sets that are not written yet, as bytes.
    sets: BinaryBuilder,
}

impl<W: Write> SetsWriter<W> {
    /// A writer of keys, the first column, and sets, the last one. Errors: those of [`FileWriter::try_new`].
    pub(crate) fn try_new(sink: W, schema: ArrowSchema, version: FileVersion) -> Result<Self> {
        let options = WriteOptions { version, ..WriteOptions::default() };
        let file = FileWriter::try_new(sink, Schema::from_arrow(&schema)?, options)?;
        Ok(Self { file, schema: Arc::new(schema), sets: BinaryBuilder::new() })
    }

    /// Appends a set, whose key the next [`Self::flush`] has.
    pub(crate) fn push(&mut self, set: impl AsRef<[u8]>) {
        self.sets.append_value(set);
    }

    /// Whether so much is gathered that it is written.
    pub(crate) fn is_full(&self) -> bool {
        self.sets.values_slice().len() + 32 * self.sets.len() >= GATHERED
    }

    /// Writes the sets that were appended, with their keys.
    pub(crate) fn flush(&mut self, keys: ArrayRef) -> Result<()> {
        let columns = vec![keys, Arc::new(self.sets.finish())];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::internal(format!("keys of an index: {e}")))?;
        self.file.write(&batch)
    }

    /// Completes the file. The sink is flushed, not synced.
    pub(crate) fn finish(self, name: &'static str) -> Result<WrittenFile<W>> {
        let (finished, sink) = self.file.finish()?;
        Ok(WrittenFile { name, size: finished.size, sink })
    }
}

/// The rows in a global buffer whose number is in the metadata of the schema; `None` without that.
pub(crate) fn rows_in_buffer(reader: &FileReader, key: &str) -> Result<Option<RowSet>> {
    let Some(text) = reader.metadata().schema.metadata.get(key) else { return Ok(None) };
    let buffer: u32 = text
        .parse()
        .map_err(|_| Error::corrupt(format!("`{key}` is {text:?}, expected the number of a buffer")))?;
    let rows = RowSet::decode(&reader.global_buffer(buffer)?);
    rows.map(Some).map_err(|e| e.at(format!("global buffer {buffer}")))
}
