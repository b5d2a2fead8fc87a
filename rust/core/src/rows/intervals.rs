//! Closed intervals of row ids, found by what they contain: which of many sequences may have an id.

/// Values with the interval of ids that each may have. Intervals may overlap.
///
/// Ascending by the first id; `reach` is the largest last id up to there, so a search goes back no farther than it must.
#[derive(Debug)]
pub(crate) struct Intervals<T>(Vec<Interval<T>>);

#[derive(Debug)]
struct Interval<T> {
    first: u64,
    last: u64,
    reach: u64,
    value: T,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<((u64, u64), T)> for Intervals<T> {
    fn from_iter<I: IntoIterator<Item = ((u64, u64), T)>>(intervals: I) -> Self {
        let interval = |((first, last), value)| Interval { first, last, reach: last, value };
        let mut intervals: Vec<_> = intervals.into_iter().map(interval).collect();
        intervals.sort_by_key(|interval| interval.first);
        let mut reach = 0;
        for interval in &mut intervals {
            reach = interval.last.max(reach);
            interval.reach = reach;
        }
        Self(intervals)
    }
}

impl<T> Intervals<T> {
    /// The values whose intervals have an id in `first..=last`.
    pub(crate) fn overlapping(&self, (first, last): (u64, u64)) -> impl Iterator<Item = &T> {
        let end = self.0.partition_point(|interval| interval.first <= last);
        let below = self.0.iter().take(end).rev().take_while(move |interval| interval.reach >= first);
        below.filter(move |interval| interval.last >= first).map(|interval| &interval.value)
    }

    /// The values whose intervals have this id.
    pub(crate) fn containing(&self, id: u64) -> impl Iterator<Item = &T> {
        self.overlapping((id, id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_overlap_are_found(
            intervals in prop::collection::vec((0..50_u64, 0..20_u64), 0..20),
            (first, length) in (0..60_u64, 0..10_u64),
        ) {
            let intervals: Vec<_> = intervals.into_iter().map(|(first, more)| (first, first + more)).collect();
            let index: Intervals<usize> = intervals.iter().copied().zip(0..).collect();
            let mut found: Vec<usize> = index.overlapping((first, first + length)).copied().collect();
            found.sort_unstable();
            let overlaps = |(from, to): (u64, u64)| from <= first + length && to >= first;
            let expected: Vec<usize> = (0..intervals.len()).filter(|&at| overlaps(intervals[at])).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
