//! Whole bytes and bits, taken from the buffers of several arrays.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use pennon_core::{Error, Result};

/// Buffers one after another.
#[derive(Debug, Default)]
pub(crate) struct Rope {
    parts: Vec<Buffer>,
    /// Where each part ends.
    ends: Vec<usize>,
}

impl Rope {
    /// These buffers in order.
    pub(crate) fn new(mut parts: Vec<Buffer>) -> Self {
        parts.retain(|part| !part.is_empty());
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.len();
            end
        });
        Self { ends: ends.collect(), parts }
    }

    /// Bytes of all buffers.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Appends `len` bytes from `at`; fewer when there are no more.
    pub(crate) fn copy(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        self.pieces(at, len).for_each(|piece| out.extend_from_slice(piece));
    }

    /// The `len` bytes from `at`; fewer when there are no more. Copied only if they lie in several buffers.
    pub(crate) fn slice<'a>(&'a self, at: usize, len: usize, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        match self.pieces(at, len).next() {
            Some(piece) if piece.len() == len => piece,
            _ => {
                scratch.clear();
                self.copy(at, len, scratch);
                scratch
            }
        }
    }

    fn pieces(&self, at: usize, len: usize) -> impl Iterator<Item = &[u8]> {
        let first = self.ends.partition_point(|&end| end <= at);
        let start =
            first.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let mut skip = at - start.min(at);
        let mut left = len;
        self.parts.iter().skip(first).map_while(move |part| {
            let rest = part.get(std::mem::take(&mut skip)..).unwrap_or_default();
            let piece = rest.get(..left).unwrap_or(rest);
            left -= piece.len();
            Some(piece).filter(|piece| !piece.is_empty())
        })
    }

    /// All buffers.
    pub(crate) fn parts(&self) -> &[Buffer] {
        &self.parts
    }

    /// All bytes in one vector.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.copy(0, self.len(), &mut all);
        all
    }
}

/// Sets the values with these indices to zero.
pub(crate) fn zero(values: &mut [u8], width: usize, indices: impl Iterator<Item = usize>) {
    for index in indices {
        if let Some(value) = values.get_mut(index * width..(index + 1) * width) {
            value.fill(0);
        }
    }
}

/// The bytes of an array of fixed width.
pub(crate) fn fixed_bytes(array: &ArrayRef, width: usize) -> Result<Buffer> {
    let data = array.to_data();
    let (start, len) = (data.offset() * width, data.len() * width);
    match data.buffers().first() {
        Some(buffer) if start + len <= buffer.len() => Ok(buffer.slice_with_length(start, len)),
        _ => Err(Error::internal(format!("array of type {} without {len} bytes", array.data_type()))),
    }
}

/// Appends 16-bit numbers.
pub(crate) fn put_u16(values: &[u16], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * 2, 0);
    let (slots, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<2>();
    for (slot, number) in slots.iter_mut().zip(values) {
        *slot = number.to_le_bytes();
    }
}

/// Appends the low `width` bytes of a number.
pub(crate) fn put_uint(number: u64, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_le_bytes().get(..width).unwrap_or_default());
}

/// Appends zeros up to the next multiple of `alignment`, counted from `start`.
pub(crate) fn pad(alignment: usize, start: usize, out: &mut Vec<u8>) {
    out.resize(start + (out.len() - start).next_multiple_of(alignment), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rope_crosses_its_parts() {
        let parts = [&[1u8, 2, 3][..], &[], &[4, 5, 6, 7]];
        let rope = Rope::new(parts.map(Buffer::from).to_vec());
        let mut out = Vec::new();
        rope.copy(0, 2, &mut out);
        rope.copy(2, 0, &mut out);
        rope.copy(2, 3, &mut out);
        rope.copy(6, 9, &mut out);
        rope.copy(7, 1, &mut out);
        assert_eq!(out, [1, 2, 3, 4, 5, 7]);
        assert_eq!(rope.to_vec(), [1, 2, 3, 4, 5, 6, 7]);
        let mut scratch = vec![9];
        assert_eq!(rope.slice(3, 2, &mut scratch), [4, 5]);
        assert_eq!(rope.slice(2, 4, &mut scratch), [3, 4, 5, 6]);
        assert_eq!(rope.slice(3, 9, &mut scratch), [4, 5, 6, 7]);
    }

    #[test]
    fn zeroing_and_numbers() {
        let mut values = vec![1u8; 6];
        zero(&mut values, 2, [1].into_iter());
        assert_eq!(values, [1, 1, 0, 0, 1, 1]);
        put_u16(&[0x0102], &mut values);
        put_uint(0x0a0b_0c0d, 3, &mut values);
        pad(8, 3, &mut values);
        assert_eq!(values[6..], [2, 1, 0x0d, 0x0c, 0x0b]);
    }
}
