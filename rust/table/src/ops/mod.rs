//! What can be done to a table: one file per verb.
//!
//! Each file adds its methods to [`Dataset`](crate::Dataset). An operation reads one snapshot, decides, writes new
//! files and hands a transaction to [`crate::commit`]; it never calls another operation.

pub mod cleanup;
mod clone;
pub mod commit;
mod config;
pub mod delete;
mod drop_table;
mod migrate;
mod restore;
mod rewrite;
mod validate;
mod write;

use std::sync::Arc;

use pennon_core::Result;

use crate::commit::{Change, CommitParams};
use crate::snapshot::Snapshot;

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
