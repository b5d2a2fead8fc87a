//! Files of an index in memory.

use std::collections::HashMap;
use std::sync::Arc;

use pennon_datafile::{ByteSource, MemorySource};
use pennon_index::{IndexFiles, WrittenFile};

/// The bytes of each file.
#[derive(Debug)]
pub struct MemoryFiles(HashMap<&'static str, Vec<u8>>);

impl MemoryFiles {
    /// Those that were written.
    pub fn of(files: impl IntoIterator<Item = WrittenFile<Vec<u8>>>) -> Arc<Self> {
        Arc::new(Self(files.into_iter().map(|file| (file.name, file.sink)).collect()))
    }
}

impl IndexFiles for MemoryFiles {
    fn open(&self, name: &str) -> pennon_core::Result<Arc<dyn ByteSource>> {
        let bytes = self.0.get(name).cloned().unwrap_or_default();
        Ok(Arc::new(MemorySource::new(name, bytes)))
    }
}
