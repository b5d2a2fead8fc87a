//! Whole bytes and bits.

use std::ops::Range;

use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};
use pennon_core::Result;

use crate::encodings::le::bytes_at;

/// Appends parts of `n` values of `width` bytes.
pub(crate) fn append(
    bytes: &[u8],
    width: usize,
    n: usize,
    slices: &[Range<usize>],
    out: &mut MutableBuffer,
) -> Result<()> {
    let bytes = bytes_at(bytes, 0, n.saturating_mul(width))?;
    for slice in slices {
        out.extend_from_slice(bytes_at(bytes, slice.start * width, slice.len() * width)?);
    }
    Ok(())
}

/// Appends parts of `n` bits.
pub(crate) fn append_bits(
    bytes: &[u8],
    n: usize,
    slices: &[Range<usize>],
    out: &mut BooleanBufferBuilder,
) -> Result<()> {
    let bytes = bytes_at(bytes, 0, n.div_ceil(8))?;
    for slice in slices {
        out.append_packed_range(slice.clone(), bytes);
    }
    Ok(())
}
