//! Sets of row numbers as ranges: what a scan has to read, what a filter can match, what a page holds of both.
//!
//! Row numbers are offsets in a fragment or a file, or rows of a page. Ranges of *bytes* are no row ranges: they
//! repeat, overlap and may be empty, and their order says which answer belongs to which question.
//!
//! Invariant, held by every constructor: ranges are ascending, none is empty, and between two of them at least one row
//! is missing. So a set has one form only, two sets are equal if their ranges are, and readers check nothing again.

#[cfg(test)]
mod tests;

use std::fmt;
use std::iter::Cloned;
use std::ops::Range;
use std::slice::Iter;

/// Ranges that [`fmt::Display`] shows before it only counts them.
const SHOWN: usize = 4;

/// A set of row numbers as ascending, disjoint ranges.
///
/// ```
/// use pennon_core::rows::RowRanges;
/// let live = RowRanges::from([0..10, 20..30]);
/// let wanted: RowRanges = [5, 6, 7, 29, 40].into_iter().collect();
/// assert_eq!(live.intersect(&wanted), RowRanges::from([5..8, 29..30]));
/// assert_eq!(live.union(&wanted).count(), 21);
/// assert_eq!(live.split_by(15).map(|piece| piece.count()).collect::<Vec<_>>(), [15, 5]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RowRanges {
    ranges: Vec<Range<u64>>,
}

impl RowRanges {
    /// No rows.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(length).sum()
    }

    /// The ranges: ascending, none of them empty, none touching the next.
    pub fn as_slice(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> Cloned<Iter<'_, Range<u64>>> {
        self.ranges.iter().cloned()
    }

    /// The row numbers, ascending.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// assert_eq!(RowRanges::from([3..5, 9..10]).rows().collect::<Vec<_>>(), [3, 4, 9]);
    /// ```
    pub fn rows(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.iter().flatten()
    }

    /// From the first row to behind the last; `0..0` if there is none.
    pub fn span(&self) -> Range<u64> {
        match (self.ranges.first(), self.ranges.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// Whether a row is in the set.
    pub fn contains(&self, row: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.end <= row);
        self.ranges.get(after).is_some_and(|range| range.start <= row)
    }

    /// Adds the rows of a range; takes no search if they come last.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// let mut rows = RowRanges::from([0..3, 10..12]);
    /// rows.insert(12..14);
    /// rows.insert(3..4);
    /// assert_eq!(rows, RowRanges::from([0..4, 10..14]));
    /// ```
    pub fn insert(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if range.start == last.end => last.end = range.end,
            Some(last) if range.start < last.end => self.insert_before_the_end(range),
            _ => self.ranges.push(range),
        }
    }

    fn insert_before_the_end(&mut self, range: Range<u64>) {
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let behind = self.ranges.partition_point(|known| known.start <= range.end);
        let touched = self.ranges.get(first..behind).unwrap_or_default();
        let joined = match (touched.first(), touched.last()) {
            (Some(low), Some(high)) => low.start.min(range.start)..high.end.max(range.end),
            _ => range,
        };
        self.ranges.splice(first..behind, [joined]);
    }

    /// The rows in one of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.iter().peekable(), other.iter().peekable());
        let mut either = Self { ranges: Vec::with_capacity(self.ranges.len().max(other.ranges.len())) };
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(left), Some(right)) if left.start <= right.start => a.next(),
                (Some(_), None) => a.next(),
                _ => b.next(),
            };
            match (next, either.ranges.last_mut()) {
                (None, _) => return either,
                (Some(range), Some(last)) if range.start <= last.end => last.end = last.end.max(range.end),
                (Some(range), _) => either.ranges.push(range),
            }
        }
    }

    /// The rows in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let a = behind(&self.ranges, other.span().start);
        let b = behind(&other.ranges, self.span().start);
        let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
        let mut both = Vec::new();
        while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
            let common = left.start.max(right.start)..left.end.min(right.end);
            if common.start < common.end {
                both.push(common);
            }
            if left.end <= right.end {
                a.next()
            } else {
                b.next()
            };
        }
        Self { ranges: both }
    }

    /// The rows within a range.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// assert_eq!(RowRanges::from([0..4, 6..9]).clip(2..7), RowRanges::from([2..4, 6..7]));
    /// ```
    #[must_use]
    pub fn clip(&self, within: Range<u64>) -> Self {
        let touched = behind(&self.ranges, within.start).iter().take_while(|range| range.start < within.end);
        let part = |range: &Range<u64>| range.start.max(within.start)..range.end.min(within.end);
        Self { ranges: touched.map(part).filter(|range| range.start < range.end).collect() }
    }

    /// The first rows, at most so many.
    #[must_use]
    pub fn take(mut self, rows: u64) -> Self {
        let (mut left, mut kept) = (rows, 0);
        for range in &mut self.ranges {
            if left == 0 {
                break;
            }
            range.end = range.end.min(range.start.saturating_add(left));
            left -= length(range);
            kept += 1;
        }
        self.ranges.truncate(kept);
        self
    }

    /// The rows after the first so many.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// let rows = RowRanges::from([0..3, 10..20]);
    /// assert_eq!(rows.skip(5).take(2), RowRanges::from(12..14));
    /// ```
    #[must_use]
    pub fn skip(mut self, rows: u64) -> Self {
        let (mut left, mut dropped) = (rows, 0);
        for range in &mut self.ranges {
            if length(range) > left {
                range.start += left;
                break;
            }
            left -= length(range);
            dropped += 1;
        }
        self.ranges.drain(..dropped);
        self
    }

    /// The rows in pieces of so many, of which the last may have fewer; 0 counts as 1.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// let mut pieces = RowRanges::from([0..3, 5..9]).split_by(4);
    /// assert_eq!(pieces.next(), Some(RowRanges::from([0..3, 5..6])));
    /// assert_eq!((pieces.next(), pieces.next()), (Some(RowRanges::from(6..9)), None));
    /// ```
    pub fn split_by(self, rows: u64) -> impl Iterator<Item = Self> {
        let (mut ranges, mut rest) = (self.ranges.into_iter(), None);
        std::iter::from_fn(move || {
            let (mut piece, mut room) = (Vec::new(), rows.max(1));
            while room > 0 {
                let Some(range) = rest.take().or_else(|| ranges.next()) else { break };
                let end = range.end.min(range.start.saturating_add(room));
                room -= end - range.start;
                if end < range.end {
                    rest = Some(end..range.end);
                }
                piece.push(range.start..end);
            }
            (!piece.is_empty()).then_some(Self { ranges: piece })
        })
    }

    /// The rows at these positions among the rows of the set, counted from 0. The ranges of positions ascend; there is
    /// no row at positions behind the last.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// let rows = RowRanges::from([2..5, 20..24]);
    /// assert_eq!(rows.select([1..4, 6..9]), RowRanges::from([3..5, 20..21, 23..24]));
    /// ```
    #[must_use]
    pub fn select(&self, positions: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut selected = Self::new();
        let mut ranges = self.ranges.iter();
        let mut current = ranges.next();
        // Position of the first row of `current`.
        let mut base = 0_u64;
        for Range { start, end } in positions {
            let mut start = start.max(base);
            while start < end {
                let Some(range) = current else { return selected };
                let behind = base + length(range);
                if start >= behind {
                    base = behind;
                    current = ranges.next();
                    continue;
                }
                let stop = end.min(behind);
                selected.insert(range.start + (start - base)..range.start + (stop - base));
                start = stop;
            }
        }
        selected
    }

    /// The rows, and those between two ranges that at most so many rows part.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// assert_eq!(RowRanges::from([0..1, 3..4, 9..10]).with_gaps(2), RowRanges::from([0..4, 9..10]));
    /// ```
    #[must_use]
    pub fn with_gaps(&self, rows: u64) -> Self {
        let mut joined = Self::new();
        for range in &self.ranges {
            match joined.ranges.last_mut() {
                Some(last) if range.start - last.end <= rows => last.end = range.end,
                _ => joined.ranges.push(range.clone()),
            }
        }
        joined
    }

    /// The rows of a column that has so many for each row of the set; `None` if their numbers do not fit.
    ///
    /// ```
    /// # use pennon_core::rows::RowRanges;
    /// assert_eq!(RowRanges::from([0..1, 4..6]).scaled(3), Some(RowRanges::from([0..3, 12..18])));
    /// ```
    pub fn scaled(&self, rows_per_row: u64) -> Option<Self> {
        if rows_per_row == 0 {
            return Some(Self::new());
        }
        let scale = |range: &Range<u64>| {
            Some(range.start.checked_mul(rows_per_row)?..range.end.checked_mul(rows_per_row)?)
        };
        Some(Self { ranges: self.ranges.iter().map(scale).collect::<Option<_>>()? })
    }

    /// The set with a directory of the positions of its rows.
    pub fn ranked(self) -> RankedRows {
        let mut before = 0;
        let start = |range: &Range<u64>| {
            let start = before;
            before += length(range);
            start
        };
        let starts = self.ranges.iter().map(start).collect();
        RankedRows { rows: self, starts }
    }
}

/// Row ranges that know the position of each row among them: where it stands in a batch that was read of them.
///
/// ```
/// use pennon_core::rows::RowRanges;
/// let rows = RowRanges::from([2..5, 20..24]).ranked();
/// assert_eq!([4, 5, 21].map(|row| rows.position(row)), [Some(2), None, Some(4)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedRows {
    rows: RowRanges,
    /// Position of the first row of each range.
    starts: Vec<u64>,
}

impl RankedRows {
    /// The rows.
    pub fn rows(&self) -> &RowRanges {
        &self.rows
    }

    /// How many rows of the set are before a row of it; `None` for other rows.
    pub fn position(&self, row: u64) -> Option<u64> {
        let at = self.rows.ranges.partition_point(|range| range.end <= row);
        let (range, start) = self.rows.ranges.get(at).zip(self.starts.get(at))?;
        Some(start + row.checked_sub(range.start)?)
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// The ranges that end behind a row.
fn behind(ranges: &[Range<u64>], row: u64) -> &[Range<u64>] {
    let first = ranges.partition_point(|range| range.end <= row);
    ranges.get(first..).unwrap_or_default()
}

impl From<Range<u64>> for RowRanges {
    fn from(range: Range<u64>) -> Self {
        Self { ranges: if range.start < range.end { vec![range] } else { Vec::new() } }
    }
}

/// The rows of all of them.
impl<const N: usize> From<[Range<u64>; N]> for RowRanges {
    fn from(ranges: [Range<u64>; N]) -> Self {
        ranges.into_iter().collect()
    }
}

/// The rows of all ranges, in whatever order they come; quickest if they ascend.
impl FromIterator<Range<u64>> for RowRanges {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut rows = Self::new();
        rows.extend(ranges);
        rows
    }
}

impl Extend<Range<u64>> for RowRanges {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        let mut ranges = ranges.into_iter().filter(|range| range.start < range.end);
        while let Some(range) = ranges.next() {
            if range.start < self.span().end {
                // Sorted once: to insert one after the other would move those behind each time.
                let mut all: Vec<Range<u64>> = std::mem::take(&mut self.ranges);
                all.push(range);
                all.extend(ranges);
                all.sort_unstable_by_key(|range| range.start);
                for range in all {
                    match self.ranges.last_mut() {
                        Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                        _ => self.ranges.push(range),
                    }
                }
                return;
            }
            self.insert(range);
        }
    }
}

/// The rows by number, in whatever order they come; quickest if they ascend. No range has row `u64::MAX`.
impl FromIterator<u64> for RowRanges {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        rows.into_iter().map(|row| row..row.saturating_add(1)).collect()
    }
}

impl<'a> IntoIterator for &'a RowRanges {
    type Item = Range<u64>;
    type IntoIter = Cloned<Iter<'a, Range<u64>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for RowRanges {
    type Item = Range<u64>;
    type IntoIter = std::vec::IntoIter<Range<u64>>;

    fn into_iter(self) -> Self::IntoIter {
        self.ranges.into_iter()
    }
}

/// `0..3, 5..9`; of many ranges the first ones and how many there are.
impl fmt::Display for RowRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for range in self.iter().take(SHOWN) {
            write!(f, "{separator}{}..{}", range.start, range.end)?;
            separator = ", ";
        }
        match self.ranges.len().checked_sub(SHOWN) {
            None if self.is_empty() => f.write_str("none"),
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more ranges up to {}", self.span().end),
        }
    }
}
