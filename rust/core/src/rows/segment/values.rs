//! A list of numbers as little-endian offsets from a base (`EncodedU64Array`, table format 4.1).
//!
//! | width | offset | used when largest less smallest is at most |
//! |---|---|---|
//! | 2 | u16 | 65,535 |
//! | 4 | u32 | 4,294,967,295 |
//! | 8 | u64 | base is 0, the offset is the value |
//!
//! The bytes are those of the message: decoding checks them and copies nothing. No value passes 2^64.

use std::ops::Range;

use bytes::Bytes;

use crate::rows::{to_index, to_u64};
use crate::{Error, Result};

/// Bytes of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
    Eight,
}

impl Width {
    /// The narrowest for values that are at most so far apart.
    pub(super) fn for_spread(spread: u64) -> Self {
        if spread <= u16::MAX.into() {
            Self::Two
        } else if spread <= u32::MAX.into() {
            Self::Four
        } else {
            Self::Eight
        }
    }

    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Numbers by position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Values {
    base: u64,
    width: Width,
    bytes: Bytes,
}

/// Runs the body with the offsets as fixed-size pieces and the function that makes one a number.
macro_rules! with_offsets {
    ($values:expr, |$pieces:ident, $widen:ident| $body:expr) => {
        match $values.width {
            Width::Two => {
                let $pieces = $values.bytes.as_chunks::<2>().0;
                let $widen = |piece: &[u8; 2]| u64::from(u16::from_le_bytes(*piece));
                $body
            }
            Width::Four => {
                let $pieces = $values.bytes.as_chunks::<4>().0;
                let $widen = |piece: &[u8; 4]| u64::from(u32::from_le_bytes(*piece));
                $body
            }
            Width::Eight => {
                let $pieces = $values.bytes.as_chunks::<8>().0;
                let $widen = |piece: &[u8; 8]| u64::from_le_bytes(*piece);
                $body
            }
        }
    };
}

impl Values {
    /// Checks stored offsets. Errors: `Corrupt` if the bytes are no whole number of offsets or a value passes 2^64.
    pub(crate) fn new(base: u64, width: Width, bytes: Bytes) -> Result<Self> {
        let found = to_u64(bytes.len());
        if !found.is_multiple_of(width.bytes()) {
            let width = width.bytes();
            return Err(Error::corrupt(format!("an array of {found} bytes, expected a multiple of {width}")));
        }
        let values = Self { base, width, bytes };
        if base > u64::MAX - u64::from(u32::MAX) || (base > 0 && width == Width::Eight) {
            let largest = with_offsets!(values, |pieces, widen| pieces.iter().map(widen).max()).unwrap_or(0);
            if base.checked_add(largest).is_none() {
                return Err(Error::corrupt(format!("offset {largest} from {base} overflows")));
            }
        }
        Ok(values)
    }

    /// Encodes values of which these are the smallest and the largest, in the narrowest width.
    pub(super) fn encode(values: impl Iterator<Item = u64>, min: u64, max: u64, count: usize) -> Self {
        let width = if count == 0 { Width::Eight } else { Width::for_spread(max.saturating_sub(min)) };
        let base = if width == Width::Eight { 0 } else { min };
        let mut bytes = vec![0; count.saturating_mul(to_index(width.bytes()))];
        match width {
            // Offsets fit the width: that is how it was chosen.
            Width::Two => fill(&mut bytes, values, |value| low16(value - base)),
            Width::Four => fill(&mut bytes, values, |value| low32(value - base)),
            Width::Eight => fill(&mut bytes, values, u64::to_le_bytes),
        }
        Self { base, width, bytes: bytes.into() }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn width(&self) -> Width {
        self.width
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn len(&self) -> u64 {
        to_u64(self.bytes.len()) / self.width.bytes()
    }

    pub(crate) fn get(&self, position: u64) -> Option<u64> {
        let at = to_index(position);
        with_offsets!(self, |pieces, widen| pieces.get(at).map(|piece| self.base + widen(piece)))
    }

    /// Appends the values at the positions, clipped to what there is.
    pub(crate) fn append_to(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        let range = to_index(positions.start)..to_index(positions.end.min(self.len()));
        with_offsets!(self, |pieces, widen| {
            let pieces = pieces.get(range).unwrap_or_default();
            out.extend(pieces.iter().map(|piece| self.base + widen(piece)));
        });
    }

    /// Whether each value is larger than the one before.
    pub(super) fn ascend(&self) -> bool {
        with_offsets!(self, |pieces, widen| pieces.is_sorted_by(|a, b| widen(a) < widen(b)))
    }

    /// The smallest and the largest value.
    pub(crate) fn min_max(&self) -> Option<(u64, u64)> {
        let (min, max) = with_offsets!(self, |pieces, widen| {
            pieces.iter().map(widen).fold((u64::MAX, 0), |(min, max), v| (v.min(min), v.max(max)))
        });
        (min <= max).then(|| (self.base + min, self.base + max))
    }

    /// Number of values below this one, if they ascend.
    pub(super) fn below(&self, value: u64) -> u64 {
        let Some(offset) = value.checked_sub(self.base) else { return 0 };
        with_offsets!(self, |pieces, widen| to_u64(pieces.partition_point(|piece| widen(piece) < offset)))
    }

    /// How many values, which ascend, are before the first for which the condition on position and value is false;
    /// it must be false for all after that.
    pub(super) fn partition(&self, condition: impl Fn(u64, u64) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(|value| condition(middle, value)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn fill<const N: usize>(
    bytes: &mut [u8],
    values: impl Iterator<Item = u64>,
    encode: impl Fn(u64) -> [u8; N],
) {
    bytes.as_chunks_mut::<N>().0.iter_mut().zip(values).for_each(|(slot, value)| *slot = encode(value));
}

#[expect(clippy::cast_possible_truncation, reason = "the width was chosen by the largest offset")]
fn low16(offset: u64) -> [u8; 2] {
    (offset as u16).to_le_bytes()
}

#[expect(clippy::cast_possible_truncation, reason = "the width was chosen by the largest offset")]
fn low32(offset: u64) -> [u8; 4] {
    (offset as u32).to_le_bytes()
}
