//! Nulls where a type says that there are none: pyarrow takes the word of who makes an array, and so do imports of Arrow.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, Field, FieldRef};
use pennon_core::{Error, Result};

/// Checks that an array of a field that may not be null has nulls only where the struct or list that it is in has them:
/// `outer`.
///
/// Errors: `SchemaMismatch` with the path.
pub(super) fn check(array: &ArrayRef, field: &Field, outer: Option<&NullBuffer>, path: &str) -> Result<()> {
    if !field.is_nullable()
        && let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)
        && !outer.is_some_and(|outer| outer.contains(&nulls))
    {
        return Err(Error::schema_mismatch(format!(
            "The field `{path}` contained null values even though the field is marked non-null"
        )));
    }
    Ok(())
}

/// The same of the members of an array, at any depth. Nulls that no row shows are allowed: those outside of a slice, or
/// beneath a null.
pub(super) fn check_members(array: &ArrayRef, outer: Option<&NullBuffer>, path: &str) -> Result<()> {
    if !has_required(array.data_type()) {
        return Ok(());
    }
    let nulls = NullBuffer::union(array.nulls(), outer);
    match array.data_type() {
        DataType::Struct(members) => {
            let mut columns = array.as_struct().columns().iter().zip(members);
            columns.try_for_each(|(column, field)| member(column, field, nulls.as_ref(), path))
        }
        DataType::FixedSizeList(item, size) => {
            let outer = nulls.map(|nulls| nulls.expand(usize::try_from(*size).unwrap_or_default()));
            member(array.as_fixed_size_list().values(), item, outer.as_ref(), path)
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            items(lists.values(), item, lists.value_offsets(), nulls.as_ref(), path)
        }
        DataType::LargeList(item) => {
            let lists = array.as_list::<i64>();
            items(lists.values(), item, lists.value_offsets(), nulls.as_ref(), path)
        }
        DataType::Map(entries, _) => {
            let maps = array.as_map();
            let pairs: ArrayRef = Arc::new(maps.entries().clone());
            items(&pairs, entries, maps.value_offsets(), nulls.as_ref(), path)
        }
        _ => Ok(()),
    }
}

/// The path of a member.
pub(super) fn below(path: &str, field: &Field) -> String {
    format!("{path}.{}", field.name())
}

fn member(array: &ArrayRef, field: &Field, outer: Option<&NullBuffer>, above: &str) -> Result<()> {
    let path = below(above, field);
    check(array, field, outer, &path)?;
    check_members(array, outer, &path)
}

/// Items of lists. Only if there is something wrong with them it is looked up which of them a list shows.
fn items<O: OffsetSizeTrait>(
    items: &ArrayRef,
    field: &Field,
    offsets: &[O],
    nulls: Option<&NullBuffer>,
    path: &str,
) -> Result<()> {
    if member(items, field, None, path).is_ok() {
        return Ok(());
    }
    let mut shown = BooleanBufferBuilder::new(items.len());
    for (row, ends) in offsets.windows(2).enumerate() {
        if let [start, end] = ends
            && nulls.is_none_or(|nulls| nulls.is_valid(row))
        {
            shown.append_n(start.as_usize().saturating_sub(shown.len()), false);
            shown.append_n(end.as_usize().saturating_sub(start.as_usize()), true);
        }
    }
    shown.append_n(items.len().saturating_sub(shown.len()), false);
    member(items, field, Some(&NullBuffer::new(shown.finish())), path)
}

/// Whether a type has members that may not be null.
fn has_required(data_type: &DataType) -> bool {
    let is_required = |field: &FieldRef| !field.is_nullable() || has_required(field.data_type());
    match data_type {
        DataType::Struct(members) => members.iter().any(is_required),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_required(item),
        _ => false,
    }
}
