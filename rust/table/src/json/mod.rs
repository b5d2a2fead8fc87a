//! JSON columns: text to those who write and read them, binary (JSONB) in tables.
//!
//! | file | what |
//! |---|---|
//! | `columns` | columns, also in structs, lists and maps, from one form to the other |
//! | `text` | a document as text and in its binary form |
//! | `binary` | the binary form, read without a copy |
//! | `path` | what a JSONPath selects |
//! | `functions` | SQL functions |
//!
//! Arrow marks JSON text with the extension `arrow.json`, the format its binary form with `lance.json`. Rows are
//! converted where they enter ([`stored`]) and where they are given to callers ([`shown_batch`]); whatever is between
//! sees the binary form, so rows that only move are not converted.

mod binary;
mod columns;
mod functions;
mod path;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use pennon_core::{Error, Result};

use self::columns::Form;
pub(crate) use self::columns::{has_json, is_stored};
pub(crate) use self::functions::functions;
use crate::batches::batch_with_rows;

type Reader = Box<dyn RecordBatchReader + Send>;

/// What JSON columns read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonHandling {
    /// Text, `arrow.json`.
    #[default]
    Text,
    /// Their binary form, as it is stored: `lance.json`.
    Stored,
}

/// The same rows with JSON in its binary form. What is binary already is checked.
///
/// Errors of the reader: `JsonError` naming the column and the row, counted from 0 over all batches.
pub(crate) fn stored(reader: Reader) -> Reader {
    let given = reader.schema();
    if !given.fields().iter().any(|field| has_json(field)) {
        return reader;
    }
    let schema = stored_schema(&given);
    Box::new(Stored { reader, schema, rows: 0 })
}

/// As [`stored`], of rows for a table: what is no JSON there stays text.
pub(crate) fn stored_in(reader: Reader, table: &Schema) -> Reader {
    let given = reader.schema();
    let schema = schema_in(&given, table);
    if Arc::ptr_eq(&schema, &given) {
        return stored(reader);
    }
    let of_batches = Arc::clone(&schema);
    let batches = reader.map(move |batch| unmarked(&batch?, &of_batches));
    stored(Box::new(RecordBatchIterator::new(batches, schema)))
}

/// The schema of [`stored_in`] rows.
pub(crate) fn stored_schema_in(schema: &SchemaRef, table: &Schema) -> SchemaRef {
    stored_schema(&schema_in(schema, table))
}

/// The schema in which only those columns are JSON that are JSON in the table, or that it does not have.
fn schema_in(given: &SchemaRef, table: &Schema) -> SchemaRef {
    let marked = |field: &FieldRef| match table.column_with_name(field.name()) {
        Some((_, wanted)) => columns::marked_as(field, wanted),
        None => Arc::clone(field),
    };
    let fields: Fields = given.fields().iter().map(marked).collect();
    if &fields == given.fields() {
        return Arc::clone(given);
    }
    Arc::new(Schema::new_with_metadata(fields, given.metadata().clone()))
}

/// A batch of which fewer columns are JSON than its own schema says.
fn unmarked(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = schema.fields().iter().zip(batch.columns());
    // What says that members are JSON is in the type.
    let columns = columns.map(|(field, array)| cast(array, field.data_type()));
    batch_with_rows(Arc::clone(schema), columns.collect::<Result<Vec<_>, _>>()?, batch.num_rows())
}

/// The schema with JSON in its binary form.
pub(crate) fn stored_schema(schema: &Schema) -> SchemaRef {
    converted_schema(schema, Form::Stored)
}

/// The schema with JSON as text.
pub(crate) fn shown_schema(schema: &SchemaRef) -> SchemaRef {
    match schema.fields().iter().any(|field| has_json(field)) {
        true => converted_schema(schema, Form::Text),
        false => Arc::clone(schema),
    }
}

/// The rows with JSON as text. Errors: `Corrupt`.
pub(crate) fn shown_batch(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = shown_schema(batch.schema_ref());
    if Arc::ptr_eq(&schema, batch.schema_ref()) {
        return Ok(batch);
    }
    converted_batch(&batch, schema, Form::Text, 0)
}

/// A batch with JSON in its binary form.
pub(crate) fn stored_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    converted_batch(batch, stored_schema(batch.schema_ref()), Form::Stored, 0)
}

/// A column of this field with JSON as text. Errors: `Corrupt`.
pub(crate) fn shown(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    columns::converted(field, array, Form::Text).map_err(|e| e.named(field.name(), 0))
}

/// New values of a column that is JSON: text, or the binary form. Errors: `InvalidInput`.
pub(crate) fn stored_values(name: &str, array: &ArrayRef) -> Result<ArrayRef> {
    columns::documents(array).map_err(|e| e.named(name, 0))
}

/// What values of a type are cast to for a stored column with JSON, which they give as text or in its binary form; None if
/// they do neither.
pub(crate) fn given_type(field: &FieldRef, given: &DataType) -> Option<DataType> {
    columns::field_like(field, given).map(|field| field.data_type().clone())
}

/// New values of a stored column with JSON, of a type of [`given_type`]. Errors: `InvalidInput`.
pub(crate) fn stored_like(field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef> {
    let given = columns::field_like(field, array.data_type()).unwrap_or_else(|| Arc::clone(field));
    columns::converted(&given, array, Form::Stored).map_err(|e| e.named(field.name(), 0))
}

fn converted_schema(schema: &Schema, form: Form) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| columns::field_in(field, form)).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// `before`: rows before these.
fn converted_batch(batch: &RecordBatch, schema: SchemaRef, form: Form, before: usize) -> Result<RecordBatch> {
    let fields = batch.schema_ref().fields().iter().zip(batch.columns());
    let column = |(field, array): (&Arc<Field>, &ArrayRef)| {
        columns::converted(field, array, form).map_err(|e| e.named(field.name(), before))
    };
    let columns = fields.map(column).collect::<Result<Vec<_>>>()?;
    batch_with_rows(schema, columns, batch.num_rows())
        .map_err(|e| Error::invalid_input(format!("A batch of the data is not valid: {e}")))
}

struct Stored {
    reader: Reader,
    schema: SchemaRef,
    /// Read so far.
    rows: usize,
}

impl Iterator for Stored {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.and_then(|batch| {
            let before = self.rows;
            self.rows = before.saturating_add(batch.num_rows());
            converted_batch(&batch, Arc::clone(&self.schema), Form::Stored, before)
                .map_err(|e| ArrowError::JsonError(e.to_string()))
        }))
    }
}

impl RecordBatchReader for Stored {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
