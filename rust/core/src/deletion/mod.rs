//! Deleted offsets of one fragment (table format, section 5).
//!
//! A set of 32-bit offsets with the queries of a scan: which ranges live, how many were deleted before, where the
//! n-th live row is. Few offsets are a sorted list, in which all of that is a bisection; more are a roaring bitmap.

#[cfg(test)]
mod tests;

use std::ops::Range;

use roaring::RoaringBitmap;

use crate::lengths::to_u64;

/// So many offsets are a list: 4 KiB.
const FEW: usize = 1024;
/// A bitmap becomes a list for a position for each so many offsets: that takes as long as walking it for the position.
const OFFSETS_PER_POSITION: u64 = 4096;

/// The deleted offsets of a fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletionVector(Form);

/// The number of offsets alone decides, so equal sets have equal forms.
#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// At most [`FEW`], ascending.
    List(Box<[u32]>),
    /// More.
    Bitmap(RoaringBitmap),
}

impl Default for DeletionVector {
    fn default() -> Self {
        Self(Form::List(Box::default()))
    }
}

impl DeletionVector {
    /// Nothing is deleted.
    pub fn empty() -> Self {
        Self::default()
    }

    /// From a bitmap of offsets.
    pub fn from_roaring(bitmap: RoaringBitmap) -> Self {
        let few = bitmap.len() <= to_u64(FEW);
        Self(if few { Form::List(bitmap.iter().collect()) } else { Form::Bitmap(bitmap) })
    }

    /// Ascending offsets.
    fn from_sorted(offsets: Vec<u32>) -> Self {
        if offsets.len() <= FEW {
            Self(Form::List(offsets.into()))
        } else {
            Self(Form::Bitmap(bitmap(&offsets)))
        }
    }

    /// As a bitmap of offsets.
    pub fn to_roaring(&self) -> RoaringBitmap {
        match &self.0 {
            Form::List(offsets) => bitmap(offsets),
            Form::Bitmap(bitmap) => bitmap.clone(),
        }
    }

    /// Number of deleted rows.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Form::List(offsets) => to_u64(offsets.len()),
            Form::Bitmap(bitmap) => bitmap.len(),
        }
    }

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::List(offsets) if offsets.is_empty())
    }

    /// The last deleted offset.
    pub fn last(&self) -> Option<u32> {
        match &self.0 {
            Form::List(offsets) => offsets.last().copied(),
            Form::Bitmap(bitmap) => bitmap.max(),
        }
    }

    /// Bytes it takes, about.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Form::List(offsets) => size_of_val(offsets.as_ref()),
            Form::Bitmap(bitmap) => bitmap.serialized_size(),
        }
    }

    /// Whether the row at an offset is deleted.
    pub fn contains(&self, offset: u32) -> bool {
        match &self.0 {
            Form::List(offsets) => offsets.binary_search(&offset).is_ok(),
            Form::Bitmap(bitmap) => bitmap.contains(offset),
        }
    }

    /// Rows deleted in one of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Form::Bitmap(left), Form::Bitmap(right)) => Self(Form::Bitmap(left | right)),
            (Form::List(left), Form::List(right)) => left.iter().chain(right.iter()).copied().collect(),
            (Form::Bitmap(many), Form::List(few)) | (Form::List(few), Form::Bitmap(many)) => {
                let mut all = many.clone();
                all.extend(few.iter().copied());
                Self(Form::Bitmap(all))
            }
        }
    }

    /// Rows deleted here and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Form::List(few), _) => {
                Self(Form::List(few.iter().copied().filter(|&offset| !other.contains(offset)).collect()))
            }
            (Form::Bitmap(many), Form::Bitmap(removed)) => Self::from_roaring(many - removed),
            (Form::Bitmap(many), Form::List(removed)) => {
                let mut rest = many.clone();
                removed.iter().for_each(|&offset| {
                    rest.remove(offset);
                });
                Self::from_roaring(rest)
            }
        }
    }

    /// Whether a row is deleted in both.
    pub fn intersects(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Bitmap(left), Form::Bitmap(right)) => !left.is_disjoint(right),
            (Form::List(few), _) => few.iter().any(|&offset| other.contains(offset)),
            (_, Form::List(few)) => few.iter().any(|&offset| self.contains(offset)),
        }
    }

    /// How many of some rows are deleted.
    ///
    /// ```
    /// use pennon_core::deletion::DeletionVector;
    /// use roaring::RoaringBitmap;
    /// let deleted: DeletionVector = [2, 3, 7].into_iter().collect();
    /// assert_eq!(deleted.count_among(&RoaringBitmap::from([1, 3, 7])), 2);
    /// ```
    pub fn count_among(&self, rows: &RoaringBitmap) -> u64 {
        match &self.0 {
            Form::List(few) => to_u64(few.iter().filter(|offset| rows.contains(**offset)).count()),
            Form::Bitmap(bitmap) => bitmap.intersection_len(rows),
        }
    }

    /// Number of deleted rows before an offset.
    pub fn rank(&self, offset: u32) -> u64 {
        match &self.0 {
            Form::List(offsets) => to_u64(offsets.partition_point(|&deleted| deleted < offset)),
            Form::Bitmap(bitmap) => offset.checked_sub(1).map_or(0, |before| bitmap.rank(before)),
        }
    }

    /// Number of deleted rows in a range of offsets.
    pub fn count_in(&self, offsets: Range<u64>) -> u64 {
        let Some((first, last)) = clip(&offsets) else { return 0 };
        match &self.0 {
            Form::List(list) => to_u64(within(list, first, last).len()),
            Form::Bitmap(bitmap) => bitmap.range_cardinality(first..=last),
        }
    }

    /// Number of deleted rows from each end, or from 0, up to the next. The ends ascend.
    ///
    /// ```
    /// use pennon_core::deletion::DeletionVector;
    /// let deleted: DeletionVector = [2, 3, 7].into_iter().collect();
    /// assert_eq!(deleted.counts_up_to([3, 5, 100].into_iter()).collect::<Vec<_>>(), [1, 1, 1]);
    /// ```
    pub fn counts_up_to(&self, ends: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        let (mut block, mut more) = match &self.0 {
            Form::List(list) => (list.to_vec(), None),
            Form::Bitmap(bitmap) => (vec![0; FEW], Some(bitmap.iter())),
        };
        // Offsets come in blocks; of the current one these are counted.
        let (mut counted, mut length) = (0, if more.is_none() { block.len() } else { 0 });
        ends.map(move |end| {
            let mut count = 0;
            loop {
                let rest = block.get(counted..length).unwrap_or_default();
                let passed = rest.partition_point(|&offset| u64::from(offset) < end);
                counted += passed;
                count += to_u64(passed);
                if counted < length {
                    return count;
                }
                let Some(more) = &mut more else { return count };
                (counted, length) = (0, more.next_many(&mut block).len());
                if length == 0 {
                    return count;
                }
            }
        })
    }

    /// The deleted offsets, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (list, bitmap) = match &self.0 {
            Form::List(offsets) => (offsets.as_ref(), None),
            Form::Bitmap(bitmap) => (&[][..], Some(bitmap.iter())),
        };
        list.iter().copied().chain(bitmap.into_iter().flatten())
    }

    /// The ranges of deleted offsets, ascending and as long as possible.
    ///
    /// ```
    /// use pennon_core::deletion::DeletionVector;
    /// let deleted: DeletionVector = [2, 3, 7].into_iter().collect();
    /// assert_eq!(deleted.ranges().collect::<Vec<_>>(), [2..4, 7..8]);
    /// ```
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut deleted = match &self.0 {
            Form::List(list) => Deleted::List(list),
            Form::Bitmap(bitmap) => Deleted::Bitmap(bitmap.iter()),
        };
        std::iter::from_fn(move || {
            deleted.next_run().map(|(first, last)| u64::from(first)..u64::from(last) + 1)
        })
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
        let mut deleted = clip(&within).map(|(first, last)| match &self.0 {
            Form::List(list) => Deleted::List(self::within(list, first, last)),
            Form::Bitmap(bitmap) => Deleted::Bitmap(bitmap.range(first..=last)),
        });
        let mut at = within.start;
        std::iter::from_fn(move || {
            while at < within.end {
                // Whole runs at a time: what is deleted together costs one step.
                let run = deleted.as_mut().and_then(Deleted::next_run);
                let live = at..run.as_ref().map_or(within.end, |(first, _)| u64::from(*first));
                at = run.map_or(within.end, |(_, last)| u64::from(last) + 1);
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
        match &self.0 {
            Form::List(offsets) => live_offset_in(offsets, position),
            Form::Bitmap(bitmap) => {
                let deleted = |n: u64| u32::try_from(n).ok().and_then(|n| bitmap.select(n));
                live_offset_among(self.len(), deleted, position)
            }
        }
    }

    /// [`Self::live_offset`] of each of many positions, in their order.
    ///
    /// ```
    /// use pennon_core::deletion::DeletionVector;
    /// let deleted: DeletionVector = [0, 2, 3].into_iter().collect();
    /// assert_eq!(deleted.live_offsets(&[2, 0]), [5, 1]);
    /// ```
    pub fn live_offsets(&self, positions: &[u64]) -> Vec<u64> {
        match &self.0 {
            // Of a bitmap each step of a bisection walks what lies before it.
            Form::Bitmap(bitmap)
                if to_u64(positions.len()).saturating_mul(OFFSETS_PER_POSITION) >= bitmap.len() =>
            {
                let offsets: Vec<u32> = bitmap.iter().collect();
                positions.iter().map(|position| live_offset_in(&offsets, *position)).collect()
            }
            _ => positions.iter().map(|position| self.live_offset(*position)).collect(),
        }
    }

    /// Takes a range of offsets out of the set.
    pub fn remove_range(&mut self, range: Range<u32>) {
        *self = match std::mem::take(self).0 {
            Form::List(list) => list.iter().copied().filter(|offset| !range.contains(offset)).collect(),
            Form::Bitmap(mut bitmap) => {
                bitmap.remove_range(range);
                Self::from_roaring(bitmap)
            }
        };
    }
}

/// See [`DeletionVector::live_offset`]; the deleted offsets are ascending.
fn live_offset_in(deleted: &[u32], position: u64) -> u64 {
    let at = |n: u64| usize::try_from(n).ok().and_then(|n| deleted.get(n).copied());
    live_offset_among(to_u64(deleted.len()), at, position)
}

/// As [`live_offset_in`], of so many deleted offsets by their numbers.
fn live_offset_among(count: u64, deleted: impl Fn(u64) -> Option<u32>, position: u64) -> u64 {
    // Live rows before the n-th deleted offset: that offset less n. Those with no more of them than `position`
    // come before the row.
    let before = |n| deleted(n).is_some_and(|deleted| u64::from(deleted).saturating_sub(n) <= position);
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    position.saturating_add(low)
}

/// The deleted offsets that are left.
#[derive(Clone)]
enum Deleted<'a> {
    List(&'a [u32]),
    Bitmap(roaring::bitmap::Iter<'a>),
}

impl Deleted<'_> {
    /// First and last offset of the next run.
    fn next_run(&mut self) -> Option<(u32, u32)> {
        match self {
            Self::Bitmap(rest) => rest.next_range().map(|run| (*run.start(), *run.end())),
            Self::List(rest) => {
                let first = *rest.first()?;
                let run = rest.iter().zip(first..=u32::MAX).take_while(|(at, next)| *at == next).count();
                let last = *rest.get(run.checked_sub(1)?)?;
                *rest = rest.get(run..).unwrap_or_default();
                Some((first, last))
            }
        }
    }
}

/// The offsets of a list from first to last.
fn within(list: &[u32], first: u32, last: u32) -> &[u32] {
    let start = list.partition_point(|&offset| offset < first);
    let rest = list.get(start..).unwrap_or_default();
    rest.get(..rest.partition_point(|&offset| offset <= last)).unwrap_or_default()
}

/// First and last offset of a range, as far as there can be offsets.
fn clip(offsets: &Range<u64>) -> Option<(u32, u32)> {
    let first = u32::try_from(offsets.start).ok().filter(|_| !offsets.is_empty())?;
    Some((first, u32::try_from(offsets.end - 1).unwrap_or(u32::MAX)))
}

fn bitmap(ascending: &[u32]) -> RoaringBitmap {
    let mut bitmap = RoaringBitmap::new();
    // They ascend, so all are taken.
    let _ = bitmap.append(ascending.iter().copied());
    bitmap
}

impl FromIterator<u32> for DeletionVector {
    fn from_iter<I: IntoIterator<Item = u32>>(offsets: I) -> Self {
        let mut offsets: Vec<u32> = offsets.into_iter().collect();
        if !offsets.is_sorted_by(|a, b| a < b) {
            offsets.sort_unstable();
            offsets.dedup();
        }
        Self::from_sorted(offsets)
    }
}
