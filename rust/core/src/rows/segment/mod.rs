//! A segment: a piece of an id sequence (table format 4.1), in one file per form.
//!
//! | form | ids | on the wire |
//! |---|---|---|
//! | `range` | start, start + 1 ... end - 1 | two numbers |
//! | `range_with_holes` | a range without some | and the missing ones, ascending |
//! | `range_with_bitmap` | a range without some | one bit per id, least significant first, padding zero |
//! | `sorted_array` | any, ascending | offsets of 2, 4 or 8 bytes from the smallest |
//! | `array` | any, in any order | the same |
//!
//! Which form ids get is decided in `choose`. Only the conversion in `wire::rows` matches on the variants as well. A
//! segment holds the bytes it was decoded from; a range is never expanded.

pub(crate) mod array;
mod choose;
pub(crate) mod range;
pub(crate) mod range_with_bitmap;
pub(crate) mod range_with_holes;
mod rank;
pub(crate) mod sorted_array;
pub(crate) mod values;

use std::ops::Range;
use std::sync::Arc;

use array::UnsortedArray;
use choose::Runs;
pub(super) use choose::{choose_runs, choose_several};
use range::Consecutive;
use range_with_bitmap::WithBitmap;
use range_with_holes::WithHoles;
use sorted_array::SortedArray;

/// One piece of a sequence. Cheap to copy and 24 bytes: a sequence may have 200,000 of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Segment {
    Range(Consecutive),
    Holes(Arc<WithHoles>),
    Bitmap(Arc<WithBitmap>),
    Sorted(Arc<SortedArray>),
    Array(Arc<UnsortedArray>),
}

/// Ids of a segment at ranges of positions.
struct Selected<'a, I>(&'a Segment, I);

impl<I: Iterator<Item = Range<u64>> + Clone> Runs for Selected<'_, I> {
    fn each(&self, mut run: impl FnMut(u64, u64)) {
        self.1.clone().for_each(|positions| self.0.runs(positions, &mut run));
    }
}

macro_rules! each {
    ($segment:expr, $form:ident => $body:expr) => {
        match $segment {
            Segment::Range($form) => $body,
            Segment::Holes($form) => $body,
            Segment::Bitmap($form) => $body,
            Segment::Sorted($form) => $body,
            Segment::Array($form) => $body,
        }
    };
}

impl Segment {
    /// Consecutive ids.
    pub(super) fn range(ids: Range<u64>) -> Self {
        Self::Range(Consecutive::of(ids))
    }

    /// The ids of a range, if it is one.
    pub(super) fn as_range(&self) -> Option<Range<u64>> {
        match self {
            Self::Range(range) => Some(range.range()),
            _ => None,
        }
    }

    /// Whether each id is larger than the one before.
    pub(super) fn ascends(&self) -> bool {
        !matches!(self, Self::Array(_))
    }

    /// Number of ids.
    pub(crate) fn len(&self) -> u64 {
        each!(self, form => form.len())
    }

    /// The id at a position.
    pub(super) fn get(&self, position: u64) -> Option<u64> {
        each!(self, form => form.get(position))
    }

    /// The first position of an id.
    pub(super) fn position(&self, id: u64) -> Option<u64> {
        each!(self, form => form.position(id))
    }

    /// Smallest and largest id. May be wider than the ids are if ids at the ends of a range are missing.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        each!(self, form => form.bounds())
    }

    /// Appends the ids at the positions, clipped to what there is, to `out`.
    pub(super) fn append_to(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        each!(self, form => form.append_to(positions, out));
    }

    /// Gives the ids at the positions as runs from first to last; a list gives single ids.
    pub(super) fn runs(&self, positions: Range<u64>, mut run: impl FnMut(u64, u64)) {
        match self {
            Self::Range(range) => range.runs(positions, run),
            Self::Holes(form) => form.runs(positions, run),
            Self::Bitmap(form) => form.runs(positions, run),
            Self::Sorted(_) | Self::Array(_) => {
                let mut ids = Vec::new();
                self.append_to(positions, &mut ids);
                ids.into_iter().for_each(|id| run(id, id));
            }
        }
    }

    /// Segments with the ids at ascending ranges of positions, all within this one.
    pub(super) fn select(
        &self,
        positions: impl Iterator<Item = Range<u64>> + Clone,
        mut segment: impl FnMut(Self),
    ) {
        if positions.clone().next().is_some_and(|first| first == (0..self.len())) {
            return segment(self.clone());
        }
        match self {
            Self::Range(_) | Self::Holes(_) | Self::Bitmap(_) => {
                choose_runs(&Selected(self, positions), segment);
            }
            Self::Sorted(_) | Self::Array(_) => {
                let mut ids = Vec::new();
                positions.for_each(|range| self.append_to(range, &mut ids));
                choose_several(&ids, segment);
            }
        }
    }
}
