//! Packing, in the two forms that are stored: with the width in front (inline) and with the width in the page's
//! encoding (out of line, file format 4.5).
#![expect(clippy::indexing_slicing, reason = "offsets are multiples of the lanes below 1024")]

use super::{GROUP, ORDER};
use crate::encodings::flat::encode::put_u16;
use crate::encodings::le::Number;

/// Bytes of a row of packed words, whatever the type.
const ROW: usize = 128;

/// A number that can be packed.
pub(crate) trait Pack: Number {
    /// Appends one group, given as bytes. No value has more than `width` bits. A short group ends in zeros.
    fn pack(values: &[u8], width: usize, out: &mut Vec<u8>);

    /// Bits of the widest value.
    fn width(values: &[u8]) -> usize;
}

macro_rules! pack {
    ($($t:ty),*) => {$(
        impl Pack for $t {
            fn pack(values: &[u8], width: usize, out: &mut Vec<u8>) {
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
                    let Some(place) = rows.next() else { break };
                    for (place, word) in place.as_chunks_mut::<BYTES>().0.iter_mut().zip(&words) {
                        *place = word.to_le_bytes();
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
                let all = Self::iter(values).fold(0, |all, v| all | v);
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

/// A rest as long as a packed group must be stored as it is: readers tell by the length.
fn tail_is_packed(rest: usize, width: usize) -> bool {
    width * ROW < rest * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::bitpack::decode::{self, Packed};
    use arrow_buffer::MutableBuffer;

    fn random(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 31
        })
    }

    /// Every width, whole groups and short ones, against the decoder.
    fn check<T: Pack + Packed + PartialEq>() {
        for width in 0..=T::BYTES * 8 {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            for len in [GROUP, 1, 700] {
                let values: Vec<u64> = random(len as u64).map(|v| v & mask).take(len).collect();
                let bytes: Vec<u8> =
                    values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(T::BYTES)).collect();
                let mut packed = vec![7];
                inline::<T>(&bytes, &mut packed);
                assert!(packed.len() - 1 <= inline_bytes::<T>(width));
                let mut out = MutableBuffer::new(0);
                decode::inline::<T>(&packed[1..], len, &[0..len], &mut out).unwrap();
                assert_eq!(out.as_slice(), bytes, "width {width} of {}", T::BYTES * 8);
            }
        }
    }

    #[test]
    fn every_width_of_every_type_reads_back() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }

    #[test]
    fn agrees_with_the_verified_vectors() {
        fn ramp<T: Pack>(width: usize) -> Vec<u8> {
            let values = (0..1024u64).map(|i| i & ((1 << width) - 1));
            let bytes: Vec<u8> = values.flat_map(|v| v.to_le_bytes().into_iter().take(T::BYTES)).collect();
            let mut out = Vec::new();
            T::pack(&bytes, width, &mut out);
            out
        }
        assert_eq!(ramp::<u8>(3)[..8], [0x00, 0x49, 0x92, 0xdb, 0x24, 0x6d, 0xb6, 0xff]);
        assert_eq!(ramp::<u16>(1)[..8], [0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        let vector = [0, 0, 0, 0, 0x81, 0x40, 0x20, 0x10, 0x02, 0x81, 0x40, 0x20, 0x83, 0xc1, 0x60, 0x30];
        assert_eq!(ramp::<u32>(7)[..16], vector);
        assert_eq!(ramp::<u64>(5)[8..16], [0x21, 0x84, 0x10, 0x42, 0x08, 0x21, 0x84, 0x10]);
    }

    #[test]
    fn levels_read_back_with_tails_of_every_kind() {
        for width in 0..=16 {
            for len in [1, 63, 64, 65, 512, 1023, 1024, 1025, 1088, 3000, 4096] {
                let mask = (1u64 << width) - 1;
                let all: Vec<u16> =
                    random(len as u64).map(|v| u16::try_from(v & mask).unwrap()).take(len).collect();
                let mut bytes = Vec::new();
                levels(&all, width, &mut bytes);
                assert_eq!(bytes.len(), levels_bytes(len, width));
                let mut out = MutableBuffer::new(0);
                decode::out_of_line::<u16>(&bytes, width, len, &[0..len], &mut out).unwrap();
                assert_eq!(out.typed_data::<u16>(), all, "{len} levels of {width} bits");
            }
        }
    }
}
