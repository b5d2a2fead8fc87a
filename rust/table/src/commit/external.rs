//! A manifest published through an external manifest store (table format 13.1): steps 1 and 2 of the table in
//! [`crate::versions::external`].

use bytes::Bytes;
use pennon_core::Result;
use tracing::warn;

use crate::runtime;
use crate::store::external::{Entry, External};
use crate::store::{Durability, Store};
use crate::versions::Located;
use crate::versions::external::complete;
use crate::versions::manifest_path;

/// Publishes the manifest of a version; `false` if the version is taken. After an error it may have been published
/// all the same, and what was staged is left for whoever finds out.
pub(super) async fn publish(
    store: &Store,
    external: &External,
    at: Located,
    manifest: Bytes,
    durability: Durability,
) -> Result<bool> {
    let path = manifest_path(at.version, at.scheme);
    let staged = format!("{path}-{}", runtime::uuid());
    let size = u64::try_from(manifest.len()).ok();
    store.put_new(vec![(staged.clone(), manifest)], durability).await?;
    let entry = Entry { version: at.version, path: store.object_path(&staged), size, e_tag: None };
    if !external.store.put_if_absent(&external.table, &entry).await? {
        // Our own put may have been sent twice.
        let found = external.store.get(&external.table, at.version).await?;
        if found.is_none_or(|found| found.path != entry.path) {
            if let Err(error) = store.delete(&staged).await {
                warn!(path = store.full_path(&staged), %error, "a staged manifest was not removed: cleanup will");
            }
            return Ok(false);
        }
    }
    // Committed: what is left can be done by anybody.
    if let Err(error) = complete(store, external, entry, durability).await {
        warn!(version = at.version.0, path, %error, "a committed manifest has not got its final name yet: readers finish it");
    }
    Ok(true)
}
