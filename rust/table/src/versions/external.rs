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
    store.delete(&staged).await?;
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
