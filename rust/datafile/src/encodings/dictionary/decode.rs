//! Indices back to values.

use arrow_buffer::MutableBuffer;
use pennon_core::{Error, Result};

use crate::values::Data;

/// Appends the items with the given indices (unsigned, `width` bytes each).
///
/// An index without item becomes a filler, and its position among all values is added to `missing`: it is valid
/// only for a null.
pub(crate) fn append(
    items: &Data,
    indices: &MutableBuffer,
    width: usize,
    out: &mut Data,
    missing: &mut Vec<usize>,
) -> Result<()> {
    match width {
        1 => out.gather(items, indices.typed_data::<u8>(), missing),
        2 => out.gather(items, indices.typed_data::<u16>(), missing),
        4 => out.gather(items, indices.typed_data::<u32>(), missing),
        8 => out.gather(items, indices.typed_data::<u64>(), missing),
        _ => Err(Error::corrupt(format!("dictionary indices of {width} bytes"))),
    }
}
