//! A segment: a piece of an id sequence (table format 4.1).
//!
//! | form | values | on the wire |
//! |---|---|---|
//! | range | start, start + 1 ... end - 1 | two numbers |
//! | holes | a range without some of its values | and the missing values, sorted |
//! | bitmap | a range without some of its values | one bit per value, least significant first, padding zero |
//! | sorted | any, ascending | offsets of 2, 4 or 8 bytes from the smallest |
//! | array | any, in any order | the same |
//!
//! Which form values get is decided in `choose`. Decoding allocates in proportion to the bytes it is given; a range
//! is never expanded.

mod choose;
mod wire;

use std::ops::Range;

use bytes::Bytes;
pub(super) use choose::choose;

use super::{to_index, to_u64};

/// Bytes of a bitmap that share an entry of the rank directory.
const BLOCK: usize = 64;

/// One piece of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Segment {
    Range(Range<u64>),
    Holes { range: Range<u64>, holes: Vec<u64> },
    Bitmap(Bitmap),
    Sorted(Vec<u64>),
    Array(Vec<u64>),
}

/// A range with a bit per value, and the number of bits set before each block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bitmap {
    range: Range<u64>,
    bits: Bytes,
    ranks: Vec<u64>,
}

impl Bitmap {
    fn new(range: Range<u64>, bits: Bytes) -> Self {
        let mut total = 0;
        let mut ranks = vec![0];
        for block in bits.chunks(BLOCK) {
            total += block.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
            ranks.push(total);
        }
        Self { range, bits, ranks }
    }

    fn len(&self) -> u64 {
        self.ranks.last().copied().unwrap_or_default()
    }

    fn contains(&self, value: u64) -> bool {
        let Some(bit) = value.checked_sub(self.range.start) else { return false };
        value < self.range.end
            && self.bits.get(to_index(bit / 8)).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// Number of values below `value`, which lies in the range.
    fn rank(&self, value: u64) -> u64 {
        let bit = value.saturating_sub(self.range.start);
        let byte = to_index(bit / 8);
        let block = byte / BLOCK;
        let before = self.ranks.get(block).copied().unwrap_or_default();
        let whole = self.bits.get(block * BLOCK..byte).unwrap_or_default();
        let part = self.bits.get(byte).map_or(0, |b| b & !(0xff_u8.checked_shl(low3(bit)).unwrap_or(0)));
        before + whole.iter().map(|b| u64::from(b.count_ones())).sum::<u64>() + u64::from(part.count_ones())
    }

    /// The value at a position.
    fn get(&self, position: u64) -> Option<u64> {
        if position >= self.len() {
            return None;
        }
        let block = self.ranks.partition_point(|&rank| rank <= position).checked_sub(1)?;
        let mut left = position - self.ranks.get(block)?;
        let first = block * BLOCK;
        for (at, &byte) in self.bits.get(first..)?.iter().enumerate() {
            let ones = u64::from(byte.count_ones());
            if left < ones {
                let bit = (0..8).filter(|bit| byte >> bit & 1 == 1).nth(to_index(left))?;
                return Some(self.range.start + to_u64(first + at) * 8 + bit);
            }
            left -= ones;
        }
        None
    }
}

fn low3(bit: u64) -> u32 {
    u32::try_from(bit % 8).unwrap_or_default()
}

impl Segment {
    /// Number of values.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Range(range) => range.end - range.start,
            Self::Holes { range, holes } => (range.end - range.start).saturating_sub(to_u64(holes.len())),
            Self::Bitmap(bitmap) => bitmap.len(),
            Self::Sorted(values) | Self::Array(values) => to_u64(values.len()),
        }
    }

    /// The value at a position.
    pub(super) fn get(&self, position: u64) -> Option<u64> {
        if position >= self.len() {
            return None;
        }
        match self {
            Self::Range(range) => Some(range.start + position),
            Self::Holes { range, holes } => {
                // The number of holes before the value: hole i is passed if the values before it do not suffice.
                let passed = |(at, hole): (usize, &u64)| hole - range.start - to_u64(at) <= position;
                let (mut low, mut high) = (0, holes.len());
                while low < high {
                    let middle = low + (high - low) / 2;
                    if holes.get(middle).is_some_and(|hole| passed((middle, hole))) {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                Some(range.start + position + to_u64(low))
            }
            Self::Bitmap(bitmap) => bitmap.get(position),
            Self::Sorted(values) | Self::Array(values) => values.get(to_index(position)).copied(),
        }
    }

    /// The first position of a value.
    pub(super) fn position(&self, value: u64) -> Option<u64> {
        match self {
            Self::Range(range) => range.contains(&value).then(|| value - range.start),
            Self::Holes { range, holes } => match holes.binary_search(&value) {
                Err(before) if range.contains(&value) => Some(value - range.start - to_u64(before)),
                _ => None,
            },
            Self::Bitmap(bitmap) => bitmap.contains(value).then(|| bitmap.rank(value)),
            Self::Sorted(values) => values.binary_search(&value).ok().map(to_u64),
            Self::Array(values) => values.iter().position(|&v| v == value).map(to_u64),
        }
    }

    /// Smallest and largest value. May be wider than the values of a range with holes at its ends.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        match self {
            Self::Range(range) | Self::Holes { range, .. } => {
                (!range.is_empty()).then(|| (range.start, range.end - 1))
            }
            Self::Bitmap(bitmap) => {
                (!bitmap.range.is_empty()).then(|| (bitmap.range.start, bitmap.range.end - 1))
            }
            Self::Sorted(values) => Some((*values.first()?, *values.last()?)),
            Self::Array(values) => Some((*values.iter().min()?, *values.iter().max()?)),
        }
    }

    /// Appends the values at the positions to `out`.
    pub(super) fn extend_into(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        let positions = positions.start..positions.end.min(self.len());
        if positions.is_empty() {
            return;
        }
        match self {
            Self::Range(range) => out.extend(range.start + positions.start..range.start + positions.end),
            Self::Sorted(values) | Self::Array(values) => {
                let range = to_index(positions.start)..to_index(positions.end);
                out.extend_from_slice(values.get(range).unwrap_or_default());
            }
            Self::Holes { range, holes } => {
                let Some(mut next) = self.get(positions.start) else { return };
                let mut left = positions.end - positions.start;
                let first = holes.partition_point(|&hole| hole < next);
                for &hole in holes.get(first..).unwrap_or_default().iter().chain([&range.end]) {
                    let take = (hole - next).min(left);
                    out.extend(next..next + take);
                    left -= take;
                    next = hole.saturating_add(1);
                    if left == 0 {
                        return;
                    }
                }
            }
            Self::Bitmap(bitmap) => {
                let Some(first) = bitmap.get(positions.start) else { return };
                let count = to_index(positions.end - positions.start);
                out.extend((first..bitmap.range.end).filter(|&value| bitmap.contains(value)).take(count));
            }
        }
    }

    /// The same segment with only the values at these positions.
    pub(super) fn slice(&self, positions: Range<u64>) -> Self {
        let positions = positions.start..positions.end.min(self.len());
        match self {
            _ if positions.is_empty() => Self::Range(0..0),
            _ if positions == (0..self.len()) => self.clone(),
            Self::Range(range) => Self::Range(range.start + positions.start..range.start + positions.end),
            _ => {
                let mut values = Vec::with_capacity(to_index(positions.end - positions.start));
                self.extend_into(positions, &mut values);
                choose(&values)
            }
        }
    }
}
