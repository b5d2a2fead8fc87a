//! Lineage in data columns (table format 4.7), of which an operation needs some to be applied: who applies it reads that
//! first.

use std::collections::{BTreeMap, BTreeSet};

use super::{lineage, update};
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

/// Fragments of `current` whose lineage is in data columns and decides what an operation makes of it.
///
/// `brings_versions`: that of [`super::ApplyContext`].
/// Errors: those of [`super::apply()`] for offsets that are no bitmap.
pub fn needed_of_spilled(
    current: &Manifest,
    operation: &Operation,
    brings_versions: bool,
) -> Result<BTreeMap<FragmentId, Sequences>> {
    let mut needed = BTreeMap::new();
    if !current.fragments.summaries().any(|fragment| fragment.is_spilled) {
        return Ok(needed);
    }
    let column = Some(LineageSource::Column);
    // Whether there are rows whose versions are to be found, by their ids.
    let looks = match operation {
        Operation::Update(update) => {
            let brought = update.updated_fragments.iter();
            let brought = brought.filter(|f| update::brings_versions(f, brings_versions)).map(|f| f.id);
            let brought: BTreeSet<FragmentId> = brought.collect();
            let spilled = |id: FragmentId, rows: &DeletionVector| {
                let fragment = current.fragment(id).filter(|f| f.last_updated_at == column);
                fragment.is_some_and(|f| !lineage::are_all(rows, f))
            };
            for (id, rows) in update::offsets(update)? {
                if !brought.contains(&id) && spilled(id, &rows) {
                    needed.insert(id, Sequences::LastUpdated);
                }
            }
            let brings_ids = |f: &Fragment| match &f.row_ids {
                Some(LineageSource::Inline(bytes)) => {
                    RowIdSequence::decode(bytes).is_ok_and(|ids| !ids.is_empty())
                }
                _ => false,
            };
            update.new_fragments.iter().any(|f| f.created_at.is_none() && brings_ids(f))
        }
        Operation::Rewrite(rewrite) => {
            let mut new = rewrite.groups.iter().flat_map(|group| &group.new_fragments);
            new.any(|f| f.created_at.is_none() || f.last_updated_at.is_none())
        }
        _ => false,
    };
    if looks && current.has_stable_row_ids() {
        let sources =
            |f: &Fragment| [f.row_ids == column, f.created_at == column, f.last_updated_at == column];
        let spilled = current.fragments.iter().filter(|f| sources(f).contains(&true));
        needed.extend(spilled.map(|f| (f.id, Sequences::All)));
    }
    Ok(needed)
}
