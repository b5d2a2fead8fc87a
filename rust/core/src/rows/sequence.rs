//! The stable ids of a fragment's physical rows, in order (table format 4.1 to 4.3).
//!
//! A sequence is often one range, and may be 200,000 of them: positions are found by bisection, ids by the bounds of
//! the segments. Ids are handed out in blocks.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use super::segment::{Segment, choose_runs, choose_several};
use super::{BLOCK, to_index};
use crate::deletion::DeletionVector;
use crate::wire::rows::{decode_row_ids, encode_row_ids};
use crate::{Error, Result, RowId};

/// So many segments are searched one by one.
const FEW: usize = 8;

/// Row ids by position.
///
/// ```
/// use pennon_core::RowId;
/// use pennon_core::rows::RowIdSequence;
/// let mut ids = RowIdSequence::from_range(10..20);
/// ids.append(RowIdSequence::from_slice(&[4, 14]));
/// assert_eq!((ids.len(), ids.get(11), ids.position(RowId(4))), (12, Some(RowId(14)), Some(10)));
/// assert_eq!(RowIdSequence::decode(&ids.encode())?, ids);
/// # Ok::<(), pennon_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RowIdSequence {
    segments: Vec<Segment>,
    /// Position of the first id of each segment.
    starts: Vec<u64>,
    len: u64,
    order: OnceLock<Box<Order>>,
}

/// Segments by their smallest id, made when an id is looked up among many.
#[derive(Debug, Clone)]
struct Order {
    by_min: Box<[u32]>,
    /// Largest id of these segments and all before them.
    reach: Box<[u64]>,
}

impl PartialEq for RowIdSequence {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl RowIdSequence {
    /// Decodes the message. The form of every segment is kept. Errors: `Corrupt`.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let segments = decode_row_ids(bytes)?;
        let mut starts = Vec::with_capacity(segments.len());
        let mut len = 0_u64;
        for segment in &segments {
            starts.push(len);
            len = len.checked_add(segment.len()).ok_or_else(|| Error::corrupt("more than 2^64 row ids"))?;
        }
        Ok(Self { segments, starts, len, order: OnceLock::new() })
    }

    /// Encodes the message: the same bytes if nothing was changed.
    pub fn encode(&self) -> Bytes {
        encode_row_ids(&self.segments)
    }

    /// Consecutive ids.
    pub fn from_range(ids: Range<u64>) -> Self {
        let mut sequence = Self::empty();
        sequence.push(Segment::range(ids));
        sequence
    }

    /// Any ids, in the smallest form: one segment, or several where the gaps are wide.
    pub fn from_slice(ids: &[u64]) -> Self {
        let mut sequence = Self::empty();
        choose_several(ids, |segment| sequence.push(segment));
        sequence
    }

    /// Any ids, each once. Errors: `InvalidInput` naming a duplicate.
    pub fn from_unique(ids: &[u64]) -> Result<Self> {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let duplicate = sorted.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(*a),
            _ => None,
        });
        match duplicate {
            None => Ok(Self::from_slice(ids)),
            Some(id) => Err(Error::invalid_input(format!(
                "Row ids must be unique, but row id {id} appears more than once in the sequence of {} row ids",
                ids.len()
            ))),
        }
    }

    /// No ids.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Number of ids.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id at a position.
    pub fn get(&self, position: u64) -> Option<RowId> {
        let at = self.segment_of(position)?;
        self.segments.get(at)?.get(position - self.starts.get(at)?).map(RowId)
    }

    /// The segment that holds a position.
    fn segment_of(&self, position: u64) -> Option<usize> {
        if position >= self.len {
            return None;
        }
        // The last one that starts there: those before it are empty.
        self.starts.partition_point(|&start| start <= position).checked_sub(1)
    }

    /// All ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let starts = (0..self.len.div_ceil(BLOCK)).map(|block| block * BLOCK);
        starts.flat_map(|start| {
            let mut block = Vec::new();
            self.extend_into(start..start.saturating_add(BLOCK), &mut block);
            block
        })
    }

    /// Appends the ids at the positions, clipped to what there is, to `out`.
    pub fn extend_into(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        out.reserve(to_index(positions.end.min(self.len).saturating_sub(positions.start)));
        for (at, within) in self.pieces(positions) {
            self.segments.get(at).into_iter().for_each(|segment| segment.append_to(within.clone(), out));
        }
    }

    /// Gives the ids at the positions in order as runs from first to last; a run may continue in the next.
    pub(super) fn runs_in(&self, positions: Range<u64>, mut run: impl FnMut(u64, u64)) {
        for (at, within) in self.pieces(positions) {
            self.segments.get(at).into_iter().for_each(|segment| segment.runs(within.clone(), &mut run));
        }
    }

    /// The segments that have some of the positions, with the positions within each.
    fn pieces(&self, positions: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let end = positions.end.min(self.len);
        let first = self.segment_of(positions.start).filter(|_| positions.start < end);
        let starts = self.starts.iter().enumerate().skip(first.unwrap_or(self.starts.len()));
        starts.take_while(move |(_, start)| **start < end).map(move |(at, &start)| {
            let next = self.starts.get(at + 1).copied().unwrap_or(self.len);
            (at, positions.start.saturating_sub(start)..end.min(next) - start)
        })
    }

    /// The first position of an id.
    pub fn position(&self, id: RowId) -> Option<u64> {
        let find = |at: usize| Some(self.starts.get(at)? + self.segments.get(at)?.position(id.0)?);
        if self.segments.len() <= FEW {
            return (0..self.segments.len()).find_map(find);
        }
        let order = self.order.get_or_init(|| Box::new(self.sort()));
        let min = |at: &u32| self.bounds_of(*at).map(|(min, _)| min);
        let end = order.by_min.partition_point(|at| min(at) <= Some(id.0));
        let (by_min, reach) = (order.by_min.get(..end)?, order.reach.get(..end)?);
        let candidates = by_min.iter().zip(reach).rev();
        candidates
            .take_while(|(_, reach)| **reach >= id.0)
            .filter_map(|(&at, _)| find(to_index(at.into())))
            .min()
    }

    fn bounds_of(&self, at: u32) -> Option<(u64, u64)> {
        self.segments.get(to_index(at.into()))?.bounds()
    }

    fn sort(&self) -> Order {
        let numbered = self.segments.iter().zip(0_u32..);
        let mut bounds: Vec<(u64, u64, u32)> =
            numbered.filter_map(|(segment, at)| segment.bounds().map(|(min, max)| (min, max, at))).collect();
        bounds.sort_unstable();
        let by_min = bounds.iter().map(|(.., at)| *at).collect();
        let reach = bounds.iter().scan(0, |reach: &mut u64, (_, max, _)| {
            *reach = (*reach).max(*max);
            Some(*reach)
        });
        Order { reach: reach.collect(), by_min }
    }

    /// Whether an id is there.
    pub fn contains(&self, id: RowId) -> bool {
        self.position(id).is_some()
    }

    /// Whether each id is larger than the one before.
    pub fn ascends(&self) -> bool {
        let mut segments = self.segments.iter().filter(|segment| segment.len() > 0);
        let mut before = None;
        segments.all(|segment| {
            let follows = before < segment.get(0);
            before = segment.get(segment.len() - 1);
            follows && segment.ascends()
        })
    }

    /// Bounds of the ids; they may be wider than the ids are.
    pub fn min_max(&self) -> Option<(u64, u64)> {
        let mut bounds = self.segments.iter().filter_map(Segment::bounds);
        let first = bounds.next()?;
        Some(bounds.fold(first, |(min, max), (low, high)| (min.min(low), max.max(high))))
    }

    /// A segment and its first position.
    pub(super) fn segment_at(&self, at: u32) -> Option<(&Segment, u64)> {
        Some((self.segments.get(to_index(at.into()))?, *self.starts.get(to_index(at.into()))?))
    }

    /// The ids at these positions, clipped to what there is.
    #[must_use]
    pub fn slice(&self, positions: Range<u64>) -> Self {
        let mut sliced = Self::empty();
        for (at, within) in self.pieces(positions) {
            let Some(segment) = self.segments.get(at) else { continue };
            segment.select(std::iter::once(within), |part| sliced.push(part));
        }
        sliced
    }

    /// Adds the ids of another sequence. Ranges that continue each other become one.
    pub fn append(&mut self, other: Self) {
        other.segments.into_iter().for_each(|segment| self.push(segment));
    }

    pub(super) fn push(&mut self, segment: Segment) {
        let added = segment.len();
        if added == 0 {
            return;
        }
        self.order = OnceLock::new();
        let joined = self.segments.last().and_then(|last| {
            let (last, next) = (last.as_range()?, segment.as_range()?);
            (last.end == next.start).then(|| Segment::range(last.start..next.end))
        });
        match (joined, self.segments.last_mut()) {
            (Some(joined), Some(last)) => *last = joined,
            _ => {
                self.starts.push(self.len);
                self.segments.push(segment);
            }
        }
        self.len = self.len.saturating_add(added);
    }

    /// Without the ids at deleted positions.
    #[must_use]
    pub fn mask(&self, deleted: &DeletionVector) -> Self {
        if deleted.is_empty() {
            return self.clone();
        }
        let mut masked = Self::empty();
        for (segment, &start) in self.segments.iter().zip(&self.starts) {
            let positions = start..start + segment.len();
            match deleted.count_in(positions.clone()) {
                0 => {
                    masked.push(segment.clone());
                    continue;
                }
                all if all == segment.len() => continue,
                _ => {}
            }
            let live = deleted.live_ranges(positions);
            let within = live.map(|range| range.start - start..range.end - start);
            segment.select(within, |part| masked.push(part));
        }
        masked
    }

    /// Without the ids that are not in another sequence.
    ///
    /// ```
    /// use pennon_core::rows::RowIdSequence;
    /// let ids = RowIdSequence::from_slice(&[9, 3, 5]);
    /// assert_eq!(ids.intersect(&RowIdSequence::from_range(4..10)), RowIdSequence::from_slice(&[9, 5]));
    /// ```
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut common = Self::empty();
        if self.ascends() && other.ascends() {
            let mut theirs = Vec::new();
            other.runs_in(0..other.len, |first, last| theirs.push((first, last)));
            let mut next = 0;
            let mut kept: Vec<(u64, u64)> = Vec::new();
            self.runs_in(0..self.len, |first, last| {
                let rest = theirs.get(next..).unwrap_or_default();
                next += rest.partition_point(|(_, end)| *end < first);
                let overlapping =
                    theirs.get(next..).unwrap_or_default().iter().take_while(|(start, _)| *start <= last);
                kept.extend(overlapping.map(|(start, end)| (*start.max(&first), *end.min(&last))));
            });
            choose_runs(&kept.as_slice(), |segment| common.push(segment));
            return common;
        }
        common.append(self.iter().filter(|id| other.contains(RowId(*id))).collect());
        common
    }
}

impl FromIterator<u64> for RowIdSequence {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> Self {
        Self::from_slice(&ids.into_iter().collect::<Vec<_>>())
    }
}
