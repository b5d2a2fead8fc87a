//! Merge: other columns, with the whole list of fragments. Some may be new, as those of a write that adds columns and
//! rows: with ids that no fragment has had, or that were reserved, or with 0 after the fragment 0 that there is.

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
    let (changed, new) = changed_and_new(merge, current);
    let kept: BTreeSet<FragmentId> = changed.iter().map(|f| f.id).collect();
    let gone: Vec<FragmentId> = next.fragments.ids().filter(|id| !kept.contains(id)).collect();
    let (version, stable) = (next.version, next.has_stable_row_ids());
    fragments::change(next, "Merge", &gone, changed.iter().copied(), |current, change| {
        let mut edited =
            Fragment { files: change.files.clone(), deletion: change.deletion.clone(), ..current.edit() };
        // Rows whose values are in other files were changed.
        if stable && edited.files != current.files {
            lineage::touch_all(&mut edited, version);
        }
        Ok(edited)
    })?;
    let has_less_rows =
        |change: &&&Fragment| current.fragment(change.id).is_some_and(|f| f.deletion != change.deletion);
    let from = gone.iter().copied().chain(changed.iter().filter(has_less_rows).map(|f| f.id));
    let new = fragments::number(next, new)?;
    update::add(next, new, current, from, context)?;
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

/// The fragments of a version, and others. One that has row ids with an id that was handed out is of an older version.
pub(super) fn changed_and_new<'a>(
    merge: &'a Merge,
    current: &Manifest,
) -> (Vec<&'a Fragment>, Vec<&'a Fragment>) {
    let (mut changed, mut new, mut has_first) = (Vec::new(), Vec::new(), false);
    for fragment in &merge.fragments {
        let is_there = current.fragments.contains_id(fragment.id);
        let is_new = match fragment.id {
            FragmentId(0) => !is_there || has_first,
            FragmentId(id) => !is_there && (Some(id) > current.max_fragment_id || fragment.row_ids.is_none()),
        };
        has_first |= fragment.id == FragmentId(0);
        if is_new { &mut new } else { &mut changed }.push(fragment);
    }
    (changed, new)
}
