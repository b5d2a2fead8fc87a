//! Where the rows are that a segment of an index names.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use pennon_core::deletion::DeletionVector;
use pennon_core::{FragmentId, Result, RowAddress, RowId};

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
    let addresses = match segment.has_addresses(snapshot) {
        true => live_addresses(snapshot, segment, rows)?,
        false => find_ids(snapshot, &rows.iter().map(|id| RowId(*id)).collect::<Vec<_>>())?,
    };
    let is_covered = |address: &RowAddress| segment.covered.contains(address.fragment().0);
    Ok(addresses.into_iter().map(|address| address.filter(is_covered)).collect())
}

/// Where the rows are now that a segment names by these addresses; `None` for those that are not live.
fn live_addresses(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    addresses: &[u64],
) -> Result<Vec<Option<RowAddress>>> {
    let mut known: HashMap<FragmentId, Option<(Arc<DeletionVector>, u64)>> = HashMap::new();
    let mut live = |address: RowAddress| {
        let fragment = match known.entry(address.fragment()) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(slot) => slot.insert(match snapshot.manifest.fragment(address.fragment()) {
                Some(fragment) => {
                    Some((snapshot.deletion_vector_blocking(fragment)?, fragment.physical_rows))
                }
                None => None,
            }),
        };
        let is_live = matches!(fragment, Some((deleted, rows))
            if u64::from(address.offset()) < *rows && !deleted.contains(address.offset()));
        Ok(is_live.then_some(address))
    };
    addresses
        .iter()
        .map(|address| segment.current(RowAddress(*address)).map_or(Ok(None), &mut live))
        .collect()
}
