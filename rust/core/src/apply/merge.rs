//! Merge: other columns, with the whole list of fragments.

use std::collections::BTreeSet;

use super::{fragments, indices, lineage};
use crate::manifest::{Fragment, IndexMetadata, Manifest};
use crate::schema::Schema;
use crate::transaction::Merge;
use crate::{FragmentId, Result};

pub(super) fn apply(
    merge: &Merge,
    current: &Manifest,
    next: &mut Manifest,
    entries: &mut Vec<IndexMetadata>,
) -> Result<()> {
    let kept: BTreeSet<FragmentId> = merge.fragments.iter().map(|f| f.id).collect();
    let gone: Vec<FragmentId> = next.fragments.ids().filter(|id| !kept.contains(id)).collect();
    let (version, stable) = (next.version, next.has_stable_row_ids());
    fragments::change(next, "Merge", &gone, &merge.fragments, |current, change| {
        let mut edited =
            Fragment { files: change.files.clone(), deletion: change.deletion.clone(), ..current.edit() };
        // Rows whose values are in other files were changed.
        if stable && edited.files != current.files {
            lineage::touch_all(&mut edited, version);
        }
        Ok(edited)
    })?;
    // The reference leaves the metadata out.
    let metadata =
        if merge.schema.metadata.is_empty() { &next.schema.metadata } else { &merge.schema.metadata };
    next.schema = fragments::checked(&Schema { metadata: metadata.clone(), ..merge.schema.clone() })?;
    if let Some(max) = &mut next.carried.max_allocated_field_id {
        *max = (*max).max(next.schema.max_field_id().0);
    }
    fragments::retain_all_files(next);
    indices::uncover_rewritten(entries, current, next, &merge.fragments.iter().map(|f| f.id.0).collect())?;
    indices::retain(entries, next);
    Ok(())
}
