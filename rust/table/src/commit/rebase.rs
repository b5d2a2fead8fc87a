//! Carries a delete over to a newer version: the vectors of others and ours are merged (table format 8.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::conflict::rebase::rebase_delete;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::DeletionFileType;
use pennon_core::transaction::Delete;
use pennon_core::{FragmentId, Result};

use super::CommitParams;
use crate::snapshot::Snapshot;
use crate::write::deletions;

/// The same delete on top of `newest`. Errors: retryable `Conflict` if rows or fragments are gone.
pub(super) async fn delete(
    newest: &Arc<Snapshot>,
    delete: &Delete,
    affected: Option<&BTreeMap<FragmentId, DeletionVector>>,
    params: &CommitParams,
) -> Result<Delete> {
    // A delete whose rows are not known can only drop fragments.
    let unknown = BTreeMap::new();
    let affected = affected.unwrap_or(&unknown);
    let fragments = affected.keys().filter_map(|&id| newest.manifest.fragment(id));
    let reads = fragments.map(|fragment| {
        let read = async move { Ok((fragment.id, newest.deletion_vector(fragment).await?.as_ref().clone())) };
        read.boxed()
    });
    let vectors = crate::gather(reads.collect()).await?.into_iter().collect();
    let rebased = rebase_delete(delete, &newest.manifest, affected, &vectors)?;
    let updated_fragments =
        deletions::write(newest, rebased.vectors, Some(DeletionFileType::Bitmap), params.durability).await?;
    Ok(Delete {
        updated_fragments,
        deleted_fragment_ids: rebased.removed_fragments,
        predicate: delete.predicate.clone(),
    })
}
