//! Unpacking, for both forms of packed values: with the width in front (inline) or in the page's encoding (out of
//! line, file format 4.5).
#![expect(
    clippy::indexing_slicing,
    reason = "offsets are multiples of the lanes below 1024, lengths are checked first"
)]

use std::ops::Range;

use arrow_buffer::MutableBuffer;
use pennon_core::{Error, Result};

use super::{GROUP, ORDER};
use crate::encodings::le::{Number, bytes_at, number_at};
use crate::simd::simd_into;

/// A number that can be packed.
pub(crate) trait Packed: Number {
    /// Unpacks one group, see [`simd_into`]. `packed` has at least `128 * width` bytes and `width` is
    /// at most the bits of the type.
    fn unpack(packed: &[u8], width: usize, out: &mut [Self; GROUP]) {
        simd_into(packed, out, |packed, out| Self::unpack_portable(packed, width, out));
    }

    /// The same in code that the compiler fits to whatever it is inlined into.
    fn unpack_portable(packed: &[u8], width: usize, out: &mut [Self; GROUP]);

    /// The value at an index below [`GROUP`] by itself, of bytes and a width as in [`Self::unpack`].
    fn value_at(packed: &[u8], width: usize, index: usize) -> Self;

    /// A group of zeros.
    const ZEROS: [Self; GROUP];
}

macro_rules! packed {
    ($($t:ty),*) => {$(
        impl Packed for $t {
            const ZEROS: [Self; GROUP] = [0; GROUP];

            #[inline(always)]
            fn unpack_portable(packed: &[u8], width: usize, out: &mut [Self; GROUP]) {
                const BITS: usize = <$t>::BITS as usize;
                const LANES: usize = GROUP / BITS;
                if width == 0 {
                    out.fill(0);
                    return;
                }
                let mask = <$t>::MAX >> (BITS - width.min(BITS));
                let words = packed.as_chunks::<{ size_of::<$t>() }>().0;
                for row in 0..BITS {
                    let (word, shift) = (row * width / BITS, row * width % BITS);
                    let at = ORDER[row / 8] * 16 + (row % 8) * 128;
                    let out = &mut out[at..at + LANES];
                    let low = &words[word * LANES..(word + 1) * LANES];
                    if shift + width <= BITS {
                        for (o, l) in out.iter_mut().zip(low) {
                            *o = (<$t>::from_le_bytes(*l) >> shift) & mask;
                        }
                    } else {
                        let high = &words[(word + 1) * LANES..(word + 2) * LANES];
                        for ((o, l), h) in out.iter_mut().zip(low).zip(high) {
                            *o = (<$t>::from_le_bytes(*l) >> shift
                                | <$t>::from_le_bytes(*h) << (BITS - shift)) & mask;
                        }
                    }
                }
            }

            #[inline]
            fn value_at(packed: &[u8], width: usize, index: usize) -> Self {
                const BITS: usize = <$t>::BITS as usize;
                const LANES: usize = GROUP / BITS;
                if width == 0 {
                    return 0;
                }
                // `ORDER` is its own inverse.
                let (lane, block) = (index % LANES, index % 128 / LANES * (LANES / 16));
                let row = ORDER[block] * 8 + index / 128;
                let (word, shift) = (row * width / BITS, row * width % BITS);
                let words = packed.as_chunks::<{ size_of::<$t>() }>().0;
                let mut value = <$t>::from_le_bytes(words[word * LANES + lane]) >> shift;
                if shift + width > BITS {
                    value |= <$t>::from_le_bytes(words[(word + 1) * LANES + lane]) << (BITS - shift);
                }
                value & <$t>::MAX >> (BITS - width.min(BITS))
            }
        }
    )*};
}
packed!(u8, u16, u32, u64);

/// Whether it is faster to find these values of a group one by one than to unpack all of them.
fn is_few<T: Packed>(start: usize, slices: &[Range<usize>]) -> bool {
    let few = 4 * T::BYTES;
    let len = |s: &Range<usize>| s.end.min(start + GROUP) - s.start.max(start);
    slices.len() <= few && slices.iter().map(len).sum::<usize>() <= few
}

/// The slices that overlap a group; groups are requested one after another.
#[derive(Debug)]
struct Slices<'a>(&'a [Range<usize>]);

impl<'a> Slices<'a> {
    fn within(&mut self, group: Range<usize>) -> &'a [Range<usize>] {
        let passed = self.0.iter().take_while(|s| s.end <= group.start).count();
        self.0 = &self.0[passed..];
        &self.0[..self.0.iter().take_while(|s| s.start < group.end).count()]
    }
}

/// Appends the parts of a packed group (which starts at position `start` and has `len` values) that the slices
/// request, all of which overlap it. `group` is memory to use.
fn append_group<T: Packed>(
    (packed, width): (&[u8], usize),
    (start, len): (usize, usize),
    slices: &[Range<usize>],
    group: &mut Option<[T; GROUP]>,
    out: &mut MutableBuffer,
) {
    if slices.is_empty() {
        return;
    }
    if let [slice] = slices
        && len == GROUP
        && slice.start <= start
        && slice.end >= start + GROUP
    {
        out.resize(out.len() + GROUP * T::BYTES, 0);
        if let Some(group) = out.typed_data_mut::<T>().last_chunk_mut() {
            T::unpack(packed, width, group);
        }
        return;
    }
    if !is_few::<T>(start, slices) {
        let group = group.get_or_insert(T::ZEROS);
        T::unpack(packed, width, group);
        return append(&group[..len], start, slices, out);
    }
    for slice in slices {
        for at in slice.start.max(start)..slice.end.min(start + len) {
            out.push(T::value_at(packed, width, at - start));
        }
    }
}

/// Appends parts of `n` values packed with their width in front of each 1024.
pub(crate) fn inline<T: Packed>(
    mut bytes: &[u8],
    n: usize,
    slices: &[Range<usize>],
    out: &mut MutableBuffer,
) -> Result<()> {
    let mut group: Option<[T; GROUP]> = None;
    let mut slices = Slices(slices);
    let mut start = 0;
    while start < n {
        let width = number_at::<T>(bytes, 0)?.size();
        let packed = group_bytes::<T>(bytes, T::BYTES, width)?;
        bytes = &bytes[T::BYTES + packed.len()..];
        let len = GROUP.min(n - start);
        append_group((packed, width), (start, len), slices.within(start..start + len), &mut group, out);
        start += len;
    }
    Ok(())
}

/// Appends parts of `n` values packed to `width` bits; the last group is either packed or stored as it is,
/// according to its length.
pub(crate) fn out_of_line<T: Packed>(
    bytes: &[u8],
    width: usize,
    n: usize,
    slices: &[Range<usize>],
    out: &mut MutableBuffer,
) -> Result<()> {
    let mut group: Option<[T; GROUP]> = None;
    let mut slices = Slices(slices);
    let mut start = 0;
    let mut at = 0;
    while start < n {
        let len = GROUP.min(n - start);
        let wanted = slices.within(start..start + len);
        if len < GROUP && bytes.len() - at == len * T::BYTES {
            let group = group.get_or_insert(T::ZEROS);
            for (o, v) in group.iter_mut().zip(T::iter(&bytes[at..])) {
                *o = v;
            }
            append(&group[..len], start, wanted, out);
        } else {
            let packed = group_bytes::<T>(bytes, at, width)?;
            at += packed.len();
            append_group((packed, width), (start, len), wanted, &mut group, out);
        }
        start += len;
    }
    Ok(())
}

fn group_bytes<T: Packed>(bytes: &[u8], at: usize, width: usize) -> Result<&[u8]> {
    if width > T::BYTES * 8 {
        return Err(Error::corrupt(format!("bit width {width} of values of {} bits", T::BYTES * 8)));
    }
    bytes_at(bytes, at, GROUP / 8 * width)
}

/// Appends the parts of `values` (which start at position `start`) that the slices request.
pub(crate) fn append<T: Number>(
    values: &[T],
    start: usize,
    slices: &[Range<usize>],
    out: &mut MutableBuffer,
) {
    for slice in slices {
        let from = slice.start.max(start);
        let to = slice.end.min(start + values.len());
        if from < to {
            out.extend_from_slice(&values[from - start..to - start]);
        }
    }
}
