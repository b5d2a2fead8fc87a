//! What a simulator sees of the local disk: each change below a directory, in its order. Where nobody looks, that costs the
//! look at a number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A change of the local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskChange {
    /// A directory was made.
    Directory(PathBuf),
    /// An empty directory was removed.
    RemoveDirectory(PathBuf),
    /// A file was made or filled; its content is this now.
    Write(PathBuf, Vec<u8>),
    /// A file has a second name.
    Link(PathBuf, PathBuf),
    /// A file has another name, perhaps that of another file, which is gone.
    Rename(PathBuf, PathBuf),
    /// A name was removed.
    Remove(PathBuf),
    /// A file's content or a directory's names survive a power cut.
    Sync(PathBuf),
}

impl DiskChange {
    /// A file has what is on the disk.
    pub(super) fn written(path: &Path) -> Self {
        Self::Write(path.to_owned(), fs::read(path).unwrap_or_default())
    }

    fn path(&self) -> &Path {
        match self {
            Self::Directory(path)
            | Self::RemoveDirectory(path)
            | Self::Write(path, _)
            | Self::Link(_, path)
            | Self::Rename(_, path)
            | Self::Remove(path)
            | Self::Sync(path) => path,
        }
    }
}

type Traces = BTreeMap<PathBuf, Vec<DiskChange>>;

static WATCHED: AtomicUsize = AtomicUsize::new(0);
static TRACES: Mutex<Traces> = Mutex::new(Traces::new());

fn traces() -> MutexGuard<'static, Traces> {
    TRACES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn changed(change: impl FnOnce() -> DiskChange) {
    if WATCHED.load(Ordering::Relaxed) == 0 {
        return;
    }
    let change = change();
    if let Some((_, trace)) = traces().iter_mut().find(|(root, _)| change.path().starts_with(root)) {
        trace.push(change);
    }
}

/// Collects what this process changes below a directory of the local disk, until it is dropped.
///
/// For simulators of crashes. Nobody else may watch the same directory.
#[derive(Debug)]
pub struct DiskTrace {
    root: PathBuf,
}

impl DiskTrace {
    /// Begins to watch. `root`: an absolute path.
    pub fn of(root: &Path) -> Self {
        traces().insert(root.to_owned(), Vec::new());
        WATCHED.fetch_add(1, Ordering::Relaxed);
        Self { root: root.to_owned() }
    }

    /// The changes so far, in their order.
    pub fn changes(&self) -> Vec<DiskChange> {
        traces().get(&self.root).cloned().unwrap_or_default()
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        traces().get(&self.root).map_or(0, Vec::len)
    }
}

impl Drop for DiskTrace {
    fn drop(&mut self) {
        WATCHED.fetch_sub(1, Ordering::Relaxed);
        traces().remove(&self.root);
    }
}
