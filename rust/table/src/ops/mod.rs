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
use pennon_core::{Error, ErrorKind, Result};

use crate::commit::{Change, CommitParams};
use crate::dataset::Dataset;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::write::{deletions, fragments};

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
    files: Vec<String>,
) -> Result<Arc<Snapshot>> {
    let store = Arc::clone(&base.store);
    let published = publish(base, change, params).await;
    match &published {
        Ok(done) => {
            let fragments = &done.manifest.fragments;
            let used: BTreeSet<String> = fragments.iter().filter_map(|f| deletions::path(f)).collect();
            let unused = |file: &String| file.starts_with("_deletions/") && !used.contains(file);
            remove(&store, files.into_iter().filter(unused)).await;
        }
        Err(error) if is_certain(error) => remove(&store, files).await,
        Err(_) => {}
    }
    published
}

/// Whether a commit with this error did not happen. After an error of the store nobody can be sure.
pub(crate) fn is_certain(error: &Error) -> bool {
    use ErrorKind::{AlreadyExists, Conflict, InvalidInput, SchemaMismatch, Unsupported};
    matches!(error.kind(), AlreadyExists | Conflict { .. } | InvalidInput | SchemaMismatch | Unsupported)
}

/// Removes files; one that stays is only an orphan.
async fn remove(store: &Store, files: impl IntoIterator<Item = String>) {
    for file in files {
        fragments::remove_file(store, &file).await;
    }
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
