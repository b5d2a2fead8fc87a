//! A segment of consecutive ids without a few of them, which are listed in ascending order.

use std::ops::Range;

use super::range::Consecutive;
use super::values::Values;
use crate::rows::{BLOCK, to_index, to_u64};
use crate::{Error, Result};

/// A range and the ids it lacks: each of them once, ascending, inside the range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WithHoles {
    range: Consecutive,
    holes: Values,
}

impl WithHoles {
    /// Errors: `Corrupt` for holes that do not ascend or lie outside the range.
    pub(crate) fn new(range: Consecutive, holes: Values) -> Result<Self> {
        let inside = |hole: Option<u64>| hole.is_none_or(|hole| range.range().contains(&hole));
        let last = holes.len().checked_sub(1).and_then(|last| holes.get(last));
        if !holes.ascend() || !inside(holes.get(0)) || !inside(last) {
            return Err(Error::corrupt(format!(
                "holes that do not ascend or lie outside of {:?}",
                range.range()
            )));
        }
        Ok(Self { range, holes })
    }

    /// Holes that are known to be right.
    pub(super) fn trusted(range: Range<u64>, holes: Values) -> Self {
        Self { range: Consecutive::of(range), holes }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.range.range()
    }

    pub(crate) fn holes(&self) -> &Values {
        &self.holes
    }

    pub(super) fn len(&self) -> u64 {
        self.range.len() - self.holes.len()
    }

    pub(super) fn get(&self, position: u64) -> Option<u64> {
        if position >= self.len() {
            return None;
        }
        // A hole comes before the id if the ids before the hole do not suffice.
        let start = self.range().start;
        Some(start + position + self.holes.partition(|at, hole| hole - start - at <= position))
    }

    pub(super) fn position(&self, id: u64) -> Option<u64> {
        let position = self.range.position(id)?;
        let before = self.holes.below(id);
        (self.holes.get(before) != Some(id)).then(|| position - before)
    }

    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        self.range.bounds()
    }

    pub(super) fn append_to(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        out.reserve(to_index(positions.end.min(self.len()).saturating_sub(positions.start)));
        self.runs(positions, |first, last| out.extend(first..last + 1));
    }

    /// Gives the ids at the positions as runs from first to last.
    pub(super) fn runs(&self, positions: Range<u64>, mut run: impl FnMut(u64, u64)) {
        let Some(mut next) = self.get(positions.start) else { return };
        let mut left = positions.end.min(self.len()).saturating_sub(positions.start);
        let end = self.range().end;
        let mut holes = Vec::new();
        let mut passed = self.holes.below(next);
        while left > 0 {
            // A block of holes at a time, so that their width is looked at once.
            holes.clear();
            self.holes.append_to(passed..passed.saturating_add(BLOCK), &mut holes);
            passed += to_u64(holes.len());
            if passed == self.holes.len() {
                holes.push(end);
            }
            for &hole in &holes {
                let take = (hole - next).min(left);
                if take > 0 {
                    run(next, next + take - 1);
                }
                left -= take;
                next = hole.saturating_add(1);
                if left == 0 {
                    return;
                }
            }
        }
    }
}
