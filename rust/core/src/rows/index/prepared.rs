//! One fragment's ids, ready to be looked up.
//!
//! Segments that do not overlap are bisected by their bounds. Others (shuffled arrays, interleaved segments) are
//! expanded into a sorted list.

use crate::RowId;
use crate::rows::RowIdSequence;
use crate::rows::segment::Segment;

/// A sequence with an order to search in.
#[derive(Debug)]
pub(super) enum Prepared {
    /// Bounds and number of each segment, ascending and disjoint.
    Segments { sequence: RowIdSequence, order: Vec<(u64, u64, usize)> },
    /// Id and position, sorted.
    Expanded(Vec<(u64, u64)>),
}

impl Prepared {
    pub(super) fn new(sequence: RowIdSequence) -> Self {
        let mut order = Vec::new();
        let mut searchable = true;
        for (at, (segment, _)) in sequence.segments().enumerate() {
            searchable &= !matches!(segment, Segment::Array(_));
            order.extend(segment.bounds().map(|(min, max)| (min, max, at)));
        }
        order.sort_unstable();
        let disjoint = order.windows(2).all(|pair| matches!(pair, [a, b] if a.1 < b.0));
        if searchable && disjoint {
            return Self::Segments { sequence, order };
        }
        let mut ids: Vec<(u64, u64)> = sequence.iter().zip(0..).collect();
        ids.sort_unstable();
        Self::Expanded(ids)
    }

    /// The position of an id.
    pub(super) fn position(&self, id: RowId) -> Option<u64> {
        match self {
            Self::Segments { sequence, order } => {
                let at = order.partition_point(|(min, ..)| *min <= id.0).checked_sub(1)?;
                let (_, max, segment) = *order.get(at)?;
                if id.0 > max {
                    return None;
                }
                let (segment, start) = sequence.segment_at(segment)?;
                Some(start + segment.position(id.0)?)
            }
            Self::Expanded(ids) => {
                let at = ids.partition_point(|(value, _)| *value < id.0);
                ids.get(at).filter(|(value, _)| *value == id.0).map(|(_, position)| *position)
            }
        }
    }
}
