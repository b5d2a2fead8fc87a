//! Intents: files below `_refs` that say what is being done to versions, for as long as it takes.
//!
//! | file | content | says |
//! |---|---|---|
//! | `_refs/restores/<version>-<uuid>` | empty | the version is being restored, or loses a tag that it may get back: a cleanup keeps it, and its files |
//! | `_refs/removals/<uuid>` | versions, JSON | a cleanup removes these versions, unless it sees names of them: who makes a tag waits |
//!
//! The format has no such thing; the reference neither writes nor reads such files. What a killed process left counts for
//! an hour if it is of a restore, for five minutes if it is of a removal: a cleanup says of a thousand versions at most
//! that it removes them, and of fewer if it takes its time.

use std::time::Duration;

use bytes::Bytes;
use pennon_core::{Error, Result, Version};
use tracing::warn;

use super::{from_json, to_json};
use crate::runtime;
use crate::store::{Durability, Store};

const RESTORES: &str = "_refs/restores";
const REMOVALS: &str = "_refs/removals";
/// Seconds after which a file is one of a process that was killed.
const LONGEST_RESTORE: i64 = 3600;
const LONGEST_REMOVAL: i64 = 300;
/// Looks at removals, one a second or less, before one gives up.
const LOOKS: u32 = 120;

/// Says that a version is being restored, or may get a tag back; gives the file to remove at the end.
pub(crate) async fn begin_restore(store: &Store, version: Version) -> Result<String> {
    begin(store, format!("{RESTORES}/{version}-{}", runtime::uuid()), Bytes::new()).await
}

/// Says that versions are being removed; gives the file to remove at the end.
pub(crate) async fn begin_removal(store: &Store, versions: impl Iterator<Item = Version>) -> Result<String> {
    let versions: Vec<u64> = versions.map(|version| version.0).collect();
    begin(store, format!("{REMOVALS}/{}", runtime::uuid()), to_json(&versions)?).await
}

async fn begin(store: &Store, path: String, content: Bytes) -> Result<String> {
    store.put(&path, content, Durability::Os).await?;
    Ok(path)
}

/// Removes the file of an intent, and its directories if they are empty. A failure is only logged.
pub(crate) async fn end_intent(store: &Store, path: &str) {
    if let Err(error) = store.delete(path).await {
        warn!(path = store.full_path(path), %error, "the file of an intent was not removed");
    }
    let folder = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    store.remove_empty_directories(folder.into_iter().chain(["_refs".to_owned()]).collect()).await;
}

/// The versions that are being restored.
pub(crate) async fn restores(store: &Store) -> Result<Vec<Version>> {
    let files = intents(store, RESTORES, LONGEST_RESTORE).await?;
    let version = |path: &String| path.rsplit_once('/')?.1.split_once('-')?.0.parse().ok().map(Version);
    Ok(files.iter().filter_map(version).collect())
}

/// Waits until no cleanup is removing a version, for a minute or two at most.
///
/// Errors: those of the store, `Corrupt`, and a retryable `Conflict` if one still is.
pub(super) async fn removals_ended(store: &Store, version: Version) -> Result<()> {
    for look in 1..=LOOKS {
        if !is_being_removed(store, version).await? {
            return Ok(());
        }
        runtime::pause(Duration::from_millis(50) * look.min(10)).await;
    }
    Err(Error::retryable_conflict(format!(
        "Version {version} is being removed by a cleanup, as a file in {} says. One that was killed counts for {} minutes",
        store.full_path(REMOVALS),
        LONGEST_REMOVAL / 60
    )))
}

async fn is_being_removed(store: &Store, version: Version) -> Result<bool> {
    for path in intents(store, REMOVALS, LONGEST_REMOVAL).await? {
        let content = match store.get(&path).await {
            // It has ended.
            Err(error) if error.is_not_found() => continue,
            content => content?,
        };
        let versions: Vec<u64> =
            from_json("a list of versions", &content).map_err(|e| e.in_file(store.full_path(&path)))?;
        if versions.contains(&version.0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files of a folder, without those that a local disk has while they are written. Those that count no longer are
/// removed.
async fn intents(store: &Store, folder: &str, longest: i64) -> Result<Vec<String>> {
    let (mut paths, now) = (Vec::new(), runtime::now());
    for file in store.list_below(folder).await? {
        let is_begun = !file.path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
        if now.seconds.saturating_sub(file.modified.seconds) > longest {
            end_intent(store, &file.path).await;
        } else if is_begun {
            paths.push(file.path);
        }
    }
    Ok(paths)
}
