//! Addresses of blobs in rows that come from outside.
//!
//! A merge or an update writes new rows together with rows of the table, whose blobs may be addresses and go on being so.
//! An address in a new row would be stored with them, and read with the rights of the process whoever gave the row.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch, RecordBatchReader};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, Result};

type Reader = Box<dyn RecordBatchReader + Send>;

/// The same rows, if their blobs are bytes. `table` says which columns have blobs.
///
/// Errors of the reader: `InvalidArgumentError` for an address, naming the column.
pub(crate) fn without_addresses(data: Reader, table: &Schema) -> Reader {
    let given = data.schema();
    let is_given = |field: &&Field| field.has_blob_v2() && given.column_with_name(&field.name).is_some();
    let fields: Vec<Field> = table.fields.iter().filter(is_given).cloned().collect();
    match fields.is_empty() {
        true => data,
        false => Box::new(Checked { data, fields }),
    }
}

/// Checks values that were computed of rows of the table: they have no addresses but those of the rows.
///
/// Errors: `InvalidInput`, naming the column.
pub(crate) fn check_computed(
    field: &Field,
    values: &ArrayRef,
    rows: &RecordBatch,
    table: &Schema,
) -> Result<()> {
    if !field.has_blob_v2() {
        return Ok(());
    }
    let mut known = HashSet::new();
    for field in table.fields.iter().filter(|field| field.has_blob_v2()) {
        if let Some(column) = rows.column_by_name(&field.name) {
            each_address(field, column, None, &mut |uri| _ = known.insert(uri.to_owned()));
        }
    }
    let mut new = None;
    each_address(field, values, None, &mut |uri| {
        if new.is_none() && !known.contains(uri) {
            new = Some(uri.to_owned());
        }
    });
    new.map_or(Ok(()), |uri| Err(Error::invalid_input(refusal(&uri, &field.name))))
}

fn refusal(uri: &str, name: &str) -> String {
    format!(
        "External blob URI '{uri}' in field '{name}' is outside registered external bases: merges and updates take bytes, \
         write_dataset and insert may take addresses"
    )
}

struct Checked {
    data: Reader,
    /// Those of the table that have blobs.
    fields: Vec<Field>,
}

impl Iterator for Checked {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.data.next()?.and_then(|batch| {
            for field in &self.fields {
                let Some(column) = batch.column_by_name(&field.name) else { continue };
                let mut found = None;
                each_address(field, column, None, &mut |uri| _ = found.get_or_insert_with(|| uri.to_owned()));
                if let Some(uri) = found {
                    return Err(ArrowError::InvalidArgumentError(refusal(&uri, &field.name)));
                }
            }
            Ok(batch)
        }))
    }
}

impl RecordBatchReader for Checked {
    fn schema(&self) -> SchemaRef {
        self.data.schema()
    }
}

/// Visits the addresses among the blobs of a column; `hidden` are the nulls of the structs around it. Values of another
/// form than that of the field are an error of whoever writes them.
fn each_address(field: &Field, array: &ArrayRef, hidden: Option<&NullBuffer>, visit: &mut dyn FnMut(&str)) {
    match array.data_type() {
        DataType::Struct(_) => {
            let structs = array.as_struct();
            let nulls = NullBuffer::union(hidden, structs.nulls());
            if field.is_blob_v2() {
                let member = |name| structs.column_by_name(name);
                let uris = member("uri").and_then(|uris| uris.as_string_opt::<i32>());
                let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                let has_bytes = |row| member("data").is_some_and(|data| data.is_valid(row));
                for (row, uri) in uris.into_iter().flatten().enumerate() {
                    if let Some(uri) = uri.filter(|uri| !uri.is_empty() && !is_null(row) && !has_bytes(row)) {
                        visit(uri);
                    }
                }
                return;
            }
            for child in field.children.iter().filter(|child| child.has_blob_v2()) {
                if let Some(column) = structs.column_by_name(&child.name) {
                    each_address(child, column, nulls.as_ref(), visit);
                }
            }
        }
        DataType::List(_) => in_lists(field, array.as_list::<i32>(), hidden, visit),
        DataType::LargeList(_) => in_lists(field, array.as_list::<i64>(), hidden, visit),
        _ => {}
    }
}

fn in_lists<O: OffsetSizeTrait>(
    field: &Field,
    lists: &GenericListArray<O>,
    hidden: Option<&NullBuffer>,
    visit: &mut dyn FnMut(&str),
) {
    let Some(item) = field.children.first().filter(|item| item.has_blob_v2()) else { return };
    for row in 0..lists.len() {
        if lists.is_valid(row) && hidden.is_none_or(|nulls| nulls.is_valid(row)) {
            each_address(item, &lists.value(row), None, visit);
        }
    }
}
