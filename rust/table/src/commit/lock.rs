//! A lock of the caller's, which a commit holds while it publishes a manifest.
//!
//! Commits need no lock: a manifest is only ever put where none is. A lock is for callers who have reasons of their own
//! to keep others away, or who count on one since other writers do.
//!
//! Invariant: a lock that was given is given back, whatever became of the manifest, unless the call is dropped.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use pennon_core::{Error, Result, Version};

/// Gives out the right to publish a version.
pub trait CommitLock: fmt::Debug + Send + Sync {
    /// Waits for the right to publish that version. After an error nothing is published.
    fn acquire(&self, version: Version) -> BoxFuture<'static, Result<Box<dyn HeldLock>>>;
}

/// A lock that a commit holds.
pub trait HeldLock: Send {
    /// Gives it back; whether something was published is not said.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// What became of something that was to be done under a lock.
pub(super) enum Under<T> {
    /// It was done.
    Done(T),
    /// The lock was not given.
    Refused(Error),
}

/// Does something while a lock is held, if there is one.
///
/// Errors: those of the lock when it is given back, as `Internal`: what was done is done.
pub(super) async fn hold<T>(
    lock: Option<&Arc<dyn CommitLock>>,
    version: Version,
    work: impl Future<Output = T>,
) -> Result<Under<T>> {
    let Some(lock) = lock else { return Ok(Under::Done(work.await)) };
    let held = match lock.acquire(version).await {
        Ok(held) => held,
        Err(error) => {
            let message = format!("The commit lock for version {version} was not given: {error}");
            return Ok(Under::Refused(Error::conflict(message).with_source(error)));
        }
    };
    let done = work.await;
    held.release().await.map_err(|error| {
        let message = format!("The commit lock for version {version} could not be given back: {error}");
        Error::internal(message).with_source(error)
    })?;
    Ok(Under::Done(done))
}
