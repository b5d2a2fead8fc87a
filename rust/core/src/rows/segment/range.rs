//! A segment of consecutive ids: start, start + 1, ... end - 1.

use std::ops::Range;

use crate::{Error, Result};

/// Consecutive ids. The start is not behind the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consecutive {
    start: u64,
    end: u64,
}

impl Consecutive {
    /// Errors: `Corrupt` if the end comes before the start.
    pub(crate) fn new(start: u64, end: u64) -> Result<Self> {
        if start > end {
            return Err(Error::corrupt(format!("a segment from {start} to {end}")));
        }
        Ok(Self { start, end })
    }

    /// The ids of a range; none if it is the wrong way round.
    pub(super) fn of(range: Range<u64>) -> Self {
        Self { start: range.start, end: range.end.max(range.start) }
    }

    pub(crate) fn range(self) -> Range<u64> {
        self.start..self.end
    }

    pub(super) fn len(self) -> u64 {
        self.end - self.start
    }

    pub(super) fn get(self, position: u64) -> Option<u64> {
        (position < self.len()).then(|| self.start + position)
    }

    pub(super) fn position(self, id: u64) -> Option<u64> {
        self.range().contains(&id).then(|| id - self.start)
    }

    pub(crate) fn bounds(self) -> Option<(u64, u64)> {
        (self.start < self.end).then(|| (self.start, self.end - 1))
    }

    /// The ids at the positions, clipped to what there is.
    pub(super) fn part(self, positions: Range<u64>) -> Range<u64> {
        let end = positions.end.min(self.len());
        self.start + positions.start.min(end)..self.start + end
    }

    pub(super) fn append_to(self, positions: Range<u64>, out: &mut Vec<u64>) {
        out.extend(self.part(positions));
    }

    pub(super) fn runs(self, positions: Range<u64>, mut run: impl FnMut(u64, u64)) {
        let part = self.part(positions);
        if !part.is_empty() {
            run(part.start, part.end - 1);
        }
    }
}
