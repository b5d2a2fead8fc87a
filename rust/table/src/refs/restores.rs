//! Versions that are being restored: `_refs/restores/<version>-<uuid>`, an empty file for as long as a restore takes.
//!
//! The format has no such thing. A cleanup at the same time would remove the version, or its files after its manifest was
//! read; with the file there it keeps them. The reference neither writes nor reads such files.

use pennon_core::{Result, Version};
use tracing::warn;

use crate::runtime;
use crate::store::{Durability, Store};

const RESTORES: &str = "_refs/restores";
/// Seconds after which a file is one of a restore that was cut short.
const LONGEST: i64 = 3600;

/// Says that a version is being restored; gives the file to remove at the end.
pub(crate) async fn begin_restore(store: &Store, version: Version) -> Result<String> {
    let path = format!("{RESTORES}/{version}-{}", runtime::uuid());
    store.put(&path, bytes::Bytes::new(), Durability::Os).await?;
    Ok(path)
}

/// Removes the file of a restore, and its directories if they are empty. A failure is only logged: it counts for an hour.
pub(crate) async fn end_restore(store: &Store, path: &str) {
    if let Err(error) = store.delete(path).await {
        warn!(path = store.full_path(path), %error, "a version is kept for an hour as if it were being restored");
    }
    store.remove_empty_directories([RESTORES, "_refs"].map(str::to_owned).into()).await;
}

/// The versions that are being restored. Files of restores that were cut short are removed.
pub(crate) async fn restores(store: &Store) -> Result<Vec<Version>> {
    let (mut versions, now) = (Vec::new(), runtime::now());
    for file in store.list_below(RESTORES).await? {
        let version = file.path.rsplit_once('/').and_then(|(_, name)| name.split_once('-')?.0.parse().ok());
        if now.seconds.saturating_sub(file.modified.seconds) > LONGEST {
            end_restore(store, &file.path).await;
        } else if let Some(version) = version {
            versions.push(Version(version));
        }
    }
    Ok(versions)
}
