//! Arrays with dictionaries of their own as arrays with one dictionary, so that they can be put together.
//!
//! The keys of eight or sixteen bits are too few for the items of many dictionaries, also where these have the same
//! items: then each item in use is there once. Arrow's own functions find most of the equal items, and not all.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    AnyDictionaryArray, Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, make_array,
};
use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use pennon_core::{Error, Result};

use super::encode::{any, capacity, check_capacity, item_bytes};
use crate::values::arrow_error;

/// A key of rows that are null.
const NO_ITEM: usize = usize::MAX;

/// The same batches, whose dictionaries are one in each field of the schema where together they have more items than
/// keys.
///
/// Errors: `Unsupported` for more items in use than the keys of a column can name.
pub fn with_one_dictionary(batches: &[&RecordBatch]) -> Result<Vec<RecordBatch>> {
    let owned = || batches.iter().map(|batch| (*batch).clone());
    let Some(first) = batches.first().filter(|_| batches.len() > 1) else { return Ok(owned().collect()) };
    let mut unified: Vec<RecordBatch> = owned().collect();
    for (at, field) in first.schema().fields().iter().enumerate().filter(|(_, f)| is_narrow(f.data_type())) {
        let columns: Vec<ArrayRef> =
            unified.iter().filter_map(|batch| batch.columns().get(at)).map(Arc::clone).collect();
        let columns = unify_dictionaries(&columns).map_err(|e| e.at(format!("column `{}`", field.name())))?;
        for (batch, column) in unified.iter_mut().zip(columns) {
            let mut all = batch.columns().to_vec();
            if let Some(slot) = all.get_mut(at) {
                *slot = column;
            }
            *batch = RecordBatch::try_new(batch.schema(), all).map_err(arrow_error)?;
        }
    }
    Ok(unified)
}

/// Whether a type has dictionaries whose keys may be too few for the items of several.
fn is_narrow(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(key, _) => key.primitive_width().is_some_and(|width| width < 4),
        DataType::Struct(fields) => fields.iter().any(|field| is_narrow(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_narrow(item.data_type()),
        _ => false,
    }
}

/// The same arrays of one type, with one dictionary in each of its fields where together theirs have more items than keys.
///
/// Errors: as for [`with_one_dictionary`].
pub fn unify_dictionaries(arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let Some(data_type) = arrays.first().map(|array| array.data_type()).filter(|t| is_narrow(t)) else {
        return Ok(arrays.to_vec());
    };
    if let DataType::Dictionary(key, _) = data_type {
        return unify_keys(arrays, key);
    }
    let data: Vec<ArrayData> = arrays.iter().map(|array| array.to_data()).collect();
    let mut children: Vec<Vec<ArrayData>> = vec![Vec::new(); data.len()];
    for at in 0..data.first().map_or(0, |data| data.child_data().len()) {
        let of_all: Vec<ArrayRef> =
            data.iter().filter_map(|data| data.child_data().get(at)).map(|c| make_array(c.clone())).collect();
        for (children, child) in children.iter_mut().zip(unify_dictionaries(&of_all)?) {
            children.push(child.to_data());
        }
    }
    let rebuilt = data.into_iter().zip(children).map(|(data, children)| {
        data.into_builder().child_data(children).build().map(make_array).map_err(arrow_error)
    });
    rebuilt.collect()
}

fn unify_keys(arrays: &[ArrayRef], key: &DataType) -> Result<Vec<ArrayRef>> {
    let dictionaries: Vec<&dyn AnyDictionaryArray> = arrays.iter().map(any).collect::<Result<_>>()?;
    let is_another = |(before, after): (&&dyn AnyDictionaryArray, &&dyn AnyDictionaryArray)| {
        !ArrayRef::ptr_eq(before.values(), after.values())
    };
    let others = dictionaries.iter().zip(dictionaries.iter().skip(1)).filter(|pair| is_another(*pair));
    let first = dictionaries.first().map_or(0, |dictionary| dictionary.values().len());
    if first + others.map(|(_, after)| after.values().len()).sum::<usize>() <= capacity(key) {
        return Ok(arrays.to_vec());
    }
    let mut known: HashMap<Box<[u8]>, usize> = HashMap::new();
    // The array and the item in which each was found first.
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut keys: Vec<Vec<usize>> = Vec::with_capacity(arrays.len());
    for (number, dictionary) in dictionaries.iter().enumerate() {
        let values = dictionary.values();
        let mut unified: Vec<Option<usize>> = vec![None; values.len()];
        let mut keys_of_array = Vec::with_capacity(dictionary.len());
        let rows =
            if values.is_empty() { vec![NO_ITEM; dictionary.len()] } else { dictionary.normalized_keys() };
        for (row, item) in rows.into_iter().enumerate() {
            let slot = unified.get_mut(item).filter(|_| dictionary.is_valid(row) && values.is_valid(item));
            let Some(slot) = slot else {
                keys_of_array.push(NO_ITEM);
                continue;
            };
            let index = match *slot {
                Some(index) => index,
                None => {
                    let index = *known.entry(item_bytes(values, item)?.into()).or_insert_with(|| {
                        found.push((number, item));
                        found.len() - 1
                    });
                    *slot.insert(index)
                }
            };
            keys_of_array.push(index);
        }
        keys.push(keys_of_array);
    }
    check_capacity(found.len(), key)?;
    let values: Vec<&dyn Array> =
        dictionaries.iter().map(|dictionary| dictionary.values().as_ref()).collect();
    let items = interleave(&values, &found).map_err(arrow_error)?;
    keys.iter().map(|keys| dictionary_array(key, keys, &items)).collect()
}

/// The dictionary array of these items; null where an index has no item.
pub(crate) fn dictionary_array(key: &DataType, indices: &[usize], items: &ArrayRef) -> Result<ArrayRef> {
    match key {
        DataType::Int8 => keyed::<Int8Type>(indices, items),
        DataType::Int16 => keyed::<Int16Type>(indices, items),
        DataType::Int32 => keyed::<Int32Type>(indices, items),
        DataType::Int64 => keyed::<Int64Type>(indices, items),
        DataType::UInt8 => keyed::<UInt8Type>(indices, items),
        DataType::UInt16 => keyed::<UInt16Type>(indices, items),
        DataType::UInt32 => keyed::<UInt32Type>(indices, items),
        DataType::UInt64 => keyed::<UInt64Type>(indices, items),
        _ => Err(Error::unsupported(format!("dictionary indices of type {key}"))),
    }
}

fn keyed<K: ArrowDictionaryKeyType>(indices: &[usize], items: &ArrayRef) -> Result<ArrayRef> {
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
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(items)).map_err(arrow_error)?))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{Int8Array, StringArray, StructArray};
    use arrow_schema::{Field, Schema};
    use arrow_select::concat::concat_batches;
    use proptest::prelude::*;

    use super::*;

    fn batch(keys: Vec<Option<i8>>, items: Vec<String>) -> RecordBatch {
        let column =
            DictionaryArray::new(Int8Array::from(keys), Arc::new(StringArray::from(items)) as ArrayRef);
        let column: ArrayRef = Arc::new(column);
        let member = Arc::new(Field::new("d", column.data_type().clone(), true));
        let outer: ArrayRef = Arc::new(StructArray::from(vec![(member, Arc::clone(&column))]));
        let schema = Schema::new(vec![
            Field::new("d", column.data_type().clone(), true),
            Field::new("s", outer.data_type().clone(), true),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![column, outer]).unwrap()
    }

    fn texts(column: &ArrayRef) -> Vec<Option<String>> {
        let column = column.as_struct_opt().map_or(column, |outer| outer.column(0));
        let column = arrow_cast::cast(column, &DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    proptest! {
        #[test]
        fn as_the_rows_one_after_another(
            parts in proptest::collection::vec(
                (1..100_usize).prop_flat_map(|items| (
                    proptest::collection::vec(0..90_u8, items),
                    proptest::collection::vec(proptest::option::of(0..items), 0..150),
                )),
                1..6,
            )
        ) {
            let batches: Vec<RecordBatch> = parts.iter().map(|(items, rows)| {
                let keys = rows.iter().map(|row| row.map(|row| i8::try_from(row).unwrap())).collect();
                batch(keys, items.iter().map(u8::to_string).collect())
            }).collect();
            let expected: Vec<_> = batches.iter().flat_map(|batch| texts(batch.column(0))).collect();
            let unified = with_one_dictionary(&batches.iter().collect::<Vec<_>>()).unwrap();
            let joined = concat_batches(&unified[0].schema(), &unified).unwrap();
            prop_assert_eq!(texts(joined.column(0)), expected.clone());
            prop_assert_eq!(texts(joined.column(1)), expected);
        }
    }

    #[test]
    fn more_items_than_keys_are_refused() {
        let part = |from: usize| {
            batch((0..100).map(Some).collect(), (from..from + 100).map(|n| n.to_string()).collect())
        };
        let unified = with_one_dictionary(&[&part(0), &part(28)]).unwrap();
        assert_eq!(unified[0].column(0).as_any_dictionary().values().len(), 128);
        let error = with_one_dictionary(&[&part(0), &part(29)]).unwrap_err().to_string();
        assert!(error.contains("column `d`") && error.contains("Int8 name 128"), "{error}");
    }
}
