//! Record batches from pyarrow, which hands a slice over as an offset of the struct, with its members whole.
//!
//! Arrow's own import cuts the members of a struct twice when they are structs themselves, which is a panic as soon
//! as the offset is not 0. Here offsets of structs are moved down to the leaves first.
//! What they hold is checked, since pyarrow takes it on trust.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, RecordBatch, make_array};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pennon_core::Error;
use pennon_table::write::reconciled;
use pyo3::intern;
use pyo3::prelude::*;

use crate::error::to_py;

/// The batch of a `pyarrow.RecordBatch`, without a copy of values.
///
/// Column by column: what is imported at once is freed at once, and a writer holds some columns longer than others.
///
/// `declared` is the schema of the reader that it comes from, if it comes from one. Names and nullability of members are
/// those of that schema, or of the batch's own: pyarrow takes both for equal to those of the arrays.
pub(crate) fn batch_from_py(batch: &Bound<'_, PyAny>, declared: Option<&SchemaRef>) -> PyResult<RecordBatch> {
    let py = batch.py();
    let own = Schema::from_pyarrow_bound(&batch.getattr(intern!(py, "schema"))?)?;
    let names =
        |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let schema = match declared {
        Some(declared) if names(declared) == names(&own) => Arc::clone(declared),
        _ => Arc::new(own),
    };
    let rows = batch.getattr(intern!(py, "num_rows"))?.extract()?;
    let column = |column: PyResult<Bound<'_, PyAny>>| ArrayData::from_pyarrow_bound(&column?);
    let columns: Vec<ArrayData> =
        batch.getattr(intern!(py, "columns"))?.try_iter()?.map(column).collect::<PyResult<_>>()?;
    let realigned = |data| if is_misaligned(&data) { realign(data) } else { Ok(data) };
    let columns = columns.into_iter().map(realigned).map(|data| data.map(make_array));
    columns
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::invalid_input(format!("A batch of the data is not valid: {error}")))
        .and_then(|columns| {
            py.detach(|| check_columns(&schema, &columns))?;
            reconciled(schema, columns, rows)
        })
        .map_err(|error| to_py(py, &error))
}

/// What pyarrow takes on trust: that texts are UTF-8, and that offsets and keys of dictionaries are within what they
/// point to. A column of others could be written, and not be read.
fn check_columns(schema: &Schema, columns: &[ArrayRef]) -> Result<(), Error> {
    for (field, column) in schema.fields().iter().zip(columns) {
        check_values(column).map_err(|error| {
            Error::invalid_input(format!("Column {} has values that are not valid: {error}", field.name()))
        })?;
    }
    Ok(())
}

/// The values of an array and those of its members that its rows have: slices of one array share the rest.
fn check_values(array: &ArrayRef) -> Result<(), ArrowError> {
    let is_plain = match array.data_type() {
        DataType::Utf8 => is_ascii(array.as_string::<i32>()),
        DataType::LargeUtf8 => is_ascii(array.as_string::<i64>()),
        _ => false,
    };
    if !is_plain {
        array.to_data().validate_values()?;
    }
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(check_values),
        DataType::FixedSizeList(..) => check_values(array.as_fixed_size_list().values()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            check_values(&used(list.values(), list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            check_values(&used(list.values(), list.value_offsets()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            check_values(&used(&entries, map.value_offsets()))
        }
        DataType::Dictionary(..) => check_values(array.as_any_dictionary().values()),
        _ => Ok(()),
    }
}

/// Whether texts are of ASCII and in order, which is quick to see: they can be cut anywhere.
fn is_ascii<O: OffsetSizeTrait>(texts: &GenericStringArray<O>) -> bool {
    let offsets = texts.value_offsets();
    let is_in_order = offsets.windows(2).fold(true, |so_far, pair| so_far & (pair[0] <= pair[1]));
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return false };
    let used =
        first.to_usize().zip(last.to_usize()).and_then(|(first, last)| texts.value_data().get(first..last));
    is_in_order && used.is_some_and(<[u8]>::is_ascii)
}

/// The values between the first offset and the last; the offsets are valid.
fn used<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O]) -> ArrayRef {
    let first = offsets.first().map_or(0, |offset| offset.as_usize());
    let last = offsets.last().map_or(0, |offset| offset.as_usize());
    values.slice(first, last - first)
}

/// Whether some struct below a struct or a fixed-size list would be cut twice.
fn is_misaligned(data: &ArrayData) -> bool {
    let cut = |child: &ArrayData| holds_struct(child) && (data.offset() > 0 || child.offset() > 0);
    let cuts = matches!(data.data_type(), DataType::Struct(_) | DataType::FixedSizeList(..));
    data.child_data().iter().any(|child| (cuts && cut(child)) || is_misaligned(child))
}

/// Whether cutting this cuts a struct.
fn holds_struct(data: &ArrayData) -> bool {
    match data.data_type() {
        DataType::Struct(_) => true,
        DataType::FixedSizeList(..) => data.child_data().iter().any(holds_struct),
        _ => false,
    }
}

/// The same values with no offset in any struct or fixed-size list.
fn realign(data: ArrayData) -> Result<ArrayData, ArrowError> {
    let (offset, len) = (data.offset(), data.len());
    let children: Vec<ArrayData> =
        data.child_data().iter().map(|child| realign(child.clone())).collect::<Result<_, _>>()?;
    let per_row = match data.data_type() {
        DataType::Struct(_) => 1,
        DataType::FixedSizeList(_, size) => usize::try_from(*size).unwrap_or_default(),
        _ if children.is_empty() => return Ok(data),
        _ => return data.into_builder().child_data(children).build(),
    };
    let children = cut_all(&children, offset * per_row, len * per_row)?;
    ArrayDataBuilder::new(data.data_type().clone())
        .len(len)
        .nulls(data.nulls().cloned())
        .child_data(children)
        .build()
}

/// Some rows of a realigned array.
fn cut(data: &ArrayData, offset: usize, len: usize) -> Result<ArrayData, ArrowError> {
    let per_row = match data.data_type() {
        DataType::Struct(_) => 1,
        DataType::FixedSizeList(_, size) => usize::try_from(*size).unwrap_or_default(),
        _ => return Ok(data.slice(offset, len)),
    };
    let children = cut_all(data.child_data(), offset * per_row, len * per_row)?;
    ArrayDataBuilder::new(data.data_type().clone())
        .len(len)
        .nulls(data.nulls().map(|nulls| nulls.slice(offset, len)))
        .child_data(children)
        .build()
}

fn cut_all(children: &[ArrayData], offset: usize, len: usize) -> Result<Vec<ArrayData>, ArrowError> {
    children.iter().map(|child| cut(child, offset, len)).collect()
}
