//! Packing, in the two forms that are stored: with the width in front (inline) and with the width in the page's
//! encoding (out of line, file format 4.5).
#![expect(clippy::indexing_slicing, reason = "offsets are multiples of the lanes below 1024")]

use super::{GROUP, ORDER};
use crate::encodings::flat::encode::put_u16;
use crate::encodings::le::Number;
use crate::simd::{simd, simd_into};

/// Bytes of a row of packed words, whatever the type.
const ROW: usize = 128;

/// A number that can be packed.
pub(crate) trait Pack: Number {
    /// Appends one group, given as bytes. No value has more than `width` bits. A short group ends in zeros.
    fn pack(values: &[u8], width: usize, out: &mut Vec<u8>) {
        simd_into(values, out, |values, out| Self::pack_portable(values, width, out));
    }

    /// The same in code that the compiler fits to whatever it is inlined into.
    fn pack_portable(values: &[u8], width: usize, out: &mut Vec<u8>);

    /// Bits of the widest value.
    fn width(values: &[u8]) -> usize;
}

macro_rules! pack {
    ($($t:ty),*) => {$(
        impl Pack for $t {
            #[inline(always)]
            fn pack_portable(values: &[u8], width: usize, out: &mut Vec<u8>) {
                const BYTES: usize = size_of::<$t>();
                const BITS: usize = <$t>::BITS as usize;
                const LANES: usize = GROUP / BITS;
                if values.len() < GROUP * BYTES {
                    let mut group = [0; GROUP * BYTES];
                    group[..values.len()].copy_from_slice(values);
                    return Self::pack(&group, width, out);
                }
                let (values, _) = values.as_chunks::<BYTES>();
                let start = out.len();
                out.resize(start + width * ROW, 0);
                let mut rows = out[start..].as_chunks_mut::<ROW>().0.iter_mut();
                let mut words = [0 as $t; LANES];
                // Bits of `words` in use.
                let mut filled = 0;
                for row in 0..BITS {
                    let at = ORDER[row / 8] * 16 + (row % 8) * 128;
                    let values = &values[at..at + LANES];
                    for (word, value) in words.iter_mut().zip(values) {
                        *word |= <$t>::from_le_bytes(*value) << filled;
                    }
                    filled += width;
                    if filled < BITS {
                        continue;
                    }
                    let Some(row) = rows.next() else { break };
                    for (slot, word) in row.as_chunks_mut::<BYTES>().0.iter_mut().zip(&words) {
                        *slot = word.to_le_bytes();
                    }
                    filled -= BITS;
                    if filled == 0 {
                        words = [0; LANES];
                        continue;
                    }
                    for (word, value) in words.iter_mut().zip(values) {
                        *word = <$t>::from_le_bytes(*value) >> (width - filled);
                    }
                }
            }

            fn width(values: &[u8]) -> usize {
                let all = simd(|| Self::iter(values).fold(0, |all, v| all | v));
                (<$t>::BITS - all.leading_zeros()).size()
            }
        }
    )*};
}
pack!(u8, u16, u32, u64);

/// Bytes of an inline group.
pub(crate) fn inline_bytes<T: Pack>(width: usize) -> usize {
    T::BYTES + width * ROW
}

/// Appends up to 1024 values, their width in front.
pub(crate) fn inline<T: Pack>(values: &[u8], out: &mut Vec<u8>) {
    let width = T::width(values);
    let head = (width as u64).to_le_bytes();
    out.extend_from_slice(&head[..T::BYTES]);
    T::pack(values, width, out);
}

/// Bytes of levels packed to `width` bits.
pub(crate) fn levels_bytes(len: usize, width: usize) -> usize {
    let rest = len % GROUP;
    len / GROUP * width * ROW + if tail_is_packed(rest, width) { width * ROW } else { rest * 2 }
}

/// Appends levels: full groups packed, the rest packed or as it is, whichever is shorter.
pub(crate) fn levels(levels: &[u16], width: usize, out: &mut Vec<u8>) {
    let mut bytes = Vec::with_capacity(GROUP * 2);
    for group in levels.chunks(GROUP) {
        if group.len() < GROUP && !tail_is_packed(group.len(), width) {
            put_u16(group, out);
            continue;
        }
        bytes.clear();
        put_u16(group, &mut bytes);
        u16::pack(&bytes, width, out);
    }
}

/// A rest as long as a packed group must be stored as it is: readers decide by the length.
fn tail_is_packed(rest: usize, width: usize) -> bool {
    width * ROW < rest * 2
}
