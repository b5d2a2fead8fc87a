//! A decoded page: its values in order, and the row of each.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array};

use crate::intervals::Interval;
use crate::values::{TypedValues, Value, value_at};

/// A decoded page.
#[derive(Debug)]
pub struct BTreePage {
    values: ArrayRef,
    rows: UInt64Array,
}

impl BTreePage {
    pub(super) fn new(values: ArrayRef, rows: UInt64Array) -> Self {
        Self { values, rows }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.values.get_array_memory_size() + self.rows.get_array_memory_size()
    }

    pub(super) fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// First and last value; `None` for null.
    pub(super) fn bounds(&self) -> (Option<Value<'_>>, Option<Value<'_>>) {
        let last = self.values.len().saturating_sub(1);
        (value_at(self.values.as_ref(), 0), value_at(self.values.as_ref(), last))
    }

    /// The rows of nulls.
    pub(super) fn nulls(&self) -> &[u64] {
        self.rows.values().get(..self.values.null_count()).unwrap_or_default()
    }

    /// The rows of all values.
    pub(super) fn all(&self) -> &[u64] {
        self.rows.values()
    }

    /// The rows of the values in an interval.
    pub(super) fn inside(&self, interval: &Interval) -> &[u64] {
        self.rows.values().get(self.positions(interval)).unwrap_or_default()
    }

    /// Where the values in an interval are.
    pub(super) fn positions(&self, interval: &Interval) -> Range<usize> {
        let (values, len) = (TypedValues::of(self.values.as_ref()), self.values.len());
        let start = values.first_that(self.values.null_count()..len, |value| !interval.is_above(value));
        start..seek(values, start, len, |value| interval.is_below(value))
    }
}

/// Neighbours in a page: rows and their values.
#[derive(Debug, Clone)]
pub struct PageRun {
    page: Arc<BTreePage>,
    run: Range<usize>,
}

impl PageRun {
    pub(super) fn new(page: Arc<BTreePage>, run: Range<usize>) -> Self {
        Self { page, run }
    }

    /// The rows.
    pub fn rows(&self) -> &[u64] {
        self.page.rows.values().get(self.run.clone()).unwrap_or_default()
    }

    /// All values of the page, those of the rows from [`Self::start`] on.
    pub fn values(&self) -> &ArrayRef {
        &self.page.values
    }

    /// The position of the first row in the page.
    pub fn start(&self) -> usize {
        self.run.start
    }
}

/// The first position from `start` on whose value passes, or `len`, where all behind it pass too; sought from `start`,
/// since most intervals are short, single values, and the next one of a list is near.
pub(super) fn seek(
    values: TypedValues<'_>,
    start: usize,
    len: usize,
    passes: impl Fn(&Value<'_>) -> bool,
) -> usize {
    let mut step = 1;
    while start + step < len && !values.get(start + step).is_some_and(|value| passes(&value)) {
        step *= 2;
    }
    values.first_that((start + step / 2).min(len)..(start + step).min(len), passes)
}
