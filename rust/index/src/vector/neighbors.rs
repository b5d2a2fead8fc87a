//! The nearest rows that were seen so far.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A row and how far it is from the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// Its distance, not NaN.
    pub distance: f32,
    /// Its row id: of two at the same distance the one with the lower id comes first.
    pub id: u64,
    /// Its row address.
    pub address: u64,
}

impl Eq for Neighbor {}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then(self.id.cmp(&other.id)).then(self.address.cmp(&other.address))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The distances that count: at least the first, less than the second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DistanceRange {
    /// Nothing nearer.
    pub lower: Option<f32>,
    /// Nothing as far or farther.
    pub upper: Option<f32>,
}

impl DistanceRange {
    /// Whether a distance lies in it; NaN does not.
    #[inline]
    pub fn contains(&self, distance: f32) -> bool {
        !distance.is_nan()
            && self.lower.is_none_or(|lower| distance >= lower)
            && self.upper.is_none_or(|upper| distance < upper)
    }
}

/// At most so many rows, the nearest of all that were offered.
#[derive(Debug, Clone)]
pub struct Neighbors {
    limit: usize,
    range: DistanceRange,
    farthest_first: BinaryHeap<Neighbor>,
    /// The farthest of those that are nearer than the range, if these are kept.
    nearer: Option<BinaryHeap<Reverse<Neighbor>>>,
}

impl Neighbors {
    /// None yet, at most `limit` later.
    pub fn new(limit: usize, range: DistanceRange) -> Self {
        Self { limit, range, farthest_first: BinaryHeap::new(), nearer: None }
    }

    /// Keeps as many rows again that are a little nearer than the range: of distances that are about right some of these
    /// belong to it.
    #[must_use]
    pub fn with_nearer(self) -> Self {
        Self { nearer: self.range.lower.map(|_| BinaryHeap::new()), ..self }
    }

    /// Whether rows are kept that are nearer than the range.
    pub fn has_nearer(&self) -> bool {
        self.nearer.is_some()
    }

    /// Keeps a row if it is among the nearest.
    #[inline]
    pub fn offer(&mut self, row: Neighbor) {
        if !self.range.contains(row.distance) {
            self.offer_nearer(row);
            return;
        }
        if self.farthest_first.len() < self.limit {
            self.farthest_first.push(row);
        } else if let Some(mut farthest) = self.farthest_first.peek_mut()
            && row < *farthest
        {
            *farthest = row;
        }
    }

    fn offer_nearer(&mut self, row: Neighbor) {
        if let Some(nearer) = &mut self.nearer
            && self.range.lower.is_some_and(|lower| row.distance < lower)
        {
            nearer.push(Reverse(row));
            if nearer.len() > self.limit {
                nearer.pop();
            }
        }
    }

    /// The distance beyond which no row is kept any more.
    #[inline]
    pub fn threshold(&self) -> f32 {
        match self.farthest_first.peek() {
            Some(farthest) if self.farthest_first.len() >= self.limit => farthest.distance,
            None if self.limit == 0 => f32::NEG_INFINITY,
            _ => f32::INFINITY,
        }
    }

    /// Whether a distance counts.
    #[inline]
    pub fn accepts(&self, distance: f32) -> bool {
        self.range.contains(distance)
    }

    /// How many rows are kept at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many rows in the range are kept so far.
    pub fn len(&self) -> usize {
        self.farthest_first.len()
    }

    /// Whether no row in the range is kept so far.
    pub fn is_empty(&self) -> bool {
        self.farthest_first.is_empty()
    }

    /// The rows, the nearest first.
    pub fn into_sorted(self) -> Vec<Neighbor> {
        let mut sorted: Vec<Neighbor> = self.nearer.into_iter().flatten().map(|Reverse(row)| row).collect();
        sorted.sort_unstable();
        sorted.extend(self.farthest_first.into_sorted_vec());
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(nearest: Neighbors) -> Vec<u64> {
        nearest.into_sorted().into_iter().map(|row| row.id).collect()
    }

    #[test]
    fn rows_a_little_nearer_than_the_range() {
        let range = DistanceRange { lower: Some(5.0), upper: None };
        let (mut within, mut around) = (Neighbors::new(2, range), Neighbors::new(2, range).with_nearer());
        for id in [7_u8, 3, 9, 1, 5, 4, 6] {
            for nearest in [&mut within, &mut around] {
                nearest.offer(Neighbor { distance: f32::from(id), id: id.into(), address: 0 });
            }
        }
        assert_eq!((within.has_nearer(), around.has_nearer(), around.len()), (false, true, 2));
        assert_eq!((found(within), found(around)), (vec![5, 6], vec![3, 4, 5, 6]));
        assert!(!Neighbors::new(2, DistanceRange::default()).with_nearer().has_nearer());
    }
}
