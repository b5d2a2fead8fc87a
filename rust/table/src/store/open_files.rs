//! Files that are kept open for reading, at most [`OPEN_FILES`] of them, so that a table of any number of fragments fits
//! into the process's descriptors. Those not used for longest are closed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;

/// How many files one table keeps open for reading.
const OPEN_FILES: usize = 256;

/// Least recently used open files.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: HashMap<String, (u64, Arc<File>)>,
    used: BTreeMap<u64, String>,
    clock: u64,
}

impl OpenFiles {
    pub(super) fn get(&mut self, path: &str) -> Option<Arc<File>> {
        let (at, file) = self.files.get_mut(path)?;
        self.clock += 1;
        if let Some(name) = self.used.remove(at) {
            self.used.insert(self.clock, name);
        }
        *at = self.clock;
        Some(Arc::clone(file))
    }

    pub(super) fn insert(&mut self, path: &str, file: &Arc<File>) {
        self.remove(path);
        self.clock += 1;
        self.files.insert(path.to_owned(), (self.clock, Arc::clone(file)));
        self.used.insert(self.clock, path.to_owned());
        while self.files.len() > OPEN_FILES {
            let Some((_, oldest)) = self.used.pop_first() else { break };
            self.files.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        if let Some((at, _)) = self.files.remove(path) {
            self.used.remove(&at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.files.clear();
        self.used.clear();
    }
}
