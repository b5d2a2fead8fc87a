//! Finding the newest version, and all versions.
//!
//! | store | how |
//! |---|---|
//! | any, with an external manifest store | that says so; a table it does not know is listed |
//! | object store that lists in order | first name of the listing: newer V2 names sort first; if that is a V1 name all of it |
//! | object store without an order (S3 directory buckets, memory) | all of the listing |
//! | local, base version known | what this process found (`newest`), or the hint, if it names that one |
//! | local, small `_versions` | list: names are read at some 100 ns each |
//! | local, large `_versions` | what this process found, or the hint |
//!
//! A listing that has names of both schemes is an error: two writers could give out the same number under two names.
//!
//! The hint is never believed alone (table format 1). It is right if its manifest is there and the next one is not,
//! unless versions went in between and left a hole. So there must be nothing that makes cleanup leave holes (tags,
//! branches, clones), the version before must be there, and no name in the directory may have come or gone since the
//! hint was written. Otherwise the versions are listed.

use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::{Error, Result, Version};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::snapshot::Snapshot;
use super::{HINT, Located, MAIN, VERSIONS, external, manifest_path, newest};
use crate::store::{FileInfo, Store};

/// A directory of up to this size, as the file system counts it, is listed rather than probed: about 300 names.
const SMALL_DIRECTORY: u64 = 16 * 1024;

#[derive(Serialize, Deserialize)]
struct Hint {
    version: u64,
}

/// The size of the manifest of a version, which is probably named by `scheme`; `None` if it is not there.
pub(crate) async fn manifest_size(
    store: &Store,
    version: Version,
    scheme: NamingScheme,
) -> Result<Option<u64>> {
    for scheme in [scheme, NamingScheme::V2, NamingScheme::V1] {
        if let Some(info) = store.info(&manifest_path(version, scheme)).await? {
            return Ok(Some(info.size));
        }
    }
    Ok(None)
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
        return Ok(remote(store, None).await?.0);
    }
    let Some(directory) = store.info(VERSIONS).await? else { return Ok(None) };
    if known.is_some() || directory.size > SMALL_DIRECTORY {
        if let Some(found) = newest::get(store, &directory)
            && is_newest(store, found).await?
        {
            return Ok(Some(found));
        }
        if let Some(found) = by_hint(store, known, &directory).await? {
            return Ok(Some(found));
        }
    }
    let found = newest_of(store, &listed(store).await?)?;
    if let Some(found) = found.filter(|_| directory.size > SMALL_DIRECTORY) {
        newest::listed(store, directory, found);
    }
    Ok(found)
}

/// The newest version of a table on an object store, and what its listing says of the manifest of another one.
pub(super) async fn remote(store: &Store, also: Option<&str>) -> Result<(Option<Located>, Option<FileInfo>)> {
    if store.lists_in_order() {
        let (first, info) = store.list_first(VERSIONS, located, also).await?;
        if first.is_none_or(|first| first.scheme == NamingScheme::V2) {
            return Ok((first, info));
        }
    }
    let listed = store.list_infos(VERSIONS).await?;
    let info = listed.iter().find(|(name, _)| also == Some(name)).and_then(|(_, info)| info.clone());
    Ok((newest_of(store, &sorted(listed.iter().map(|(name, _)| name.as_str())))?, info))
}

/// Whether a version is there and the next one is not.
async fn is_newest(store: &Store, at: Located) -> Result<bool> {
    let path = |version| manifest_path(version, at.scheme);
    Ok(store.exists(&path(at.version)).await? && !store.exists(&path(at.version.next())).await?)
}

/// Remembers a version that was committed on top of the newest one.
pub(crate) async fn remember(store: &Store, at: Located) {
    if store.is_local()
        && store.external().is_none()
        && let Ok(Some(directory)) = store.info(VERSIONS).await
        && is_newest(store, at).await.unwrap_or(false)
    {
        newest::committed(store, directory, at);
    }
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

/// What the hint says, if that is certain.
async fn by_hint(store: &Store, known: Option<Located>, directory: &FileInfo) -> Result<Option<Located>> {
    let Some(hint) = read_hint(store).await else { return Ok(None) };
    if known.is_some_and(|known| known.version != hint) || store.exists("_refs").await? {
        return Ok(None);
    }
    // Written after everything else in the directory: the two times are those of one rename, or the hint is younger.
    if store.info(HINT).await?.is_none_or(|written| written.changed < directory.changed) {
        return Ok(None);
    }
    let schemes = known.map_or(vec![NamingScheme::V2, NamingScheme::V1], |known| vec![known.scheme]);
    for scheme in schemes {
        let path = |version| manifest_path(version, scheme);
        if store.exists(&path(hint)).await? {
            let at = Located { version: hint, scheme };
            let before = path(Version(hint.0.saturating_sub(1)));
            let no_hole = hint == Version(1) || store.exists(&before).await?;
            return Ok((no_hole && is_newest(store, at).await?).then_some(at));
        }
    }
    Ok(None)
}

/// The newest version from one on that is known to be there, found without a listing: those of some stores lag behind.
pub(crate) async fn probe(store: &Store, from: Located) -> Result<Located> {
    let mut newest = from;
    while store.exists(&manifest_path(newest.version.next(), newest.scheme)).await? {
        newest.version = newest.version.next();
    }
    Ok(newest)
}

/// All versions, ascending. Detached ones are not part of the history.
pub(crate) async fn list(store: &Store) -> Result<Vec<Located>> {
    list_all(store).await.map(|(versions, _)| versions)
}

/// All versions, ascending, and those that are detached.
pub(crate) async fn list_all(store: &Store) -> Result<(Vec<Located>, Vec<Located>)> {
    let names = store.list(VERSIONS).await?;
    let detached = names.iter().filter_map(|name| naming::parse_detached(name));
    let detached = detached.map(|version| Located { version, scheme: NamingScheme::V2 }).collect();
    let mut found = sorted(names.iter().map(String::as_str));
    if let Some(external) = store.external()
        && let Some(newest) = external::newest(store, external).await?
        && !found.contains(&newest)
    {
        found.push(newest);
        found.sort_unstable_by_key(|l| l.version);
    }
    Ok((found, detached))
}

/// The error of a version that is not there.
pub(crate) fn missing_version(branch: Option<&str>, version: Version) -> Error {
    let branch = branch.unwrap_or(MAIN);
    Error::not_found(format!("Version not found error: version {branch}:{version} does not exist"))
}

/// The error of a version that is not there any more: a cleanup that did not see what was made of it removes its files. One
/// that sees it, and so keeps them, removes the version's manifest after this look. A look that failed says nothing.
pub(crate) async fn removed_meanwhile(version: &Snapshot) -> Option<Error> {
    let found = manifest_size(&version.store, version.version(), version.source().scheme).await;
    let is_gone = found.is_ok_and(|size| size.is_none());
    is_gone.then(|| missing_version(version.manifest.branch.as_deref(), version.version()))
}

/// Removes a version that is not to be part of the history, whose manifest has that path.
pub(crate) async fn remove(store: &Store, manifest: &str, version: Version) -> Result<()> {
    store.delete(manifest).await?;
    match store.external() {
        Some(external) => external.store.remove(&external.table, version).await,
        None => Ok(()),
    }
}

/// Versions whose manifests have their names, ascending.
async fn listed(store: &Store) -> Result<Vec<Located>> {
    Ok(sorted(store.list(VERSIONS).await?.iter().map(String::as_str)))
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Located> {
    let mut found: Vec<Located> = names.filter_map(located).collect();
    found.sort_unstable_by_key(|l| l.version);
    found
}

fn located(name: &str) -> Option<Located> {
    let (version, scheme) = naming::parse(name)?;
    (!version.is_detached()).then_some(Located { version, scheme })
}

/// The version that was the newest when a hint was left.
pub(crate) async fn read_hint(store: &Store) -> Option<Version> {
    let bytes = store.get(HINT).await.ok()?;
    serde_json::from_slice::<Hint>(&bytes).ok().map(|hint| Version(hint.version))
}

/// Leaves the hint for the next reader, where listings do not begin with the newest version. It is only an accelerator:
/// not synced, failures do not matter.
pub(crate) async fn write_hint(store: &Store, version: Version) {
    if !store.lists_in_order()
        && let Ok(json) = serde_json::to_vec(&Hint { version: version.0 })
        && let Err(error) = store.put_hint(HINT, json.into()).await
    {
        warn!(path = store.full_path(HINT), version = version.0, %error, "the hint at the newest version was not written");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, thread, time::Duration};

    use super::*;

    fn manifest(root: &Path, version: u64) -> std::path::PathBuf {
        root.join(manifest_path(Version(version), NamingScheme::V2))
    }

    /// A directory that is too large to be listed each time, up to version 1000.
    async fn large(root: &Path) -> std::sync::Arc<Store> {
        fs::create_dir_all(root.join(VERSIONS)).unwrap();
        (1..=1000).for_each(|version| fs::write(manifest(root, version), "").unwrap());
        let store = Store::open(root.to_str().unwrap(), &Default::default()).unwrap();
        assert!(store.info(VERSIONS).await.unwrap().unwrap().size > SMALL_DIRECTORY);
        store
    }

    async fn newest(store: &Store, known: Option<u64>) -> u64 {
        let at = |version| Located { version: Version(version), scheme: NamingScheme::V2 };
        let found = find(store, known.map(at)).await.unwrap().unwrap();
        assert_eq!(found.scheme, NamingScheme::V2);
        found.version.0
    }

    #[tokio::test]
    async fn a_stale_hint_before_a_hole_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let store = large(directory.path()).await;
        write_hint(&store, Version(1000)).await;
        write_hint(&store, Version(1000)).await; // over the first one: no name changes
        let state = store.info(VERSIONS).await.unwrap().unwrap();
        assert_eq!(
            by_hint(&store, None, &state).await.unwrap().unwrap().version.0,
            1000,
            "without a listing"
        );
        assert_eq!(newest(&store, Some(1000)).await, 1000);
        for stale in [1, 200, 999] {
            write_hint(&store, Version(stale)).await;
            assert_eq!((newest(&store, None).await, newest(&store, Some(stale)).await), (1000, 1000));
        }
        // Versions go after the hint was written. The clock of a file system may tick every ten milliseconds.
        write_hint(&store, Version(200)).await;
        thread::sleep(Duration::from_millis(30));
        (201..1000).for_each(|version| fs::remove_file(manifest(directory.path(), version)).unwrap());
        assert_eq!((newest(&store, None).await, newest(&store, Some(200)).await), (1000, 1000));
        // And before: what is left there has nothing before it.
        (1..200).for_each(|version| fs::remove_file(manifest(directory.path(), version)).unwrap());
        write_hint(&store, Version(200)).await;
        assert_eq!((newest(&store, None).await, newest(&store, Some(200)).await), (1000, 1000));
    }

    /// Requests that finding the newest version takes.
    async fn requests(store: &Store, known: u64) -> (u64, u64) {
        let before = store.metrics().counters().read_requests;
        let found = newest(store, Some(known)).await;
        (found, store.metrics().counters().read_requests - before)
    }

    #[tokio::test]
    async fn a_commit_is_remembered_until_somebody_else_changes_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = large(root).await;
        fs::create_dir_all(root.join("_refs/tags")).unwrap();
        let at = |version| Located { version: Version(version), scheme: NamingScheme::V2 };
        fs::write(manifest(root, 1001), "").unwrap();
        remember(&store, at(1001)).await;
        assert_eq!(requests(&store, 1001).await, (1001, 3), "the directory, the version and the next one");
        // Others commit, and a cleanup leaves a hole above the version that we know: a tag keeps it.
        thread::sleep(Duration::from_millis(30));
        (1002..=1005).for_each(|version| fs::write(manifest(root, version), "").unwrap());
        (900..1005)
            .filter(|version| *version != 1001)
            .for_each(|v| fs::remove_file(manifest(root, v)).unwrap());
        assert_eq!(newest(&store, Some(1001)).await, 1005);
        // A version that is not the newest any more by then is not remembered.
        fs::write(manifest(root, 1006), "").unwrap();
        remember(&store, at(1005)).await;
        assert_eq!(newest(&store, Some(1005)).await, 1006);
    }

    #[tokio::test]
    async fn what_a_listing_found_is_remembered_if_the_directory_was_quiet() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = large(root).await;
        fs::create_dir_all(root.join("_refs/tags")).unwrap();
        let (_, first) = requests(&store, 1000).await;
        assert_eq!(requests(&store, 1000).await, (1000, first), "it changed a moment ago");
        thread::sleep(Duration::from_millis(3100));
        assert_eq!(requests(&store, 1000).await, (1000, first));
        assert_eq!(requests(&store, 1000).await, (1000, 3));
        fs::write(manifest(root, 1001), "").unwrap();
        assert_eq!(newest(&store, Some(1000)).await, 1001);
        assert_eq!(newest(&store, None).await, 1001);
    }

    #[tokio::test]
    async fn a_hint_that_is_wrong_or_missing_leads_to_the_listing() {
        let directory = tempfile::tempdir().unwrap();
        let store = large(directory.path()).await;
        assert_eq!(newest(&store, None).await, 1000);
        for hint in ["", "{\"version\":", "{\"version\":9000}", "{\"version\":0}", "[1]"] {
            fs::write(directory.path().join(HINT), hint).unwrap();
            assert_eq!((newest(&store, None).await, newest(&store, Some(999)).await), (1000, 1000), "{hint}");
        }
        fs::remove_dir_all(directory.path().join(VERSIONS)).unwrap();
        assert_eq!(find(&store, None).await.unwrap(), None);
    }
}
