//! A segment of listed ids in any order.
//!
//! The first search in a long one sorts its positions by id, four bytes each, and keeps them.

use std::ops::Range;
use std::sync::OnceLock;

use super::values::Values;

/// Shorter lists are searched from the front.
const SHORT: u64 = 32;

/// Ids as they come.
#[derive(Debug, Clone)]
pub(crate) struct UnsortedArray {
    values: Values,
    bounds: Option<(u64, u64)>,
    /// Positions ordered by id, then position.
    order: OnceLock<Box<[u32]>>,
}

impl UnsortedArray {
    pub(crate) fn new(values: Values) -> Self {
        let bounds = values.min_max();
        Self { values, bounds, order: OnceLock::new() }
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    pub(super) fn len(&self) -> u64 {
        self.values.len()
    }

    pub(super) fn get(&self, position: u64) -> Option<u64> {
        self.values.get(position)
    }

    pub(super) fn position(&self, id: u64) -> Option<u64> {
        let (min, max) = self.bounds?;
        if !(min..=max).contains(&id) {
            return None;
        }
        let has_id = |position: &u64| self.values.get(*position) == Some(id);
        if self.len() <= SHORT || self.len() > u32::MAX.into() {
            return (0..self.len()).find(has_id);
        }
        let order = self.order.get_or_init(|| self.sort());
        let at = order.partition_point(|&position| self.values.get(position.into()) < Some(id));
        order.get(at).map(|&position| position.into()).filter(has_id)
    }

    fn sort(&self) -> Box<[u32]> {
        let mut values = Vec::new();
        self.values.append_to(0..self.len(), &mut values);
        let mut keyed: Vec<(u64, u32)> = values.into_iter().zip(0..).collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, position)| position).collect()
    }

    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        self.bounds
    }

    pub(super) fn append_to(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        self.values.append_to(positions, out);
    }
}

impl PartialEq for UnsortedArray {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}
