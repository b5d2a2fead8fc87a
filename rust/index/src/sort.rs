//! Values with their rows in the order of an index: sorted runs, and runs merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_ord::sort::{SortOptions, sort_to_indices};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use pennon_core::{Error, Result};

use crate::values::compare_at;

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
        let order = SortOptions { descending: false, nulls_first: true };
        let indices = sort_to_indices(values, Some(order), None)
            .map_err(|e| Error::unsupported(format!("values of type {}: {e}", values.data_type())))?;
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

/// The next value of a run.
struct Head<'a> {
    runs: &'a [SortedRun],
    run: usize,
    at: usize,
}

impl Head<'_> {
    fn value(&self) -> Option<(&dyn Array, usize)> {
        self.runs.get(self.run).map(|run| (run.values.as_ref(), self.at))
    }
}

impl Ord for Head<'_> {
    /// The heap gives the largest, so the smallest value, of the first run that has it, counts as that.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = match (self.value(), other.value()) {
            (Some(mine), Some(theirs)) => compare_at(theirs, mine),
            _ => Ordering::Equal,
        };
        order.then(other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

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
    let failed = |e| Error::internal(format!("merging sorted values: {e}"));
    let values: Vec<&dyn Array> = runs.iter().map(|run| run.values.as_ref()).collect();
    let rows: Vec<&dyn Array> = runs.iter().map(|run| &run.rows as &dyn Array).collect();
    if let [run] = runs {
        for start in (0..run.len()).step_by(batch_rows.max(1)) {
            let len = batch_rows.max(1).min(run.len() - start);
            give(SortedRun { values: run.values.slice(start, len), rows: run.rows.slice(start, len) })?;
        }
        return Ok(());
    }
    let heads = runs.iter().enumerate().filter(|(_, run)| !run.is_empty());
    let mut heap: BinaryHeap<Head<'_>> = heads.map(|(run, _)| Head { runs, run, at: 0 }).collect();
    let mut selected: Vec<(usize, usize)> = Vec::with_capacity(batch_rows);
    loop {
        let next = heap.peek_mut();
        if next.is_none() || selected.len() >= batch_rows.max(1) {
            if !selected.is_empty() {
                let merged = interleave(&rows, &selected).map_err(failed)?;
                let merged = merged.as_any().downcast_ref::<UInt64Array>().cloned();
                let rows = merged.ok_or_else(|| Error::internal("rows of another type"))?;
                let values = interleave(&values, &selected).map_err(failed)?;
                selected.clear();
                drop(next);
                give(SortedRun { values, rows })?;
                continue;
            }
            return Ok(());
        }
        let Some(mut head) = next else { return Ok(()) };
        selected.push((head.run, head.at));
        head.at += 1;
        if runs.get(head.run).is_none_or(|run| head.at >= run.len()) {
            std::collections::binary_heap::PeekMut::pop(head);
        }
    }
}
