//! A decoded page: its values in order, and the row of each.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt64Array};

use crate::intervals::Interval;
use crate::values::{Value, value_at};

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

    fn positions(&self, interval: &Interval) -> Range<usize> {
        let values = self.values.as_ref();
        let first = |passes: &dyn Fn(&Value<'_>) -> bool| {
            let (mut low, mut high) = (values.null_count(), values.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if value_at(values, middle).is_some_and(|value| passes(&value)) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low
        };
        let start = first(&|value| !interval.is_above(value));
        let end = first(&|value| interval.is_below(value));
        start..end.max(start)
    }
}
