//! Rewrite: rows are moved to other fragments and do not change (table format 9.3 to 9.5).
//!
//! | indices | effect |
//! |---|---|
//! | rewritten | get the new uuid, details and files, and cover the new fragments |
//! | others that name stable row ids | cover the new fragments |
//! | others, with a fragment reuse entry | cover the new fragments: readers translate addresses |
//! | others | keep what they cover, although the old fragments are removed |

use std::collections::BTreeSet;

use super::lineage::Origins;
use super::{ApplyContext, fragments, indices};
use crate::manifest::{Fragment, IndexMetadata, LineageSource, Manifest};
use crate::transaction::Rewrite;
use crate::{Error, FragmentId, Result, Version};

pub(super) fn apply(
    rewrite: &Rewrite,
    current: &Manifest,
    next: &mut Manifest,
    entries: &mut Vec<IndexMetadata>,
    context: &ApplyContext<'_>,
) -> Result<()> {
    let old: Vec<FragmentId> =
        rewrite.groups.iter().flat_map(|group| &group.old_fragments).map(|f| f.id).collect();
    let mut seen = BTreeSet::new();
    if let Some(id) = old.iter().find(|id| !seen.insert(**id)) {
        return Err(Error::invalid_input(format!("Rewrite replaces fragment {id} more than once")));
    }
    fragments::change(next, "Rewrite", &old, &[], |fragment, _| Ok(fragment.edit()))?;
    let mut moves = Vec::with_capacity(rewrite.groups.len());
    let mut origins = Origins::new(current, old.iter().copied(), context.inline_lineage);
    for group in &rewrite.groups {
        let mut new = fragments::number(next, &group.new_fragments)?;
        let from: BTreeSet<FragmentId> = group.old_fragments.iter().map(|f| f.id).collect();
        if next.has_stable_row_ids() {
            for fragment in &mut new {
                keep_lineage(fragment, next.version, &mut next.next_row_id, &mut origins)?;
            }
        }
        moves.push((from, new.iter().map(|f| f.id.0).collect()));
        fragments::insert(next, new);
    }
    let (stable, reuse) = (next.has_stable_row_ids(), context.fragment_reuse.is_some());
    let follow = |entry: &IndexMetadata| reuse || (stable && !indices::is_by_address(entry));
    indices::rewrite(entries, &rewrite.rewritten_indices, &moves, follow)?;
    if let Some(reuse) = context.fragment_reuse {
        entries.retain(|entry| entry.name != reuse.name);
        entries.push(reuse.clone());
    }
    Ok(())
}

fn keep_lineage(
    fragment: &mut Fragment,
    version: Version,
    next_row_id: &mut u64,
    origins: &mut Origins<'_>,
) -> Result<()> {
    if fragment.row_ids.is_none() {
        return Err(Error::invalid_input(format!(
            "Rewrite has fragment {} without row ids: all fragments must have row ids",
            fragment.id
        )));
    }
    let Some(ids) = fragment.inline_row_ids()? else {
        return if fragment.created_at.is_some() && fragment.last_updated_at.is_some() {
            Ok(())
        } else {
            Err(Error::unsupported(format!(
                "fragment {}: its row ids are in a data column, so it must have its versions",
                fragment.id
            )))
        };
    };
    if let Some((_, max)) = ids.min_max() {
        *next_row_id = (*next_row_id).max(max.saturating_add(1));
    }
    if fragment.created_at.is_none() || fragment.last_updated_at.is_none() {
        let (created, updated) = origins.versions(&ids, version)?;
        fragment.created_at.get_or_insert(LineageSource::Inline(created.encode()));
        fragment.last_updated_at.get_or_insert(LineageSource::Inline(updated.encode()));
    }
    Ok(())
}
