//! Validity bits that cost nothing until the first null.

use std::ops::Range;

use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Validity of values appended so far; bits exist from the first null on.
#[derive(Debug, Default)]
pub(crate) struct Validity {
    len: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl Validity {
    /// Values so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends valid values.
    pub(crate) fn append_valid(&mut self, n: usize) {
        if let Some(bits) = &mut self.bits {
            bits.append_n(n, true);
        }
        self.len += n;
    }

    /// Appends null values.
    pub(crate) fn append_null(&mut self, n: usize) {
        if n > 0 {
            self.materialize().append_n(n, false);
            self.len += n;
        }
    }

    /// Appends one value.
    pub(crate) fn append(&mut self, valid: bool) {
        if valid { self.append_valid(1) } else { self.append_null(1) }
    }

    /// Appends bits of a bitmap, 1 being valid. The range lies within the bitmap.
    pub(crate) fn append_bitmap(&mut self, bitmap: &[u8], range: Range<usize>) {
        let len = range.len();
        self.materialize().append_packed_range(range, bitmap);
        self.len += len;
    }

    /// Appends a value per level: valid if the level is at most `valid`.
    pub(crate) fn append_levels(&mut self, levels: &[u16], valid: u16) {
        if self.bits.is_none() && levels.iter().all(|&l| l <= valid) {
            self.len += levels.len();
            return;
        }
        let mut packed = Vec::with_capacity(levels.len().div_ceil(64) * 8);
        for block in levels.chunks(64) {
            let word = block.iter().rev().fold(0u64, |word, &l| word << 1 | u64::from(l <= valid));
            packed.extend_from_slice(&word.to_le_bytes());
        }
        self.append_bitmap(&packed, 0..levels.len());
    }

    /// The null buffer, if there are nulls.
    pub(crate) fn finish(self) -> Option<NullBuffer> {
        let mut bits = self.bits?;
        Some(NullBuffer::new(bits.finish())).filter(|n| n.null_count() > 0)
    }

    fn materialize(&mut self) -> &mut BooleanBufferBuilder {
        let len = self.len;
        self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(len + 64);
            bits.append_n(len, true);
            bits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_without_nulls() {
        let mut v = Validity::default();
        v.append_valid(100);
        v.append_levels(&[0; 70], 0);
        assert!(v.bits.is_none());
        assert!(v.finish().is_none());
    }

    #[test]
    fn all_ways_of_appending_agree() {
        let mut v = Validity::default();
        v.append_valid(3);
        let levels: Vec<u16> = (0..150).map(|i| i % 3).collect();
        v.append_levels(&levels, 1);
        v.append_null(2);
        v.append(true);
        v.append_bitmap(&[0b1010], 1..4);
        let nulls = v.finish().unwrap();
        let mut expected = vec![true; 3];
        expected.extend(levels.iter().map(|&l| l <= 1));
        expected.extend([false, false, true, true, false, true]);
        assert_eq!(nulls.iter().collect::<Vec<_>>(), expected);
    }
}
