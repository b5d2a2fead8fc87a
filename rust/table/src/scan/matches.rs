//! Offsets of the rows a predicate matches: what a delete needs, here and on the workers of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use futures::{StreamExt, TryStreamExt};
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, FragmentId, Result};

use super::filter::PlannedFilter;
use super::fragment::{FragmentReader, Needs, NeedsDeletions, prepare};
use super::index_matches::IndexMatches;
use super::index_search;
use super::projection::{Input, ValueForm, input_batch, resolve};
use super::units::{array_rows, rows_of_a_part, select, unit_rows};
use super::{DEFAULT_BATCH_SIZE, FragmentSlice, Projection, narrow};
use crate::expr::Expression;
use crate::runtime::{IN_FLIGHT, blocking, processors};
use crate::versions::snapshot::Snapshot;

/// Tasks that look at fragments of a local table concurrently, at least: some of them wait for the disk.
const TASKS_IN_FLIGHT: usize = 4;
/// Fragments of a task: most are left out by their statistics, and a task costs more than a look at those.
const FRAGMENTS_OF_A_TASK: usize = 64;
/// Rows of a task, unless its only fragment has more.
const ROWS_OF_A_TASK: u64 = 1 << 20;
/// Fragments whose files are opened, at most, before a job is divided.
const FRAGMENTS_OF_SPANS: usize = 1 << 10;
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
    let before = snapshot.manifest.fragments.rows_before(fragment.id);
    FilterSearch::new(Arc::clone(snapshot), predicate.clone())?.rows(fragment, before, None)
}

/// A filter, and what is read for it.
struct FilterSearch {
    snapshot: Arc<Snapshot>,
    input: Input,
    filter: PlannedFilter,
    /// What indices say of the filter.
    indexed: Option<IndexMatches>,
}

impl FilterSearch {
    fn new(snapshot: Arc<Snapshot>, predicate: Expression) -> Result<Self> {
        let nothing = Projection::Names(Vec::new());
        let (input, _) = resolve(&snapshot, Some(&nothing), &[], Some(&predicate), ValueForm::PLAIN)?;
        let filter = PlannedFilter::new(predicate, &input, &snapshot.manifest, true);
        Ok(Self { snapshot, input, filter, indexed: None })
    }

    /// Offsets in a fragment that has so many live rows before it, or in a part of it.
    fn rows(
        &self,
        fragment: &Arc<Fragment>,
        before: u64,
        slice: Option<&FragmentSlice>,
    ) -> Result<DeletionVector> {
        let (predicate, input) = (&self.filter.predicate, &self.input);
        if predicate.constant() == Some(false) {
            return Ok(DeletionVector::empty());
        }
        let reader = FragmentReader::new(Arc::clone(&self.snapshot), Arc::clone(fragment), before);
        let fields = &input.fields;
        let by_index = self.indexed.as_ref().and_then(|found| Some((found.of(fragment.id)?, found.is_exact)));
        if self.filter.opens_files() && by_index.is_none() {
            let needs = Needs { fields, values: false, deletions: NeedsDeletions::WithFiles };
            prepare([(&reader, needs)])?;
        }
        let (found, is_exact) = match by_index {
            Some((rows, is_exact)) => (Some(rows), is_exact),
            None => (self.filter.candidates(&reader)?, false),
        };
        if found.as_ref().is_some_and(RowRanges::is_empty) {
            return Ok(DeletionVector::empty());
        }
        prepare([(&reader, Needs { fields, values: !is_exact, deletions: NeedsDeletions::Yes })])?;
        let positions = slice.map_or(Ok(0..fragment.live_rows()), |s| s.positions(fragment.live_rows()))?;
        let candidates = match found {
            Some(rows) if slice.is_some_and(|slice| slice.rows.is_some()) => {
                rows.intersect(&reader.live_ranges(&positions)?)
            }
            Some(rows) => reader.live_among(rows)?,
            None => reader.live_ranges(&positions)?,
        };
        if is_exact {
            let offsets = candidates.rows().filter_map(|offset| u32::try_from(offset).ok());
            return Ok(DeletionVector::from_iter(offsets));
        }
        let mut matching: Vec<u32> = Vec::new();
        let units = candidates.split_by(unit_rows(FILTER_ROW_BYTES, DEFAULT_BATCH_SIZE));
        let parts = units.map(|unit| self.parts(&reader, unit)).collect::<Result<Vec<_>>>()?;
        for ranges in parts.into_iter().flatten() {
            let selected = if predicate.constant() == Some(true) {
                ranges
            } else {
                let arrays = self.filter.read(&reader, input, &ranges, false)?;
                let batch = input_batch(input, &arrays, array_rows(&ranges)?)?;
                let mask = predicate.evaluate_mask(&batch)?;
                debug_assert_eq!(mask.null_count(), 0);
                select(&ranges, mask.values())
            };
            matching.extend(selected.rows().filter_map(|offset| u32::try_from(offset).ok()));
        }
        Ok(DeletionVector::from_iter(matching))
    }

    /// What [`spans`] says of a fragment with so many live rows before it. Blocks on the store.
    fn span(&self, fragment: Arc<Fragment>, before: u64) -> Result<Option<Range<u64>>> {
        let (deleted, live) = (fragment.deleted_rows(), fragment.live_rows());
        let reader = FragmentReader::new(Arc::clone(&self.snapshot), fragment, before);
        if self.filter.opens_files() {
            let fields = &self.input.fields;
            prepare([(&reader, Needs { fields, values: false, deletions: NeedsDeletions::No })])?;
        }
        Ok(match self.filter.candidates(&reader)? {
            None => Some(0..live),
            Some(found) if found.is_empty() => None,
            Some(found) => {
                let Range { start, end } = found.span();
                // As many rows may be deleted before a row as are deleted in all.
                Some(start.saturating_sub(deleted)..live.min(end))
            }
        })
    }

    /// A unit in parts whose values are not too large together.
    fn parts(
        &self,
        reader: &FragmentReader,
        unit: RowRanges,
    ) -> Result<impl Iterator<Item = RowRanges> + use<>> {
        let most = match self.filter.predicate.constant() {
            Some(_) => None,
            None => {
                let fields = self.filter.value_fields(&self.input);
                rows_of_a_part(unit.count(), reader.bytes_in_memory(&fields, &unit)?)
            }
        };
        Ok(unit.split_by(most.unwrap_or(u64::MAX)))
    }
}

/// [`fragment_matches`] of all fragments, or of some or parts of them, concurrently; only those with a match, ascending.
///
/// Errors: `InvalidInput` for a fragment or rows that are not there, or named more than once; else as [`fragment_matches`].
pub async fn matches(
    snapshot: Arc<Snapshot>,
    slices: Option<Vec<FragmentSlice>>,
    predicate: Expression,
) -> Result<Vec<(FragmentId, DeletionVector)>> {
    matches_with(snapshot, slices, predicate, false).await
}

/// [`matches()`], where an index that cannot be read is an error if `strict_indices`.
pub(super) async fn matches_with(
    snapshot: Arc<Snapshot>,
    slices: Option<Vec<FragmentSlice>>,
    predicate: Expression,
    strict_indices: bool,
) -> Result<Vec<(FragmentId, DeletionVector)>> {
    let all = &snapshot.manifest.fragments;
    let slices = slices.map(by_fragment).transpose()?;
    let mut wanted: Option<BTreeSet<FragmentId>> = slices.as_ref().map(|s| s.keys().copied().collect());
    if let Some(missing) = wanted.iter().flatten().find(|id| !all.contains_id(**id)) {
        return Err(snapshot.manifest.no_fragment(*missing));
    }
    let indexed = index_search::search(&snapshot, &predicate, None, false, strict_indices, |_| ()).await?;
    if let Some(found) = &indexed {
        let is_left = |id: &FragmentId| !found.leaves_out(*id);
        let ids = wanted.unwrap_or_else(|| all.ids().collect());
        wanted = Some(ids.into_iter().filter(is_left).collect());
    } else if narrow::narrows(&snapshot, &predicate) {
        let (snapshot, predicate) = (Arc::clone(&snapshot), predicate.clone());
        if let Some(found) = blocking(move || narrow::fragments(&snapshot, &predicate)).await? {
            let is_wanted = |id: &FragmentId| wanted.as_ref().is_none_or(|wanted| wanted.contains(id));
            wanted = Some(found.into_iter().filter(is_wanted).collect());
        }
    }
    // Where requests take long, what a task waits for is what its fragments wait for one after another.
    let together = if snapshot.store.is_local() { FRAGMENTS_OF_A_TASK } else { 1 };
    let in_flight = in_flight(&snapshot);
    let tasks = tasks(all.live_rows(), wanted.as_ref(), together);
    let search = Arc::new(FilterSearch { indexed, ..FilterSearch::new(Arc::clone(&snapshot), predicate)? });
    let slices = Arc::new(slices.unwrap_or_default());
    let mut found: Vec<(FragmentId, DeletionVector)> = futures::stream::iter(tasks)
        .map(|task| {
            let (search, slices) = (Arc::clone(&search), Arc::clone(&slices));
            blocking(move || {
                let look = |(id, before): (FragmentId, u64)| {
                    let fragment = search.snapshot.manifest.fragment(id);
                    let fragment =
                        fragment.ok_or_else(|| Error::internal(format!("fragment {id} is not there")))?;
                    Ok((id, search.rows(fragment, before, slices.get(&id))?))
                };
                let found: Result<Vec<_>> = task.into_iter().map(look).collect();
                Ok(futures::stream::iter(found?.into_iter().map(Ok)))
            })
        })
        .buffer_unordered(in_flight)
        .try_flatten()
        .try_collect()
        .await?;
    found.retain(|(_, rows)| !rows.is_empty());
    found.sort_unstable_by_key(|(id, _)| *id);
    Ok(found)
}

fn in_flight(snapshot: &Snapshot) -> usize {
    if snapshot.store.is_local() { processors().max(TASKS_IN_FLIGHT) } else { IN_FLIGHT }
}

/// For each fragment the smallest range of positions among its live rows that is known to have every row that the filter
/// can match, by statistics and lineage; fragments without such rows are left out. All rows where statistics cannot be
/// read. `None` if too many files would be opened, or if the filter depends on the time.
pub(crate) async fn spans(
    snapshot: &Arc<Snapshot>,
    predicate: Expression,
) -> Result<Option<BTreeMap<FragmentId, Range<u64>>>> {
    let all = &snapshot.manifest.fragments;
    let search = Arc::new(FilterSearch::new(Arc::clone(snapshot), predicate)?);
    // Tasks plan the filter again.
    if !search.filter.prunes() || search.filter.predicate.depends_on_time() {
        return Ok(None);
    }
    let wanted: Option<BTreeSet<FragmentId>> = match narrow::narrows(snapshot, &search.filter.predicate) {
        true => {
            let (snapshot, search) = (Arc::clone(snapshot), Arc::clone(&search));
            let found = blocking(move || narrow::fragments(&snapshot, &search.filter.predicate)).await?;
            found.map(|found| found.into_iter().collect())
        }
        false => None,
    };
    let count = wanted.as_ref().map_or(all.len(), BTreeSet::len);
    if search.filter.opens_files() && count > FRAGMENTS_OF_SPANS {
        return Ok(None);
    }
    let together = if snapshot.store.is_local() { FRAGMENTS_OF_A_TASK } else { 1 };
    let found = futures::stream::iter(tasks(all.live_rows(), wanted.as_ref(), together))
        .map(|task| {
            let search = Arc::clone(&search);
            blocking(move || {
                let mut found = Vec::with_capacity(task.len());
                for (id, before) in task {
                    let fragment = search.snapshot.manifest.fragment(id).cloned();
                    let fragment =
                        fragment.ok_or_else(|| Error::internal(format!("fragment {id} is not there")))?;
                    let all = 0..fragment.live_rows();
                    // A task says what is wrong with a file.
                    let span = search.span(fragment, before).unwrap_or(Some(all));
                    found.extend(span.map(|span| (id, span)));
                }
                Ok(futures::stream::iter(found.into_iter().map(Ok)))
            })
        })
        .buffer_unordered(in_flight(snapshot))
        .try_flatten()
        .try_collect()
        .await?;
    Ok(Some(found))
}

/// Errors: `InvalidInput` for two parts of one fragment.
fn by_fragment(slices: Vec<FragmentSlice>) -> Result<BTreeMap<FragmentId, FragmentSlice>> {
    let mut found = BTreeMap::new();
    for slice in slices {
        if let Some(other) = found.insert(slice.fragment, slice) {
            return Err(Error::invalid_input(format!("Fragment {} is named more than once", other.fragment)));
        }
    }
    Ok(found)
}

/// Fragments with the number of live rows before them, in groups of at most so many that are worth a task.
fn tasks(
    all: impl Iterator<Item = (FragmentId, u64)>,
    wanted: Option<&BTreeSet<FragmentId>>,
    together: usize,
) -> Vec<Vec<(FragmentId, u64)>> {
    let mut tasks: Vec<Vec<(FragmentId, u64)>> = Vec::new();
    let (mut before, mut rows) = (0_u64, 0_u64);
    let mut others = wanted.map(|wanted| wanted.iter().peekable());
    for (id, live) in all {
        if others.as_mut().is_none_or(|wanted| wanted.next_if(|wanted| **wanted == id).is_some()) {
            rows = rows.saturating_add(live);
            match tasks.last_mut() {
                Some(task) if task.len() < together && rows <= ROWS_OF_A_TASK => {
                    task.push((id, before));
                }
                _ => {
                    rows = live;
                    tasks.push(vec![(id, before)]);
                }
            }
        }
        before = before.saturating_add(live);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_fragments_share_a_task_and_large_ones_do_not() {
        let small = |count: u32| (0..count).map(|id| (FragmentId(id), 10));
        let sizes = |tasks: Vec<Vec<_>>| tasks.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(tasks(small(130), None, 64)), [64, 64, 2]);
        assert_eq!(sizes(tasks(small(3), None, 1)), [1, 1, 1]);
        let large = (0..3).map(|id| (FragmentId(id), ROWS_OF_A_TASK));
        assert_eq!(
            tasks(large, None, 64),
            [0, 1, 2].map(|id| vec![(FragmentId(id), u64::from(id) * ROWS_OF_A_TASK)])
        );
        let wanted = BTreeSet::from([FragmentId(3), FragmentId(70)]);
        assert_eq!(tasks(small(99), Some(&wanted), 64), [[(FragmentId(3), 30), (FragmentId(70), 700)]]);
        assert!(tasks(small(0), None, 64).is_empty());
    }
}
