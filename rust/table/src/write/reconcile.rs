//! Batches whose arrays differ from their schema in names and nullability only.
//!
//! Writers agree on types, not on what the members of lists and maps are called: `item` in Arrow, `element` in Spark,
//! `entries` or `key_value` around the keys of a map; nor on whether a member that has no nulls may have some. Arrow's
//! types differ then, and a batch of the schema cannot be made of the arrays as they are. Here they get the names and
//! the nullability of the schema: list members, map entries, keys and values by position, struct members by name and
//! order.
//!
//! Invariant: values, offsets and validity are not touched, nor looked at where a member may be null; nulls in a member
//! that must not have any are an error with its path. Arrays of another type are left as they are, for Arrow to refuse.

use crate::batches::batch_with_rows;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch,
    StructArray, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, SchemaRef};
use arrow_select::take::take;
use pennon_core::{Error, ErrorKind, Result};

use super::required::{self, below};

/// A batch of this schema made of columns that have its types except for the names and nullability of members.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, ListArray, types::Int32Type};
/// use arrow_schema::{DataType, Field, Schema};
/// use pennon_table::write::reconciled;
///
/// let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), Some(2)])]);
/// let element = Arc::new(Field::new("element", DataType::Int32, false));
/// let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::List(element), false)]));
/// let batch = reconciled(schema.clone(), vec![Arc::new(lists) as ArrayRef], 1)?;
/// assert_eq!(batch.column(0).data_type(), schema.field(0).data_type());
/// # Ok::<(), pennon_core::Error>(())
/// ```
///
/// Errors: `SchemaMismatch` with the path of a field that has nulls and must not have any; `InvalidInput` for columns of
/// other types or another number of rows.
pub fn reconciled(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let mut fitting = Vec::with_capacity(columns.len());
    for (at, column) in columns.into_iter().enumerate() {
        fitting.push(match schema.fields().get(at) {
            Some(field) => member(&column, field, None, field.name())?.unwrap_or(column),
            None => column,
        });
    }
    batch_with_rows(schema, fitting, rows).map_err(|e| not_valid(&e))
}

fn not_valid(error: &ArrowError) -> Error {
    Error::invalid_input(format!("A batch of the data is not valid: {error}"))
}

/// The array as that field wants it; `None` if it has another type. `outer` is the validity of what it is a member of.
fn member(
    array: &ArrayRef,
    field: &Field,
    outer: Option<&NullBuffer>,
    path: &str,
) -> Result<Option<ArrayRef>> {
    required::check(array, field, outer, path)?;
    relabeled(array, field.data_type(), outer, path)
}

fn relabeled(
    array: &ArrayRef,
    wanted: &DataType,
    outer: Option<&NullBuffer>,
    path: &str,
) -> Result<Option<ArrayRef>> {
    let found = array.data_type();
    Ok(match (found, wanted) {
        // The type may claim that members have no nulls when they do.
        _ if found == wanted => {
            required::check_members(array, outer, path)?;
            Some(Arc::clone(array))
        }
        (DataType::List(_), DataType::List(item)) => list::<i32>(array, item, path)?,
        (DataType::LargeList(_), DataType::LargeList(item)) => list::<i64>(array, item, path)?,
        (DataType::FixedSizeList(_, n), DataType::FixedSizeList(item, m)) if n == m => {
            fixed_size_list(array, item, *n, outer, path)?
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => map(array, entries, *sorted, path)?,
        (DataType::Struct(found), DataType::Struct(members)) => {
            let same = |(found, wanted): (&FieldRef, &FieldRef)| found.name() == wanted.name();
            match found.len() == members.len() && found.iter().zip(members).all(same) {
                true => structs(array.as_struct(), members, outer, path)?,
                false => None,
            }
        }
        _ => None,
    })
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef, item: &FieldRef, path: &str) -> Result<Option<ArrayRef>> {
    let path = below(path, item);
    shown(array, |array| {
        let (_, offsets, values, nulls) = array.as_list::<O>().clone().into_parts();
        let Some(values) = member(&values, item, None, &path)? else { return Ok(None) };
        made(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls))
    })
}

fn fixed_size_list(
    array: &ArrayRef,
    item: &FieldRef,
    size: i32,
    outer: Option<&NullBuffer>,
    path: &str,
) -> Result<Option<ArrayRef>> {
    let (_, _, values, nulls) = array.as_fixed_size_list().clone().into_parts();
    let outer = NullBuffer::union(nulls.as_ref(), outer);
    let outer = outer.map(|nulls| nulls.expand(usize::try_from(size).unwrap_or_default()));
    let Some(values) = member(&values, item, outer.as_ref(), &below(path, item))? else { return Ok(None) };
    made(FixedSizeListArray::try_new(Arc::clone(item), size, values, nulls))
}

fn map(array: &ArrayRef, entries: &FieldRef, sorted: bool, path: &str) -> Result<Option<ArrayRef>> {
    let DataType::Struct(members) = entries.data_type() else { return Ok(None) };
    let path = below(path, entries);
    shown(array, |array| {
        let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
        if pairs.num_columns() != members.len() {
            return Ok(None);
        }
        let Some(pairs) = structs(&pairs, members, None, &path)? else { return Ok(None) };
        made(MapArray::try_new(Arc::clone(entries), offsets, pairs.as_struct().clone(), nulls, sorted))
    })
}

/// Members by position.
fn structs(
    array: &StructArray,
    members: &Fields,
    outer: Option<&NullBuffer>,
    path: &str,
) -> Result<Option<ArrayRef>> {
    let nulls = NullBuffer::union(array.nulls(), outer);
    let mut columns = Vec::with_capacity(members.len());
    for (column, field) in array.columns().iter().zip(members) {
        let Some(column) = member(column, field, nulls.as_ref(), &below(path, field))? else {
            return Ok(None);
        };
        columns.push(column);
    }
    made(StructArray::try_new_with_length(members.clone(), columns, array.nulls().cloned(), array.len()))
}

/// Makes another list or map of one. If it has nulls where none may be, only the values that it shows count: those
/// outside of a slice and beneath null lists are nobody's.
fn shown(array: &ArrayRef, make: impl Fn(&ArrayRef) -> Result<Option<ArrayRef>>) -> Result<Option<ArrayRef>> {
    match make(array) {
        Err(error) if error.kind() == ErrorKind::SchemaMismatch => {
            let rows = UInt64Array::from_iter_values((0..).take(array.len()));
            make(&take(array, &rows, None).map_err(|e| not_valid(&e))?)
        }
        made => made,
    }
}

fn made<A: Array + 'static>(array: Result<A, ArrowError>) -> Result<Option<ArrayRef>> {
    array.map(|array| Some(Arc::new(array) as ArrayRef)).map_err(|e| not_valid(&e))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, ListArray, StringArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Schema;

    use super::*;

    fn column(array: ArrayRef, wanted: DataType) -> Result<ArrayRef> {
        let rows = array.len();
        let schema = Arc::new(Schema::new(vec![Field::new("a", wanted, true)]));
        Ok(reconciled(schema, vec![array], rows)?.column(0).clone())
    }

    fn list_of(name: &str, item: DataType, nullable: bool) -> DataType {
        DataType::List(Arc::new(Field::new(name, item, nullable)))
    }

    fn map_of(names: [&str; 3], nullable: bool) -> DataType {
        let [entries, key, value] = names;
        let members = vec![
            Field::new(key, DataType::Utf8, false),
            Field::new(value, list_of(value, DataType::Int32, nullable), nullable),
        ];
        DataType::Map(Arc::new(Field::new(entries, DataType::Struct(members.into()), false)), false)
    }

    fn maps(names: [&str; 3]) -> ArrayRef {
        let DataType::Map(entries, _) = map_of(names, true) else { unreachable!() };
        let DataType::Struct(members) = entries.data_type() else { unreachable!() };
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1)]),
            Some(vec![]),
            Some(vec![Some(2), Some(3)]),
        ]);
        let lists =
            relabeled(&(Arc::new(lists) as ArrayRef), members[1].data_type(), None, "").unwrap().unwrap();
        let keys = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let pairs = StructArray::new(members.clone(), vec![keys, lists], None);
        Arc::new(MapArray::new(entries, OffsetBuffer::from_lengths([1, 0, 2]), pairs, None, false))
    }

    #[test]
    fn names_and_nullability_are_those_of_the_schema() {
        let spark = ["key_value", "k", "element"];
        for nullable in [true, false] {
            let wanted = map_of(["entries", "key", "value"], nullable);
            let found = column(maps(spark), wanted.clone()).unwrap();
            assert_eq!(found.data_type(), &wanted);
            let back = column(found, map_of(spark, true)).unwrap();
            assert_eq!(&back, &maps(spark));
        }
    }

    #[test]
    fn values_are_not_copied() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), None]);
        let array: ArrayRef = Arc::new(lists.clone());
        let found = column(array, list_of("element", DataType::Int32, false)).unwrap();
        let values = |list: &ListArray| list.values().as_primitive::<Int32Type>().values().inner().as_ptr();
        assert_eq!(values(found.as_list()), values(&lists));
    }

    #[test]
    fn a_null_where_none_may_be_names_its_path() {
        let inner = DataType::Struct(vec![Field::new("x", DataType::Int32, true)].into());
        let DataType::Struct(members) = &inner else { unreachable!() };
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let structs = StructArray::new(members.clone(), vec![values.clone()], None);
        let lists = ListArray::new(
            Arc::new(Field::new("item", inner, true)),
            OffsetBuffer::from_lengths([1, 1]),
            Arc::new(structs),
            None,
        );
        let required = DataType::Struct(vec![Field::new("x", DataType::Int32, false)].into());
        let wanted = list_of("element", required, true);
        let error = column(Arc::new(lists.clone()), wanted.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.to_string().contains("`a.element.x`"), "{error}");

        let schema = Arc::new(Schema::new(vec![Field::new("top", DataType::Int32, false)]));
        let error = reconciled(schema, vec![values], 2).unwrap_err();
        assert!(error.to_string().contains("`top`"), "{error}");
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    }

    #[test]
    fn nulls_that_nobody_sees_are_none() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![None]),
            Some(vec![Some(1), Some(2)]),
            Some(vec![None, None]),
        ]);
        let wanted = list_of("element", DataType::Int32, false);
        let found = column(Arc::new(lists.slice(1, 1)), wanted.clone()).unwrap();
        assert_eq!(found.as_list::<i32>().value(0).as_primitive::<Int32Type>().values(), &[1, 2]);
        column(Arc::new(lists), wanted).unwrap_err();
    }

    #[test]
    fn other_types_are_refused() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]));
        for wanted in [list_of("item", DataType::Int64, true), DataType::Int32, map_of(["e", "k", "v"], true)]
        {
            assert_eq!(column(lists.clone(), wanted).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
