//! Mistakes in what a change says and in what a version is made of it, planted by the simulators (see [`Fault`]).

use pennon_core::manifest::{Fragment, IndexMetadata, LineageSource, Manifest};
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::transaction::Operation;
use pennon_core::{Result, Version};

use crate::runtime::{Fault, planted};

/// Spoils what a change says, if that is planted.
pub(super) fn spoil_change(operation: &mut Operation) {
    match (planted(), operation) {
        (Some(Fault::RestoreOfTheVersionBefore), Operation::Restore(restore)) => {
            restore.version = Version(restore.version.0.saturating_sub(1).max(1));
        }
        (Some(Fault::InsertedKeysAreForgotten), Operation::Update(update)) => update.inserted_rows = None,
        _ => {}
    }
}

/// Spoils a version that was made, if that is planted.
pub(super) fn spoil_version(
    before: Option<&Manifest>,
    operation: &Operation,
    made: &mut Manifest,
    indices: &mut [IndexMetadata],
) -> Result<()> {
    let (Some(fault), Some(before)) = (planted(), before) else { return Ok(()) };
    let old = |fragment: &Fragment| before.fragment(fragment.id).map(|old| old.as_ref().clone());
    // Fragments with new numbers, by what is wrong with them.
    let new = |made: &mut Manifest, spoil: fn(&mut Fragment, Version)| {
        let version = made.version;
        change(made, |fragment| {
            let mut spoilt = (!before.fragments.contains_id(fragment.id)).then(|| fragment.edit())?;
            spoil(&mut spoilt, version);
            Some(spoilt)
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
            change(made, old);
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
            let first = made.next_row_id;
            let mut next = first;
            change(made, |fragment| {
                let mut renumbered = (!before.fragments.contains_id(fragment.id)).then(|| fragment.edit())?;
                let ids = RowIdSequence::from_range(next..next + fragment.physical_rows);
                next += fragment.physical_rows;
                renumbered.row_ids = Some(LineageSource::Inline(ids.encode()));
                Some(renumbered)
            });
            made.next_row_id = next;
        }
        (Fault::UpdatedRowsLookNew, Operation::Update(_)) => {
            new(made, |fragment, version| fragment.created_at = constant(fragment, version));
        }
        (Fault::UpdatedRowsLookUnchanged, Operation::Update(_)) => {
            new(made, |fragment, _| fragment.last_updated_at = fragment.created_at.clone());
        }
        (Fault::CompactedRowsLookUpdated, Operation::Rewrite(_)) => {
            new(made, |fragment, version| fragment.last_updated_at = constant(fragment, version));
        }
        (Fault::FilledRowsLookUnchanged, Operation::Merge(_)) => change(made, |fragment| {
            let last_updated_at = old(fragment)?.last_updated_at;
            Some(Fragment { last_updated_at, ..fragment.edit() })
        }),
        _ => {}
    }
    Ok(())
}

fn change(made: &mut Manifest, mut spoil: impl FnMut(&Fragment) -> Option<Fragment>) {
    let spoilt = made.fragments.decode_all().map(|fragment| spoil(&fragment).map_or(fragment, Into::into));
    made.fragments = spoilt.collect();
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
