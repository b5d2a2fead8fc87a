//! Rows of several fragments, all or some, in the order of their ids: a k-way merge.
//!
//! What is merged are runs: consecutive ids at consecutive offsets. A fragment whose ids were never touched is a
//! handful of them. Only some thousand rows of each input are read ahead. An input whose ids do not ascend is sorted
//! first, as a whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use super::segment::choose_runs;
use super::{RowIdSequence, VersionSequence};
use crate::deletion::DeletionVector;
use crate::{Error, Result};

/// Rows of an input that are read ahead.
const AHEAD: u64 = 4096;

/// Which rows of a fragment are merged.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// All but these.
    Without(&'a DeletionVector),
    /// These.
    Only(&'a DeletionVector),
}

impl<'a> Selection<'a> {
    /// Their physical offsets in a fragment of so many rows, ascending.
    pub fn ranges(self, rows: u64) -> Box<dyn Iterator<Item = Range<u64>> + 'a> {
        match self {
            Self::Without(deleted) => Box::new(deleted.live_ranges(0..rows)),
            Self::Only(rows) => Box::new(rows.ranges()),
        }
    }
}

/// One fragment of a merge.
#[derive(Debug, Clone, Copy)]
pub struct MergeInput<'a> {
    /// Ids of the physical rows.
    pub ids: &'a RowIdSequence,
    /// The rows that are merged.
    pub rows: Selection<'a>,
    /// In which version each physical row was made.
    pub created: &'a VersionSequence,
    /// In which version each physical row was last changed.
    pub updated: &'a VersionSequence,
}

/// Rows to take from an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Number of the input.
    pub input: usize,
    /// Physical offsets.
    pub offsets: Range<u64>,
}

/// Rows of the result: where they come from and their lineage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MergedRows {
    /// Where to take the rows, in order.
    pub takes: Vec<Take>,
    /// Their ids, ascending.
    pub ids: RowIdSequence,
    /// In which version each was made.
    pub created: VersionSequence,
    /// In which version each was last changed.
    pub updated: VersionSequence,
}

/// Merges rows of fragments by row id.
///
/// ```
/// use pennon_core::deletion::DeletionVector;
/// use pennon_core::rows::{SortedMerge, MergeInput, Selection, RowIdSequence, Take, VersionSequence};
/// use pennon_core::Version;
/// let (old, moved) = (RowIdSequence::from_range(0..6), RowIdSequence::from_slice(&[4, 2]));
/// let (deleted, both): (DeletionVector, _) = ([2, 4].into_iter().collect(), [0, 1].into_iter().collect());
/// let made = VersionSequence::constant(6, Version(1));
/// let changed = VersionSequence::constant(2, Version(2));
/// let mut merge = SortedMerge::new(&[
///     MergeInput { ids: &old, rows: Selection::Without(&deleted), created: &made, updated: &made },
///     MergeInput { ids: &moved, rows: Selection::Only(&both), created: &made, updated: &changed },
/// ]);
/// let rows = merge.next_rows(100)?.unwrap();
/// assert_eq!(rows.ids, RowIdSequence::from_range(0..6));
/// assert_eq!(rows.takes[1], Take { input: 1, offsets: 1..2 });
/// assert_eq!(rows.updated.get(2), Some(Version(2)));
/// assert!(merge.next_rows(100)?.is_none());
/// # Ok::<(), pennon_core::Error>(())
/// ```
pub struct SortedMerge<'a> {
    inputs: Vec<Input<'a>>,
    /// Next id and number of each input that has more rows.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'a> SortedMerge<'a> {
    /// A merge of these inputs.
    pub fn new(inputs: &[MergeInput<'a>]) -> Self {
        let mut inputs: Vec<Input<'a>> = inputs.iter().map(Input::new).collect();
        let numbered = inputs.iter_mut().enumerate();
        let heads = numbered.filter_map(|(at, input)| Some(Reverse((input.head()?, at)))).collect();
        Self { inputs, heads }
    }

    /// The next rows, at most so many: a fragment of the result. `None` when there are no more.
    ///
    /// Errors: `Corrupt` if two live rows have one id, `InvalidInput` if an input has fewer versions than ids.
    pub fn next_rows(&mut self, rows: u64) -> Result<Option<MergedRows>> {
        let mut merged = MergedRows::default();
        let mut ids: Vec<(u64, u64)> = Vec::new();
        let mut left = rows;
        while left > 0 {
            let Some(Reverse((head, at))) = self.heads.pop() else { break };
            let next = self.heads.peek().map(|Reverse((id, _))| *id);
            let Some(input) = self.inputs.get_mut(at) else { break };
            if next == Some(head) {
                return Err(duplicate_id(head));
            }
            while let Some(run) = input.take(next, left)? {
                left -= run.rows();
                run.put(at, input.input, &mut merged)?;
                match ids.last_mut() {
                    Some((_, last)) if run.first - *last == 1 => *last = run.last,
                    _ => ids.push((run.first, run.last)),
                }
            }
            self.heads.extend(input.head().map(|id| Reverse((id, at))));
        }
        choose_runs(&ids.as_slice(), |segment| merged.ids.push(segment));
        Ok((!ids.is_empty()).then_some(merged))
    }
}

/// Consecutive ids at consecutive offsets.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    last: u64,
    offset: u64,
}

impl Run {
    fn rows(&self) -> u64 {
        self.last - self.first + 1
    }

    fn put(&self, input: usize, from: MergeInput<'_>, merged: &mut MergedRows) -> Result<()> {
        let offsets = self.offset..self.offset + self.rows();
        for (to, from) in [(&mut merged.created, from.created), (&mut merged.updated, from.updated)] {
            if offsets.end > from.len() {
                return Err(Error::invalid_input(format!(
                    "{} versions for row {}",
                    from.len(),
                    offsets.end - 1
                )));
            }
            from.runs_in(offsets.clone()).for_each(|(span, version)| to.push(span.end - span.start, version));
        }
        match merged.takes.last_mut() {
            Some(last) if last.input == input && last.offsets.end == offsets.start => {
                last.offsets.end = offsets.end
            }
            _ => merged.takes.push(Take { input, offsets }),
        }
        Ok(())
    }
}

/// An input and its next runs.
struct Input<'a> {
    input: MergeInput<'a>,
    live: Box<dyn Iterator<Item = Range<u64>> + 'a>,
    /// The rows of the last range that were not read yet.
    rest: Range<u64>,
    ahead: VecDeque<Run>,
    last: Option<u64>,
}

impl<'a> Input<'a> {
    fn new(input: &MergeInput<'a>) -> Self {
        let input = *input;
        let mut live = input.rows.ranges(input.ids.len());
        let mut ahead = VecDeque::new();
        if !input.ids.ascends() {
            let mut rows = Vec::new();
            live.for_each(|range| runs(input.ids, range, &mut rows));
            rows.sort_unstable_by_key(|run| run.first);
            ahead = rows.into();
            live = Box::new(std::iter::empty());
        }
        Self { input, live, rest: 0..0, ahead, last: None }
    }

    fn head(&mut self) -> Option<u64> {
        while self.ahead.is_empty() {
            if self.rest.is_empty() {
                self.rest = self.live.next()?;
            }
            let end = self.rest.end.min(self.rest.start.saturating_add(AHEAD));
            let mut found = Vec::new();
            runs(self.input.ids, self.rest.start..end, &mut found);
            self.ahead.extend(found);
            self.rest.start = end;
        }
        self.ahead.front().map(|run| run.first)
    }

    /// The next ids, below an id and at most so many. Errors: `Corrupt` if the input has an id more than once.
    fn take(&mut self, below: Option<u64>, rows: u64) -> Result<Option<Run>> {
        if rows == 0 || self.head().is_none_or(|head| below.is_some_and(|below| head >= below)) {
            return Ok(None);
        }
        let Some(run) = self.ahead.front_mut() else { return Ok(None) };
        if self.last.is_some_and(|last| last >= run.first) {
            return Err(duplicate_id(run.first));
        }
        let mut taken = *run;
        taken.last = taken.last.min(taken.first.saturating_add(rows - 1));
        taken.last = below.map_or(taken.last, |below| taken.last.min(below - 1));
        self.last = Some(taken.last);
        if taken.last == run.last {
            self.ahead.pop_front();
        } else {
            run.first = taken.last + 1;
            run.offset += taken.rows();
        }
        Ok(Some(taken))
    }
}

fn runs(ids: &RowIdSequence, positions: Range<u64>, out: &mut Vec<Run>) {
    let mut offset = positions.start;
    ids.runs_in(positions, |first, last| {
        out.push(Run { first, last, offset });
        offset += last - first + 1;
    });
}

fn duplicate_id(id: u64) -> Error {
    Error::corrupt(format!("two live rows have row id {id}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ErrorKind, Version};

    proptest! {
        #[test]
        fn agrees_with_sorting(
            spread in proptest::collection::vec((0..6_usize, any::<u16>(), any::<bool>()), 0..400),
            shuffled in proptest::collection::vec(any::<bool>(), 6),
            size in 1..200_u64,
        ) {
            // Row n goes to some input with that id, and is deleted there or not.
            let mut rows: Vec<Vec<(u64, bool, u64)>> = vec![Vec::new(); 6];
            for (id, (input, version, deleted)) in (0..).zip(&spread) {
                rows[*input / 2 * usize::from(*version > 9000)].push((id, *deleted && *version % 3 == 0, u64::from(*version % 4)));
            }
            for (rows, shuffled) in rows.iter_mut().zip(shuffled) {
                if shuffled {
                    rows.sort_by_key(|row| row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
            }
            let parts: Vec<_> = rows.iter().map(|rows| {
                let ids: RowIdSequence = rows.iter().map(|row| row.0).collect();
                let deleted: DeletionVector = (0..).zip(rows).filter(|(_, row)| row.1).map(|(at, _)| at).collect();
                let mut versions = VersionSequence::default();
                rows.iter().for_each(|row| versions.push(1, Version(row.2)));
                let live = deleted.live_ranges(0..ids.len()).flatten().map(|at| u32::try_from(at).unwrap()).collect();
                (ids, deleted, live, versions)
            }).collect();
            let updated = VersionSequence::constant(1000, Version(9));
            let inputs: Vec<_> = parts.iter().enumerate().map(|(at, (ids, deleted, live, created))| {
                let rows = if at % 2 == 0 { Selection::Without(deleted) } else { Selection::Only(live) };
                MergeInput { ids, rows, created, updated: &updated }
            }).collect();
            let mut merge = SortedMerge::new(&inputs);
            let mut found = Vec::new();
            while let Some(part) = merge.next_rows(size).unwrap() {
                prop_assert!(part.ids.len() <= size && part.ids.ascends());
                prop_assert_eq!(part.created.len(), part.ids.len());
                prop_assert_eq!(part.updated.clone(), VersionSequence::constant(part.ids.len(), Version(9)));
                let taken = part.takes.iter().flat_map(|take| take.offsets.clone().map(move |at| (take.input, at)));
                for ((position, id), (input, at)) in (0..).zip(part.ids.iter()).zip(taken) {
                    let row = rows[input][usize::try_from(at).unwrap()];
                    prop_assert_eq!((row.0, row.1), (id, false));
                    prop_assert_eq!(part.created.get(position), Some(Version(row.2)));
                    found.push(id);
                }
            }
            let mut expected: Vec<u64> = rows.iter().flatten().filter(|row| !row.1).map(|row| row.0).collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_id_that_lives_twice_is_corrupt() {
        let (none, versions) = (DeletionVector::empty(), VersionSequence::constant(10, Version(1)));
        let merge = |lists: &[&[u64]]| {
            let ids: Vec<RowIdSequence> = lists.iter().map(|list| RowIdSequence::from_slice(list)).collect();
            let input = |ids| MergeInput {
                ids,
                rows: Selection::Without(&none),
                created: &versions,
                updated: &versions,
            };
            SortedMerge::new(&ids.iter().map(input).collect::<Vec<_>>()).next_rows(100).unwrap_err().kind()
        };
        assert_eq!(merge(&[&[1, 2, 3, 4], &[3]]), ErrorKind::Corrupt);
        assert_eq!(merge(&[&[5, 1, 5]]), ErrorKind::Corrupt);
        assert_eq!(merge(&[&[7, 8, 9], &[1, 2, 8, 20]]), ErrorKind::Corrupt);
        assert_eq!(merge(&[&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]), ErrorKind::InvalidInput);
    }
}
