//! A call whose future is dropped stops the blocking work it started.
//!
//! The guard lives in the future, the token goes to the blocking thread, which checks it between batches.

use pennon_core::{Error, Result};
pub(crate) use tokio_util::sync::CancellationToken;
use tokio_util::sync::DropGuard;

/// A token that is cancelled when the guard is dropped.
pub(crate) fn cancellation() -> (CancellationToken, DropGuard) {
    let token = CancellationToken::new();
    (token.clone(), token.drop_guard())
}

/// Errors: `Store` once the call that wanted the work was dropped. Nobody sees it, the work just ends.
pub(crate) fn check(token: &CancellationToken) -> Result<()> {
    if token.is_cancelled() { Err(Error::store("the call was cancelled")) } else { Ok(()) }
}
