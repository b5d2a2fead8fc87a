//! A page that is being built: its buffers, numbered in order, and the encoding of its nulls.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use pennon_core::file::{ArrayEncoding, FlatArray};
use pennon_core::{Error, Result};

/// Buffers of a page.
#[derive(Debug, Default)]
pub(super) struct Buffers(pub Vec<Vec<u8>>);

impl Buffers {
    /// Adds a buffer of values of so many bits.
    pub(super) fn flat(&mut self, bytes: Vec<u8>, bits: usize) -> Result<FlatArray> {
        let buffer = u32::try_from(self.0.len())
            .map_err(|_| Error::internal(format!("{} buffers in a page", self.0.len())))?;
        self.0.push(bytes);
        Ok(FlatArray { bits_per_value: bits as u64, buffer, compression: None })
    }

    /// Adds the ends of values, those of nulls raised by one more than the last.
    pub(super) fn ends(&mut self, mut ends: Vec<u64>, nulls: &[usize]) -> Result<(FlatArray, u64)> {
        let adjustment = ends.last().copied().unwrap_or_default() + 1;
        for &null in nulls {
            if let Some(end) = ends.get_mut(null) {
                *end += adjustment;
            }
        }
        let bytes = ends.into_iter().flat_map(u64::to_le_bytes).collect();
        Ok((self.flat(bytes, 64)?, adjustment))
    }

    /// Values that may be null. The validity bitmap precedes the values, which are made only if needed.
    pub(super) fn nullable(
        &mut self,
        nulls: Option<NullBuffer>,
        values: impl FnOnce(&mut Self) -> Result<ArrayEncoding>,
    ) -> Result<ArrayEncoding> {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return Ok(ArrayEncoding::NoNulls(Box::new(values(self)?)));
        };
        if nulls.null_count() == nulls.len() {
            return Ok(ArrayEncoding::AllNulls);
        }
        let bitmap = nulls.inner().sliced();
        let validity = self.flat(bitmap.get(..nulls.len().div_ceil(8)).unwrap_or(&bitmap).to_vec(), 1)?;
        Ok(ArrayEncoding::SomeNulls { validity, values: Box::new(values(self)?) })
    }
}

/// The nulls of all arrays, one after another.
pub(super) fn nulls_of(arrays: &[ArrayRef]) -> Option<NullBuffer> {
    if arrays.iter().all(|array| array.logical_null_count() == 0) {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(arrays.iter().map(|array| array.len()).sum());
    for array in arrays {
        match array.logical_nulls() {
            Some(nulls) => bits.append_buffer(nulls.inner()),
            None => bits.append_n(array.len(), true),
        }
    }
    Some(NullBuffer::new(bits.finish()))
}
