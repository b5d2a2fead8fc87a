//! Versions of tables with an external manifest store (table format 13.1).
//!
//! A commit there takes these steps; the first two are [`crate::commit`]'s, the others anybody's.
//!
//! | step | if the writer stops after it |
//! |---|---|
//! | 1 the manifest is written as `<final name>-<uuid>` | nothing happened; cleanup removes the file |
//! | 2 the entry of the version is put, with the staged path, unless there is one | **committed** |
//! | 3 the staged file is copied to the final name | a reader does the rest |
//! | 4 the entry gets the final path | a reader does the rest |
//! | 5 the staged file is removed | cleanup removes it |
//!
//! Whoever meets an entry with a staged path does steps 3 to 5 itself, so every manifest that is read has its final
//! name. Tables that the manifest store does not know yet are listed.

use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::{Error, Result, Version};
use tracing::warn;
use uuid::Uuid;

use super::Located;
use super::{VERSIONS, manifest_path};
use crate::store::external::{Entry, External};
use crate::store::{Durability, Store};

/// The newest version of a table that the manifest store knows.
pub(super) async fn newest(store: &Store, external: &External) -> Result<Option<Located>> {
    match external.store.latest(&external.table).await? {
        Some(entry) => complete(store, external, entry, Durability::Full).await.map(Some),
        None => Ok(None),
    }
}

/// Gives the manifest of a version its final name if it is committed and has not got it; `false` if the manifest
/// store does not know the version.
pub(super) async fn complete_version(store: &Store, external: &External, version: Version) -> Result<bool> {
    match external.store.get(&external.table, version).await? {
        Some(entry) => complete(store, external, entry, Durability::Full).await.map(|_| true),
        None => Ok(false),
    }
}

/// Steps 3 to 5 for an entry that does not have its final path; where the manifest is then.
pub(crate) async fn complete(
    store: &Store,
    external: &External,
    entry: Entry,
    durability: Durability,
) -> Result<Located> {
    let (at, staged) = parse(store, &entry)?;
    let Some(staged) = staged else { return Ok(at) };
    let path = manifest_path(at.version, at.scheme);
    match store.copy(&staged, &path, durability).await {
        // Another client has removed the staged file, after it had copied it.
        Err(error) if error.is_not_found() && store.exists(&path).await? => {}
        Err(error) if error.is_not_found() => {
            return Err(Error::corrupt(format!(
                "{}: version {} is committed, and its manifest is not there (the manifest store refers to it)",
                store.full_path(&staged),
                at.version
            )));
        }
        other => other?,
    }
    let done = Entry { path: store.object_path(&path), ..entry };
    external.store.put_if_exists(&external.table, &done).await?;
    // The version is complete without it.
    if let Err(error) = store.delete(&staged).await {
        warn!(
            path = store.full_path(&staged),
            version = at.version.0,
            %error,
            "the staged manifest of a version was not removed: cleanup will"
        );
    }
    Ok(at)
}

/// Version and naming of an entry's manifest, and its path below the table's root if that is a staged one.
fn parse(store: &Store, entry: &Entry) -> Result<(Located, Option<String>)> {
    let wrong = || {
        Error::corrupt(format!(
            "{}: the manifest store says that version {} is at {:?}, expected a manifest of that version in {}",
            store.root(),
            entry.version,
            entry.path,
            store.object_path(VERSIONS)
        ))
    };
    let directory = store.object_path(VERSIONS);
    let below =
        entry.path.trim_start_matches('/').strip_prefix(directory.as_str()).and_then(|p| p.strip_prefix('/'));
    let name = below.ok_or_else(wrong)?;
    // `<digits>.manifest` or `<digits>.manifest-<uuid>`
    let (digits, uuid) = name.split_once(".manifest").ok_or_else(wrong)?;
    let (version, scheme): (Version, NamingScheme) = naming::parse(&format!("{digits}.manifest"))
        .filter(|(v, _)| *v == entry.version)
        .ok_or_else(wrong)?;
    let at = Located { version, scheme };
    match uuid.strip_prefix('-') {
        None if uuid.is_empty() => Ok((at, None)),
        Some(uuid) if Uuid::try_parse(uuid).is_ok() => Ok((at, Some(format!("{VERSIONS}/{name}")))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;

    use super::*;
    use crate::store::external::ManifestStore;

    /// The entries of one table.
    #[derive(Debug, Default)]
    struct Entries(Mutex<BTreeMap<Version, Entry>>);

    #[async_trait]
    impl ManifestStore for Entries {
        async fn latest(&self, _: &str) -> Result<Option<Entry>> {
            Ok(self.0.lock().unwrap().values().next_back().cloned())
        }

        async fn get(&self, _: &str, version: Version) -> Result<Option<Entry>> {
            Ok(self.0.lock().unwrap().get(&version).cloned())
        }

        async fn put_if_absent(&self, _: &str, entry: &Entry) -> Result<bool> {
            let mut entries = self.0.lock().unwrap();
            let is_new = !entries.contains_key(&entry.version);
            entries.entry(entry.version).or_insert_with(|| entry.clone());
            Ok(is_new)
        }

        async fn put_if_exists(&self, _: &str, entry: &Entry) -> Result<()> {
            self.0.lock().unwrap().insert(entry.version, entry.clone());
            Ok(())
        }

        async fn remove(&self, _: &str, version: Version) -> Result<()> {
            self.0.lock().unwrap().remove(&version);
            Ok(())
        }

        async fn forget(&self, _: &str) -> Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_staged_manifest_that_cannot_be_removed_does_not_fail_a_read() {
        let directory = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (directory.path().join("table"), directory.path().join("elsewhere"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        // Nothing is removed behind a link.
        std::os::unix::fs::symlink(&elsewhere, root.join(VERSIONS)).unwrap();
        let store = Store::open(root.to_str().unwrap(), &Default::default()).unwrap();
        let name = naming::manifest_name(Version(1), NamingScheme::V2);
        let staged = format!("{VERSIONS}/{name}-{}", Uuid::nil());
        fs::write(root.join(&staged), "manifest").unwrap();
        let entries = Arc::new(Entries::default());
        let external =
            External { store: Arc::<Entries>::clone(&entries), table: store.object_path("").clone() };
        let entry = Entry { version: Version(1), path: store.object_path(&staged), size: None, e_tag: None };
        assert!(entries.put_if_absent("", &entry).await.unwrap());

        let found = newest(&store, &external).await.unwrap().unwrap();
        assert_eq!(found, Located { version: Version(1), scheme: NamingScheme::V2 });
        assert_eq!(fs::read_to_string(elsewhere.join(&name)).unwrap(), "manifest");
        assert!(root.join(&staged).exists(), "it could not be removed");
        let path = store.object_path(&format!("{VERSIONS}/{name}"));
        assert_eq!(entries.get("", Version(1)).await.unwrap().unwrap().path, path);
        assert_eq!(newest(&store, &external).await.unwrap(), Some(found), "again, from the final path");
    }
}
