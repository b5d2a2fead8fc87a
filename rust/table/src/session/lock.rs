//! A lock of the caller's, which a commit holds while it publishes a manifest.
//!
//! Commits need no lock: a manifest is only ever put where none is. A lock is for callers who have reasons of their own
//! to keep others away, or who count on one since other writers do.
//!
//! Invariant: a lock that was given is given back, whatever became of the manifest, unless the call is dropped.

use std::fmt;

use futures::future::BoxFuture;
use pennon_core::{Result, Version};

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
