//! Rows as batches, for verbs that write them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema};
use pennon_table::BatchReader;

use super::model::{KEY, VALUE, Value};

/// Rows of keys and values, null in all other columns.
pub(super) fn batches(fields: &BTreeMap<i32, String>, rows: &[(i64, Value)]) -> Result<BatchReader, String> {
    let columns = fields.iter().map(|(field, name)| {
        let column: Int64Array = match *field {
            KEY => rows.iter().map(|(key, _)| Some(*key)).collect(),
            VALUE => rows.iter().map(|(_, value)| *value).collect(),
            _ => rows.iter().map(|_| None).collect(),
        };
        (Field::new(name, DataType::Int64, true), Arc::new(column) as ArrayRef)
    });
    reader(columns.collect())
}

pub(super) fn reader(columns: Vec<(Field, ArrayRef)>) -> Result<BatchReader, String> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| error.to_string())?;
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}
