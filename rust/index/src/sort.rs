//! Values with their rows in the order of an index: sorted runs, and runs merged. A run may come in pieces, of which one is
//! in memory at a time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use pennon_core::{Error, Result};

use crate::sort_keys::{SortKeys, is_exact, sorted_indices};
use crate::values::{compare_at, is_ordered};

/// Values in the order of an index, each with its row.
#[derive(Debug, Clone)]
pub struct SortedRun {
    values: ArrayRef,
    rows: UInt64Array,
}

impl SortedRun {
    /// Sorts values, nulls first; `rows` has the row of each.
    ///
    /// Errors: `InvalidInput` for as many rows as values are not; `Unsupported` for values without order.
    pub fn sort(values: &ArrayRef, rows: &UInt64Array) -> Result<Self> {
        if values.len() != rows.len() {
            return Err(Error::invalid_input(format!("{} values of {} rows", values.len(), rows.len())));
        }
        if !is_ordered(values.data_type()) {
            return Err(Error::unsupported(format!("values of type {} have no order", values.data_type())));
        }
        let indices = sorted_indices(values.as_ref())?;
        let taken = |array: &dyn Array| {
            take(array, &indices, None).map_err(|e| Error::internal(format!("sorting values: {e}")))
        };
        let rows = taken(rows)?;
        let rows = rows.as_any().downcast_ref::<UInt64Array>().cloned();
        Ok(Self {
            values: taken(values)?,
            rows: rows.ok_or_else(|| Error::internal("rows of another type"))?,
        })
    }

    /// Values that are sorted already, each with its row. Errors: `InvalidInput` for as many rows as values are not.
    pub fn of_sorted(values: ArrayRef, rows: UInt64Array) -> Result<Self> {
        if values.len() != rows.len() {
            return Err(Error::invalid_input(format!("{} values of {} rows", values.len(), rows.len())));
        }
        Ok(Self { values, rows })
    }

    /// The values, ascending, nulls first.
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// The row of each value.
    pub fn rows(&self) -> &UInt64Array {
        &self.rows
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// A sorted run in pieces, one after the other.
pub type SortedPieces<'a> = Box<dyn Iterator<Item = Result<SortedRun>> + 'a>;

/// So many keys of a piece are made at once.
const KEYS_AT_ONCE: usize = 1 << 12;

/// The next value of a run.
struct Head {
    run: usize,
    /// The piece that has it.
    values: ArrayRef,
    at: usize,
    /// Of the value: whether it is one, then its number.
    key: (bool, u64),
    /// Whether values with one key are equal.
    is_exact: bool,
    /// The numbers of some values, and the position of the first of these.
    keys: Vec<u64>,
    keys_from: usize,
}

impl Head {
    /// The first value of a piece.
    fn new(run: usize, piece: &SortedRun, keys: &SortKeys) -> Self {
        let (values, is_exact) = (Arc::clone(&piece.values), is_exact(piece.values.data_type()));
        let mut head = Self { run, values, at: 0, key: (false, 0), is_exact, keys: Vec::new(), keys_from: 0 };
        head.find_key(keys);
        head
    }

    /// Goes on to the next value of the piece, if it has one.
    fn advance(&mut self, keys: &SortKeys) -> bool {
        self.at += 1;
        let has_more = self.at < self.values.len();
        if has_more {
            self.find_key(keys);
        }
        has_more
    }

    fn find_key(&mut self, keys: &SortKeys) {
        if self.at - self.keys_from >= self.keys.len() {
            self.keys_from = self.at;
            let end = self.values.len().min(self.at + KEYS_AT_ONCE);
            keys.fill(self.values.as_ref(), self.at..end, &mut self.keys);
        }
        let number = self.keys.get(self.at - self.keys_from).copied().unwrap_or(0);
        self.key = if self.values.is_null(self.at) { (false, 0) } else { (true, number) };
    }

    /// Makes the keys again, after the prefix changed.
    fn renew(&mut self, keys: &SortKeys) {
        self.keys.clear();
        self.find_key(keys);
    }
}

impl Ord for Head {
    /// The heap gives the largest, so the smallest value, of the first run that has it, counts as that.
    fn cmp(&self, other: &Self) -> Ordering {
        let mut order = other.key.cmp(&self.key);
        if order == Ordering::Equal && !self.is_exact {
            order = compare_at((other.values.as_ref(), other.at), (self.values.as_ref(), self.at));
        }
        order.then(other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// All values of some runs in one order, so many at a time.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, UInt64Array};
/// use pennon_index::{SortedRun, merge_runs};
/// let run = |values: &[i64], rows: &[u64]| {
///     let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
///     SortedRun::sort(&values, &UInt64Array::from(rows.to_vec())).unwrap()
/// };
/// let runs = [run(&[5, 1], &[0, 1]), run(&[3], &[2])];
/// let mut rows = Vec::new();
/// merge_runs(&runs, 2, &mut |run| Ok(rows.extend(run.rows().values().iter().copied()))).unwrap();
/// assert_eq!(rows, [1, 2, 0]);
/// ```
pub fn merge_runs(
    runs: &[SortedRun],
    batch_rows: usize,
    give: &mut dyn FnMut(SortedRun) -> Result<()>,
) -> Result<()> {
    let single = |run: &SortedRun| Box::new(std::iter::once(Ok(run.clone()))) as SortedPieces<'_>;
    merge_pieces(runs.iter().map(single).collect(), batch_rows, give)
}

/// As [`merge_runs`], of runs that come in pieces. Errors: those of the pieces, and of who is given the values.
pub fn merge_pieces(
    runs: Vec<SortedPieces<'_>>,
    batch_rows: usize,
    give: &mut dyn FnMut(SortedRun) -> Result<()>,
) -> Result<()> {
    let batch_rows = batch_rows.max(1);
    // Of each run the piece that is merged now; the last one when there are no more.
    let (mut pieces, mut rest): (Vec<SortedRun>, Vec<SortedPieces<'_>>) = (Vec::new(), Vec::new());
    for mut run in runs {
        if let Some(first) = next_piece(&mut run)? {
            pieces.push(first);
            rest.push(run);
        }
    }
    if let ([piece], [rest]) = (pieces.as_slice(), rest.as_mut_slice()) {
        let mut piece = Some(piece.clone());
        while let Some(run) = piece {
            for start in (0..run.len()).step_by(batch_rows) {
                let len = batch_rows.min(run.len() - start);
                give(SortedRun { values: run.values.slice(start, len), rows: run.rows.slice(start, len) })?;
            }
            piece = next_piece(rest)?;
        }
        return Ok(());
    }
    let mut keys = SortKeys::of_sorted(pieces.iter().map(|piece| piece.values.as_ref()));
    let head = |(run, piece): (usize, &SortedRun)| Head::new(run, piece, &keys);
    let mut heap: BinaryHeap<Head> = pieces.iter().enumerate().map(head).collect();
    let mut selected: Vec<(usize, usize)> = Vec::with_capacity(batch_rows);
    loop {
        let Some(mut head) = heap.peek_mut() else { break };
        let run = head.run;
        selected.push((run, head.at));
        if head.advance(&keys) {
            drop(head);
            if selected.len() >= batch_rows {
                give(selected_of(&pieces, &mut selected)?)?;
            }
            continue;
        }
        PeekMut::pop(head);
        // The piece goes, so what was selected of it must be taken first.
        give(selected_of(&pieces, &mut selected)?)?;
        let next = rest.get_mut(run).map(next_piece).transpose()?.flatten();
        if let (Some(next), Some(slot)) = (next, pieces.get_mut(run)) {
            if !keys.suit(next.values.as_ref()) {
                keys = SortKeys::of_sorted(std::iter::empty());
                let mut heads = std::mem::take(&mut heap).into_vec();
                heads.iter_mut().for_each(|head| head.renew(&keys));
                heap = BinaryHeap::from(heads);
            }
            heap.push(Head::new(run, &next, &keys));
            *slot = next;
        }
    }
    if selected.is_empty() { Ok(()) } else { give(selected_of(&pieces, &mut selected)?) }
}

/// The next piece that has values.
fn next_piece(run: &mut SortedPieces<'_>) -> Result<Option<SortedRun>> {
    let has_values = |piece: &Result<SortedRun>| match piece {
        Ok(piece) => !piece.is_empty(),
        Err(_) => true,
    };
    run.find(has_values).transpose()
}

/// Values of pieces, each given by its piece and its position there.
fn selected_of(pieces: &[SortedRun], selected: &mut Vec<(usize, usize)>) -> Result<SortedRun> {
    let failed = |e| Error::internal(format!("merging sorted values: {e}"));
    let values: Vec<&dyn Array> = pieces.iter().map(|piece| piece.values.as_ref()).collect();
    let rows: Vec<&dyn Array> = pieces.iter().map(|piece| &piece.rows as &dyn Array).collect();
    let merged = interleave(&rows, selected).map_err(failed)?;
    let merged = merged.as_any().downcast_ref::<UInt64Array>().cloned();
    let rows = merged.ok_or_else(|| Error::internal("rows of another type"))?;
    let values = interleave(&values, selected).map_err(failed)?;
    selected.clear();
    Ok(SortedRun { values, rows })
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_of_texts_are_merged_as_all_are_sorted(
            runs in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, "(ab|a)[ac]{0,12}"), 0..30), 0..5),
            piece_rows in 1..9_usize,
        ) {
            let mut sorted = Vec::new();
            for values in &runs {
                let rows: UInt64Array = (0..values.len() as u64).collect();
                let values: ArrayRef = Arc::new(StringArray::from(values.clone()));
                sorted.push(SortedRun::sort(&values, &rows).unwrap());
            }
            let pieces = sorted.iter().map(|run| {
                let starts = (0..run.len()).step_by(piece_rows);
                let piece = move |start: usize| {
                    let len = piece_rows.min(run.len() - start);
                    Ok(SortedRun { values: run.values.slice(start, len), rows: run.rows.slice(start, len) })
                };
                Box::new(starts.map(piece)) as SortedPieces<'_>
            });
            let mut merged: Vec<Option<String>> = Vec::new();
            merge_pieces(pieces.collect(), 7, &mut |run| {
                let values = run.values.as_any().downcast_ref::<StringArray>().unwrap();
                merged.extend(values.iter().map(|text| text.map(str::to_owned)));
                Ok(())
            })
            .unwrap();
            let mut expected: Vec<Option<String>> = runs.into_iter().flatten().collect();
            expected.sort_unstable();
            prop_assert_eq!(merged, expected);
        }

        /// However the runs are cut into pieces.
        #[test]
        fn pieces_are_merged_as_all_are_sorted(
            runs in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, -9..9_i64), 0..30), 0..5),
            piece_rows in 1..9_usize,
            batch_rows in 1..20_usize,
        ) {
            let mut row = 0;
            let mut sorted = Vec::new();
            for values in &runs {
                let rows: UInt64Array = (row..row + values.len() as u64).collect();
                row += values.len() as u64;
                let values: ArrayRef = Arc::new(Int64Array::from(values.clone()));
                sorted.push(SortedRun::sort(&values, &rows).unwrap());
            }
            let pieces = sorted.iter().map(|run| {
                let starts = (0..run.len()).step_by(piece_rows).chain([run.len()]);
                let piece = move |start: usize| {
                    let len = piece_rows.min(run.len() - start);
                    Ok(SortedRun { values: run.values.slice(start, len), rows: run.rows.slice(start, len) })
                };
                Box::new(starts.map(piece)) as SortedPieces<'_>
            });
            let merge = |pieces: Vec<SortedPieces<'_>>| {
                let mut merged: Vec<(Option<i64>, u64)> = Vec::new();
                merge_pieces(pieces, batch_rows, &mut |run| {
                    assert!(run.len() <= batch_rows && !run.is_empty());
                    let values = run.values.as_any().downcast_ref::<Int64Array>().unwrap();
                    merged.extend(values.iter().zip(run.rows.values().iter().copied()));
                    Ok(())
                })
                .unwrap();
                merged
            };
            let mut expected: Vec<(Option<i64>, u64)> = runs.iter().flatten().copied().zip(0..).collect();
            expected.sort_unstable();
            let mut merged = merge(pieces.collect());
            prop_assert!(merged.is_sorted_by_key(|(value, _)| *value));
            merged.sort_unstable();
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn errors_of_pieces_are_passed_on() {
        let run = || {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![1]));
            SortedRun::sort(&values, &UInt64Array::from(vec![0]))
        };
        let broken = || Box::new([run(), Err(Error::internal("broken"))].into_iter()) as SortedPieces<'_>;
        assert!(merge_pieces(vec![broken()], 5, &mut |_| Ok(())).is_err());
        assert!(merge_pieces(vec![broken(), broken()], 5, &mut |_| Ok(())).is_err());
    }
}
