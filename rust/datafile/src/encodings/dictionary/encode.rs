//! The dictionaries of a page's arrays as one: indices into the items in use.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{AnyDictionaryArray, Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::DataType;
use pennon_core::file::CompressiveEncoding;
use pennon_core::{Error, Result};

use crate::encodings::flat::encode::{Rope, fixed_bytes, put_uint};
use crate::encodings::variable::encode::put_block;

/// One dictionary and the indices of all slots.
#[derive(Debug)]
pub(crate) struct MergedDictionary {
    /// Indices, as wide as the keys of the type.
    pub indices: Rope,
    /// Bytes of an index.
    pub index_width: usize,
    /// The dictionary block.
    pub block: Vec<u8>,
    /// How the block is encoded.
    pub encoding: CompressiveEncoding,
    /// Items in the block.
    pub num_items: u64,
}

/// Merges the dictionaries of these arrays of one dictionary type.
///
/// Errors: `Internal` when the items in use outnumber the keys, which the caller prevents with [`capacity`].
pub(crate) fn merge(arrays: &[ArrayRef]) -> Result<MergedDictionary> {
    let mut known: Items = Items::default();
    let (mut bytes, mut index_width, mut value_type) = (Vec::new(), 0, DataType::Null);
    for array in arrays {
        let array = any(array)?;
        let values = array.values();
        value_type = values.data_type().clone();
        index_width = array.keys().data_type().primitive_width().unwrap_or_default();
        if values.is_empty() {
            // Only nulls.
            bytes.resize(bytes.len() + array.len() * index_width, 0);
            continue;
        }
        let mut new_indices: Vec<Option<u64>> = vec![None; values.len()];
        let nulls = array.nulls();
        for (row, key) in array.normalized_keys().into_iter().enumerate() {
            let Some(new_index) = new_indices.get_mut(key).filter(|_| nulls.is_none_or(|n| n.is_valid(row)))
            else {
                put_uint(0, index_width, &mut bytes);
                continue;
            };
            let index = match *new_index {
                Some(index) => index,
                None => *new_index.insert(known.index_of(values, key)?),
            };
            put_uint(index, index_width, &mut bytes);
        }
    }
    if known.ends.len() as u64 > 1 << (index_width * 8).min(63) {
        return Err(Error::internal(format!("{} items for keys of {index_width} bytes", known.ends.len())));
    }
    let num_items = known.ends.len() as u64;
    let (block, encoding) = known.block(&value_type)?;
    let indices = Rope::new(vec![Buffer::from_vec(bytes)]);
    Ok(MergedDictionary { indices, index_width, block, encoding, num_items })
}

/// The most items that the keys of an array can refer to.
pub(crate) fn capacity(key: &DataType) -> usize {
    match key {
        DataType::Int8 => 1 << 7,
        DataType::UInt8 => 1 << 8,
        DataType::Int16 => 1 << 15,
        DataType::UInt16 => 1 << 16,
        _ => 1 << 31,
    }
}

/// The dictionary of an array.
pub(crate) fn any(array: &ArrayRef) -> Result<&dyn AnyDictionaryArray> {
    array
        .as_any_dictionary_opt()
        .ok_or_else(|| Error::internal(format!("type {} as dictionary", array.data_type())))
}

/// Distinct items in the order of their first occurrence.
#[derive(Debug, Default)]
struct Items {
    index: HashMap<Arc<[u8]>, u64>,
    ends: Vec<u64>,
    bytes: Vec<u8>,
}

impl Items {
    fn index_of(&mut self, values: &ArrayRef, at: usize) -> Result<u64> {
        let fixed;
        let item: &[u8] = match values.data_type() {
            _ if values.is_null(at) => &[],
            DataType::Utf8 => value::<Utf8Type>(values, at),
            DataType::LargeUtf8 => value::<LargeUtf8Type>(values, at),
            DataType::Binary => value::<BinaryType>(values, at),
            DataType::LargeBinary => value::<LargeBinaryType>(values, at),
            other => {
                let width = fixed_width(other)?;
                fixed = fixed_bytes(&values.slice(at, 1), width)?;
                &fixed
            }
        };
        if values.is_null(at) {
            // The row is null, so which item it points to does not matter; there may be none yet.
            return Ok(0);
        }
        if let Some(&index) = self.index.get(item) {
            return Ok(index);
        }
        let index = self.ends.len() as u64;
        self.bytes.extend_from_slice(item);
        self.ends.push(self.bytes.len() as u64);
        self.index.insert(item.into(), index);
        Ok(index)
    }

    fn block(self, value_type: &DataType) -> Result<(Vec<u8>, CompressiveEncoding)> {
        let width = match value_type {
            DataType::Utf8 | DataType::Binary => 4,
            DataType::LargeUtf8 | DataType::LargeBinary => 8,
            fixed => {
                let bits_per_value = fixed_width(fixed)? as u64 * 8;
                return Ok((self.bytes, CompressiveEncoding::Flat { bits_per_value }));
            }
        };
        let mut block = Vec::with_capacity(self.bytes.len() + (self.ends.len() + 3) * width);
        let offsets: Vec<u64> = std::iter::once(0).chain(self.ends).collect();
        put_block(&offsets, &self.bytes, width, &mut block);
        Ok((block, CompressiveEncoding::Variable { bits_per_offset: width as u64 * 8 }))
    }
}

fn value<T: ByteArrayType>(values: &ArrayRef, at: usize) -> &[u8] {
    let values = values.as_bytes::<T>();
    match values.value_offsets().get(at..at + 2) {
        Some([start, end]) => values.value_data().get(start.as_usize()..end.as_usize()).unwrap_or_default(),
        _ => &[],
    }
}

/// Bytes of an item. Errors: `Unsupported` for types that cannot be items.
pub(crate) fn fixed_width(item: &DataType) -> Result<usize> {
    match item {
        DataType::FixedSizeBinary(width) => Ok(usize::try_from(*width).unwrap_or_default()),
        other => other.primitive_width().ok_or_else(|| {
            Error::unsupported(format!("a dictionary of values of type {other} cannot be written"))
        }),
    }
}
