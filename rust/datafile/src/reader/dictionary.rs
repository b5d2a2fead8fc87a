//! Arrow dictionary arrays: the indices and items of each page, joined.

use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, make_array, new_empty_array};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use pennon_core::{Error, Result};
use std::sync::Arc;

use crate::encodings::le::Number;
use crate::values::{Data, Leaf, Values, arrow_error, leaf_array};

/// The dictionary array of one page. `items` is its dictionary; without one, `values` are plain values.
///
/// Indices without item become null, and their positions are added to `missing`.
pub(super) fn piece(
    data_type: &DataType,
    leaf: &Leaf,
    values: Values,
    items: Option<&Data>,
    missing: &mut Vec<usize>,
) -> Result<ArrayRef> {
    let Some(items) = items else {
        let len = values.data.count();
        let plain = leaf_array(leaf, values, len, None)?;
        return cast(&plain, data_type).map_err(arrow_error);
    };
    let count = u64::try_from(items.count()).unwrap_or(u64::MAX);
    let mut copy = Data::with_capacity(leaf.physical, items.count())?;
    copy.gather(items, &(0..count).collect::<Vec<u64>>(), &mut Vec::new())?;
    let items = leaf_array(leaf, Values { data: copy, item_validity: Vec::new() }, items.count(), None)?;
    let Data::Fixed { width, bytes } = values.data else {
        return Err(Error::internal("dictionary indices without width"));
    };
    let indices: Vec<usize> = match width {
        1 => u8::iter(&bytes).map(Number::size).collect(),
        2 => u16::iter(&bytes).map(Number::size).collect(),
        4 => u32::iter(&bytes).map(Number::size).collect(),
        _ => u64::iter(&bytes).map(Number::size).collect(),
    };
    missing.extend((0..).zip(&indices).filter(|(_, index)| **index >= items.len()).map(|(at, _)| at));
    let DataType::Dictionary(key, _) = data_type else {
        return Err(Error::internal("not a dictionary type"));
    };
    match **key {
        DataType::Int8 => keyed::<Int8Type>(&indices, items),
        DataType::Int16 => keyed::<Int16Type>(&indices, items),
        DataType::Int32 => keyed::<Int32Type>(&indices, items),
        DataType::Int64 => keyed::<Int64Type>(&indices, items),
        DataType::UInt8 => keyed::<UInt8Type>(&indices, items),
        DataType::UInt16 => keyed::<UInt16Type>(&indices, items),
        DataType::UInt32 => keyed::<UInt32Type>(&indices, items),
        DataType::UInt64 => keyed::<UInt64Type>(&indices, items),
        _ => Err(Error::unsupported(format!("dictionary indices of type {key}"))),
    }
}

fn keyed<K: ArrowDictionaryKeyType>(indices: &[usize], items: ArrayRef) -> Result<ArrayRef> {
    let mut keys = Vec::with_capacity(indices.len());
    for &index in indices {
        if index >= items.len() {
            keys.push(None);
            continue;
        }
        let key = K::Native::from_usize(index)
            .ok_or_else(|| Error::corrupt(format!("dictionary index {index} does not fit its type")))?;
        keys.push(Some(key));
    }
    let keys: PrimitiveArray<K> = keys.into_iter().collect();
    Ok(Arc::new(DictionaryArray::try_new(keys, items).map_err(arrow_error)?))
}

/// One array of all pages, with the nulls of the rows.
pub(super) fn join(data_type: &DataType, pieces: &[ArrayRef], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let joined = match pieces {
        [] => new_empty_array(data_type),
        [single] => Arc::clone(single),
        many => {
            let parts: Vec<&dyn Array> = many.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(arrow_error)?
        }
    };
    if nulls.as_ref().is_some_and(|n| n.len() != joined.len()) {
        return Err(Error::corrupt(format!("{} dictionary indices for other levels", joined.len())));
    }
    let data = joined.to_data();
    let nulls = NullBuffer::union(data.nulls(), nulls.as_ref());
    Ok(make_array(data.into_builder().nulls(nulls).build().map_err(arrow_error)?))
}
