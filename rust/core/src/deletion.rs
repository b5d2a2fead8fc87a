//! Deleted offsets of one fragment (table format, section 5).
//!
//! A set of 32-bit offsets with the questions a scan asks: which ranges live, how many were deleted before, where the
//! n-th live row is. A roaring bitmap below: its containers are sorted arrays while they are sparse.

use std::ops::Range;

use roaring::RoaringBitmap;

/// The deleted offsets of a fragment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeletionVector(RoaringBitmap);

impl DeletionVector {
    /// Nothing is deleted.
    pub fn empty() -> Self {
        Self::default()
    }

    /// From a bitmap of offsets.
    pub fn from_roaring(bitmap: RoaringBitmap) -> Self {
        Self(bitmap)
    }

    /// As a bitmap of offsets.
    pub fn to_roaring(&self) -> RoaringBitmap {
        self.0.clone()
    }

    /// Number of deleted rows.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the row at an offset is deleted.
    pub fn contains(&self, offset: u32) -> bool {
        self.0.contains(offset)
    }

    /// Rows deleted in one of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// Rows deleted in any of several vectors.
    #[must_use]
    pub fn union_all<'a>(vectors: impl IntoIterator<Item = &'a Self>) -> Self {
        vectors.into_iter().fold(Self::empty(), |mut all, vector| {
            all.0 |= &vector.0;
            all
        })
    }

    /// Rows deleted here and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Whether a row is deleted in both.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Number of deleted rows before an offset.
    pub fn rank(&self, offset: u32) -> u64 {
        offset.checked_sub(1).map_or(0, |before| self.0.rank(before))
    }

    /// Number of deleted rows in a range of offsets.
    pub fn count_in(&self, offsets: Range<u64>) -> u64 {
        let Some(first) = u32::try_from(offsets.start).ok().filter(|_| !offsets.is_empty()) else { return 0 };
        let last = u32::try_from(offsets.end - 1).unwrap_or(u32::MAX);
        self.0.range_cardinality(first..=last)
    }

    /// The deleted offsets, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter()
    }

    /// The ranges of offsets within a range that are not deleted, ascending and as long as possible.
    ///
    /// ```
    /// use pennon_core::deletion::DeletionVector;
    /// let deleted: DeletionVector = [2, 3, 7].into_iter().collect();
    /// assert_eq!(deleted.live_ranges(1..8).collect::<Vec<_>>(), [1..2, 4..7]);
    /// ```
    pub fn live_ranges(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        // Offsets have 32 bits: what lies behind them cannot be deleted.
        let bounds = u32::try_from(within.start).ok().filter(|_| !within.is_empty());
        let last = u32::try_from(within.end.saturating_sub(1)).unwrap_or(u32::MAX);
        let mut deleted = bounds.map(|first| self.0.range(first..=last));
        let mut at = within.start;
        std::iter::from_fn(move || {
            while at < within.end {
                // Whole runs at a time: what is deleted together costs one step.
                let run = deleted.as_mut().and_then(|d| d.next_range());
                let live = at..run.as_ref().map_or(within.end, |run| u64::from(*run.start()));
                at = run.map_or(within.end, |run| u64::from(*run.end()) + 1);
                if !live.is_empty() {
                    return Some(live);
                }
            }
            None
        })
    }

    /// Offset of the row that is number `position`, from 0, among those not deleted.
    ///
    /// ```
    /// use pennon_core::deletion::DeletionVector;
    /// let deleted: DeletionVector = [0, 2, 3].into_iter().collect();
    /// assert_eq!([0, 1, 2].map(|n| deleted.live_offset(n)), [1, 4, 5]);
    /// ```
    pub fn live_offset(&self, position: u64) -> u64 {
        // Live rows before the n-th deleted offset: that offset less n. Those with no more of them than `position`
        // come before the row.
        let before = |n: u32| {
            let deleted = self.0.select(n)?;
            Some(u64::from(deleted).saturating_sub(u64::from(n)) <= position)
        };
        let (mut low, mut high) = (0_u64, self.0.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if u32::try_from(middle).ok().and_then(before).unwrap_or(false) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        position.saturating_add(low)
    }

    /// Takes a range of offsets out of the set.
    pub fn remove_range(&mut self, range: Range<u32>) {
        self.0.remove_range(range);
    }
}

impl FromIterator<u32> for DeletionVector {
    fn from_iter<I: IntoIterator<Item = u32>>(offsets: I) -> Self {
        Self(offsets.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set(deleted in proptest::collection::btree_set(0..200_u32, 0..120), from in 0..200_u64, len in 0..200_u64) {
            let vector: DeletionVector = deleted.iter().copied().collect();
            let live: Vec<u64> = (0..400).filter(|&o| !deleted.contains(&u32::try_from(o).unwrap())).collect();
            let ranges: Vec<_> = vector.live_ranges(from..from + len).collect();
            let found: Vec<u64> = ranges.iter().cloned().flatten().collect();
            let expected: Vec<u64> = live.iter().copied().filter(|&o| (from..from + len).contains(&o)).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            for (position, &offset) in live.iter().enumerate() {
                prop_assert_eq!(vector.live_offset(u64::try_from(position).unwrap()), offset);
            }
            for offset in 0..210 {
                prop_assert_eq!(vector.rank(offset), u64::try_from(deleted.range(..offset).count()).unwrap());
            }
        }
    }

    /// Deleted runs are stepped over, not walked: a million rows deleted together, and asked for many times.
    #[test]
    fn a_long_deleted_run_costs_one_step() {
        let mut bitmap = RoaringBitmap::new();
        bitmap.insert_range(0..3_000_000);
        bitmap.insert_range(4_000_000..4_100_000);
        for optimized in [false, true] {
            if optimized {
                bitmap.optimize();
            }
            let vector = DeletionVector::from_roaring(bitmap.clone());
            assert_eq!(
                vector.live_ranges(1_000_000..5_000_000).collect::<Vec<_>>(),
                [3_000_000..4_000_000, 4_100_000..5_000_000]
            );
            for position in 0..1_000 {
                assert_eq!(vector.live_offset(position), 3_000_000 + position);
                assert_eq!(vector.live_offset(1_000_000 + position), 4_100_000 + position);
            }
        }
    }

    #[test]
    fn sets() {
        let vector = |offsets: &[u32]| offsets.iter().copied().collect::<DeletionVector>();
        let (one, two) = (vector(&[1, 2]), vector(&[2, 9]));
        assert_eq!(one.union(&two), vector(&[1, 2, 9]));
        assert_eq!(DeletionVector::union_all([&one, &two, &one]), vector(&[1, 2, 9]));
        assert_eq!(one.difference(&two), vector(&[1]));
        assert!(one.intersects(&two) && !one.intersects(&vector(&[3])));
        let edge = vector(&[0, u32::MAX]);
        assert_eq!(edge.live_ranges(0..1 << 32).collect::<Vec<_>>(), [1..u64::from(u32::MAX)]);
        assert_eq!(edge.iter().collect::<BTreeSet<_>>().len(), 2);
        assert_eq!(edge.live_ranges(1 << 32..1 << 33).collect::<Vec<_>>(), [1 << 32..1 << 33]);
        assert_eq!(edge.live_offset(u64::from(u32::MAX) - 1), 1 << 32);
    }
}
