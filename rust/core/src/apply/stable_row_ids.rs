//! Stable row ids for a table that has none: each row gets its address as its id.
//!
//! So rows keep the ids that they have without stable row ids, and indices, which name rows by their addresses, are
//! right as they are. New rows get ids above the addresses of all fragments that there ever were.

use roaring::RoaringBitmap;

use super::lineage;
use crate::manifest::{Flags, FragmentReuse, IndexMetadata, LineageSource, Manifest, fragment_ids_used_up};
use crate::rows::RowIdSequence;
use crate::{Result, RowAddress};

/// The versions of the rows are the one that is made: those before did not record them.
pub(super) fn assign(next: &mut Manifest, entries: &mut Vec<IndexMetadata>) -> Result<()> {
    let version = next.version;
    next.fragments.change_all(|fragment| {
        let mut edited = fragment.edit();
        let start = RowAddress::new(fragment.id, 0).0;
        let ids = RowIdSequence::from_range(start..start + fragment.physical_rows);
        edited.row_ids = Some(LineageSource::Inline(ids.encode()));
        (edited.created_at, edited.last_updated_at) = (None, None);
        lineage::set_missing_versions(&mut edited, version);
        Some(edited)
    });
    let used = next.max_fragment_id.map_or(0, |max| u64::from(max) + 1);
    let above = used.checked_mul(1 << 32).ok_or_else(fragment_ids_used_up)?;
    next.next_row_id = next.next_row_id.max(above);
    next.reader_flags = next.reader_flags.set(Flags::STABLE_ROW_IDS, true);
    uncover_moved(entries)
}

/// Rows that compactions moved have the ids of where they are now, which no index names: the fragments that they are in are
/// not covered.
fn uncover_moved(entries: &mut Vec<IndexMetadata>) -> Result<()> {
    let Some(at) = entries.iter().position(|entry| entry.name == FragmentReuse::NAME) else { return Ok(()) };
    let moved = entries.remove(at).fragments;
    for entry in entries.iter_mut().filter(|entry| !entry.is_system()) {
        let Some(covered) = &entry.fragments else { continue };
        let kept = moved.as_ref().map_or_else(RoaringBitmap::new, |moved| covered - moved);
        if kept != *covered {
            *entry = entry.with_fragments(kept)?;
        }
    }
    Ok(())
}
