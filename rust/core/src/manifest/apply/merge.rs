//! Merge: other columns, with the whole list of fragments.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{fragments, indices, lineage};
use crate::manifest::{Fragment, IndexMetadata, Manifest};
use crate::schema::Schema;
use crate::transaction::Merge;
use crate::{FragmentId, Result};

pub(super) fn apply(merge: &Merge, next: &mut Manifest, entries: &mut Vec<IndexMetadata>) -> Result<()> {
    let kept: BTreeSet<FragmentId> = merge.fragments.iter().map(|f| f.id).collect();
    let gone: Vec<FragmentId> = next.fragments.iter().map(|f| f.id).filter(|id| !kept.contains(id)).collect();
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
    let schema = fragments::checked(&Schema { metadata: metadata.clone(), ..merge.schema.clone() })?;
    next.schema = Arc::clone(&schema);
    if let Some(max) = &mut next.carried.max_allocated_field_id {
        *max = (*max).max(schema.max_field_id().0);
    }
    for fragment in &mut next.fragments {
        let mut edited = fragment.edit();
        fragments::retain_files(&mut edited, &schema);
        if edited.files.len() < fragment.files.len() {
            *fragment = Arc::new(edited.sealed());
        }
    }
    indices::retain(entries, next);
    Ok(())
}
