//! Columns of the data in the Arrow types of the table, where both types have the same values.
//!
//! Arrow has several types for texts, bytes and lists, and each library prefers others: Polars gives `large_string`, views
//! and `large_list`, pandas dictionaries, Spark plain ones. Offsets of 32 or 64 bits, views, dictionaries and lists of a
//! fixed size are converted here; a column of nulls has any type, and bytes become blob v2. Numbers and times of other
//! types are not the same values, and are left for [`Schema::check_append`](pennon_core::schema::Schema::check_append)
//! to refuse, as is what an extension type gives another meaning.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, UInt64Array, new_null_array};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow_select::take::take;

use super::BatchReader;
use crate::batches::batch_with_rows;
use crate::blobs;
use crate::runtime::guarded;

/// The same rows in the types of a table with this schema. Columns are matched by name; those that the table does not
/// have are left as they are.
///
/// Errors of the reader: `CastError` naming the column, for lists of another length than the table's and for more
/// different values than the keys of a dictionary can name.
pub(crate) fn converted(data: BatchReader, table: &Schema) -> BatchReader {
    let given = data.schema();
    let schema = converted_schema(&given, table);
    if schema == given {
        return data;
    }
    let of_batches = Arc::clone(&schema);
    let batches = data.map(move |batch| converted_batch(&batch?, &of_batches));
    Box::new(RecordBatchIterator::new(batches, schema))
}

/// The schema of [`converted`] data.
pub(crate) fn converted_schema(given: &Schema, table: &Schema) -> SchemaRef {
    let fields = fields_like(given.fields(), table.fields());
    Arc::new(Schema::new_with_metadata(fields, given.metadata().clone()))
}

fn converted_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        if column.data_type() == &DataType::Null {
            return Ok(new_null_array(field.data_type(), column.len()));
        }
        blobs::array_of_bytes(column, field)
            .and_then(|column| cast(&column, field.data_type()))
            .map_err(|error| ArrowError::CastError(format!("column `{}`: {error}", field.name())))
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    batch_with_rows(Arc::clone(schema), columns, batch.num_rows())
}

/// The same values in another type.
pub(crate) fn cast(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |array: &ArrayRef| {
        // Views of more bytes than offsets can name are a panic.
        guarded(|| cast_with_options(array, data_type, &strict))
            .unwrap_or_else(|panic| Err(ArrowError::CastError(panic)))
    };
    if !has_fixed_lists(data_type) {
        return cast(array);
    }
    // Of a slice, Arrow makes lists of a fixed size from the first values on; of a copy it has no others.
    let rows = UInt64Array::from_iter_values((0..).take(array.len()));
    cast(&take(array, &rows, None)?)
}

fn has_fixed_lists(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
            has_fixed_lists(item.data_type())
        }
        DataType::Struct(members) => members.iter().any(|member| has_fixed_lists(member.data_type())),
        _ => false,
    }
}

/// The given fields, each like the one of the table that has its name.
fn fields_like(given: &Fields, table: &Fields) -> Fields {
    let like = |field: &FieldRef| match table.find(field.name()) {
        Some((_, wanted)) => field_like(field, wanted),
        None => Arc::clone(field),
    };
    given.iter().map(like).collect()
}

/// The given field with the type of the table's, as far as that has the same values.
fn field_like(given: &FieldRef, table: &Field) -> FieldRef {
    if given.data_type() == &DataType::Null {
        // Nulls are of any type, extension types among them.
        return Arc::new(table.clone().with_name(given.name()).with_nullable(given.is_nullable()));
    }
    if let Some(blobs) = blobs::field_of_bytes(given, table) {
        return blobs;
    }
    if given.extension_type_name() != table.extension_type_name() {
        return Arc::clone(given);
    }
    let data_type = type_like(given.data_type(), table.data_type());
    let with_blobs = blobs::type_of_bytes(given.data_type(), table.data_type());
    if &data_type == given.data_type() || !can_cast_types(&with_blobs, &data_type) {
        return Arc::clone(given);
    }
    Arc::new(given.as_ref().clone().with_data_type(data_type))
}

fn type_like(given: &DataType, table: &DataType) -> DataType {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    match (given, table) {
        (Struct(found), Struct(members)) => Struct(fields_like(found, members)),
        (Map(found, sorted), Map(entries, _)) => Map(entries_like(found, entries), *sorted),
        (
            List(found) | LargeList(found) | ListView(found) | LargeListView(found) | FixedSizeList(found, _),
            List(item),
        ) => List(field_like(found, item)),
        (
            List(found) | LargeList(found) | ListView(found) | LargeListView(found) | FixedSizeList(found, _),
            LargeList(item),
        ) => LargeList(field_like(found, item)),
        (List(found) | LargeList(found), FixedSizeList(item, size)) => {
            FixedSizeList(field_like(found, item), *size)
        }
        (FixedSizeList(found, size), FixedSizeList(item, _)) => FixedSizeList(field_like(found, item), *size),
        (Dictionary(_, found), Dictionary(_, values)) if have_same_values(found, values) => table.clone(),
        (Dictionary(_, found), _) if have_same_values(found, table) => table.clone(),
        (_, Dictionary(_, values)) if have_same_values(given, values) => table.clone(),
        _ if have_same_values(given, table) => table.clone(),
        _ => given.clone(),
    }
}

/// Entries of maps: key and value by position.
fn entries_like(given: &FieldRef, table: &Field) -> FieldRef {
    let (DataType::Struct(found), DataType::Struct(wanted)) = (given.data_type(), table.data_type()) else {
        return Arc::clone(given);
    };
    let members = found.iter().zip(wanted).map(|(field, wanted)| field_like(field, wanted)).collect();
    Arc::new(given.as_ref().clone().with_data_type(DataType::Struct(members)))
}

/// Whether plain types are equal, or both of texts, or both of bytes.
fn have_same_values(given: &DataType, table: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let are_texts = |kind: &DataType| matches!(kind, Utf8 | LargeUtf8 | Utf8View);
    let are_bytes = |kind: &DataType| matches!(kind, Binary | LargeBinary | BinaryView);
    given == table || (are_texts(given) && are_texts(table)) || (are_bytes(given) && are_bytes(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
        let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), true);
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    }

    #[test]
    fn what_needs_no_conversion_is_passed_on() {
        let texts = DataType::List(Arc::new(Field::new("element", DataType::Utf8, false)));
        let given = schema(&[("a", DataType::Int32), ("b", texts), ("new", DataType::LargeUtf8)]);
        let table = schema(&[
            ("b", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))),
            ("a", DataType::Int64),
        ]);
        assert_eq!(converted_schema(&given, &table), given);
    }

    #[test]
    fn names_and_nullability_of_members_are_those_that_are_given() {
        let item = |name: &str, kind| Arc::new(Field::new(name, kind, false));
        let given = schema(&[("a", DataType::LargeList(item("element", DataType::Utf8View)))]);
        let table = schema(&[("a", DataType::List(item("item", DataType::Utf8)))]);
        let found = converted_schema(&given, &table);
        assert_eq!(found.field(0).data_type(), &DataType::List(item("element", DataType::Utf8)));
    }
}
