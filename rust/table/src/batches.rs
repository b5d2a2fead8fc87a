//! Rows of several batches as one batch, and values of several arrays as one array: their dictionaries are put together.
//! How many rows fit into some bytes, so that an array that is put together needs no longer offsets than it has.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat;
use arrow_select::interleave;
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result};
use pennon_datafile::{unify_dictionaries, with_one_dictionary};

/// The error of putting values together: `InvalidInput` for more bytes than offsets of 32 bits count.
pub(crate) fn join_error(doing: &str, error: ArrowError) -> Error {
    match error {
        ArrowError::OffsetOverflowError(bytes) => Error::invalid_input(format!(
            "{doing}: {bytes} bytes of strings or binary in one array with 32-bit offsets; read smaller ranges of rows"
        )),
        error => Error::internal(format!("{doing}: {error}")),
    }
}

/// A batch of so many rows, also without columns. Errors: those of the columns, as Arrow says them.
pub(crate) fn batch_with_rows(
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// All rows, in their order.
///
/// Errors: `Unsupported` for more items of dictionaries than a column has keys; what `failed` makes of others.
pub(crate) fn concat_batches<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    failed: impl FnOnce(ArrowError) -> Error,
) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.into_iter().collect();
    let unified = with_one_dictionary(&batches)?;
    concat::concat_batches(schema, &unified).map_err(failed)
}

/// Rows by the numbers of their batches, and their own there. Errors: as for [`concat_batches`].
pub(crate) fn interleave_batches(
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    failed: impl FnOnce(ArrowError) -> Error,
) -> Result<RecordBatch> {
    let unified = with_one_dictionary(batches)?;
    interleave::interleave_record_batch(&unified.iter().collect::<Vec<_>>(), rows).map_err(failed)
}

/// Values by the numbers of their arrays, and their own there. Errors: as for [`concat_batches`].
pub(crate) fn interleave_arrays(
    arrays: &[ArrayRef],
    values: &[(usize, usize)],
    failed: impl FnOnce(ArrowError) -> Error,
) -> Result<ArrayRef> {
    let unified = unify_dictionaries(arrays)?;
    let arrays: Vec<&dyn Array> = unified.iter().map(AsRef::as_ref).collect();
    interleave::interleave(&arrays, values).map_err(failed)
}

/// Of rows of these sizes the first that take at most so many bytes, but at least one.
pub(crate) fn rows_within(bytes: u64, sizes: impl IntoIterator<Item = u64>) -> usize {
    let (mut rows, mut left) = (0, bytes);
    for size in sizes {
        if size > left && rows > 0 {
            break;
        }
        left = left.saturating_sub(size);
        rows += 1;
    }
    rows
}

/// How many of the first rows take at most so many bytes; one that takes more, too.
pub(crate) fn first_rows_within(bytes: u64, batch: &RecordBatch) -> usize {
    let rows = batch.num_rows();
    let all = batch.columns().iter().map(|column| array_bytes(column.as_ref())).sum::<u64>();
    if all <= bytes { rows } else { rows_within(bytes, (0..rows).map(|row| row_bytes(batch, row))) }
}

/// Bytes of the values of a row, about.
pub(crate) fn row_bytes(batch: &RecordBatch, row: usize) -> u64 {
    batch.columns().iter().map(|column| value_bytes(column.as_ref(), row..row + 1)).sum()
}

/// Bytes of the values of an array, about.
pub(crate) fn array_bytes(array: &dyn Array) -> u64 {
    value_bytes(array, 0..array.len())
}

/// Bytes that no row takes more of than, about: those of the largest value of each column.
pub(crate) fn most_row_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| most_value_bytes(column.as_ref())).sum()
}

/// Bytes of the largest value of an array, about.
pub(crate) fn most_value_bytes(array: &dyn Array) -> u64 {
    fn longest<O: OffsetSizeTrait>(offsets: &[O]) -> u64 {
        let lengths = offsets.windows(2).map(|ends| distance(ends, 0..1));
        lengths.max().unwrap_or(0).saturating_add(1)
    }
    let texts = match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>().map(|a| longest(a.value_offsets())),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(|a| longest(a.value_offsets())),
        DataType::Binary => array.as_binary_opt::<i32>().map(|a| longest(a.value_offsets())),
        DataType::LargeBinary => array.as_binary_opt::<i64>().map(|a| longest(a.value_offsets())),
        other if other.is_primitive() => Some(value_bytes(array, 0..array.len().min(1))),
        _ => None,
    };
    let each = || (0..array.len()).map(|row| value_bytes(array, row..row + 1)).max().unwrap_or(0);
    texts.unwrap_or_else(each)
}

/// Bytes of some values of an array, about; of dictionaries those of the keys.
fn value_bytes(array: &dyn Array, rows: Range<usize>) -> u64 {
    let count = to_u64(rows.len());
    let values = match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>().map(|a| distance(a.value_offsets(), rows)),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(|a| distance(a.value_offsets(), rows)),
        DataType::Binary => array.as_binary_opt::<i32>().map(|a| distance(a.value_offsets(), rows)),
        DataType::LargeBinary => array.as_binary_opt::<i64>().map(|a| distance(a.value_offsets(), rows)),
        DataType::Utf8View => array.as_string_view_opt().map(|a| lengths(a.views(), rows)),
        DataType::BinaryView => array.as_binary_view_opt().map(|a| lengths(a.views(), rows)),
        DataType::List(_) => {
            array.as_list_opt::<i32>().map(|a| value_bytes(a.values(), items(a.value_offsets(), rows)))
        }
        DataType::LargeList(_) => {
            array.as_list_opt::<i64>().map(|a| value_bytes(a.values(), items(a.value_offsets(), rows)))
        }
        DataType::Map(..) => {
            array.as_map_opt().map(|a| value_bytes(a.entries(), items(a.value_offsets(), rows)))
        }
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0);
            let items = rows.start * length..rows.end * length;
            array.as_fixed_size_list_opt().map(|a| value_bytes(a.values(), items))
        }
        DataType::Struct(_) => array
            .as_struct_opt()
            .map(|a| a.columns().iter().map(|member| value_bytes(member.as_ref(), rows.clone())).sum()),
        DataType::FixedSizeBinary(width) => {
            u64::try_from(*width).ok().map(|width| count.saturating_mul(width))
        }
        DataType::Dictionary(key, _) => {
            key.primitive_width().map(|width| count.saturating_mul(to_u64(width)))
        }
        other => other.primitive_width().map(|width| count.saturating_mul(to_u64(width))),
    };
    // Validity and offsets take some, too.
    values.unwrap_or(0).saturating_add(count)
}

/// What lies between the offsets of the first and the last of some rows.
fn items<O: OffsetSizeTrait>(offsets: &[O], rows: Range<usize>) -> Range<usize> {
    let offset = |row: usize| offsets.get(row).map_or(0, |offset| offset.as_usize());
    offset(rows.start)..offset(rows.end)
}

fn distance<O: OffsetSizeTrait>(offsets: &[O], rows: Range<usize>) -> u64 {
    to_u64(items(offsets, rows).len())
}

/// The lengths of values are the lower 32 bits of their views.
fn lengths(views: &[u128], rows: Range<usize>) -> u64 {
    let views = views.get(rows).unwrap_or_default().iter();
    views.map(|view| u64::try_from(view & u128::from(u32::MAX)).unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{
        FixedSizeListArray, Int32Array, Int64Array, LargeBinaryArray, StringArray, StringViewArray,
        StructArray,
    };
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn rows_have_the_bytes_of_their_values() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("abcd")]));
        let views = StringViewArray::from(vec!["a", "", "a text of more than 12 bytes"]);
        let large = LargeBinaryArray::from_vec(vec![b"a", b"", b"abc"]);
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let mut list = ListBuilder::new(StringBuilder::new());
        for row in [vec!["a"], vec![], vec!["abc", "de"]] {
            row.into_iter().for_each(|text| list.values().append_value(text));
            list.append(true);
        }
        let items = Arc::new(Int32Array::from_iter_values(0..6));
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let members = [("t", Arc::clone(&texts)), ("n", Arc::clone(&integers))];
        let cases: [(ArrayRef, [u64; 3]); 7] = [
            (texts, [2, 1, 5]),
            (Arc::new(views), [2, 1, 29]),
            (Arc::new(large), [2, 1, 4]),
            (integers, [9, 9, 9]),
            (Arc::new(FixedSizeListArray::new(item, 2, items, None)), [11, 11, 11]),
            (Arc::new(StructArray::try_from(members.to_vec()).unwrap()), [12, 11, 15]),
            (Arc::new(list.finish()), [3, 1, 8]),
        ];
        for (array, expected) in cases {
            let batch = RecordBatch::try_from_iter([("v", array)]).unwrap();
            let found = [0, 1, 2].map(|row| row_bytes(&batch, row));
            assert_eq!(found, expected, "{}", batch.schema().field(0).data_type());
            assert_eq!(row_bytes(&batch.slice(2, 1), 0), expected[2]);
            assert_eq!(most_row_bytes(&batch), expected[0].max(expected[2]));
            assert_eq!(most_row_bytes(&batch.slice(0, 2)), expected[0].max(expected[1]));
            let all = expected.iter().sum();
            assert_eq!([all, all - 1, 0].map(|bytes| first_rows_within(bytes, &batch)), [3, 2, 1]);
        }
    }

    #[test]
    fn rows_are_counted_up_to_some_bytes() {
        assert_eq!(rows_within(10, [4, 6, 1]), 2);
        assert_eq!(rows_within(10, [11, 1]), 1);
        assert_eq!(rows_within(0, [0, 0, 1]), 2);
        assert_eq!(rows_within(10, []), 0);
    }
}
