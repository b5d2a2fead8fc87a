//! What can be done to a table: one file per verb.
//!
//! Each file adds its methods to [`Dataset`]. An operation reads one snapshot, decides, writes new
//! files and hands a transaction to [`crate::commit`]. `ARCHITECTURE.md` lists what several verbs share, and the few that
//! use another one.

mod add_columns;
mod alter;
mod bases;
pub mod change_feed;
pub mod cleanup;
mod clone;
pub mod commit;
pub mod compact;
pub(crate) mod config;
pub mod delete;
mod describe;
mod drop_columns;
mod drop_table;
mod evolve;
mod field_sizes;
mod field_trail;
mod history;
pub mod index;
mod merge_columns;
pub mod merge_insert;
mod migrate;
pub mod repair;
mod restore;
mod restore_rows;
mod rewrite;
pub mod scrub;
pub mod seal;
mod stable_row_ids;
pub mod update;
pub mod verify;
mod with_columns;
mod write;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use add_columns::NewColumns;
use futures::future::BoxFuture;
use pennon_core::transaction::Operation;
use pennon_core::{Error, Result, RowAddress};
use tracing::debug;

use crate::commit::CommitOutcome;
use crate::dataset::Dataset;
use crate::refs;
use crate::runtime::{self, Backoff, Stopwatch};
use crate::session::CommitOptions;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::StagedChange;

/// Property of a transaction that brought rows back, with the version they are from. A row that was dead may live
/// again after such a version, as after a restore.
const RESTORED_ROWS: &str = "pennon.restored_rows";

/// Commits a change, then cleans up if the table's config asks for that.
pub(crate) async fn publish(
    base: Arc<Snapshot>,
    change: StagedChange,
    options: &CommitOptions,
) -> CommitOutcome {
    let (base, change) = match with_columns::complete(base, change).await {
        Ok(complete) => complete,
        Err(error) => return CommitOutcome::NotCommitted(error),
    };
    let outcome = match &change.transaction.operation {
        Operation::Restore(restore) => {
            let store = Arc::clone(&base.store);
            let begun = match refs::begin_restore(&store, restore.version).await {
                Ok(begun) => begun,
                Err(error) => return CommitOutcome::NotCommitted(error),
            };
            let outcome = crate::commit::commit(base, change, options).await;
            // A version that may still appear needs its files.
            if !matches!(outcome, CommitOutcome::Unknown(_)) {
                refs::end_intent(&store, &begun).await;
            }
            outcome
        }
        _ => crate::commit::commit(base, change, options).await,
    };
    if let CommitOutcome::Committed(snapshot, _) = &outcome {
        cleanup::after_commit(Arc::clone(snapshot)).await;
    }
    outcome
}

/// How often an operation is done again after retryable conflicts with other writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictRetries {
    /// Retries on the newest version.
    pub count: u32,
    /// No retry starts after this time.
    pub timeout: Duration,
}

impl ConflictRetries {
    /// So many, within the time of the default.
    pub fn at_most(count: u32) -> Self {
        Self { count, ..Self::default() }
    }
}

impl Default for ConflictRetries {
    fn default() -> Self {
        Self { count: 10, timeout: Duration::from_secs(30) }
    }
}

impl Dataset {
    /// [`retrying`] from the version of this handle, which moves to the new one.
    pub(crate) async fn retry<T, F: Future<Output = Result<(Arc<Snapshot>, T)>>>(
        &mut self,
        allowed: ConflictRetries,
        attempt: impl Fn(Self) -> F,
    ) -> Result<T> {
        let (snapshot, done) = retrying(self, allowed, attempt).await?;
        self.move_to(snapshot);
        Ok(done)
    }
}

/// Finds rows of a version, where no predicate in SQL can say which rows a verb is about.
pub type FindRows = dyn Fn(Dataset) -> BoxFuture<'static, Result<Vec<RowAddress>>> + Send + Sync;

/// Does something that commits on this version and, after retryable conflicts, on the newest one. Between tries it waits
/// as a commit does that lost a race, and no longer than until the time of the last retry: writers of the same rows would
/// otherwise do everything again in step.
///
/// Errors: retryable `Conflict` "Too many concurrent writers. ..." after so many retries, or if a conflict comes
/// after so long a time; any other error of an attempt.
pub(crate) async fn retrying<T, F: Future<Output = Result<T>>>(
    dataset: &Dataset,
    allowed: ConflictRetries,
    attempt: impl Fn(Dataset) -> F,
) -> Result<T> {
    let started = Stopwatch::start();
    let mut base = dataset.clone();
    let (mut retries, mut backoff) = (0, Backoff::default());
    loop {
        let attempted = Stopwatch::start();
        match attempt(base.clone()).await {
            Err(error) if error.is_retryable() => {
                let elapsed = started.elapsed();
                if retries >= allowed.count || elapsed > allowed.timeout {
                    return Err(Error::retryable_conflict(format!(
                        "Too many concurrent writers. Attempted {retries} retries. {error}"
                    )));
                }
                retries += 1;
                let wait = backoff.next(attempted.elapsed()).min(allowed.timeout.saturating_sub(elapsed));
                debug!(retries, ?wait, %error, "the operation is done again on the newest version");
                if !wait.is_zero() {
                    runtime::sleep(wait).await;
                }
                base.checkout_latest().await?;
            }
            done => return done,
        }
    }
}
