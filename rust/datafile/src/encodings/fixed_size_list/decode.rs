//! Taking lists apart into bitmaps and items.

use std::ops::Range;

use pennon_core::Result;

use crate::encodings::le::bytes_at;
use crate::values::Validity;

/// Ranges of lists as ranges of items.
pub(crate) fn item_slices(slices: &[Range<usize>], dimension: usize) -> Vec<Range<usize>> {
    slices.iter().map(|s| s.start * dimension..s.end * dimension).collect()
}

/// Appends which of the `n` items are valid, for parts of them.
pub(crate) fn append_validity(
    bitmap: Option<&[u8]>,
    n: usize,
    slices: &[Range<usize>],
    out: &mut Validity,
) -> Result<()> {
    let Some(bitmap) = bitmap else {
        out.append_valid(slices.iter().map(Range::len).sum());
        return Ok(());
    };
    let bitmap = bytes_at(bitmap, 0, n.div_ceil(8))?;
    for slice in slices {
        out.append_bitmap(bitmap, slice.clone());
    }
    Ok(())
}
