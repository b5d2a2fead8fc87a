//! What a simulator sees of the local disk: the changes below a directory. When no directory is watched, a change costs one
//! atomic load.
//!
//! A change is recorded after it was made, so those of two threads at the same moment may be in either order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A change of the local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskChange {
    /// A directory was made.
    CreateDirectory(PathBuf),
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

type Traces = BTreeMap<PathBuf, Vec<DiskChange>>;

static WATCHED: AtomicUsize = AtomicUsize::new(0);
static TRACES: Mutex<Traces> = Mutex::new(Traces::new());

fn traces() -> MutexGuard<'static, Traces> {
    TRACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a change, if somebody watches a directory above it.
pub(super) fn changed(path: &Path, change: impl FnOnce() -> DiskChange) {
    record(path, || Some(change()));
}

/// Records that a file has what it has now.
pub(super) fn written(path: &Path) {
    record(path, || Some(DiskChange::Write(path.to_owned(), fs::read(path).ok()?)));
}

fn record(path: &Path, change: impl FnOnce() -> Option<DiskChange>) {
    if WATCHED.load(Ordering::Relaxed) > 0
        && let Some((_, trace)) = traces().iter_mut().find(|(root, _)| path.starts_with(root))
    {
        trace.extend(change());
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
    pub fn start(root: &Path) -> Self {
        traces().insert(root.to_owned(), Vec::new());
        WATCHED.fetch_add(1, Ordering::Relaxed);
        Self { root: root.to_owned() }
    }

    /// The changes so far, in their order.
    pub fn changes(&self) -> Vec<DiskChange> {
        traces().get(&self.root).cloned().unwrap_or_default()
    }

    /// The number of changes so far.
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
