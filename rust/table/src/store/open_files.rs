//! Files that are kept open for reading, at most [`OPEN_FILES`] of them, so that a table of any number of fragments fits
//! into the process's descriptors. Those that are not used are closed.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use quick_cache::sync::Cache;

/// How many files one table keeps open for reading.
const OPEN_FILES: usize = 256;

/// Open files by path.
pub(super) struct OpenFiles(Cache<Box<str>, Arc<File>>);

impl OpenFiles {
    pub(super) fn new() -> Self {
        Self(Cache::new(OPEN_FILES))
    }

    pub(super) fn get(&self, path: &str) -> Option<Arc<File>> {
        self.0.get(path)
    }

    pub(super) fn insert(&self, path: &str, file: &Arc<File>) {
        self.0.insert(path.into(), Arc::clone(file));
    }

    pub(super) fn remove(&self, path: &str) {
        self.0.remove(path);
    }

    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("files", &self.0.len()).finish()
    }
}
