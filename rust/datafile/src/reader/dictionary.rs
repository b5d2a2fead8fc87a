//! Arrow dictionary arrays: the indices and items of each page, joined.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array, new_empty_array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use pennon_core::{Error, Result};

use crate::encodings::dictionary::unify::{dictionary_array, unify_dictionaries};
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
    dictionary_array(key, &indices, &items)
}

/// One array of all pages, with the nulls of the rows.
pub(super) fn join(data_type: &DataType, pieces: &[ArrayRef], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let joined = match pieces {
        [] => new_empty_array(data_type),
        [single] => Arc::clone(single),
        many => {
            let many = unify_dictionaries(many)?;
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
