//! Older versions that an operation reads, and the error for one that was cleaned up.

use std::sync::Arc;

use pennon_core::{Error, Result, Version};

use crate::dataset::Dataset;
use crate::versions::VersionRef;
use crate::versions::locate;
use crate::versions::snapshot::Snapshot;

impl Dataset {
    /// A version to look back at. Errors: `NotFound`, saying what would have kept it.
    pub(super) async fn find_older(&self, reference: VersionRef) -> Result<Arc<Snapshot>> {
        match self.find(reference.clone()).await {
            Err(error) if error.is_not_found() => Err(explain(self, reference, error).await),
            found => found,
        }
    }
}

/// Why a version is not there.
async fn explain(dataset: &Dataset, reference: VersionRef, error: Error) -> Error {
    let VersionRef::Number(number) = reference else { return error };
    let store = &dataset.snapshot().store;
    match locate::list(store).await.map(|all| all.last().map(|at| at.version)) {
        Ok(Some(newest)) if number > 0 && Version(number) < newest => {
            cleaned_up(Version(number), "it is the one that was asked for")
        }
        Ok(Some(newest)) => Error::not_found(format!(
            "There is no version {number} of {}: the newest is {newest}",
            store.root()
        )),
        _ => error,
    }
}

/// The error of a version that is needed and was cleaned up.
pub(super) fn cleaned_up(version: Version, why: &str) -> Error {
    Error::not_found(format!(
        "Version {version} was cleaned up and is needed: {why}. A tag on it would have kept it, and so would a cleanup \
         with more retain_versions or a longer older_than"
    ))
}
