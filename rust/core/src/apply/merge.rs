//! Merge: other columns, with the whole list of fragments. Those with ids that the table has not handed out yet are new,
//! as those of a write that adds columns and rows.

use std::collections::BTreeSet;

use super::{ApplyContext, fragments, indices, lineage, update};
use crate::manifest::{Fragment, IndexMetadata, Manifest};
use crate::schema::Schema;
use crate::transaction::Merge;
use crate::{FragmentId, Result};

pub(super) fn apply(
    merge: &Merge,
    current: &Manifest,
    next: &mut Manifest,
    entries: &mut Vec<IndexMetadata>,
    context: &ApplyContext<'_>,
) -> Result<()> {
    let (changed, new): (Vec<Fragment>, Vec<Fragment>) =
        merge.fragments.iter().cloned().partition(|fragment| Some(fragment.id.0) <= next.max_fragment_id);
    let kept: BTreeSet<FragmentId> = changed.iter().map(|f| f.id).collect();
    let gone: Vec<FragmentId> = next.fragments.ids().filter(|id| !kept.contains(id)).collect();
    let (version, stable) = (next.version, next.has_stable_row_ids());
    fragments::change(next, "Merge", &gone, &changed, |current, change| {
        let mut edited =
            Fragment { files: change.files.clone(), deletion: change.deletion.clone(), ..current.edit() };
        // Rows whose values are in other files were changed.
        if stable && edited.files != current.files {
            lineage::touch_all(&mut edited, version);
        }
        Ok(edited)
    })?;
    let has_less_rows =
        |change: &&Fragment| current.fragment(change.id).is_some_and(|f| f.deletion != change.deletion);
    let from = gone.iter().copied().chain(changed.iter().filter(has_less_rows).map(|f| f.id));
    update::add(next, &new, current, from, context)?;
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
