//! Publishing a manifest while a lock of the caller's is held.
//!
//! Invariant: a lock that was acquired is released, whatever became of the manifest, unless the call is dropped.

use std::future::Future;
use std::sync::Arc;

use pennon_core::{Error, Result, Version};

use crate::session::CommitLock;

/// What was done under a lock.
pub(super) struct Held<T> {
    /// What the work gave.
    pub(super) done: T,
    /// Why the lock could not be released afterwards.
    pub(super) release: Result<()>,
}

/// Does something while a lock is held, if there is one.
///
/// Errors: a `Conflict` that is not retryable if the lock was not acquired; nothing was done then.
pub(super) async fn hold<T>(
    lock: Option<&Arc<dyn CommitLock>>,
    version: Version,
    work: impl Future<Output = T>,
) -> Result<Held<T>> {
    let Some(lock) = lock else { return Ok(Held { done: work.await, release: Ok(()) }) };
    let held = lock.acquire(version).await.map_err(|error| {
        let message = format!("The commit lock for version {version} was not given: {error}");
        Error::conflict(message).with_source(error)
    })?;
    let done = work.await;
    let release = held.release().await.map_err(|error| {
        let message = format!("The commit lock for version {version} could not be given back: {error}");
        Error::internal(message).with_source(error)
    });
    Ok(Held { done, release })
}
