//! Strings and binary values, and the dictionary that text with few distinct values gets.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pennon_core::file::{ArrayEncoding, BinaryArray, CompressionScheme, FlatArray};
use pennon_core::{Error, Result};

use super::page::Buffers;
use crate::encodings::general::encode::Compressor;

/// Text of this many rows and more may get a dictionary ...
const DICTIONARY_ROWS: usize = 100;
/// ... of fewer items than this.
const DICTIONARY_ITEMS: usize = 100;

/// Encodes strings. Only plain text gets a dictionary of the writer's own, as in the reference.
pub(super) fn encode(
    arrays: &[ArrayRef],
    compressor: Option<Compressor>,
    buffers: &mut Buffers,
) -> Result<ArrayEncoding> {
    let is_text = arrays.iter().all(|array| array.data_type() == &DataType::Utf8);
    if is_text
        && arrays.iter().map(|array| array.len()).sum::<usize>() >= DICTIONARY_ROWS
        && let Some(dictionary) = Distinct::of(arrays)
    {
        return dictionary.encode(buffers);
    }
    plain(arrays, compressor, buffers)
}

/// Encodes strings without dictionary.
pub(super) fn plain(
    arrays: &[ArrayRef],
    compressor: Option<Compressor>,
    buffers: &mut Buffers,
) -> Result<ArrayEncoding> {
    let mut strings = Strings::default();
    for array in arrays {
        match array.data_type() {
            DataType::Utf8 => strings.append::<Utf8Type>(array),
            DataType::LargeUtf8 => strings.append::<LargeUtf8Type>(array),
            DataType::Binary => strings.append::<BinaryType>(array),
            DataType::LargeBinary => strings.append::<LargeBinaryType>(array),
            other => return Err(Error::internal(format!("array of type {other} for strings"))),
        }
    }
    strings.encode(compressor, buffers)
}

/// Ends, bytes and which values are null.
#[derive(Debug, Default)]
struct Strings {
    ends: Vec<u64>,
    bytes: Vec<u8>,
    nulls: Vec<usize>,
}

impl Strings {
    fn append<T: ByteArrayType>(&mut self, array: &ArrayRef) {
        // A null may have bytes of its own; they are left out.
        for value in array.as_bytes::<T>() {
            match value {
                Some(value) => self.bytes.extend_from_slice(value.as_ref()),
                None => self.nulls.push(self.ends.len()),
            }
            self.ends.push(self.bytes.len() as u64);
        }
    }

    fn encode(self, compressor: Option<Compressor>, buffers: &mut Buffers) -> Result<ArrayEncoding> {
        let (indices, null_adjustment) = buffers.ends(self.ends, &self.nulls)?;
        let (bytes, compression) = compress(self.bytes, compressor)?;
        let bytes = FlatArray { compression, ..buffers.flat(bytes, 8)? };
        Ok(ArrayEncoding::Binary(BinaryArray { indices, bytes, null_adjustment }))
    }
}

/// The bytes compressed, unless that does not make them smaller.
fn compress(bytes: Vec<u8>, compressor: Option<Compressor>) -> Result<(Vec<u8>, Option<CompressionScheme>)> {
    let Some(compressor) = compressor else { return Ok((bytes, None)) };
    let mut compressed = Vec::new();
    compressor.append(&bytes, &mut compressed)?;
    if compressed.len() < bytes.len() { Ok((compressed, Some(compressor.scheme))) } else { Ok((bytes, None)) }
}

/// Few distinct strings and an index for each row: 0 for a null, else one more than the item.
#[derive(Debug)]
struct Distinct {
    indices: Vec<u8>,
    items: Strings,
}

impl Distinct {
    /// `None` if there are too many.
    fn of(arrays: &[ArrayRef]) -> Option<Self> {
        let mut known: HashMap<&str, u8> = HashMap::new();
        let mut indices = Vec::with_capacity(arrays.iter().map(|array| array.len()).sum());
        let mut items = Strings::default();
        for value in arrays.iter().flat_map(|array| array.as_string::<i32>()) {
            let Some(value) = value else {
                indices.push(0);
                continue;
            };
            let index = match known.get(value) {
                Some(&index) => index,
                None if items.ends.len() + 1 >= DICTIONARY_ITEMS => return None,
                None => {
                    items.bytes.extend_from_slice(value.as_bytes());
                    items.ends.push(items.bytes.len() as u64);
                    let index = u8::try_from(items.ends.len()).ok()?;
                    known.insert(value, index);
                    index
                }
            };
            indices.push(index);
        }
        if items.ends.is_empty() {
            // Only nulls: the reference stores an empty item then.
            items.ends.push(0);
        }
        Some(Self { indices, items })
    }

    fn encode(self, buffers: &mut Buffers) -> Result<ArrayEncoding> {
        let num_items = u32::try_from(self.items.ends.len()).unwrap_or(u32::MAX);
        let indices = ArrayEncoding::Flat(buffers.flat(self.indices, 8)?);
        let indices = Box::new(ArrayEncoding::NoNulls(Box::new(indices)));
        let items = Box::new(self.items.encode(None, buffers)?);
        Ok(ArrayEncoding::Dictionary { indices, items, num_items })
    }
}
