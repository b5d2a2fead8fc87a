//! Planes back to values.

use std::ops::Range;

use arrow_buffer::MutableBuffer;
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
        let start = out.len();
        out.extend_zeros(slice.len() * width);
        let target = out.as_slice_mut().get_mut(start..).unwrap_or_default();
        for plane in 0..width {
            let plane_bytes = bytes_at(bytes, plane * n + slice.start, slice.len())?;
            for (value, byte) in target.chunks_exact_mut(width).zip(plane_bytes) {
                if let Some(target) = value.get_mut(plane) {
                    *target = *byte;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_values() {
        let values = [0x0403_0201u32, 0x0807_0605, 0x0c0b_0a09];
        let planes: Vec<u8> = (0..4).flat_map(|p| values.map(|v| v.to_le_bytes()[p])).collect();
        let mut out = MutableBuffer::new(0);
        append(&planes, 4, 3, &[0..1, 1..3], &mut out).unwrap();
        assert_eq!(out.typed_data::<u32>(), values);
        assert!(append(&planes, 4, 4, &[0..4], &mut out).is_err());
    }
}
