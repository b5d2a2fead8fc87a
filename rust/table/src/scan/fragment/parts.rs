//! A field whose members are in several files, or partly in none: each file gives what it has of the field, from the top
//! down, since only within its parents a member has their nulls and lists.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray, new_null_array,
};
use arrow_buffer::NullBuffer;
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, FieldId, Result};
use pennon_datafile::container::has_one_column;

use crate::expr::visible;

/// Whether a field is in one file as it is, or not at all.
pub(super) fn is_indivisible(field: &Field) -> bool {
    has_one_column(field) || field.is_blob_v2()
}

/// A field with only those of its indivisible members that are wanted; `None` without any.
pub(super) fn only(field: &Field, is_wanted: &impl Fn(&Field) -> bool) -> Option<Field> {
    if is_indivisible(field) {
        return is_wanted(field).then(|| field.clone());
    }
    let children: Vec<Field> = field.children.iter().filter_map(|child| only(child, is_wanted)).collect();
    (!children.is_empty()).then(|| Field { children, ..field.clone() })
}

/// What a file has of a field.
type FieldPart<'a> = (&'a Field, ArrayRef);

/// The values of a field, of those of its parts: the same rows, one after another. What no part has is null. Of a struct
/// that has a column of its own (file version 2.0) the members are, since that column has no nulls.
///
/// Errors: `Corrupt` if that may not be null, or if lists have other lengths in another file; `Unsupported` for a map.
pub(super) fn combined(
    field: &Field,
    parts: &[FieldPart<'_>],
    rows: usize,
    has_column: &dyn Fn(FieldId) -> bool,
) -> Result<ArrayRef> {
    match parts {
        [] if field.logical_type == LogicalType::Struct && has_column(field.id) => {}
        [] if field.nullable => return Ok(new_null_array(&field.data_type(), rows)),
        [] => {
            return Err(Error::corrupt(format!(
                "field {} (id {}) may not be null, yet no data file has it",
                field.name, field.id
            )));
        }
        [(part, array)] if *part == field => return Ok(Arc::clone(array)),
        _ => {}
    }
    match &field.logical_type {
        LogicalType::Struct => combined_structs(field, parts, rows, has_column),
        LogicalType::List | LogicalType::ListStruct => combined_lists::<i32>(field, parts, has_column),
        LogicalType::LargeList | LogicalType::LargeListStruct => {
            combined_lists::<i64>(field, parts, has_column)
        }
        LogicalType::FixedSizeList(_, size) => combined_fixed_size_lists(field, *size, parts, has_column),
        other => Err(Error::unsupported(format!(
            "the parts of field {} ({other}) are in several data files",
            field.name
        ))),
    }
}

fn combined_structs(
    field: &Field,
    parts: &[FieldPart<'_>],
    rows: usize,
    has_column: &dyn Fn(FieldId) -> bool,
) -> Result<ArrayRef> {
    let structs = typed(field, parts, |array| array.as_struct_opt())?;
    // As the reference has it, a struct is null where all its parts are.
    let valid = |array: &StructArray| array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    let either = |a: NullBuffer, b: NullBuffer| NullBuffer::new(a.inner() | b.inner());
    let nulls = structs.iter().map(|(_, array)| valid(array)).reduce(|a, b| Some(either(a?, b?))).flatten();
    let mut columns = Vec::with_capacity(field.children.len());
    for child in &field.children {
        let mut of_child = Vec::new();
        for (part, array) in &structs {
            let mut members = part.children.iter().zip(array.columns());
            if let Some((member, column)) = members.find(|(member, _)| member.id == child.id) {
                // What is beneath a null struct of one part must not show because another part is there.
                of_child.push((member, visible(array, column).map_err(|e| unfit(field, &e))?));
            }
        }
        columns.push(combined(child, &of_child, rows, has_column)?);
    }
    let fields = field.children.iter().map(|child| Arc::new(child.to_arrow())).collect();
    let array = StructArray::try_new(fields, columns, nulls);
    Ok(Arc::new(array.map_err(|e| unfit(field, &e))?))
}

fn combined_lists<O: OffsetSizeTrait>(
    field: &Field,
    parts: &[FieldPart<'_>],
    has_column: &dyn Fn(FieldId) -> bool,
) -> Result<ArrayRef> {
    let lists = typed(field, parts, |array| array.as_list_opt::<O>())?;
    let (item, (_, first)) = item_and_first(field, &lists)?;
    if lists.iter().any(|(_, list)| list.offsets() != first.offsets() || list.nulls() != first.nulls()) {
        return Err(Error::corrupt(format!(
            "field {}: its lists have other lengths in another data file",
            field.name
        )));
    }
    let values = values_of(&lists, |list| list.values());
    let values = combined(item, &values, first.values().len(), has_column)?;
    let offsets = first.offsets().clone();
    let array =
        GenericListArray::<O>::try_new(Arc::new(item.to_arrow()), offsets, values, first.nulls().cloned());
    Ok(Arc::new(array.map_err(|e| unfit(field, &e))?))
}

fn combined_fixed_size_lists(
    field: &Field,
    size: i32,
    parts: &[FieldPart<'_>],
    has_column: &dyn Fn(FieldId) -> bool,
) -> Result<ArrayRef> {
    let lists = typed(field, parts, |array| array.as_fixed_size_list_opt())?;
    let (item, (_, first)) = item_and_first(field, &lists)?;
    let values = values_of(&lists, |list| list.values());
    let values = combined(item, &values, first.values().len(), has_column)?;
    let array = FixedSizeListArray::try_new(Arc::new(item.to_arrow()), size, values, first.nulls().cloned());
    Ok(Arc::new(array.map_err(|e| unfit(field, &e))?))
}

/// The arrays of parts by their type.
fn typed<'a, A>(
    field: &Field,
    parts: &'a [FieldPart<'_>],
    cast: impl Fn(&'a dyn Array) -> Option<&'a A>,
) -> Result<Vec<(&'a Field, &'a A)>> {
    let typed = |(part, array): &'a FieldPart<'_>| Some((*part, cast(array.as_ref())?));
    let typed: Option<Vec<_>> = parts.iter().map(typed).collect();
    typed.ok_or_else(|| Error::internal(format!("field {} was read as another type", field.name)))
}

/// The item of lists, and the first part.
fn item_and_first<'a, 'b, A>(
    field: &'b Field,
    lists: &[(&'a Field, &'a A)],
) -> Result<(&'b Field, (&'a Field, &'a A))> {
    let found = field.children.first().zip(lists.first().copied());
    found.ok_or_else(|| Error::internal(format!("field {} is a list without an item", field.name)))
}

fn values_of<'a, A>(
    lists: &[(&'a Field, &'a A)],
    values: impl Fn(&'a A) -> &'a ArrayRef,
) -> Vec<(&'a Field, ArrayRef)> {
    let of_list =
        |(part, list): &(&'a Field, &'a A)| Some((part.children.first()?, Arc::clone(values(list))));
    lists.iter().filter_map(of_list).collect()
}

fn unfit(field: &Field, error: &arrow_schema::ArrowError) -> Error {
    Error::corrupt(format!("field {}: {error}", field.name))
}
