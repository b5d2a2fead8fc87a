//! The nearest rows that an index finds among the fragments it covers.
//!
//! An index is searched partition by partition, those nearest to the query first. Which rows of a partition count is
//! decided before they are compared: live rows in fragments that the segment covers, and of these the ones the filter
//! allows. So a row that was deleted or moved never takes the place of another one.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::IndexMetadata;
use pennon_core::{Error, FieldId, FragmentId, Result, RowAddress};
use pennon_index::{
    DistanceRange, IndexKind, Metric, Neighbor, Neighbors, RowMask, VectorIndex, VectorIndexKind,
    VectorPartition,
};
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::probes::Probes;
use crate::indices::{CountedRows, Segment, all_segments, check_versions, is_about_the_index, pass_over};
use crate::runtime::{each_concurrently, processors};
use crate::scan::brief::{is_brief_listing, is_brief_search};
use crate::scan::covered_rows;
use crate::versions::snapshot::Snapshot;

/// An index over the column of a search: the segments of one name that have its metric.
#[derive(Debug)]
pub(super) struct VectorSearch {
    pub(super) name: String,
    pub(super) kind: &'static str,
    segments: Vec<(Segment, Arc<VectorIndex>)>,
    /// Fragments that they cover.
    pub(super) covered: RoaringBitmap,
    /// Whether it has segments that cannot be read.
    pub(super) is_incomplete: bool,
}

/// What an index is asked.
#[derive(Debug, Clone)]
pub(super) struct IndexRequest {
    /// Rows that are wanted of each vector of a query.
    pub(super) rows: usize,
    pub(super) probes: Probes,
    pub(super) ef: Option<usize>,
    pub(super) range: DistanceRange,
    /// Whether the distances of what is found are computed again.
    pub(super) is_refined: bool,
    pub(super) allowed: AllowedRows,
}

impl IndexRequest {
    /// Whether rows are kept that seem nearer than the range.
    fn keeps_nearer(&self) -> bool {
        self.is_refined && self.range.lower.is_some()
    }

    /// What takes the rows of a segment.
    fn neighbors(&self) -> Neighbors {
        let nearest = Neighbors::new(self.rows, self.range);
        if self.keeps_nearer() { nearest.with_nearer() } else { nearest }
    }

    /// Whether any row may be found, however far away it is.
    fn is_unrestricted(&self) -> bool {
        self.range == DistanceRange::default() && self.allowed.offsets.is_none()
    }
}

/// The rows that may be found.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowedRows {
    /// Rows of these fragments.
    pub(super) fragments: RoaringBitmap,
    /// Of these the ones at these offsets; all if not given.
    pub(super) offsets: Option<RowsByFragment>,
}

impl AllowedRows {
    /// The addresses of the rows, if a filter leaves at most so many.
    pub(super) fn addresses_of_few(&self, limit: u64) -> Option<Vec<RowAddress>> {
        let offsets = self.offsets.as_ref()?;
        if offsets.values().map(|offsets| offsets.len()).sum::<u64>() > limit {
            return None;
        }
        let of_fragment = |(id, offsets): (&FragmentId, &DeletionVector)| {
            offsets.iter().map(|offset| RowAddress::new(*id, offset)).collect::<Vec<_>>()
        };
        Some(offsets.iter().flat_map(of_fragment).collect())
    }

    fn contains(&self, address: RowAddress) -> bool {
        self.fragments.contains(address.fragment().0)
            && self.offsets.as_ref().is_none_or(|offsets| {
                offsets.get(&address.fragment()).is_some_and(|offsets| offsets.contains(address.offset()))
            })
    }
}

/// Whether [`choose`] needs no other thread: all segments that it looks at are local files that are open.
pub(super) fn are_open(snapshot: &Snapshot, entries: &[IndexMetadata], field: FieldId) -> bool {
    let is_open = |s: &Segment| s.kind != IndexKind::Vector || s.field != field || s.is_open(snapshot);
    is_brief_listing(snapshot, entries)
        && all_segments(snapshot, entries).is_ok_and(|segments| segments.iter().all(is_open))
}

/// The index that is searched for vectors of a column by a metric: of several the one that covers most. May block on the
/// store. A segment that cannot be read is passed over, unless `strict`: that is an error then.
pub(super) fn choose(
    snapshot: &Arc<Snapshot>,
    entries: &[IndexMetadata],
    field: FieldId,
    metric: Metric,
    strict: bool,
) -> Result<Option<VectorSearch>> {
    if strict {
        check_versions(entries, &[field])?;
    }
    let mut unreadable: Vec<String> = Vec::new();
    let mut found: Vec<VectorSearch> = Vec::new();
    for segment in all_segments(snapshot, entries)?.iter() {
        if segment.kind != IndexKind::Vector || segment.field != field {
            continue;
        }
        let index = match segment.open_vectors(snapshot) {
            Ok(index) => index,
            Err(error) if !strict && is_about_the_index(&error) => {
                pass_over(snapshot, &segment.name, segment.uuid, &error);
                unreadable.push(segment.name.clone());
                continue;
            }
            Err(error) => return Err(error),
        };
        if index.metric() != metric {
            continue;
        }
        let of_name = match found.iter().position(|search| search.name == segment.name) {
            Some(at) => found.get_mut(at),
            None => {
                let (name, kind) = (segment.name.clone(), index.kind().name());
                let (segments, covered) = (Vec::new(), RoaringBitmap::new());
                found.push(VectorSearch { name, kind, segments, covered, is_incomplete: false });
                found.last_mut()
            }
        };
        if let Some(search) = of_name {
            search.covered |= &segment.covered;
            search.segments.push((segment.clone(), index));
        }
    }
    let best = found.into_iter().max_by_key(|search| search.covered.len());
    Ok(best.map(|search| VectorSearch { is_incomplete: unreadable.contains(&search.name), ..search }))
}

impl VectorSearch {
    /// Whether distances are those of the vectors, rather than of what the index kept of them.
    pub(super) fn is_exact(&self) -> bool {
        let is_exact = |kind| matches!(kind, VectorIndexKind::IvfFlat | VectorIndexKind::IvfHnswFlat);
        self.segments.iter().all(|(_, index)| is_exact(index.kind()))
    }

    /// Names its first segment.
    pub(super) fn uuid(&self) -> Uuid {
        self.segments.first().map_or(Uuid::nil(), |(segment, _)| segment.uuid)
    }

    /// Partitions that are searched at first, for plans.
    pub(super) fn first_probes(&self, request: &IndexRequest) -> usize {
        let of_segment = |(_, index): &(_, Arc<VectorIndex>)| {
            request.probes.range(request.rows, index.num_partitions()).first
        };
        self.segments.iter().map(of_segment).sum()
    }

    /// Bytes that a search for queries looks at, about and at most.
    pub(super) fn expected_bytes(&self, queries: &[Vec<ArrayRef>], request: &IndexRequest) -> u64 {
        let of_segment = |(_, index): &(Segment, Arc<VectorIndex>)| {
            let probes = request.probes.range(request.rows, index.num_partitions());
            // Where not every row counts, partitions are searched until enough are found.
            index.searched_bytes(if request.is_unrestricted() { probes.first } else { probes.most })
        };
        let vectors = to_u64(queries.iter().map(Vec::len).sum());
        self.segments.iter().map(of_segment).fold(0, u64::saturating_add).saturating_mul(vectors)
    }

    /// For each query its nearest rows, the nearest first. A query is one vector or several; a row may be found for each
    /// of these. Blocks on the store.
    pub(super) fn nearest(
        &self,
        snapshot: &Arc<Snapshot>,
        queries: &[Vec<ArrayRef>],
        request: &IndexRequest,
    ) -> Result<Vec<Vec<Neighbor>>> {
        each_concurrently(processors(), queries, |query| {
            let mut found = Vec::new();
            for (segment, index) in &self.segments {
                for vector in query {
                    found.extend(nearest_in(snapshot, segment, index, vector, request)?);
                }
            }
            Ok(merged(found, query, request))
        })
    }

    /// As [`Self::nearest`], brief and without the store: by graphs that the session has. `None` where there are none,
    /// where some of their rows do not count, or where they do not lead to enough rows.
    pub(super) fn followed(
        &self,
        snapshot: &Arc<Snapshot>,
        queries: &[Vec<ArrayRef>],
        request: &IndexRequest,
    ) -> Result<Option<Vec<Vec<Neighbor>>>> {
        let follows = |(segment, index): &(Segment, Arc<VectorIndex>)| {
            index.num_partitions() == 1 && segment.covered.is_subset(&request.allowed.fragments)
        };
        if !request.is_unrestricted() || !self.segments.iter().all(follows) {
            return Ok(None);
        }
        let of_segment = |(_, index): &(_, Arc<VectorIndex>)| index.followed_bytes(request.rows, request.ef);
        let bytes: Option<u64> = self.segments.iter().map(of_segment).sum();
        let vectors = to_u64(queries.iter().map(Vec::len).sum());
        if !bytes.is_some_and(|bytes| is_brief_search(snapshot, bytes.saturating_mul(vectors))) {
            return Ok(None);
        }
        let mut results = Vec::with_capacity(queries.len());
        for query in queries {
            let mut found = Vec::new();
            for (segment, index) in &self.segments {
                for vector in query {
                    let Some(rows) = followed_in(snapshot, segment, index, vector, request)? else {
                        return Ok(None);
                    };
                    found.extend(rows);
                }
            }
            results.push(merged(found, query, request));
        }
        Ok(Some(results))
    }
}

/// What was found for the vectors of a query in all segments, the nearest first; of one vector as many rows as are wanted.
fn merged(mut found: Vec<Neighbor>, query: &[ArrayRef], request: &IndexRequest) -> Vec<Neighbor> {
    found.sort_unstable();
    if let [_] = query
        && !request.keeps_nearer()
    {
        found.truncate(request.rows);
    }
    found
}

/// The nearest rows to one vector in a segment.
fn nearest_in(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    index: &VectorIndex,
    vector: &ArrayRef,
    request: &IndexRequest,
) -> Result<Vec<Neighbor>> {
    let query = index.prepare(vector)?.with_ef(request.ef);
    let ranked: Vec<u32> = index.ranked(&query)?.into_iter().map(|(partition, _)| partition).collect();
    let probes = request.probes.range(request.rows, ranked.len());
    let mut nearest = request.neighbors();
    let (mut start, mut end) = (0, probes.first.min(ranked.len()));
    loop {
        let wanted = ranked.get(start..end).unwrap_or_default();
        for (number, partition) in wanted.iter().zip(segment.partitions(snapshot, index, wanted)?) {
            let counted = counted_rows(snapshot, segment, *number, &partition)?;
            let bits = bits(segment, &partition, &counted, &request.allowed);
            let mask = bits.as_deref().map_or(RowMask::All, RowMask::Bits);
            index.search(&query, &partition, mask, &mut nearest)?;
        }
        // None is ranked for a query without distances.
        if nearest.len() >= request.rows || end >= probes.most.min(ranked.len()) {
            break;
        }
        (start, end) = (end, (2 * end).min(probes.most));
    }
    located(snapshot, segment, nearest)
}

/// The nearest rows to one vector in a segment of one partition, by its graph; `None` if that must be read first, if some of
/// its rows do not count, or if the graph does not lead to enough.
fn followed_in(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    index: &VectorIndex,
    vector: &ArrayRef,
    request: &IndexRequest,
) -> Result<Option<Vec<Neighbor>>> {
    let Some(partition) = segment.fully_counted_partition(snapshot, 0) else { return Ok(None) };
    let query = index.prepare(vector)?.with_ef(request.ef);
    let mut nearest = request.neighbors();
    if index.follow(&query, &partition, &mut nearest)? {
        located(snapshot, segment, nearest).map(Some)
    } else {
        Ok(None)
    }
}

/// The rows that were found in a segment, with their addresses.
fn located(snapshot: &Arc<Snapshot>, segment: &Segment, nearest: Neighbors) -> Result<Vec<Neighbor>> {
    let found = nearest.into_sorted();
    let ids: Vec<u64> = found.iter().map(|row| row.id).collect();
    let addresses = covered_rows(snapshot, segment, &ids)?;
    let has_addresses = segment.has_addresses(snapshot);
    let resolved = found.into_iter().zip(addresses).map(|(row, address)| {
        let address = address.ok_or_else(|| Error::internal("a row was found that does not count"))?.0;
        Ok(Neighbor { id: if has_addresses { address } else { row.id }, address, ..row })
    });
    resolved.collect()
}

/// Which rows of a partition are live in fragments that the segment covers. The session keeps it for the version.
fn counted_rows(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    number: u32,
    partition: &VectorPartition,
) -> Result<Arc<CountedRows>> {
    segment.counted_rows(snapshot, number, || {
        let addresses = covered_rows(snapshot, segment, partition.row_ids())?;
        Ok(CountedRows::new(partition.row_ids(), &addresses))
    })
}

/// The rows of a partition that may be found, a bit for each; `None` if all may.
fn bits<'a>(
    segment: &Segment,
    partition: &VectorPartition,
    counted: &'a CountedRows,
    allowed: &AllowedRows,
) -> Option<Cow<'a, [u64]>> {
    if allowed.offsets.is_none() && segment.covered.is_subset(&allowed.fragments) {
        return counted.bits().map(Cow::Borrowed);
    }
    Some(Cow::Owned(counted.bits_where(partition.row_ids(), |address| allowed.contains(address))))
}
