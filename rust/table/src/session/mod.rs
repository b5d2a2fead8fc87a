//! What is worth keeping between calls: open data files, deletion vectors, manifests and row id indexes, bounded by
//! bytes.
//!
//! Everything kept is immutable in the table format, so entries are never invalid; manifests are kept under a
//! stamp of their file all the same, because a table may be dropped and made again under the same address.
//! The least recently used entries go first.
//!
//! | file | what |
//! |---|---|
//! | `lock` | a lock of the caller's that commits hold |
//! | `options` | settings that many calls share |

mod lock;
mod options;

use std::any::Any;
use std::collections::{BTreeMap, HashMap, hash_map};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pennon_core::Result;

pub use self::lock::{CommitLock, HeldLock};
pub use self::options::{CommitOptions, ConnectOptions, CreateOptions};
use crate::store::Store;

/// How much a session keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSizes {
    /// Bytes of metadata: page descriptions of data files, deletion vectors, manifests, row id indexes. 0 keeps
    /// nothing.
    pub bytes: usize,
}

impl Default for CacheSizes {
    fn default() -> Self {
        Self { bytes: 256 << 20 }
    }
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EntryKind {
    /// An open data file.
    DataFile,
    /// The vector of a deletion file.
    Deletions,
    /// A manifest.
    Manifest,
    /// That the store of a table was probed.
    Probe,
    /// The row id index of the version of a table that was used last.
    RowIds,
}

type Key = (EntryKind, Arc<str>);

/// What all handles that came from one open share: their caches.
///
/// One session can serve several tables: pass it to [`crate::OpenOptions`].
pub struct Session {
    capacity: usize,
    entries: Mutex<Entries>,
    /// Stores of base paths, by table and path.
    stores: Mutex<HashMap<(String, String), Arc<Store>>>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
}

struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    used: u64,
}

impl Session {
    /// A new, empty session.
    pub fn new(sizes: CacheSizes) -> Arc<Self> {
        Arc::new(Self { capacity: sizes.bytes, entries: Mutex::default(), stores: Mutex::default() })
    }

    /// Whether it keeps nothing.
    pub(crate) fn is_off(&self) -> bool {
        self.capacity == 0
    }

    /// Bytes kept at the moment, as the entries measured themselves when they were put in.
    pub fn bytes(&self) -> usize {
        self.entries().bytes
    }

    /// Number of entries kept.
    pub fn len(&self) -> usize {
        self.entries().by_key.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get<T: Any + Send + Sync>(&self, kind: EntryKind, name: &str) -> Option<Arc<T>> {
        let key = (kind, Arc::from(name));
        let mut entries = self.entries();
        let Entries { by_key, by_use, clock, .. } = &mut *entries;
        let entry = by_key.get_mut(&key)?;
        *clock += 1;
        by_use.remove(&entry.used);
        by_use.insert(*clock, key);
        entry.used = *clock;
        Arc::clone(&entry.value).downcast().ok()
    }

    /// Keeps a value of that many bytes, unless it alone would fill half the session.
    pub(crate) fn put<T: Any + Send + Sync>(
        &self,
        kind: EntryKind,
        name: &str,
        value: &Arc<T>,
        bytes: usize,
    ) {
        if bytes > self.capacity / 2 {
            return;
        }
        let key: Key = (kind, Arc::from(name));
        let mut entries = self.entries();
        entries.remove(&key);
        entries.clock += 1;
        let used = entries.clock;
        entries.bytes += bytes;
        entries.by_use.insert(used, key.clone());
        let value: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(value);
        entries.by_key.insert(key, Entry { value, bytes, used });
        while entries.bytes > self.capacity {
            let Some((_, oldest)) = entries.by_use.pop_first() else { break };
            if let Some(entry) = entries.by_key.remove(&oldest) {
                entries.bytes = entries.bytes.saturating_sub(entry.bytes);
            }
        }
    }

    /// The store of a base path of a table; it has the table's options.
    pub(crate) fn store(&self, table: &Store, base: &str) -> Result<Arc<Store>> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        match stores.entry((table.root().to_owned(), base.to_owned())) {
            hash_map::Entry::Occupied(kept) => Ok(Arc::clone(kept.get())),
            hash_map::Entry::Vacant(slot) => Ok(Arc::clone(slot.insert(Store::open(base, table.options())?))),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // A panic while the lock is held can only lose entries.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries();
        f.debug_struct("Session")
            .field("capacity", &self.capacity)
            .field("bytes", &entries.bytes)
            .field("entries", &entries.by_key.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_recently_used_within_its_bytes() {
        let session = Session::new(CacheSizes { bytes: 100 });
        for name in ["a", "b", "c"] {
            session.put(EntryKind::Deletions, name, &Arc::new(name.to_owned()), 30);
        }
        assert!(session.get::<String>(EntryKind::Deletions, "a").is_some());
        session.put(EntryKind::Deletions, "d", &Arc::new("d".to_owned()), 40);
        assert!(session.get::<String>(EntryKind::Deletions, "b").is_none());
        assert_eq!(
            session.get::<String>(EntryKind::Deletions, "a").as_deref().map(String::as_str),
            Some("a")
        );
        assert_eq!((session.len(), session.bytes()), (3, 100));
        session.put(EntryKind::Deletions, "large", &Arc::new(0_u8), 51);
        assert!(session.get::<u8>(EntryKind::Deletions, "large").is_none());
        assert!(session.get::<String>(EntryKind::Manifest, "a").is_none());
    }
}
