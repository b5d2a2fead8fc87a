//! Finding the newest version, and all versions.
//!
//! | store | how |
//! |---|---|
//! | any, with an external manifest store | that says so; a table it does not know is listed |
//! | object store | first name of the listing: newer V2 names sort first; if that is a V1 name all of it |
//! | local, base version known | its manifest is there, the next one is not, the hint names it: no listing |
//! | local, small `_versions` | list: names are read at some 100 ns each |
//! | local, large `_versions` | hint, then probe upwards until a manifest is absent |
//!
//! A listing that has names of both schemes is an error: two writers could give out the same number under two names.
//!
//! The hint is never believed alone (table format 1): a hint whose manifest is missing, that cannot be read, or
//! below which cleanup may have left holes (tables with tags) leads to the listing.

use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::{Error, Result, Version};
use serde::{Deserialize, Serialize};

use super::{HINT, VERSIONS, external, manifest_path};
use crate::store::{Durability, Store};

/// A directory of up to this size, as the file system counts it, is listed rather than probed: about 300 names.
const SMALL_DIRECTORY: u64 = 16 * 1024;

/// A version and how its manifest is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) version: Version,
    pub(crate) scheme: NamingScheme,
}

#[derive(Serialize, Deserialize)]
struct Hint {
    version: u64,
}

/// The newest version, `None` if there is no manifest. `known` is a version that was the newest a moment ago.
pub(crate) async fn find(store: &Store, known: Option<Located>) -> Result<Option<Located>> {
    if let Some(external) = store.external() {
        if let Some(found) = external::newest(store, external).await? {
            return Ok(Some(found));
        }
        return newest_of(store, &listed(store).await?);
    }
    if !store.is_local() {
        let first = store.list_first(VERSIONS, located).await?;
        return match first {
            Some(Located { scheme: NamingScheme::V2, .. }) | None => Ok(first),
            Some(_) => newest_of(store, &listed(store).await?),
        };
    }
    if let Some(known) = known {
        let next = manifest_path(known.version.next(), known.scheme);
        let here = manifest_path(known.version, known.scheme);
        let (here, next, hint, tags) =
            tokio::join!(store.exists(&here), store.exists(&next), read_hint(store), store.exists("_refs"));
        if here? && !next? && hint == Some(known.version) && !tags? {
            return Ok(Some(known));
        }
    } else if let Some(found) = by_hint(store).await? {
        return Ok(Some(found));
    }
    newest_of(store, &listed(store).await?)
}

/// The last of a listing. Errors: `InvalidInput` naming both names if it has two schemes.
fn newest_of(store: &Store, listed: &[Located]) -> Result<Option<Located>> {
    let newest = listed.last().copied();
    let of = |scheme| listed.iter().rev().find(|at| at.scheme == scheme);
    if let (Some(old), Some(new), Some(newest)) = (of(NamingScheme::V1), of(NamingScheme::V2), newest) {
        let name = |at: &Located| naming::manifest_name(at.version, at.scheme);
        return Err(Error::invalid_input(format!(
            "{}: found multiple manifest naming schemes in the same directory: V1 such as {} and V2 such as {}. If \
             migrate_manifest_paths_v2 was interrupted, open version {} by its number and call it again",
            store.full_path(VERSIONS),
            name(old),
            name(new),
            newest.version
        )));
    }
    Ok(newest)
}

async fn by_hint(store: &Store) -> Result<Option<Located>> {
    let (directory, tags) = tokio::join!(store.info(VERSIONS), store.exists("_refs"));
    if directory?.is_none_or(|d| d.size <= SMALL_DIRECTORY) || tags? {
        return Ok(None);
    }
    let Some(hint) = read_hint(store).await else { return Ok(None) };
    for scheme in [NamingScheme::V2, NamingScheme::V1] {
        let mut newest = None;
        let mut version = hint;
        while store.exists(&manifest_path(version, scheme)).await? {
            newest = Some(Located { version, scheme });
            version = version.next();
        }
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

/// The newest version from one on that is known to be there, found without a listing: those of some stores lag behind.
pub(super) async fn probe(store: &Store, from: Located) -> Result<Located> {
    let mut newest = from;
    while store.exists(&manifest_path(newest.version.next(), newest.scheme)).await? {
        newest.version = newest.version.next();
    }
    Ok(newest)
}

/// All versions, ascending. Detached ones are not part of the history.
pub(crate) async fn list(store: &Store) -> Result<Vec<Located>> {
    let mut found = listed(store).await?;
    if let Some(external) = store.external()
        && let Some(newest) = external::newest(store, external).await?
        && !found.contains(&newest)
    {
        found.push(newest);
        found.sort_unstable_by_key(|l| l.version);
    }
    Ok(found)
}

/// Versions whose manifests have their names, ascending.
async fn listed(store: &Store) -> Result<Vec<Located>> {
    let mut found: Vec<Located> =
        store.list(VERSIONS).await?.iter().filter_map(|name| located(name)).collect();
    found.sort_unstable_by_key(|l| l.version);
    Ok(found)
}

fn located(name: &str) -> Option<Located> {
    let (version, scheme) = naming::parse(name)?;
    (!version.is_detached()).then_some(Located { version, scheme })
}

async fn read_hint(store: &Store) -> Option<Version> {
    let bytes = store.get(HINT).await.ok()?;
    serde_json::from_slice::<Hint>(&bytes).ok().map(|hint| Version(hint.version))
}

/// Leaves the hint for the next reader. It is only an accelerator: not synced, failures do not matter.
pub(crate) async fn write_hint(store: &Store, version: Version) {
    if let Ok(json) = serde_json::to_vec(&Hint { version: version.0 }) {
        let _ = store.put(HINT, json.into(), Durability::Os).await;
    }
}
