//! What can be done to a table: one file per verb.
//!
//! Each file adds its methods to [`Dataset`]. An operation reads one snapshot, decides, writes new
//! files and hands a transaction to [`crate::commit`]; it never calls another operation.

mod add_columns;
mod alter;
mod bases;
pub mod change_feed;
pub mod cleanup;
mod clone;
pub mod commit;
pub mod compact;
mod config;
pub mod delete;
mod describe;
mod drop_columns;
mod drop_table;
mod evolve;
mod history;
mod merge_columns;
pub mod merge_insert;
mod migrate;
mod older;
mod restore;
mod restore_rows;
mod reused;
mod rewrite;
pub mod update;
pub mod verify;
mod write;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use add_columns::NewColumns;
use pennon_core::manifest::paths::{self, Reference};
use pennon_core::manifest::{Fragment, Manifest};
use pennon_core::transaction::Operation;
use pennon_core::{Error, ErrorKind, Result};

use crate::commit::{Change, CommitParams};
use crate::dataset::Dataset;
use crate::snapshot::Snapshot;
use crate::write::fragments;
use crate::write::moved::Staged;

/// Property of a transaction that brought rows back, with the version they are from. A row that was dead may live
/// again after such a version, as after a restore.
const RESTORED_ROWS: &str = "pennon.restored_rows";

/// Commits a change, then cleans up if the table's config asks for that.
pub(crate) async fn publish(
    base: Arc<Snapshot>,
    change: Change,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    let done = crate::commit::commit(base, change, params).await?;
    cleanup::after_commit(Arc::clone(&done)).await;
    Ok(done)
}

/// [`publish`] of a change for which files were written. Those that nothing refers to afterwards are removed: all of
/// them if the commit certainly did not happen, else deletion files that were merged with others' meanwhile.
pub(crate) async fn publish_files(
    base: Arc<Snapshot>,
    change: Change,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    let mut files = new_files(&base.manifest, &change.transaction.operation);
    let published = publish(Arc::clone(&base), change, params).await;
    match &published {
        Ok(done) => {
            let used = done.manifest.fragments.iter().filter_map(|fragment| paths::deletion(fragment));
            let used: BTreeSet<_> = used.map(|file| (file.name, file.base_id)).collect();
            files.retain(|file| {
                file.folder == "_deletions" && !used.contains(&(file.name.clone(), file.base_id))
            });
        }
        Err(error) if is_certain(error) => {}
        Err(_) => files.clear(),
    }
    remove(&base, files).await;
    published
}

/// Removes what was written for an update that will not be committed.
async fn remove_staged(base: &Snapshot, staged: Staged) {
    remove(base, new_files(&base.manifest, &Operation::Update(staged.update))).await;
}

/// Files that an operation refers to and the version it was made from does not.
fn new_files(base: &Manifest, operation: &Operation) -> Vec<Reference<'static>> {
    let (some, others): (&[Fragment], &[Fragment]) = match operation {
        Operation::Delete(delete) => (&delete.updated_fragments, &[]),
        Operation::Update(update) => (&update.updated_fragments, &update.new_fragments),
        Operation::Merge(merge) => (&merge.fragments, &[]),
        _ => (&[], &[]),
    };
    let mut files = Vec::new();
    for fragment in some.iter().chain(others) {
        let before = base.fragment(fragment.id).map(|before| paths::of_fragment(before).collect());
        let known: Vec<Reference<'_>> = before.unwrap_or_default();
        let is_new = |file: &Reference<'_>| known.iter().all(|known| !known.is_same_file(file));
        files.extend(paths::of_fragment(fragment).filter(is_new).map(Reference::into_owned));
    }
    files
}

/// Removes files; one that stays is only an orphan.
async fn remove(base: &Snapshot, files: Vec<Reference<'_>>) {
    for file in files {
        if let Ok((store, path)) = base.locate(file.folder, &file.name, file.base_id) {
            fragments::remove_file(&store, &path).await;
        }
    }
}

/// Whether a commit with this error did not happen. After an error of the store nobody can be sure.
pub(crate) fn is_certain(error: &Error) -> bool {
    use ErrorKind::{AlreadyExists, Conflict, InvalidInput, SchemaMismatch, Unsupported};
    matches!(error.kind(), AlreadyExists | Conflict { .. } | InvalidInput | SchemaMismatch | Unsupported)
}

/// Does something that commits on this version and, after retryable conflicts, on the newest one.
///
/// Errors: retryable `Conflict` "Too many concurrent writers. ..." after so many repetitions, or if a conflict comes
/// after so long a time; any other error of an attempt.
pub(crate) async fn retrying<T, F: Future<Output = Result<T>>>(
    dataset: &Dataset,
    conflict_retries: u32,
    retry_timeout: Duration,
    attempt: impl Fn(Dataset) -> F,
) -> Result<T> {
    let started = Instant::now();
    let mut base = dataset.clone();
    let mut retries = 0;
    loop {
        match attempt(base.clone()).await {
            Err(error) if error.is_retryable() => {
                if retries >= conflict_retries || started.elapsed() > retry_timeout {
                    return Err(Error::retryable_conflict(format!(
                        "Too many concurrent writers. Attempted {retries} retries. {error}"
                    )));
                }
                retries += 1;
                base.checkout_latest().await?;
            }
            done => return done,
        }
    }
}
