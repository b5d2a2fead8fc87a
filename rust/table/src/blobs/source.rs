//! Blobs of a source whose rows are put together with rows of the table: they have to be bytes.
//!
//! What such rows are written with keeps the addresses of blobs that the table has; those of the source would pass as well,
//! and let whoever gives a row read what the process can read.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pennon_core::schema::{Field, Schema};

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
                if let Some(uri) = address(field, column) {
                    return Err(ArrowError::InvalidArgumentError(format!(
                        "External blob URI '{uri}' in field '{}' is outside registered external bases: only write_dataset \
                         and insert keep or read one",
                        field.name
                    )));
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

/// An address among the blobs of a column. What is hidden by a null is found, too; another form than that of the field is
/// an error of whoever writes it.
fn address(field: &Field, array: &ArrayRef) -> Option<String> {
    if field.is_blob_v2() {
        let uris = array.as_struct_opt()?.column_by_name("uri")?.as_string_opt::<i32>()?;
        return uris.iter().flatten().next().map(str::to_owned);
    }
    let below =
        |children: &[Field], items: &ArrayRef| children.iter().find_map(|child| address(child, items));
    match array.data_type() {
        DataType::Struct(_) => {
            let structs = array.as_struct();
            let member = |child: &Field| address(child, structs.column_by_name(&child.name)?);
            field.children.iter().find_map(member)
        }
        DataType::List(_) => below(&field.children, array.as_list::<i32>().values()),
        DataType::LargeList(_) => below(&field.children, array.as_list::<i64>().values()),
        _ => None,
    }
}
