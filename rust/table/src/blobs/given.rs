//! Blobs that are given as their bytes.
//!
//! A scan with the bytes of blobs, a legacy blob, and whoever has files and no more give a column of bytes. In a table with
//! blob v2 it becomes structs of `data`, which are the bytes, and of members that are null. Structs may be around it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use pennon_core::schema::BLOB_EXTENSION;

/// The given field as the table has it, if it has blob v2 and the given one their bytes.
pub(crate) fn field_of_bytes(given: &Field, table: &Field) -> Option<FieldRef> {
    let is_blob = table.extension_type_name() == Some(BLOB_EXTENSION);
    if !is_blob || given.extension_type_name().is_some() || !is_bytes(given.data_type()) {
        return None;
    }
    Some(Arc::new(table.clone().with_name(given.name()).with_nullable(given.is_nullable())))
}

/// The type of [`array_of_bytes`].
pub(crate) fn type_of_bytes(given: &DataType, table: &DataType) -> DataType {
    let (DataType::Struct(found), DataType::Struct(members)) = (given, table) else { return given.clone() };
    let like = |field: &FieldRef| {
        let Some((_, wanted)) = members.find(field.name()) else { return Arc::clone(field) };
        field_of_bytes(field, wanted).unwrap_or_else(|| {
            let data_type = type_of_bytes(field.data_type(), wanted.data_type());
            Arc::new(field.as_ref().clone().with_data_type(data_type))
        })
    };
    DataType::Struct(found.iter().map(like).collect())
}

/// The array with blobs instead of their bytes where `field` has blobs; other values stay as they are.
///
/// Errors: those of Arrow, for arrays that do not fit together.
pub(crate) fn array_of_bytes(array: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(members) = field.data_type() else { return Ok(Arc::clone(array)) };
    if field.extension_type_name() == Some(BLOB_EXTENSION) {
        return match is_bytes(array.data_type()) {
            true => blobs(array, members),
            false => Ok(Arc::clone(array)),
        };
    }
    let Some(structs) = array.as_struct_opt() else { return Ok(Arc::clone(array)) };
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (found, column) in structs.fields().iter().zip(structs.columns()) {
        let column = match members.find(found.name()) {
            Some((_, wanted)) => array_of_bytes(column, wanted)?,
            None => Arc::clone(column),
        };
        fields.push(Arc::new(found.as_ref().clone().with_data_type(column.data_type().clone())));
        columns.push(column);
    }
    let nulls = structs.nulls().cloned();
    let made = StructArray::try_new_with_length(Fields::from(fields), columns, nulls, structs.len())?;
    Ok(Arc::new(made))
}

/// Null bytes are a null blob.
fn blobs(bytes: &ArrayRef, members: &Fields) -> Result<ArrayRef, ArrowError> {
    let columns = members.iter().map(|member| match member.name() == "data" {
        true => cast(bytes, member.data_type()),
        false => Ok(new_null_array(member.data_type(), bytes.len())),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let nulls = bytes.logical_nulls();
    Ok(Arc::new(StructArray::try_new_with_length(members.clone(), columns, nulls, bytes.len())?))
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}
