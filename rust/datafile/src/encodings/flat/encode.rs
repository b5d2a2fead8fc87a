//! Whole bytes and bits, taken in order from the buffers of several arrays.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use pennon_core::{Error, Result};

/// Buffers one after another, read from front to back.
#[derive(Debug, Default)]
pub(crate) struct Rope {
    parts: Vec<Buffer>,
    part: usize,
    offset: usize,
}

impl Rope {
    /// These buffers in order.
    pub(crate) fn new(parts: Vec<Buffer>) -> Self {
        Self { parts, part: 0, offset: 0 }
    }

    /// Copies the next `len` bytes; fewer when there are no more.
    pub(crate) fn copy(&mut self, mut len: usize, out: &mut Vec<u8>) {
        while let Some(part) = self.parts.get(self.part) {
            let rest = part.get(self.offset..).unwrap_or_default();
            let taken = rest.get(..len).unwrap_or(rest);
            out.extend_from_slice(taken);
            self.offset += taken.len();
            len -= taken.len();
            if self.offset == part.len() {
                self.part += 1;
                self.offset = 0;
            }
            if len == 0 {
                break;
            }
        }
    }

    /// All buffers.
    pub(crate) fn parts(&self) -> &[Buffer] {
        &self.parts
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
pub(crate) fn put_u16(numbers: &[u16], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + numbers.len() * 2, 0);
    let (places, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<2>();
    for (place, number) in places.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
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
        let mut rope = Rope::new(vec![
            Buffer::from(&[1u8, 2, 3]),
            Buffer::from(&[0u8; 0]),
            Buffer::from(&[4u8, 5, 6, 7]),
        ]);
        let mut out = Vec::new();
        rope.copy(2, &mut out);
        rope.copy(0, &mut out);
        rope.copy(3, &mut out);
        assert_eq!(out, [1, 2, 3, 4, 5]);
        rope.copy(2, &mut out);
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7]);
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
