//! The dictionary type: indices as wide as its keys, items, and after them a null item if a row is null.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use pennon_core::file::ArrayEncoding;
use pennon_core::{Error, Result};

use super::page::Buffers;
use super::{binary, fixed};
use crate::encodings::dictionary::encode::capacity;
use crate::encodings::dictionary::unify::unify_dictionaries;
use crate::encodings::flat::encode::put_uint;
use crate::values::{Leaf, Physical};

/// Encodes arrays of one dictionary type.
///
/// `None` if the keys are too few for all items in use and a null: then the arrays need more than one page.
pub(super) fn encode(
    arrays: &[ArrayRef],
    data_type: &DataType,
    buffers: &mut Buffers,
) -> Result<Option<ArrayEncoding>> {
    let DataType::Dictionary(key, value) = data_type else {
        return Err(Error::internal(format!("type {data_type} as a dictionary")));
    };
    let unified = unify_dictionaries(arrays)?;
    let parts: Vec<&dyn Array> = unified.iter().map(AsRef::as_ref).collect();
    let joined = concat(&parts).map_err(internal)?;
    if let Some(encoding) = encode_joined(&joined, key, value, buffers)? {
        return Ok(Some(encoding));
    }
    // Without unused items there may be room for the null.
    let plain = cast(&joined, value).map_err(internal)?;
    match cast(&plain, data_type) {
        Ok(compact) => encode_joined(&compact, key, value, buffers),
        Err(ArrowError::DictionaryKeyOverflowError) => Ok(None),
        Err(e) => Err(internal(e)),
    }
}

fn encode_joined(
    array: &ArrayRef,
    key: &DataType,
    value: &DataType,
    buffers: &mut Buffers,
) -> Result<Option<ArrayEncoding>> {
    let dictionary = array
        .as_any_dictionary_opt()
        .ok_or_else(|| Error::internal(format!("type {} as a dictionary", array.data_type())))?;
    let mut items = dictionary.values().clone();
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let null = items.len();
    if nulls.is_some() {
        let last = new_null_array(value, 1);
        items = concat(&[items.as_ref(), last.as_ref()]).map_err(internal)?;
    }
    if items.len() > capacity(key) {
        return Ok(None);
    }
    let width = key.primitive_width().unwrap_or_default();
    let mut indices = Vec::with_capacity(width * array.len());
    // Without items all rows are null, and there are no keys to normalize.
    let keys = if null == 0 { vec![0; array.len()] } else { dictionary.normalized_keys() };
    for (row, key) in keys.into_iter().enumerate() {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        put_uint(if is_null { null } else { key } as u64, width, &mut indices);
    }
    let indices = ArrayEncoding::Flat(buffers.flat(indices, width * 8)?);
    let indices = Box::new(ArrayEncoding::NoNulls(Box::new(indices)));
    let num_items = u32::try_from(items.len())
        .map_err(|_| Error::unsupported(format!("a dictionary of {} items", items.len())))?;
    let leaf = Leaf::of(value)?;
    let items = Box::new(match leaf.physical {
        Physical::Variable32 | Physical::Variable64 => binary::plain(&[items], None, buffers)?,
        physical => fixed::encode(physical, &leaf.dimensions, &[items], buffers)?,
    });
    Ok(Some(ArrayEncoding::Dictionary { indices, items, num_items }))
}

fn internal(error: ArrowError) -> Error {
    Error::internal(format!("dictionaries of one type: {error}")).with_source(error)
}
