//! What is worth keeping between calls: open data files, deletion vectors, manifests and row id indexes, bounded by
//! bytes.
//!
//! Everything kept is immutable in the table format, so entries are never invalid; manifests are kept under a
//! stamp of their file all the same, because a table may be dropped and made again under the same address.
//! Which entries go first is decided by the library: roughly those that were used least, and longest ago.
//!
//! | file | what |
//! |---|---|
//! | `lock` | a lock of the caller's that commits hold |
//! | `options` | settings that many calls share |

mod lock;
mod options;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pennon_core::Result;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter};

pub use self::lock::{CommitLock, HeldLock};
pub use self::options::{CommitOptions, ConnectOptions, CreateOptions};
use crate::runtime::{Computing, Counter, Metrics};
use crate::store::{RequestLimits, StorageOptions, Store};

/// Stores that are kept: with more of them, those that nobody uses are dropped.
const STORES: usize = 256;

/// Entries that memory is reserved for at first, about.
const ENTRIES: usize = 256;

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
    /// A weak reference to the row id index of a table that was made last.
    RowIds,
    /// That index.
    RowIdIndex,
    /// An open index over values or vectors.
    Index,
    /// A page of one, by its number.
    IndexPage(u32),
    /// A partition of an index over vectors, by its number.
    VectorPartition(u32),
    /// The rows of one that count in a version.
    CountedRows(u32),
    /// The metric of an index over vectors whose entry does not say it.
    IndexMetric,
    /// Where compactions moved rows that indices name by address.
    AddressMoves,
}

/// What an entry is found by: what it is, and the full name of the file or table.
#[derive(PartialEq, Eq, Hash)]
struct Key(EntryKind, Box<str>);

/// A [`Key`] that is looked up.
#[derive(Hash)]
struct KeyRef<'a>(EntryKind, &'a str);

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && self.1 == &*key.1
    }
}

#[derive(Clone)]
struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

#[derive(Clone)]
struct BytesOfEntry;

impl Weighter<Key, Entry> for BytesOfEntry {
    fn weight(&self, _: &Key, entry: &Entry) -> u64 {
        u64::try_from(entry.bytes).unwrap_or(u64::MAX)
    }
}

/// Bytes of small files that the operations of a session hold between opening a file and reading its rows.
const HELD_BYTES: u64 = 64 << 20;

/// What all handles that came from one open share: their caches and their counters.
///
/// One session can serve several tables: pass it to [`crate::OpenOptions`].
pub struct Session {
    capacity: usize,
    entries: Cache<Key, Entry, BytesOfEntry>,
    /// Stores of base paths and branches, by table, digest of its options, and address.
    stores: Mutex<HashMap<(String, u64, String), Arc<Store>>>,
    /// What was said and is not said again.
    said: Mutex<HashSet<String>>,
    limits: RequestLimits,
    metrics: Arc<Metrics>,
    computing: Arc<Computing>,
    /// Bytes of small files that operations hold.
    held: AtomicU64,
}

/// Bytes of small files that an operation holds until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    session: Arc<Session>,
    bytes: u64,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.session.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Session {
    /// A new, empty session.
    pub fn new(sizes: CacheSizes) -> Arc<Self> {
        Self::with_limits(sizes, RequestLimits::default())
    }

    /// A new, empty session whose stores have these limits, unless their options name others.
    pub fn with_limits(sizes: CacheSizes, limits: RequestLimits) -> Arc<Self> {
        // One shard: each could only hold entries of its share of the bytes.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(ENTRIES)
            .weight_capacity(u64::try_from(sizes.bytes).unwrap_or(u64::MAX))
            .build();
        // The builder misses nothing: the two capacities are all it needs.
        let entries = match options {
            Ok(options) => {
                let hasher = DefaultHashBuilder::default();
                Cache::with_options(options, BytesOfEntry, hasher, DefaultLifecycle::default())
            }
            Err(_) => Cache::with_weighter(ENTRIES, 0, BytesOfEntry),
        };
        Arc::new(Self {
            capacity: sizes.bytes,
            entries,
            stores: Mutex::default(),
            said: Mutex::default(),
            limits,
            metrics: Arc::default(),
            computing: Arc::default(),
            held: AtomicU64::new(0),
        })
    }

    /// Leave to hold bytes of small files next to the caches, unless others hold too many.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Option<HeldBytes> {
        let held = HeldBytes { session: Arc::clone(self), bytes };
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        (before.saturating_add(bytes) <= HELD_BYTES).then_some(held)
    }

    /// Bytes kept at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether it keeps nothing.
    pub(crate) fn is_off(&self) -> bool {
        self.capacity == 0
    }

    /// Bytes kept at the moment, as the entries measured themselves when they were put in.
    pub fn bytes(&self) -> usize {
        usize::try_from(self.entries.weight()).unwrap_or(usize::MAX)
    }

    /// Number of entries kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What counts the requests of all tables of this session, and how often the caches answered.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The processors that scans of remote tables of this session share.
    pub(crate) fn computing(&self) -> &Arc<Computing> {
        &self.computing
    }

    /// Opens the store of a table; its requests are counted here. Errors: those of [`Store::open`].
    pub(crate) fn open_store(&self, uri: &str, options: &StorageOptions) -> Result<Arc<Store>> {
        Store::open_within(uri, options, self.limits, Arc::clone(&self.metrics))
    }

    pub(crate) fn get<T: Any + Send + Sync>(&self, kind: EntryKind, name: &str) -> Option<Arc<T>> {
        let entry = self.entries.get(&KeyRef(kind, name));
        self.metrics.add(if entry.is_some() { Counter::CacheHits } else { Counter::CacheMisses }, 1);
        entry?.value.downcast().ok()
    }

    /// Whether there is such an entry; counts nothing.
    pub(crate) fn has(&self, kind: EntryKind, name: &str) -> bool {
        self.entries.peek(&KeyRef(kind, name)).is_some()
    }

    /// Keeps a value of that many bytes, unless it alone would fill the session: the library leaves 3 % for others.
    pub(crate) fn put<T: Any + Send + Sync>(
        &self,
        kind: EntryKind,
        name: &str,
        value: &Arc<T>,
        bytes: usize,
    ) {
        if bytes <= self.capacity && !self.is_off() {
            let value: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(value);
            self.entries.insert(Key(kind, name.into()), Entry { value, bytes });
        }
    }

    /// Whether something is to be said for the first time.
    pub(crate) fn is_first(&self, what: &str) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned())
    }

    /// The store of a base path or branch of a table; it has the table's options.
    pub(crate) fn store(&self, table: &Store, base: &str) -> Result<Arc<Store>> {
        let key = (table.root().to_owned(), table.options_digest(), base.to_owned());
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = stores.get(&key) {
            return Ok(Arc::clone(kept));
        }
        let opened = self.open_store(base, table.options())?;
        if stores.len() >= STORES {
            stores.retain(|_, store| Arc::strong_count(store) > 1);
        }
        stores.insert(key, Arc::clone(&opened));
        Ok(opened)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("capacity", &self.capacity)
            .field("bytes", &self.bytes())
            .field("entries", &self.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_fits_into_its_bytes() {
        let session = Session::new(CacheSizes { bytes: 100 });
        for name in ["a", "b", "c"] {
            session.put(EntryKind::Deletions, name, &Arc::new(name.to_owned()), 30);
        }
        assert_eq!((session.len(), session.bytes()), (3, 90));
        let get =
            |name: &str| session.get::<String>(EntryKind::Deletions, name).map(|text| text.as_ref().clone());
        assert_eq!(get("a").as_deref(), Some("a"));
        session.put(EntryKind::Deletions, "d", &Arc::new("d".to_owned()), 40);
        assert_eq!(get("a").as_deref(), Some("a"), "what was used is kept");
        assert!(session.bytes() <= 100, "{session:?}");
        session.put(EntryKind::Deletions, "too large", &Arc::new(0_u8), 101);
        assert!(session.get::<u8>(EntryKind::Deletions, "too large").is_none());
        assert!(session.get::<String>(EntryKind::Manifest, "a").is_none());
        let counters = session.metrics().counters();
        assert_eq!((counters.cache_hits, counters.cache_misses), (2, 2));
    }

    #[test]
    fn one_value_may_take_most_of_it() {
        let session = Session::new(CacheSizes { bytes: 1 << 20 });
        for number in 0..100_u32 {
            session.put(EntryKind::Deletions, &number.to_string(), &Arc::new(number), 10_000);
        }
        session.put(EntryKind::Manifest, "large", &Arc::new(7_u8), 900_000);
        assert_eq!(session.get::<u8>(EntryKind::Manifest, "large").as_deref(), Some(&7));
        assert!(session.bytes() <= 1 << 20, "{session:?}");
    }

    #[test]
    fn a_kept_store_has_the_options_of_its_table() {
        let session = Session::new(CacheSizes::default());
        let open = |secret: &str| {
            let options = StorageOptions::from([("aws_secret_access_key".to_owned(), secret.to_owned())]);
            session.open_store("memory://kept", &options).unwrap()
        };
        let store = |secret: &str| session.store(&open(secret), "memory://kept/tree/b").unwrap();
        let old = store("old");
        assert!(Arc::ptr_eq(&old, &store("old")));
        assert_eq!(store("new").options(), open("new").options());
        for number in 0..2 * STORES {
            store(&number.to_string());
        }
        assert!(session.stores.lock().unwrap().len() <= STORES);
        assert!(Arc::ptr_eq(&old, &store("old")), "it is in use");
    }

    #[test]
    fn without_bytes_it_keeps_nothing() {
        let session = Session::new(CacheSizes { bytes: 0 });
        session.put(EntryKind::Probe, "empty", &Arc::new(()), 0);
        session.put(EntryKind::Manifest, "a", &Arc::new(()), 1);
        assert!(session.get::<()>(EntryKind::Manifest, "a").is_none());
    }
}
