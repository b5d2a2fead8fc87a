//! Offsets of the rows a predicate matches: what a delete needs, here and on the workers of a cluster.

use std::sync::Arc;

use arrow_array::Array;
use futures::{StreamExt, TryStreamExt};
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::Fragment;
use pennon_core::{Error, FragmentId, Result};

use super::execute::read_columns;
use super::fragment::FragmentReader;
use super::plan::{self, select, to_u64};
use super::projection::{input_batch, resolve};
use super::prune::Pruner;
use super::{DEFAULT_BATCH_SIZE, Projection};
use crate::blobs::BlobHandling;
use crate::expr::Expression;
use crate::snapshot::Snapshot;

/// Fragments looked at side by side.
const FRAGMENTS_IN_FLIGHT: usize = 4;
/// Bytes of a row of filter columns, roughly.
const FILTER_ROW_BYTES: u64 = 64;

/// Physical offsets of the live rows of a fragment that a filter matches. Blocks on the store.
///
/// Errors: what reading the fragment gives; `InvalidInput` when a value cannot be computed.
pub fn fragment_matches(
    snapshot: &Arc<Snapshot>,
    fragment: &Arc<Fragment>,
    predicate: &Expression,
) -> Result<DeletionVector> {
    if predicate.constant() == Some(false) {
        return Ok(DeletionVector::empty());
    }
    let before = snapshot.manifest.fragments.iter().take_while(|f| f.id < fragment.id);
    let before = before.map(|f| f.live_rows()).fold(0, u64::saturating_add);
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), before);
    let nothing = Projection::Names(Vec::new());
    let (input, _) = resolve(snapshot, Some(&nothing), &[], Some(predicate), BlobHandling::Mixed)?;
    let needed = input.filter_columns(predicate);
    let size = plan::unit_rows(FILTER_ROW_BYTES, to_u64(DEFAULT_BATCH_SIZE));
    let mut matching: Vec<u32> = Vec::new();
    let pruner = Pruner::new(predicate, &snapshot.manifest.schema);
    let ranges = match pruner.map(|p| p.kept(&reader)).transpose()?.flatten() {
        Some(kept) => reader.live_among(kept)?,
        None => reader.live_ranges(&(0..fragment.live_rows()))?,
    };
    for ranges in plan::pieces(ranges, size) {
        let selected = if predicate.constant() == Some(true) {
            ranges
        } else {
            let rows =
                usize::try_from(plan::row_count(&ranges)).map_err(|e| Error::internal(e.to_string()))?;
            let mut arrays = vec![None; needed.len()];
            read_columns(&reader, &input, &ranges, &needed, false, &mut arrays)?;
            let mask = predicate.evaluate_mask(&input_batch(&input, &arrays, rows)?)?;
            debug_assert_eq!(mask.null_count(), 0);
            select(&ranges, mask.values())
        };
        matching.extend(selected.into_iter().flatten().filter_map(|offset| u32::try_from(offset).ok()));
    }
    Ok(DeletionVector::from_iter(matching))
}

/// [`fragment_matches`] of all fragments, or of some, side by side; only those with a match, ascending.
///
/// Errors: `InvalidInput` for a fragment that is not there; else as [`fragment_matches`].
pub async fn matches(
    snapshot: Arc<Snapshot>,
    fragments: Option<Vec<FragmentId>>,
    predicate: Expression,
) -> Result<Vec<(FragmentId, DeletionVector)>> {
    let wanted: Vec<Arc<Fragment>> = match fragments {
        None => snapshot.manifest.fragments.clone(),
        Some(ids) => ids
            .into_iter()
            .map(|id| {
                let found = snapshot.manifest.fragment(id).cloned();
                let version = snapshot.manifest.version;
                found
                    .ok_or_else(|| Error::invalid_input(format!("Fragment {id} is not in version {version}")))
            })
            .collect::<Result<_>>()?,
    };
    let mut found: Vec<(FragmentId, DeletionVector)> = futures::stream::iter(wanted)
        .map(|fragment| {
            let (snapshot, predicate) = (Arc::clone(&snapshot), predicate.clone());
            crate::blocking(move || Ok((fragment.id, fragment_matches(&snapshot, &fragment, &predicate)?)))
        })
        .buffer_unordered(FRAGMENTS_IN_FLIGHT)
        .try_collect()
        .await?;
    found.retain(|(_, rows)| !rows.is_empty());
    found.sort_unstable_by_key(|(id, _)| *id);
    Ok(found)
}
