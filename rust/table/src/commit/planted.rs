//! Corrupts the operation or the manifest of a commit, as a simulator asks (see [`Fault`]).

use pennon_core::manifest::{Fragment, IndexMetadata, LineageSource, Manifest};
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::transaction::Operation;
use pennon_core::{Result, Version};

use crate::runtime::{Fault, planted};

/// Corrupts the operation before it is committed.
pub(super) fn corrupt_operation(operation: &mut Operation) {
    match (planted(), operation) {
        (Some(Fault::RestoreOfTheVersionBefore), Operation::Restore(restore)) => {
            restore.version = Version(restore.version.0.saturating_sub(1).max(1));
        }
        (Some(Fault::InsertedKeysAreForgotten), Operation::Update(update)) => update.inserted_rows = None,
        _ => {}
    }
}

/// Corrupts the manifest that was made of the one before and the operation.
pub(super) fn corrupt_manifest(
    before: Option<&Manifest>,
    operation: &Operation,
    made: &mut Manifest,
    indices: &mut [IndexMetadata],
) -> Result<()> {
    let (Some(fault), Some(before)) = (planted(), before) else { return Ok(()) };
    let old = |fragment: &Fragment| before.fragment(fragment.id).map(|old| old.as_ref().clone());
    // Edits each fragment that the commit has added.
    let edit_new = |made: &mut Manifest, edit: fn(&mut Fragment, Version)| {
        let version = made.version;
        edit_fragments(made, |fragment| {
            let mut edited = (!before.fragments.contains_id(fragment.id)).then(|| fragment.edit())?;
            edit(&mut edited, version);
            Some(edited)
        });
    };
    match (fault, operation) {
        (Fault::RowIdsAreReused, _) => made.next_row_id = before.next_row_id,
        (Fault::FragmentIdsAreReused, _) => made.max_fragment_id = before.max_fragment_id,
        (Fault::RestoreReusesRowIds, Operation::Restore(_)) => {
            let ids = made.fragments.decode_all().filter_map(|fragment| ids_of(&fragment)?.iter().max());
            made.next_row_id = ids.max().map_or(0, |last| last + 1);
        }
        (Fault::BasePathsAreForgotten, _) => made.base_paths.clear(),
        (Fault::IndicesCoverNewFragments, Operation::Append(_) | Operation::Update(_)) => {
            for index in indices.iter_mut().filter(|index| !index.is_system()) {
                *index = index.with_fragments(made.fragments.ids().map(|id| id.0).collect())?;
            }
        }
        (Fault::DeletedRowsStay, Operation::Delete(_)) | (Fault::UpdatedRowsStay, Operation::Update(_)) => {
            edit_fragments(made, old);
        }
        (Fault::EmptiedFragmentsStay, Operation::Delete(_) | Operation::Update(_))
        | (Fault::ReplacedFragmentsStay, Operation::Rewrite(_)) => {
            let gone = before.fragments.decode_all().filter(|old| !made.fragments.contains_id(old.id));
            let mut all: Vec<_> = made.fragments.decode_all().chain(gone).collect();
            all.sort_unstable_by_key(|fragment| fragment.id);
            made.fragments = all.into();
        }
        (Fault::UpdatedRowsGetNewIds, Operation::Update(_))
        | (Fault::CompactedRowsGetNewIds, Operation::Rewrite(_)) => {
            let mut next = made.next_row_id;
            edit_fragments(made, |fragment| {
                let mut renumbered = (!before.fragments.contains_id(fragment.id)).then(|| fragment.edit())?;
                let ids = RowIdSequence::from_range(next..next + fragment.physical_rows);
                next += fragment.physical_rows;
                renumbered.row_ids = Some(LineageSource::Inline(ids.encode()));
                Some(renumbered)
            });
            made.next_row_id = next;
        }
        (Fault::UpdatedRowsLookNew, Operation::Update(_)) => {
            edit_new(made, |fragment, version| fragment.created_at = constant(fragment, version));
        }
        (Fault::UpdatedRowsLookUnchanged, Operation::Update(_)) => {
            edit_new(made, |fragment, _| fragment.last_updated_at = fragment.created_at.clone());
        }
        (Fault::CompactedRowsLookUpdated, Operation::Rewrite(_)) => {
            edit_new(made, |fragment, version| fragment.last_updated_at = constant(fragment, version));
        }
        (Fault::FilledRowsLookUnchanged, Operation::Merge(_)) => edit_fragments(made, |fragment| {
            let last_updated_at = old(fragment)?.last_updated_at;
            Some(Fragment { last_updated_at, ..fragment.edit() })
        }),
        _ => {}
    }
    Ok(())
}

fn edit_fragments(made: &mut Manifest, mut edit: impl FnMut(&Fragment) -> Option<Fragment>) {
    let edited = made.fragments.decode_all().map(|fragment| edit(&fragment).map_or(fragment, Into::into));
    made.fragments = edited.collect();
}

fn ids_of(fragment: &Fragment) -> Option<RowIdSequence> {
    match &fragment.row_ids {
        Some(LineageSource::Inline(bytes)) => RowIdSequence::decode(bytes).ok(),
        _ => None,
    }
}

/// All rows have this version.
fn constant(fragment: &Fragment, version: Version) -> Option<LineageSource> {
    Some(LineageSource::Inline(VersionSequence::constant(fragment.physical_rows, version).encode()))
}
