//! Where the rows are that a segment of an index names.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use pennon_core::deletion::DeletionVector;
use pennon_core::{FragmentId, Result, RowAddress, RowId};
use roaring::RoaringBitmap;

use super::find_ids;
use crate::indices::Segment;
use crate::versions::snapshot::Snapshot;

/// The addresses of rows by the numbers that a segment has for them; `None` for rows that are not live in fragments that it
/// covers. Blocks on the store.
///
/// Errors: those of reading deletion files and row ids.
pub(crate) fn covered_rows(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    rows: &[u64],
) -> Result<Vec<Option<RowAddress>>> {
    let mut addresses = addresses_in(snapshot, segment, rows.iter().copied(), &segment.covered)?;
    if segment.has_addresses(snapshot) {
        let mut known: HashMap<FragmentId, Arc<DeletionVector>> = HashMap::new();
        for slot in &mut addresses {
            let Some(address) = slot else { continue };
            let deleted = match known.entry(address.fragment()) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(slot) => {
                    let fragment = snapshot.manifest.require_fragment(address.fragment())?;
                    slot.insert(snapshot.deletion_vector_blocking(fragment)?)
                }
            };
            if deleted.contains(address.offset()) {
                *slot = None;
            }
        }
    }
    Ok(addresses)
}

/// Where the rows are that a segment names by these numbers; `None` for those that are not in some fragments, or behind
/// their last row, as a damaged index may say. By addresses it may name deleted rows, by ids it does not. Blocks on the
/// store.
///
/// Errors: those of reading row ids.
pub(super) fn addresses_in(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    rows: impl Iterator<Item = u64>,
    fragments: &RoaringBitmap,
) -> Result<Vec<Option<RowAddress>>> {
    let mut last = (None, 0);
    let mut exists = |address: &RowAddress| {
        let id = address.fragment();
        if last.0 != Some(id) {
            let rows = if fragments.contains(id.0) { physical_rows(snapshot, id) } else { 0 };
            last = (Some(id), rows);
        }
        u64::from(address.offset()) < last.1
    };
    if segment.has_addresses(snapshot) {
        return Ok(rows.map(|row| segment.current(RowAddress(row)).filter(&mut exists)).collect());
    }
    let ids: Vec<RowId> = rows.map(RowId).collect();
    let mut addresses = find_ids(snapshot, &ids)?;
    addresses.iter_mut().for_each(|address| *address = address.filter(&mut exists));
    Ok(addresses)
}

/// Rows of a fragment, deleted ones counted; 0 if it is not there.
pub(super) fn physical_rows(snapshot: &Snapshot, id: FragmentId) -> u64 {
    snapshot.manifest.fragments.summary(id).map_or(0, |fragment| fragment.physical_rows)
}
