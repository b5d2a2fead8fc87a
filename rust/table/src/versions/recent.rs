//! Large manifests that this process read or wrote last, for those who open a table again: what takes long about it is to
//! check its fragments.
//!
//! | bound | |
//! |---|---|
//! | only manifests from 64 KiB on | smaller ones are read as quickly as they are looked for |
//! | [`ENTRIES`] of them, [`BYTES`] of their files | the oldest go first |
//!
//! Invariant: what is given is what the file holds: path, size, time and inode are those of then, and so is the end of
//! the file, which has the transaction's name and the time of the commit in it. A lock that is held is not waited for:
//! in a forked child nobody may ever give it back.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use pennon_core::manifest::Manifest;

use super::snapshot::ManifestSource;

const ENTRIES: usize = 4;
const BYTES: u64 = 32 << 20;
/// Files of at least this size are kept.
pub(crate) const SMALLEST: u64 = 64 * 1024;
/// The end of the file that must be the same.
pub(crate) const COMPARED: u64 = 16 * 1024;

struct Entry {
    /// Path and stamp of the file.
    name: String,
    manifest: Arc<Manifest>,
    source: ManifestSource,
}

static RECENT: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn recent() -> Option<MutexGuard<'static, Vec<Entry>>> {
    match RECENT.try_lock() {
        Ok(recent) => Some(recent),
        // A panic while the lock is held can only lose entries.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The manifest of a file that ends with these bytes.
pub(crate) fn get(name: &str, end: &[u8]) -> Option<(Arc<Manifest>, ManifestSource)> {
    let recent = recent()?;
    let entry = recent.iter().find(|entry| entry.name == name)?;
    entry.source.tail.ends_with(end).then(|| (Arc::clone(&entry.manifest), entry.source.clone()))
}

/// Keeps a manifest.
pub(crate) fn put(name: String, manifest: &Arc<Manifest>, source: &ManifestSource) {
    if !(SMALLEST..=BYTES / 2).contains(&source.size) {
        return;
    }
    let entry = Entry { name, manifest: Arc::clone(manifest), source: source.clone() };
    let mut gone = Vec::new();
    if let Some(mut recent) = recent() {
        gone.extend(recent.extract_if(.., |known| known.name == entry.name));
        recent.push(entry);
        while recent.len() > ENTRIES || recent.iter().map(|entry| entry.source.size).sum::<u64>() > BYTES {
            gone.push(recent.remove(0));
        }
    }
    // Not while the lock is held: it takes a while.
    drop(gone);
}
