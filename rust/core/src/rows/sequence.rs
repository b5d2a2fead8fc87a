//! The stable ids of a fragment's physical rows, in order (table format 4.1 to 4.3).
//!
//! A sequence is often one range, and may be 200,000 of them: positions are found by bisection.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;

use super::segment::{Segment, choose};
use crate::deletion::DeletionVector;
use crate::wire::{decode_message, table};
use crate::{Error, Result, RowId};

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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowIdSequence {
    segments: Vec<Segment>,
    /// Position of the first value of each segment.
    starts: Vec<u64>,
    len: u64,
}

impl RowIdSequence {
    fn new(segments: Vec<Segment>) -> Result<Self> {
        let mut starts = Vec::with_capacity(segments.len());
        let mut len = 0_u64;
        for segment in &segments {
            starts.push(len);
            len = len.checked_add(segment.len()).ok_or_else(|| Error::corrupt("more than 2^64 row ids"))?;
        }
        Ok(Self { segments, starts, len })
    }

    /// Decodes the message. The form of every segment is kept. Errors: `Corrupt`.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let wire: table::RowIdSequence = decode_message("row id sequence", bytes.clone())?;
        let numbered = wire.segments.into_iter().enumerate();
        let segments =
            numbered.map(|(at, s)| Segment::try_from(s).map_err(|e| e.at(format!("segment {at}"))));
        Self::new(segments.collect::<Result<_>>()?)
    }

    /// Encodes the message: the same bytes if nothing was changed.
    pub fn encode(&self) -> Bytes {
        table::RowIdSequence { segments: self.segments.iter().map(Into::into).collect() }
            .encode_to_vec()
            .into()
    }

    /// Consecutive ids.
    pub fn from_range(ids: Range<u64>) -> Self {
        let len = ids.end.saturating_sub(ids.start);
        Self { segments: vec![Segment::Range(ids.start..ids.start + len)], starts: vec![0], len }
    }

    /// Any ids, as one segment of the smallest form.
    pub fn from_slice(ids: &[u64]) -> Self {
        Self { segments: vec![choose(ids)], starts: vec![0], len: super::to_u64(ids.len()) }
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
        self.segments
            .iter()
            .flat_map(|segment| (0..segment.len()).filter_map(|position| segment.get(position)))
    }

    /// Appends the ids at the positions, clipped to what there is, to `out`.
    pub fn extend_into(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        let Some(first) = self.segment_of(positions.start) else { return };
        let rest = self.segments.iter().zip(&self.starts).skip(first);
        for (segment, &start) in rest.take_while(|(_, start)| **start < positions.end) {
            segment.extend_into(positions.start.saturating_sub(start)..positions.end - start, out);
        }
    }

    /// The first position of an id.
    pub fn position(&self, id: RowId) -> Option<u64> {
        self.segments
            .iter()
            .zip(&self.starts)
            .find_map(|(segment, start)| Some(start + segment.position(id.0)?))
    }

    /// Whether an id is there.
    pub fn contains(&self, id: RowId) -> bool {
        self.position(id).is_some()
    }

    /// Bounds of the ids; they may be wider than the ids are.
    pub fn min_max(&self) -> Option<(u64, u64)> {
        let mut bounds = self.segments.iter().filter_map(Segment::bounds);
        let first = bounds.next()?;
        Some(bounds.fold(first, |(min, max), (low, high)| (min.min(low), max.max(high))))
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = (&Segment, u64)> {
        self.segments.iter().zip(self.starts.iter().copied())
    }

    /// A segment and its first position.
    pub(super) fn segment_at(&self, at: usize) -> Option<(&Segment, u64)> {
        Some((self.segments.get(at)?, *self.starts.get(at)?))
    }

    /// The ids at these positions, clipped to what there is.
    #[must_use]
    pub fn slice(&self, positions: Range<u64>) -> Self {
        let mut sliced = Self::empty();
        for (segment, start) in self.segments() {
            let end = start + segment.len();
            let (from, to) = (positions.start.max(start), positions.end.min(end));
            if from < to {
                sliced.push(segment.slice(from - start..to - start));
            }
        }
        sliced
    }

    /// Adds the ids of another sequence. Ranges that continue each other become one.
    pub fn append(&mut self, other: Self) {
        other.segments.into_iter().for_each(|segment| self.push(segment));
    }

    fn push(&mut self, segment: Segment) {
        if segment.len() == 0 {
            return;
        }
        if let (Some(Segment::Range(last)), Segment::Range(next)) = (self.segments.last_mut(), &segment)
            && last.end == next.start
        {
            self.len += next.end - next.start;
            last.end = next.end;
            return;
        }
        self.starts.push(self.len);
        self.len = self.len.saturating_add(segment.len());
        self.segments.push(segment);
    }

    /// Without the ids at deleted positions.
    #[must_use]
    pub fn mask(&self, deleted: &DeletionVector) -> Self {
        if deleted.is_empty() {
            return self.clone();
        }
        let mut masked = Self::empty();
        for (segment, start) in self.segments() {
            let positions = start..start + segment.len();
            let mut live =
                deleted.live_ranges(positions.clone()).map(|r| r.start - start..r.end - start).peekable();
            if live.peek().is_some_and(|first| *first == (0..segment.len())) {
                masked.push(segment.clone());
                continue;
            }
            let mut values = Vec::new();
            live.for_each(|range| segment.extend_into(range, &mut values));
            masked.push(choose(&values));
        }
        masked
    }
}
