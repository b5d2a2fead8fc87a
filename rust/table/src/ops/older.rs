//! Versions that are looked back at: what to say of one that is gone, and whether one follows from that before it.

use std::sync::Arc;

use pennon_core::transaction::Transaction;
use pennon_core::{Error, Result, Version};

use super::restore_rows::RESTORED_ROWS;
use crate::commit::latest::{self, Located};
use crate::commit::manifest_path;
use crate::dataset::{Dataset, VersionRef};
use crate::snapshot::Snapshot;
use crate::store::Store;

/// First bytes of a message in a manifest file that tell its operation.
const HEAD: u64 = 256;
/// Field numbers of operations (table format 7.1).
const OVERWRITE: u32 = 102;
const RESTORE: u32 = 106;
/// Size of the length before a message.
const PREFIX: usize = 4;

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
    match latest::list(store).await.map(|all| all.last().map(|at| at.version)) {
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

/// The error of a version that is needed and gone.
pub(super) fn cleaned_up(version: Version, why: &str) -> Error {
    Error::not_found(format!(
        "Version {version} was cleaned up and is needed: {why}. A tag on it would have kept it, and so would a cleanup \
         with more retain_versions or a longer older_than"
    ))
}

/// Whether a version may have brought back rows that were dead, or older values, or replaced everything: told from the
/// first bytes of its manifest file, true if they do not tell.
pub(super) async fn starts_over(store: &Store, at: Located) -> Result<bool> {
    let path = manifest_path(at.version, at.scheme);
    let Ok(head) = store.get_range(&path, 0..HEAD).await else { return Ok(true) };
    let Some((length, message)) = head.split_at_checked(PREFIX) else { return Ok(true) };
    if let Some(starts_over) = tells(message) {
        return Ok(starts_over);
    }
    // Behind the indices.
    let Ok(length) = <[u8; PREFIX]>::try_from(length) else { return Ok(true) };
    let start = 8 + u64::from(u32::from_le_bytes(length));
    let message = store.get_range(&path, start..start + HEAD).await;
    Ok(message.ok().and_then(|message| tells(&message)).unwrap_or(true))
}

fn tells(message: &[u8]) -> Option<bool> {
    let operation = Transaction::operation_number(bytes::Bytes::copy_from_slice(message))?;
    let marked = || message.windows(RESTORED_ROWS.len()).any(|part| part == RESTORED_ROWS.as_bytes());
    Some([OVERWRITE, RESTORE].contains(&operation) || marked())
}
