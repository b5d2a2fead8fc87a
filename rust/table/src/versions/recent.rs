//! Large manifests that this process has in memory, for those who open a table again: what takes long about it is to
//! check its fragments.
//!
//! | manifest | known |
//! |---|---|
//! | of a snapshot that somebody holds | as long as that lives |
//! | read or written last | the last [`ENTRIES`], while their files together have at most [`BYTES`] |
//! | smaller than [`SMALLEST`] | never: it is read as quickly as it is looked for |
//! | of a store in memory | never: its stamps start again when it is made again |
//!
//! Invariant: what is given is what the file holds: path, settings of the store, size and stamp are those of then, and
//! on a local disk so is the end of the file, which has the transaction's name and the time of the commit in it. On other
//! stores the caller has the store compare the e-tag, with its own credentials.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pennon_core::manifest::Manifest;

use super::snapshot::ManifestSource;
use crate::runtime::ProcessCell;
use crate::store::{FileInfo, StorageOptions, Store};

const ENTRIES: usize = 4;
const BYTES: u64 = 32 << 20;
/// Files of at least this size are known.
pub(crate) const SMALLEST: u64 = 64 * 1024;

/// A manifest with what its file was when it was read.
#[derive(Clone)]
pub(crate) struct KnownManifest {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) source: Arc<ManifestSource>,
    pub(crate) info: FileInfo,
}

struct Entry {
    options: StorageOptions,
    info: FileInfo,
    manifest: Weak<Manifest>,
    source: Weak<ManifestSource>,
    /// Of those that were read or written last: when, and what keeps the manifest alive.
    kept: Option<(u64, KnownManifest)>,
}

/// By path.
static KNOWN: ProcessCell<HashMap<String, Entry>> = ProcessCell::new();

/// The manifest of that path, as somebody read or wrote it.
pub(crate) fn get(store: &Store, path: &str) -> Option<KnownManifest> {
    let name = store.full_path(path);
    let find = |entries: &mut HashMap<String, Entry>| {
        let entry = entries.get(&name).filter(|entry| entry.options == *store.options())?;
        let (manifest, source) = (entry.manifest.upgrade()?, entry.source.upgrade()?);
        Some(KnownManifest { manifest, source, info: entry.info.clone() })
    };
    KNOWN.with(find).flatten()
}

/// A manifest of the same directory that is in memory, for [`Manifest::decode_sharing`].
pub(crate) fn of_same_table(store: &Store, path: &str) -> Option<Arc<Manifest>> {
    let name = store.full_path(path);
    let find = |entries: &mut HashMap<String, Entry>| {
        let of_directory = entries.iter().filter(|(other, _)| directory(other) == directory(&name));
        // The newest one that is left: versions are mostly loaded next to the one of the handle.
        let found = of_directory.filter_map(|(_, entry)| entry.manifest.upgrade());
        found.max_by_key(|manifest| manifest.version)
    };
    KNOWN.with(find).flatten()
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Remembers a manifest.
pub(crate) fn put(store: &Store, known: &KnownManifest) {
    let size = known.source.size;
    if size < SMALLEST || store.is_memory() {
        return;
    }
    let name = store.full_path(&known.source.path);
    let gone = KNOWN.with(|entries| {
        let mut gone = entries.extract_if(|_, entry| entry.manifest.strong_count() == 0).collect::<Vec<_>>();
        let last = entries.values().filter_map(|entry| entry.kept.as_ref()).map(|(at, _)| *at).max();
        let entry = Entry {
            options: store.options().clone(),
            info: known.info.clone(),
            manifest: Arc::downgrade(&known.manifest),
            source: Arc::downgrade(&known.source),
            kept: (size <= BYTES).then(|| (last.unwrap_or(0) + 1, known.clone())),
        };
        gone.extend(entries.insert(name.clone(), entry).map(|entry| (name, entry)));
        let mut kept: Vec<_> = entries.values_mut().filter(|entry| entry.kept.is_some()).collect();
        kept.sort_by_key(|entry| entry.kept.as_ref().map(|(at, _)| *at));
        let mut bytes: u64 =
            kept.iter().filter_map(|entry| entry.kept.as_ref()).map(|(_, k)| k.source.size).sum();
        let mut count = kept.len();
        let mut released = Vec::new();
        for entry in kept {
            if count <= ENTRIES && bytes <= BYTES {
                break;
            }
            let manifest = entry.kept.take();
            bytes -= manifest.as_ref().map_or(0, |(_, known)| known.source.size);
            count -= 1;
            released.push(manifest);
        }
        (gone, released)
    });
    // Not while the lock is held: it takes a while.
    drop(gone);
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use bytes::Bytes;
    use pennon_core::Version;
    use pennon_core::file::FileVersion;
    use pennon_core::manifest::naming::NamingScheme;
    use pennon_core::manifest::{CarriedFields, Flags, Fragments, Timestamp};
    use pennon_core::schema::Metadata;

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            version: Version(1),
            schema: Arc::default(),
            fragments: Fragments::default(),
            timestamp: Timestamp::default(),
            reader_flags: Flags::default(),
            writer_flags: Flags::default(),
            max_fragment_id: None,
            transaction_file: String::new(),
            writer: None,
            next_row_id: 0,
            file_version: FileVersion::STABLE,
            config: Metadata::new(),
            table_metadata: Metadata::new(),
            base_paths: Vec::new(),
            branch: None,
            index_section: None,
            transaction_section: None,
            carried: CarriedFields::default(),
        }
    }

    fn known(path: &str, size: u64) -> KnownManifest {
        let source = ManifestSource {
            path: path.to_owned(),
            scheme: NamingScheme::V2,
            size,
            tail: Bytes::new(),
            stamp: OnceLock::new(),
        };
        let changed = Timestamp::default();
        let info = FileInfo { size, e_tag: None, stamp: "1".to_owned(), changed };
        KnownManifest { manifest: Arc::new(manifest()), source: Arc::new(source), info }
    }

    #[test]
    fn a_manifest_is_known_while_somebody_holds_it_and_the_last_ones_are() {
        let store = Store::open("/nowhere/recent", &StorageOptions::new()).unwrap();
        let large = known("large", BYTES + 1);
        put(&store, &large);
        assert!(Arc::ptr_eq(&get(&store, "large").unwrap().manifest, &large.manifest));
        drop(large);
        assert!(get(&store, "large").is_none(), "nobody holds it");
        let names: Vec<String> = (0..6).map(|number| format!("small {number}")).collect();
        names.iter().for_each(|name| put(&store, &known(name, SMALLEST)));
        let found: Vec<bool> = names.iter().map(|name| get(&store, name).is_some()).collect();
        assert_eq!(found, [false, false, true, true, true, true]);
        put(&store, &known("all of the bytes", BYTES));
        assert!(get(&store, "all of the bytes").is_some() && get(&store, &names[5]).is_none());
        assert!(
            of_same_table(&store, "another").is_some() && of_same_table(&store, "of_another/table").is_none()
        );
        put(&store, &known("tiny", SMALLEST - 1));
        assert!(get(&store, "tiny").is_none());
        let options = StorageOptions::from([("max_requests_in_flight".to_owned(), "7".to_owned())]);
        let other = Store::open("/nowhere/recent", &options).unwrap();
        assert!(get(&other, "all of the bytes").is_none(), "other settings may mean another store");
    }
}
