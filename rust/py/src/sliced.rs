//! Record batches from pyarrow, which hands a slice over as an offset of the struct, with its members whole.
//!
//! Arrow's own import cuts the members of a struct twice when they are structs themselves, which is a panic as soon
//! as the offset is not 0. Here offsets of structs are moved down to the leaves first.
//! An array without values may have an offset that was never written, as those of Java's Arrow; it is replaced.
//! Lengths and values are validated: pyarrow does neither unless it is asked to.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, RecordBatch, make_array};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
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
    // The C interface does not say how large buffers are: lengths that exceed them would be read all the same.
    batch.call_method0(intern!(py, "validate")).map_err(|error| not_in_bounds(py, &error))?;
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
    let realigned =
        |data| if is_misaligned(&data) || points_nowhere(&data) { realign(data) } else { Ok(data) };
    let column = |(data, field): (_, &FieldRef)| {
        realigned(data).map(make_array).map_err(|error| not_valid(field, &error))
    };
    let columns = columns.into_iter().zip(schema.fields()).map(column);
    columns
        .collect::<Result<Vec<_>, _>>()
        .and_then(|columns| {
            py.detach(|| check_columns(&schema, &columns))?;
            reconciled(schema, columns, rows)
        })
        .map_err(|error| to_py(py, &error))
}

fn not_in_bounds(py: Python<'_>, error: &PyErr) -> PyErr {
    to_py(py, &Error::invalid_input(format!("A batch of the data is not valid: {}", error.value(py))))
}

/// Validates what pyarrow does not: texts are UTF-8, offsets are in order, keys of dictionaries are within it. A column
/// with other values could be written, but not read. The C interface gives no lengths of buffers: the last offset of
/// texts and bytes is that of pyarrow.
fn check_columns(schema: &Schema, columns: &[ArrayRef]) -> Result<(), Error> {
    for (field, column) in schema.fields().iter().zip(columns) {
        check_values(column).map_err(|error| not_valid(field, &error))?;
    }
    Ok(())
}

fn not_valid(field: &Field, error: &ArrowError) -> Error {
    Error::invalid_input(format!("Column {} has values that are not valid: {error}", field.name()))
}

/// The values of an array and those of its members that its rows have: slices of one array share the rest.
fn check_values(array: &ArrayRef) -> Result<(), ArrowError> {
    match array.data_type() {
        DataType::Utf8 => return check_text(array.as_string::<i32>()),
        DataType::LargeUtf8 => return check_text(array.as_string::<i64>()),
        _ => array.to_data().validate_values()?,
    }
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(check_values),
        DataType::FixedSizeList(..) => check_values(array.as_fixed_size_list().values()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            check_values(&referenced_values(list.values(), list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            check_values(&referenced_values(list.values(), list.value_offsets()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            check_values(&referenced_values(&entries, map.value_offsets()))
        }
        DataType::Dictionary(..) => check_values(array.as_any_dictionary().values()),
        _ => Ok(()),
    }
}

/// The values between the first offset and the last; the offsets are valid.
fn referenced_values<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O]) -> ArrayRef {
    let first = offsets.first().map_or(0, |offset| offset.as_usize());
    let last = offsets.last().map_or(0, |offset| offset.as_usize());
    values.slice(first, last - first)
}

/// Texts that are not null are UTF-8. All bytes are validated at once, which is quick, and row by row only if that fails:
/// those of a null may be any.
fn check_text<O: OffsetSizeTrait>(texts: &GenericStringArray<O>) -> Result<(), ArrowError> {
    let offsets = texts.value_offsets();
    let ends = offsets
        .first()
        .and_then(|first| first.to_usize())
        .zip(offsets.last().and_then(|last| last.to_usize()));
    let referenced = ends.and_then(|(first, last)| Some((first, texts.value_data().get(first..last)?)));
    let Some((first, bytes)) = referenced.filter(|_| offsets.is_sorted()) else {
        return Err(ArrowError::InvalidArgumentError("offsets of texts are not in order".to_owned()));
    };
    let at = |offset: O| offset.as_usize() - first;
    if bytes.is_ascii() {
        return Ok(());
    }
    if let Ok(text) = str::from_utf8(bytes)
        && offsets.iter().all(|offset| text.is_char_boundary(at(*offset)))
    {
        return Ok(());
    }
    let rows = offsets.iter().zip(offsets.iter().skip(1)).enumerate();
    for (row, (from, to)) in rows.filter(|(row, _)| texts.is_valid(*row)) {
        if let Err(error) = str::from_utf8(bytes.get(at(*from)..at(*to)).unwrap_or_default()) {
            return Err(ArrowError::InvalidArgumentError(format!(
                "the text of row {row} of the batch: {error}"
            )));
        }
    }
    Ok(())
}

/// Whether some struct below a struct or a fixed-size list would be cut twice.
fn is_misaligned(data: &ArrayData) -> bool {
    let cut = |child: &ArrayData| holds_struct(child) && (data.offset() > 0 || child.offset() > 0);
    let cuts = matches!(data.data_type(), DataType::Struct(_) | DataType::FixedSizeList(..));
    data.child_data().iter().any(|child| (cuts && cut(child)) || is_misaligned(child))
}

/// Whether some array without values has an offset other than 0.
fn points_nowhere(data: &ArrayData) -> bool {
    let first = match data.data_type() {
        _ if !data.is_empty() => None,
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => {
            data.buffer::<i32>(0).first().map(|offset| i64::from(*offset))
        }
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => {
            data.buffer::<i64>(0).first().copied()
        }
        _ => None,
    };
    first.is_some_and(|offset| offset != 0) || data.child_data().iter().any(points_nowhere)
}

/// Whether cutting this cuts a struct.
fn holds_struct(data: &ArrayData) -> bool {
    match data.data_type() {
        DataType::Struct(_) => true,
        DataType::FixedSizeList(..) => data.child_data().iter().any(holds_struct),
        _ => false,
    }
}

/// The same values with no offset in any struct or fixed-size list, nor in any array without values.
fn realign(data: ArrayData) -> Result<ArrayData, ArrowError> {
    if data.is_empty() {
        return Ok(ArrayData::new_empty(data.data_type()));
    }
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
