//! Offsets and bytes of strings, as a mini-block buffer and as a block of dictionary items.

use arrow_buffer::Buffer;

use crate::encodings::flat::encode::{Rope, pad, put_uint};
use crate::encodings::le::Number;

/// Slots of strings or binary: where each value ends, and the bytes of all of them.
#[derive(Debug)]
pub(crate) struct Variable {
    /// One more than there are slots, starting with 0; null slots are empty.
    pub offsets: Vec<u64>,
    /// The bytes, in order.
    pub bytes: Rope,
    /// Bytes of an offset on disk, 4 or 8.
    pub width: usize,
}

impl Variable {
    /// Copies of these values.
    pub(crate) fn of(values: &[&[u8]], width: usize) -> Self {
        let ends = values.iter().scan(0, |end, value| {
            *end += value.len() as u64;
            Some(*end)
        });
        let offsets = std::iter::once(0).chain(ends).collect();
        Self { offsets, bytes: Rope::new(vec![Buffer::from_vec(values.concat())]), width }
    }

    /// Bytes of the slots from `at`, without offsets.
    pub(crate) fn value_bytes(&self, at: usize, len: usize) -> u64 {
        let offset = |i: usize| self.offsets.get(i).copied().unwrap_or_default();
        offset(at + len) - offset(at)
    }

    /// The longest value.
    pub(crate) fn longest(&self) -> u64 {
        self.offsets
            .iter()
            .zip(self.offsets.iter().skip(1))
            .map(|(start, end)| end - start)
            .max()
            .unwrap_or_default()
    }

    /// Appends slots as a mini-block buffer: offsets relative to the buffer, then the bytes (file format 4.5).
    pub(crate) fn put_chunk(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let head = (len + 1) * self.width;
        let Some(offsets) = self.offsets.get(at..=at + len) else { return };
        let first = offsets.first().copied().unwrap_or_default();
        put_offsets(offsets, first, head as u64, self.width, out);
        self.copy(at, len, out);
        pad(self.width, start, out);
    }

    /// All values in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &[u8]> {
        // A value is in one buffer, as in its array.
        let mut parts = self.bytes.parts().iter().map(|part| part.as_slice());
        let mut part: &[u8] = &[];
        self.offsets.iter().zip(self.offsets.iter().skip(1)).map(move |(start, end)| {
            let len = (end - start).size();
            if part.is_empty() && len > 0 {
                part = parts.next().unwrap_or_default();
            }
            let (value, rest) = part.split_at_checked(len).unwrap_or_default();
            part = rest;
            value
        })
    }

    /// Where the bytes of a slot start.
    pub(crate) fn start(&self, at: usize) -> usize {
        self.offsets.get(at).map_or(0, |offset| offset.size())
    }

    /// Appends the bytes of slots.
    pub(crate) fn copy(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        self.bytes.copy(self.start(at), self.value_bytes(at, len).size(), out);
    }
}

/// Appends a block: bits per offset, position of the bytes, offsets from 0, bytes (file format 2.5).
pub(crate) fn put_block(offsets: &[u64], bytes: &[u8], width: usize, out: &mut Vec<u8>) {
    put_uint(width as u64 * 8, width, out);
    put_uint(((offsets.len() + 2) * width) as u64, width, out);
    put_offsets(offsets, 0, 0, width, out);
    out.extend_from_slice(bytes);
}

/// Appends `offset - first + base` for each offset.
fn put_offsets(offsets: &[u64], first: u64, base: u64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + offsets.len() * width, 0);
    let slots = out.get_mut(start..).unwrap_or_default();
    let moved = offsets.iter().map(|offset| offset - first + base);
    if width == 4 {
        for (slot, offset) in slots.as_chunks_mut::<4>().0.iter_mut().zip(moved) {
            let bytes = offset.to_le_bytes();
            *slot = *bytes.first_chunk().unwrap_or(&[0; 4]);
        }
    } else {
        for (slot, offset) in slots.as_chunks_mut::<8>().0.iter_mut().zip(moved) {
            *slot = offset.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_buffer::Buffer;

    #[test]
    fn chunk_offsets_start_behind_the_offsets() {
        let bytes = Rope::new([&b"ab"[..], b"cde"].map(Buffer::from).to_vec());
        let v = Variable { offsets: vec![0, 2, 2, 5], bytes, width: 4 };
        let mut out = vec![9; 8];
        v.put_chunk(0, 2, &mut out);
        assert_eq!(out[8..], [12, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0, b'a', b'b', 0, 0]);
        let mut out = Vec::new();
        v.put_chunk(2, 1, &mut out);
        assert_eq!(out, [8, 0, 0, 0, 11, 0, 0, 0, b'c', b'd', b'e', 0]);
        assert_eq!(v.longest(), 3);
        assert_eq!(v.values().collect::<Vec<_>>(), [&b"ab"[..], b"", b"cde"]);
    }

    #[test]
    fn block_of_items() {
        let mut out = Vec::new();
        put_block(&[0, 1, 3], b"abb", 4, &mut out);
        assert_eq!(out, [32, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'b']);
    }
}
