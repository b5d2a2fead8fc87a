//! The dictionaries of a page's arrays as one: indices into the items in use.
//!
//! Arrays that share a dictionary of which at least half is in use keep it as it is: no item is hashed or moved.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{AnyDictionaryArray, Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer};
use arrow_schema::DataType;
use pennon_core::file::CompressiveEncoding;
use pennon_core::{Error, Result};

use crate::encodings::flat::encode::{Rope, fixed_bytes, put_uint, zero};
use crate::encodings::le::{Number, with_width};
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
/// Errors: `Internal` when the items in use outnumber the keys, which the caller prevents with [`UsedItems`].
pub(crate) fn merge(arrays: &[ArrayRef]) -> Result<MergedDictionary> {
    if let Some(unchanged) = unchanged(arrays)? {
        return Ok(unchanged);
    }
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

/// The dictionary that all arrays have, if at least half of its items are in use.
fn unchanged(arrays: &[ArrayRef]) -> Result<Option<MergedDictionary>> {
    let Some(first) = arrays.first() else { return Ok(None) };
    let first = any(first)?;
    let (values, key_type) = (first.values(), first.keys().data_type());
    let width = key_type.primitive_width().unwrap_or_default();
    let rows: usize = arrays.iter().map(|array| array.len()).sum();
    if rows < values.len().div_ceil(2) || values.is_empty() || values.len() > capacity(key_type) {
        return Ok(None);
    }
    let data = values.to_data();
    let (mut parts, mut used) = (Vec::with_capacity(arrays.len()), Used::new(values.len()));
    for array in arrays {
        let array = any(array)?;
        if !ArrayRef::ptr_eq(array.values(), values) && !array.values().to_data().ptr_eq(&data) {
            return Ok(None);
        }
        let mut keys = fixed_bytes(&array.keys().slice(0, array.len()), width)?;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        with_width!(width, T => used.mark::<T>(&keys, nulls), return Ok(None));
        if let Some(nulls) = nulls {
            let mut bytes = keys.to_vec();
            zero(&mut bytes, width, (!nulls.inner()).set_indices());
            keys = Buffer::from_vec(bytes);
        }
        parts.push(keys);
    }
    if used.count < values.len().div_ceil(2) {
        return Ok(None);
    }
    let (block, encoding) = match values.data_type() {
        DataType::Utf8 => all_items::<Utf8Type>(values, 4),
        DataType::LargeUtf8 => all_items::<LargeUtf8Type>(values, 8),
        DataType::Binary => all_items::<BinaryType>(values, 4),
        DataType::LargeBinary => all_items::<LargeBinaryType>(values, 8),
        fixed => {
            let item = fixed_width(fixed)?;
            let encoding = CompressiveEncoding::Flat { bits_per_value: item as u64 * 8 };
            (fixed_bytes(values, item)?.to_vec(), encoding)
        }
    };
    let (indices, num_items) = (Rope::new(parts), values.len() as u64);
    Ok(Some(MergedDictionary { indices, index_width: width, block, encoding, num_items }))
}

/// Which items are in use.
struct Used {
    items: Vec<bool>,
    count: usize,
}

impl Used {
    fn new(len: usize) -> Self {
        Self { items: vec![false; len], count: 0 }
    }

    /// Marks the items of the keys that are not null.
    fn mark<T: Number>(&mut self, keys: &[u8], nulls: Option<&NullBuffer>) {
        for (row, key) in T::iter(keys).enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row))
                && let Some(item) = self.items.get_mut(key.size())
            {
                self.count += usize::from(!std::mem::replace(item, true));
            }
        }
    }
}

/// The block of all items of an array, and its encoding.
fn all_items<T: ByteArrayType>(values: &ArrayRef, width: usize) -> (Vec<u8>, CompressiveEncoding) {
    let values = values.as_bytes::<T>();
    let ends = values.value_offsets();
    let first = ends.first().map_or(0, |end| end.as_usize());
    let last = ends.last().map_or(0, |end| end.as_usize());
    let offsets: Vec<u64> = ends.iter().map(|end| (end.as_usize() - first) as u64).collect();
    let bytes = values.value_data().get(first..last).unwrap_or_default();
    let mut block = Vec::with_capacity(bytes.len() + (offsets.len() + 2) * width);
    put_block(&offsets, bytes, width, &mut block);
    (block, CompressiveEncoding::Variable { bits_per_offset: width as u64 * 8 })
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

/// Errors: `Unsupported` if there are more items than keys.
pub(crate) fn check_capacity(items: usize, key: &DataType) -> Result<()> {
    let capacity = capacity(key);
    if items <= capacity {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "{items} or more different values of a dictionary are put together, its keys of type {key} name {capacity} \
         at most: alter the column to a type with wider keys, or to that of its values"
    )))
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
        if values.is_null(at) {
            // The row is null, so which item it points to does not matter; there may be none yet.
            return Ok(0);
        }
        let item = item_bytes(values, at)?;
        if let Some(&index) = self.index.get(item.as_ref()) {
            return Ok(index);
        }
        let index = self.ends.len() as u64;
        self.bytes.extend_from_slice(&item);
        self.ends.push(self.bytes.len() as u64);
        self.index.insert(item.as_ref().into(), index);
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

/// The bytes of an item that is not null. Errors: `Unsupported` for types that cannot be items.
pub(crate) fn item_bytes(values: &ArrayRef, at: usize) -> Result<Cow<'_, [u8]>> {
    Ok(Cow::Borrowed(match values.data_type() {
        DataType::Utf8 => value::<Utf8Type>(values, at),
        DataType::LargeUtf8 => value::<LargeUtf8Type>(values, at),
        DataType::Binary => value::<BinaryType>(values, at),
        DataType::LargeBinary => value::<LargeBinaryType>(values, at),
        other => {
            let width = fixed_width(other)?;
            return Ok(Cow::Owned(fixed_bytes(&values.slice(at, 1), width)?.to_vec()));
        }
    }))
}

/// The items that a column has used, if its keys may be too few for those of all its rows: who reads rows of several
/// pages puts their dictionaries together.
#[derive(Debug)]
pub(crate) struct UsedItems {
    key: DataType,
    items: HashSet<Box<[u8]>>,
    /// The last dictionary, and which of its items are there.
    last: Option<(ArrayRef, Vec<bool>)>,
}

impl UsedItems {
    /// None so far; `None` for a type without keys of less than 32 bits.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        let DataType::Dictionary(key, _) = data_type else { return None };
        let is_narrow = key.primitive_width().is_some_and(|width| width < 4);
        is_narrow.then(|| Self { key: key.as_ref().clone(), items: HashSet::new(), last: None })
    }

    /// Adds those of an array. Errors: `Unsupported` for more than there are keys.
    pub(crate) fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let dictionary = any(array)?;
        let values = dictionary.values();
        if values.is_empty() {
            return Ok(());
        }
        let mut seen = match self.last.take() {
            Some((last, seen)) if ArrayRef::ptr_eq(&last, values) => seen,
            _ => vec![false; values.len()],
        };
        for (row, item) in dictionary.normalized_keys().into_iter().enumerate() {
            let is_new = |seen: &&mut bool| !**seen && dictionary.is_valid(row) && values.is_valid(item);
            if let Some(seen) = seen.get_mut(item).filter(is_new) {
                *seen = true;
                self.items.insert(item_bytes(values, item)?.as_ref().into());
            }
        }
        self.last = Some((Arc::clone(values), seen));
        check_capacity(self.items.len(), &self.key)
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

#[cfg(test)]
mod tests {
    use arrow_array::types::Int16Type;
    use arrow_array::{DictionaryArray, Int16Array, StringArray};

    use super::*;

    fn array(keys: Vec<Option<i16>>, items: &Arc<StringArray>) -> ArrayRef {
        Arc::new(DictionaryArray::<Int16Type>::new(Int16Array::from(keys), Arc::clone(items) as ArrayRef))
    }

    #[test]
    fn a_dictionary_in_use_stays_as_it_is() {
        let items = Arc::new(StringArray::from(vec![Some("c"), Some("a"), None, Some("a"), Some("unused")]));
        let arrays = [array(vec![Some(3), None, Some(0)], &items), array(vec![Some(1), Some(2)], &items)];
        let merged = merge(&arrays).unwrap();
        assert_eq!((merged.index_width, merged.num_items), (2, 5));
        assert_eq!(merged.indices.to_vec(), [3, 0, 0, 0, 0, 0, 1, 0, 2, 0]);
        let mut block = Vec::new();
        put_block(&[0, 1, 2, 2, 3, 9], b"caaunused", 4, &mut block);
        assert_eq!(merged.block, block);
        // A slice of the items has other bytes before them.
        let tail = Arc::new(items.slice(3, 2));
        let merged = merge(&[array(vec![Some(1)], &tail)]).unwrap();
        let mut block = Vec::new();
        put_block(&[0, 1, 7], b"aunused", 4, &mut block);
        assert_eq!((merged.block, merged.indices.to_vec()), (block, vec![1, 0]));
    }

    #[test]
    fn of_a_dictionary_hardly_in_use_and_of_several_the_items_in_use_are_kept() {
        let items = Arc::new(StringArray::from_iter_values((0..100).map(|i| format!("{i:02}"))));
        let others = Arc::new(StringArray::from(vec!["07", "x"]));
        let mut block = Vec::new();
        put_block(&[0, 2, 4], b"0950", 4, &mut block);
        let merged = merge(&[array(vec![Some(9), Some(50), Some(9)], &items)]).unwrap();
        assert_eq!((merged.num_items, merged.block), (2, block));
        let arrays = [array(vec![Some(7)], &items), array(vec![Some(1), Some(0)], &others)];
        let merged = merge(&arrays).unwrap();
        assert_eq!((merged.num_items, merged.indices.to_vec()), (2, vec![0, 0, 1, 0, 0, 0]));
    }
}
