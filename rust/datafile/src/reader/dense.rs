//! Many small ranges close to each other, as scattered deletions leave them: it costs less to decode the rows
//! between the ranges as well and to drop them at the end, in one pass, than to read each range by itself.

use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

/// Fewer ranges than this are read one by one.
const MANY: usize = 64;
/// Ranges with more rows than this on average are read one by one.
const SHORT: u64 = 16;
/// Ranges farther apart are not joined.
const GAP: u64 = 16;
/// At most so many rows are decoded for each one that is kept.
const WASTE: u64 = 4;
/// Rows with more bytes than this in the file are too expensive to be decoded and dropped.
pub(super) const MAX_ROW_BYTES: u64 = 64;

/// Rows to decode, and which of them are wanted.
#[derive(Debug)]
pub(super) struct Dense {
    /// Rows to decode.
    pub rows: RowRanges,
    wanted: FilterPredicate,
}

impl Dense {
    /// The rows to decode instead of these, if that is cheaper.
    pub(super) fn around(rows: &RowRanges) -> Option<Self> {
        let (total, ranges) = (rows.count(), rows.as_slice().len());
        if ranges < MANY || total > SHORT * ranges as u64 {
            return None;
        }
        let joined = rows.with_gaps(GAP);
        let covered = joined.count();
        if covered > WASTE * total || joined.as_slice().len() > ranges / 4 {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(usize::try_from(covered).ok()?);
        let mut last: Option<u64> = None;
        for range in rows {
            // Rows between two joined ranges are not decoded at all.
            let gap = range.start - last.unwrap_or(range.start);
            if gap <= GAP {
                bits.append_n(usize::try_from(gap).ok()?, false);
            }
            bits.append_n(usize::try_from(range.end - range.start).ok()?, true);
            last = Some(range.end);
        }
        let wanted = FilterBuilder::new(&BooleanArray::new(bits.finish(), None)).optimize().build();
        Some(Self { rows: joined, wanted })
    }

    /// Drops the rows that are not wanted.
    pub(super) fn keep(&self, array: &ArrayRef) -> Result<ArrayRef> {
        self.wanted
            .filter(array.as_ref())
            .map_err(|e| Error::internal(format!("dropping rows that were not asked for: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, UInt64Array};

    use super::*;

    #[test]
    fn what_is_kept_is_what_was_asked_for() {
        let odd: RowRanges = (0..300).map(|i| 2 * i + 1..2 * i + 2).collect();
        let far = odd.union(&(0..100).map(|i| 10_000 + 5 * i..10_003 + 5 * i).collect());
        let touching: RowRanges = (0..200).map(|i| 3 * i..3 * i + 3 - i % 2).collect();
        for rows in [odd, far, touching] {
            let dense = Dense::around(&rows).unwrap();
            assert!(dense.rows.as_slice().len() < 4);
            let decoded: UInt64Array = dense.rows.rows().collect::<Vec<_>>().into();
            let kept = dense.keep(&(Arc::new(decoded) as ArrayRef)).unwrap();
            let wanted: UInt64Array = rows.rows().collect::<Vec<_>>().into();
            assert_eq!(kept.to_data(), wanted.to_data());
        }
    }

    #[test]
    fn few_or_long_or_distant_ranges_stay() {
        assert!(Dense::around(&RowRanges::from([0..1, 2..3])).is_none());
        assert!(Dense::around(&(0..100).map(|i| 100 * i..100 * i + 99).collect()).is_none());
        assert!(Dense::around(&(0..100).map(|i| 10 * i..10 * i + 1).collect()).is_none());
        assert!(Dense::around(&(0..100).map(|i| 100 * i..100 * i + 1).collect()).is_none());
    }
}
