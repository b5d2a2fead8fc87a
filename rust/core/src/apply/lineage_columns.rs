//! Column-backed lineage (table format 4.7): what an operation needs of it. The caller of [`super::apply()`] reads it
//! first.

use std::collections::{BTreeMap, BTreeSet};

use super::{lineage, merge, update};
use crate::deletion::DeletionVector;
use crate::manifest::{Fragment, LineageSource, Manifest};
use crate::rows::RowIdSequence;
use crate::transaction::Operation;
use crate::{FragmentId, Result};

/// Sequences of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequences {
    /// The last-updated-at versions.
    LastUpdated,
    /// The row ids and both kinds of versions.
    All,
}

/// Fragments of `current` whose column-backed lineage has to be read to apply an operation.
///
/// `writes_version_column`: that of [`super::ApplyContext`].
/// Errors: those of [`super::apply()`] for offsets that are no bitmap.
pub fn needed_lineage_columns(
    current: &Manifest,
    operation: &Operation,
    writes_version_column: bool,
) -> Result<BTreeMap<FragmentId, Sequences>> {
    let mut needed = BTreeMap::new();
    if !current.fragments.summaries().any(|fragment| fragment.has_lineage_columns) {
        return Ok(needed);
    }
    let column = Some(LineageSource::Column);
    // Whether versions of rows have to be looked up by row id.
    let needs_all = match operation {
        Operation::Update(update) => {
            let with_versions = update.updated_fragments.iter();
            let with_versions = with_versions
                .filter(|f| update::writes_version_column(f, writes_version_column))
                .map(|f| f.id);
            let with_versions: BTreeSet<FragmentId> = with_versions.collect();
            let reads_column = |id: FragmentId, rows: &DeletionVector| {
                let fragment = current.fragment(id).filter(|f| f.last_updated_at == column);
                fragment.is_some_and(|f| !lineage::are_all(rows, f))
            };
            for (id, rows) in update::offsets(update)? {
                if !with_versions.contains(&id) && reads_column(id, &rows) {
                    needed.insert(id, Sequences::LastUpdated);
                }
            }
            update.new_fragments.iter().any(looks_up_versions)
        }
        Operation::Merge(merge) => {
            merge::changed_and_new(merge, current).1.into_iter().any(looks_up_versions)
        }
        Operation::Rewrite(rewrite) => {
            let mut new = rewrite.groups.iter().flat_map(|group| &group.new_fragments);
            new.any(|f| f.created_at.is_none() || f.last_updated_at.is_none())
        }
        _ => false,
    };
    if needs_all && current.has_stable_row_ids() {
        let in_columns = current.fragments.summaries().filter(|fragment| fragment.has_lineage_columns);
        needed.extend(in_columns.map(|fragment| (fragment.id, Sequences::All)));
    }
    Ok(needed)
}

/// Whether the versions that made the rows of a new fragment are those of rows with the same ids.
fn looks_up_versions(new: &Fragment) -> bool {
    let has_old_ids = match &new.row_ids {
        Some(LineageSource::Inline(bytes)) => RowIdSequence::decode(bytes).is_ok_and(|ids| !ids.is_empty()),
        _ => false,
    };
    new.created_at.is_none() && has_old_ids
}
