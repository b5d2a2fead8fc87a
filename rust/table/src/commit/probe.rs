//! Does the store keep its word? Two puts of one name, both only if it is absent: the second must be refused.
//!
//! Some stores that speak the protocol of S3 ignore the condition and overwrite. Two writers there would overwrite
//! each other's versions, and both would believe they had committed. So the first transaction file that a session
//! writes to a table is put twice, with the same bytes: that costs one request and leaves nothing behind.

use std::sync::Arc;

use bytes::Bytes;
use pennon_core::{Error, Result};

use crate::session::{EntryKind, Session};
use crate::store::{Durability, Store};

/// Puts a file whose name nobody else uses, and probes the store on the first call for a table.
///
/// Errors: `Unsupported` for a store that overwrites; those of the put.
pub(super) async fn put(
    store: &Arc<Store>,
    session: &Arc<Session>,
    path: String,
    bytes: Bytes,
    durability: Durability,
) -> Result<()> {
    let trusted = store.is_local() || store.external().is_some();
    if trusted || session.get::<()>(EntryKind::Probe, store.root()).is_some() {
        return store.put_new(vec![(path, bytes)], durability).await;
    }
    // `false`: the answer to an earlier put of ours got lost, and it was sent again.
    store.put_if_absent(&path, bytes.clone(), durability).await?;
    if store.put_if_absent(&path, bytes, durability).await? {
        return Err(Error::unsupported(format!(
            "{}: the store overwrites files that it was asked to write only if they are absent, so concurrent commits \
             would destroy each other. Keep the versions in an external manifest store: s3+ddb://",
            store.full_path(&path)
        )));
    }
    session.put(EntryKind::Probe, store.root(), &Arc::new(()), store.root().len() + 64);
    Ok(())
}
