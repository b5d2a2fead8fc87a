//! Why a version is not there.

use pennon_core::{Error, Version};

use super::locate;
use crate::store::Store;

/// The error of a version that was not found in a table: it was cleaned up, or nobody has committed it yet. What was found
/// out already if there is no table.
pub(super) async fn explain(store: &Store, version: Version, error: Error) -> Error {
    let Ok(Some(newest)) = locate::find(store, None).await.map(|found| found.map(|at| at.version)) else {
        return error;
    };
    if version == Version(0) || version > newest {
        let root = store.root();
        return Error::not_found(format!(
            "There is no version {version} of {root}: it was not found, and the newest is {newest}"
        ));
    }
    cleaned_up(version, &format!("it is the one that was asked for, and was not found in {}", store.root()))
}

/// The error of a version that is needed and was cleaned up.
pub(crate) fn cleaned_up(version: Version, why: &str) -> Error {
    Error::not_found(format!(
        "Version {version} was cleaned up and is needed: {why}. A tag on it would have kept it, and so would a cleanup \
         with more retain_versions or a longer older_than"
    ))
}
