//! A segment of consecutive ids without some of them: one bit per id of the range, set where the id is there.
//!
//! Id start + i is bit i % 8 of byte i / 8, least significant first; bits behind the end are zero. The bits are those
//! of the message; a directory next to them makes position and get take the same time wherever they look.

use std::ops::Range;

use bytes::Bytes;

use super::range::Consecutive;
use super::rank::{Directory, word};
use crate::rows::{to_index, to_u64};
use crate::{Error, Result};

/// A range and a bit for each of its ids.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WithBitmap {
    range: Consecutive,
    bits: Bytes,
    directory: Directory,
}

impl WithBitmap {
    /// Errors: `Corrupt` for bits that are not as many as ids, or set behind the end.
    pub(crate) fn new(range: Consecutive, bits: Bytes) -> Result<Self> {
        check_length(range, bits.len())?;
        let odd = range.len() % 8;
        if odd != 0 && bits.last().is_some_and(|last| last >> odd != 0) {
            return Err(Error::corrupt(format!("a bitmap with bits set behind its {} ids", range.len())));
        }
        Ok(Self::trusted(range.range(), bits))
    }

    /// Bits that are known to be right.
    pub(super) fn trusted(range: Range<u64>, bits: Bytes) -> Self {
        let directory = Directory::new(&bits);
        Self { range: Consecutive::of(range), bits, directory }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.range.range()
    }

    pub(crate) fn bits(&self) -> &Bytes {
        &self.bits
    }

    pub(super) fn len(&self) -> u64 {
        self.directory.ones()
    }

    pub(super) fn get(&self, position: u64) -> Option<u64> {
        Some(self.range().start + self.directory.select(&self.bits, position)?)
    }

    pub(super) fn position(&self, id: u64) -> Option<u64> {
        let bit = self.range.position(id)?;
        let byte = self.bits.get(to_index(bit / 8))?;
        (byte >> (bit % 8) & 1 == 1).then(|| self.directory.rank(&self.bits, bit))
    }

    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        self.range.bounds()
    }

    pub(super) fn append_to(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        out.reserve(to_index(positions.end.min(self.len()).saturating_sub(positions.start)));
        self.words(positions, |base, mut word| {
            if word == u64::MAX {
                return out.extend((0..64).map(|bit| base + bit));
            }
            while word != 0 {
                out.push(base + u64::from(word.trailing_zeros()));
                word &= word - 1;
            }
        });
    }

    /// Gives the ids at the positions as runs from first to last; a run may continue in the next.
    pub(super) fn runs(&self, positions: Range<u64>, mut run: impl FnMut(u64, u64)) {
        self.words(positions, |base, mut word| {
            while word != 0 {
                let first = word.trailing_zeros();
                let length = (word >> first).trailing_ones();
                let start = base + u64::from(first);
                run(start, start + u64::from(length) - 1);
                // Adding at the first bit carries past the run, which clears it.
                word &= word.wrapping_add(1 << first);
            }
        });
    }

    /// Gives the words that hold the ids at the positions, other ids cleared, each with the id of its first bit.
    fn words(&self, positions: Range<u64>, mut each: impl FnMut(u64, u64)) {
        let Some(first) = self.directory.select(&self.bits, positions.start) else { return };
        let mut left = positions.end.min(self.len()).saturating_sub(positions.start);
        let mut at = to_index(first / 64);
        let mut bits = word(&self.bits, at) & u64::MAX << (first % 64);
        while left > 0 {
            let ones = u64::from(bits.count_ones());
            if ones > left {
                // Only the lowest ones are wanted.
                let mut kept = bits;
                (0..left).for_each(|_| kept &= kept.wrapping_sub(1));
                bits ^= kept;
            }
            if bits != 0 {
                each(self.range().start + to_u64(at) * 64, bits);
            }
            left = left.saturating_sub(ones);
            at += 1;
            bits = word(&self.bits, at);
        }
    }
}

/// A bitmap has one bit per id, in whole bytes.
pub(crate) fn check_length(range: Consecutive, bytes: usize) -> Result<()> {
    if to_u64(bytes) == range.len().div_ceil(8) {
        return Ok(());
    }
    Err(Error::corrupt(format!("a bitmap of {bytes} bytes for {} ids", range.len())))
}
