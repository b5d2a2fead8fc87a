//! Lance tables: stores, versions and commits, scans and operations.
//!
//! Every operation is the same walk: read one [`Snapshot`], decide in plain values, write new files, hand a
//! [`Transaction`](pennon_core::transaction::Transaction) to the one commit loop ([`commit`]). Nothing else ever
//! writes a manifest.
//!
//! The crate needs a multi-threaded tokio runtime with time: files are read, decoded and written on its blocking threads.
//! It starts none itself and keeps no global state but the registry of `memory://` tables, the turns of commits and a few
//! manifests.

pub(crate) mod blobs;
pub mod commit;
pub mod dataset;
pub mod expr;
pub mod file;
mod inventory;
pub mod ops;
mod recent;
pub mod refs;
pub mod scan;
pub mod session;
pub mod snapshot;
pub mod store;
pub mod write;

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

pub use commit::{CommitLock, CommitParams, HeldLock};
pub use dataset::{Dataset, OpenOptions, VersionInfo, VersionRef};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
pub use ops::NewColumns;
pub use ops::change_feed::{ChangeFeed, FeedMode, FeedOptions, FeedPoint, Images};
pub use ops::commit::CommitMode;
pub use ops::compact;
pub use ops::delete::{DeleteOptions, DeleteResult, FragmentRows};
pub use ops::merge_insert::{
    MergeClauses, MergeOptions, MergeResult, MergeWriteMode, WhenMatched, WhenUnmatchedTarget,
};
pub use ops::update::{UpdateOptions, UpdateResult, UpdatedFragment};
use pennon_core::{Error, Result};
pub use refs::{Branch, Branches, RefOrder, Tag, Tags};
pub use session::{CacheSizes, Session};
pub use snapshot::Snapshot;
pub use store::{Durability, StorageOptions, Store};
use tokio::runtime::Handle;
pub use write::{BatchReader, Target, WriteMode, WriteParams, WrittenFragments};

/// Requests to a store that are under way at a time.
const IN_FLIGHT: usize = 16;

/// Waits for all results, in order, with some of the calls under way at a time.
///
/// The calls are boxed: streams that borrow from their surroundings make futures that nobody can spawn.
pub(crate) async fn gather<T: Send>(calls: Vec<BoxFuture<'_, Result<T>>>) -> Result<Vec<T>> {
    futures::stream::iter(calls).buffered(IN_FLIGHT).try_collect().await
}

/// Runs work that waits for files or computes for long on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) if failure.is_panic() => resume_unwind(failure.into_panic()),
        Err(failure) => Err(Error::internal("the runtime was shut down during a call").with_source(failure)),
    }
}

/// Runs work on this thread and others beside it, inside the caller's runtime if there is one. The number of a thread
/// is its argument, the results come in that order.
///
/// Errors: the first one; a panic goes on here.
pub(crate) fn side_by_side<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (work, runtime) = (&work, &Handle::try_current().ok());
    thread::scope(|scope| {
        let other = |number| {
            scope.spawn(move || {
                let _inside = runtime.as_ref().map(Handle::enter);
                work(number)
            })
        };
        let others: Vec<_> = (1..threads).map(other).collect();
        let mut results = vec![work(0)];
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        results.extend(others.into_iter().map(join));
        results.into_iter().collect()
    })
}
