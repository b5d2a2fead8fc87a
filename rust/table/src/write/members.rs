//! Structs of a source that lack members of the table's.
//!
//! As in the reference, a source changes the members that it has, and the others stay: a struct is null afterwards only
//! where it is null in the source and in the table. Where nothing can stay, in rows that come and in the items of lists,
//! members that are lacking are null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait, RecordBatch, StructArray,
    new_null_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema};
use pennon_core::schema::Field;

use crate::expr::visible;

/// Whether values of this type lack members of the field which rows of the table keep.
pub(crate) fn keeps_members(field: &Field, given: &DataType) -> bool {
    let DataType::Struct(members) = given else { return false };
    !field.is_blob_v2()
        && field.children.iter().any(|child| match members.find(&child.name) {
            Some((_, member)) => keeps_members(child, member.data_type()),
            None => true,
        })
}

/// Whether values of this type lack members of the field, in items of lists or elsewhere.
pub(crate) fn lacks_members(field: &Field, given: &DataType) -> bool {
    match (given, field.children.first()) {
        (DataType::Struct(members), _) => {
            !field.is_blob_v2()
                && field.children.iter().any(|child| {
                    members
                        .find(&child.name)
                        .is_none_or(|(_, member)| lacks_members(child, member.data_type()))
                })
        }
        (
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
            Some(child),
        ) => lacks_members(child, item.data_type()),
        _ => false,
    }
}

/// The field in Arrow's terms without the members that values of this type lack.
pub(crate) fn narrowed(field: &Field, given: &DataType) -> ArrowField {
    let arrow = field.to_arrow();
    if field.is_blob_v2() {
        return arrow;
    }
    let child = |wanted: &FieldRef, given: &DataType| {
        let child = field.children.iter().find(|child| child.name == *wanted.name());
        child.map_or_else(|| Arc::clone(wanted), |child| Arc::new(narrowed(child, given)))
    };
    let data_type = match (arrow.data_type(), given) {
        (DataType::Struct(members), DataType::Struct(found)) => {
            let member = |wanted: &FieldRef| Some(child(wanted, found.find(wanted.name())?.1.data_type()));
            DataType::Struct(members.iter().filter_map(member).collect())
        }
        (wanted, DataType::List(found) | DataType::LargeList(found) | DataType::FixedSizeList(found, _)) => {
            match wanted {
                DataType::List(item) => DataType::List(child(item, found.data_type())),
                DataType::LargeList(item) => DataType::LargeList(child(item, found.data_type())),
                DataType::FixedSizeList(item, size) => {
                    DataType::FixedSizeList(child(item, found.data_type()), *size)
                }
                _ => return arrow,
            }
        }
        _ => return arrow,
    };
    arrow.with_data_type(data_type)
}

/// Values with all members of the field. `kept`: those that the table has, of as many rows.
///
/// Errors: none for values whose type can be that of the field.
pub(crate) fn complete(
    field: &Field,
    given: &ArrayRef,
    kept: Option<&ArrayRef>,
) -> Result<ArrayRef, ArrowError> {
    if !lacks_members(field, given.data_type()) {
        return Ok(Arc::clone(given));
    }
    let Some(child) = field.children.first() else { return Ok(Arc::clone(given)) };
    match given.data_type() {
        DataType::List(_) => list::<i32>(child, given.as_list()),
        DataType::LargeList(_) => list::<i64>(child, given.as_list()),
        DataType::FixedSizeList(item, size) => {
            let given = given.as_fixed_size_list();
            let items = complete(child, given.values(), None)?;
            let item = item.as_ref().clone().with_data_type(items.data_type().clone());
            let (nulls, rows) = (given.nulls().cloned(), given.len());
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(item.into(), *size, items, nulls, rows)?))
        }
        _ => struct_of(field, given.as_struct(), kept.and_then(|kept| kept.as_struct_opt())),
    }
}

/// A batch whose lists have all members of the fields in their items; other columns as they are.
pub(crate) fn with_items(fields: &[Field], batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let find = |name: &str| fields.iter().find(|field| field.name == name);
    let schema = batch.schema();
    let lacks =
        |given: &FieldRef| find(given.name()).is_some_and(|field| lacks_members(field, given.data_type()));
    if !schema.fields().iter().any(lacks) {
        return Ok(batch);
    }
    let (mut given, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let column = match find(field.name()) {
            Some(wanted) => complete(wanted, column, None)?,
            None => Arc::clone(column),
        };
        given.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    let schema = ArrowSchema::new_with_metadata(given, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns)
}

fn list<O: OffsetSizeTrait>(child: &Field, given: &GenericListArray<O>) -> Result<ArrayRef, ArrowError> {
    let (item, offsets, items, nulls) = given.clone().into_parts();
    let items = complete(child, &items, None)?;
    let item = item.as_ref().clone().with_data_type(items.data_type().clone());
    Ok(Arc::new(GenericListArray::try_new(item.into(), offsets, items, nulls)?))
}

fn struct_of(field: &Field, given: &StructArray, kept: Option<&StructArray>) -> Result<ArrayRef, ArrowError> {
    let (mut members, mut columns) = (Vec::new(), Vec::new());
    for child in &field.children {
        let member = |parent: &StructArray| Some(visible(parent, parent.column_by_name(&child.name)?));
        let (old, new) = (kept.and_then(member).transpose()?, member(given).transpose()?);
        let column = match (new, old) {
            (Some(new), old) => complete(child, &new, old.as_ref())?,
            (None, Some(old)) => old,
            (None, None) => new_null_array(&child.data_type(), given.len()),
        };
        // The writer checks nulls later, with the path of the column.
        let member = child.to_arrow().with_data_type(column.data_type().clone());
        members.push(member.with_nullable(true));
        columns.push(column);
    }
    let nulls = match kept {
        Some(kept) => either(given.nulls(), kept.nulls()),
        None => given.nulls().cloned(),
    };
    let rows = given.len();
    Ok(Arc::new(StructArray::try_new_with_length(members.into(), columns, nulls, rows)?))
}

/// Valid where one of both is.
fn either(a: Option<&NullBuffer>, b: Option<&NullBuffer>) -> Option<NullBuffer> {
    Some(NullBuffer::new(a?.inner() | b?.inner())).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use arrow_array::Int32Array;
    use arrow_schema::Fields;
    use pennon_core::schema::Schema;

    use super::*;

    fn field(data_type: DataType) -> Field {
        let schema = ArrowSchema::new(vec![ArrowField::new("s", data_type, true)]);
        Schema::from_arrow(&schema).unwrap().fields.remove(0)
    }

    fn members(names: &[&str]) -> Fields {
        names.iter().map(|name| ArrowField::new(*name, DataType::Int32, true)).collect()
    }

    fn structs(columns: &[(&str, [Option<i32>; 4])], valid: [bool; 4]) -> ArrayRef {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let columns =
            columns.iter().map(|(_, values)| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef);
        Arc::new(StructArray::new(members(&names), columns.collect(), Some(NullBuffer::from(valid.to_vec()))))
    }

    #[test]
    fn members_that_are_lacking_stay() {
        let field = field(DataType::Struct(members(&["x", "y"])));
        let given = structs(&[("y", [Some(1), Some(2), None, Some(4)])], [true, false, true, false]);
        let tens = [Some(10), Some(20), Some(30), Some(40)];
        let kept = structs(&[("x", tens), ("y", tens)], [true, true, false, false]);
        let found = complete(&field, &given, Some(&kept)).unwrap();
        let expected = structs(
            &[("x", [Some(10), Some(20), None, None]), ("y", [Some(1), None, None, None])],
            [true, true, true, false],
        );
        assert_eq!(&found, &expected);
        let alone = complete(&field, &given, None).unwrap();
        let expected =
            structs(&[("x", [None; 4]), ("y", [Some(1), None, None, None])], [true, false, true, false]);
        assert_eq!(&alone, &expected);
    }

    #[test]
    fn items_of_lists_get_nulls() {
        let item = |names: &[&str]| ArrowField::new("item", DataType::Struct(members(names)), true);
        let table = field(DataType::List(item(&["x", "y"]).into()));
        let items = structs(&[("y", [Some(1), Some(2), Some(3), None])], [true; 4]);
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 0, 3]);
        let given: ArrayRef =
            Arc::new(GenericListArray::<i32>::new(item(&["y"]).into(), offsets, items, None));
        assert!(lacks_members(&table, given.data_type()) && !keeps_members(&table, given.data_type()));
        let found = complete(&table, &given, None).unwrap();
        let items = found.as_list::<i32>().values().as_struct().clone();
        assert_eq!(items.column(0).null_count(), 4);
        assert_eq!(items.column(1).as_ref(), given.as_list::<i32>().values().as_struct().column(0).as_ref());
        assert!(!lacks_members(&table, found.data_type()));
    }
}
