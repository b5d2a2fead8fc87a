//! What an index needs of its caller: its files, and a place for pages that were decoded.

use std::fmt::Debug;
use std::sync::Arc;

use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, FileReader};

use crate::{BTreePage, RowSet};

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

/// The rows in a global buffer whose number is in the metadata of the schema; `None` without that.
pub(crate) fn rows_in_buffer(reader: &FileReader, key: &str) -> Result<Option<RowSet>> {
    let Some(text) = reader.metadata().schema.metadata.get(key) else { return Ok(None) };
    let buffer: u32 = text
        .parse()
        .map_err(|_| Error::corrupt(format!("`{key}` is {text:?}, expected the number of a buffer")))?;
    let rows = RowSet::decode(&reader.global_buffer(buffer)?);
    rows.map(Some).map_err(|e| e.at(format!("global buffer {buffer}")))
}
