//! Rows that are given with their ids or addresses: held in memory in the order of these, and looked up by them.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, DataType, Schema as ArrowSchema, SchemaRef};
use arrow_select::take::take_record_batch;
use pennon_core::{Error, Result};

use crate::batches::concat_batches;
use crate::json;
use crate::write::BatchReader;

/// The column that says whose the values are.
pub(super) const ROW_ID: &str = "_rowid";

/// The column with the address of a row.
pub(super) const ROW_ADDRESS: &str = "_rowaddr";

/// Rows by id or address, which are unique.
#[derive(Debug)]
pub(super) struct Given {
    /// The system column by which rows are looked up.
    key: &'static str,
    /// Its values, ascending.
    keys: Vec<u64>,
    rows: RecordBatch,
}

impl Given {
    /// Reads all rows, for a table with this schema. Errors: `InvalidInput` if there is no column `_rowid` of type uint64,
    /// or if an id is null or is repeated; those of the reader.
    pub(super) fn read(data: BatchReader, table: &ArrowSchema) -> Result<Self> {
        let data = json::stored_in(data, table);
        let schema = data.schema();
        let wrong =
            |what: &str| Error::invalid_input(format!("The data has {what}, expected uint64 row ids"));
        let (at, field) = schema.column_with_name(ROW_ID).ok_or_else(|| wrong("no column _rowid"))?;
        if field.data_type() != &DataType::UInt64 {
            return Err(wrong(&format!("a column _rowid of type {}", field.data_type())));
        }
        let batches = data.collect::<std::result::Result<Vec<_>, _>>().map_err(failed)?;
        let rows = concat_batches(&schema, &batches, failed)?;
        let ids = rows.column(at).as_primitive::<UInt64Type>();
        if ids.null_count() > 0 {
            return Err(wrong(&format!("{} nulls in column _rowid", ids.null_count())));
        }
        Self::new(ROW_ID, ids.values().to_vec(), rows.clone())
    }

    /// Rows with these ids, or addresses. Errors: `InvalidInput` if one is repeated.
    pub(super) fn new(key: &'static str, mut keys: Vec<u64>, mut rows: RecordBatch) -> Result<Self> {
        if !keys.is_sorted() {
            let mut order: Vec<(u64, u64)> = keys.iter().copied().zip(0..).collect();
            order.sort_unstable();
            let positions = UInt64Array::from_iter_values(order.iter().map(|(_, at)| *at));
            rows = take_record_batch(&rows, &positions).map_err(failed)?;
            keys = order.into_iter().map(|(key, _)| key).collect();
        }
        let repeated: Vec<u64> = keys
            .chunk_by(|a, b| a == b)
            .filter(|same| same.len() > 1)
            .filter_map(|same| same.first().copied())
            .collect();
        if let Some(first) = repeated.first() {
            let what = if key == ROW_ID { "ids" } else { "addresses" };
            return Err(Error::repeated_row(format!(
                "{} row {what} come more than once; the first is {first}",
                repeated.len()
            )));
        }
        Ok(Self { key, keys, rows })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// The system column by which rows are looked up.
    pub(super) fn key(&self) -> &'static str {
        self.key
    }

    /// The values of that column, ascending.
    pub(super) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The rows of these keys, in that order. Errors: `Internal` for one that is not there.
    pub(super) fn rows_for(&self, keys: &[u64]) -> Result<RecordBatch> {
        let unknown = |key: &u64| Error::internal(format!("no row was given with {} {key}", self.key));
        // Most often they are consecutive among those that are given.
        let start = match keys.first() {
            Some(first) => self.keys.binary_search(first).map_err(|_| unknown(first))?,
            None => 0,
        };
        let end = start.saturating_add(keys.len());
        if self.keys.get(start..end) == Some(keys) {
            return Ok(self.rows.slice(start, keys.len()));
        }
        let position = |key: &u64| {
            let at = self.keys.binary_search(key).map_err(|_| unknown(key))?;
            u64::try_from(at).map_err(|_| unknown(key))
        };
        let positions = keys.iter().map(position).collect::<Result<Vec<_>>>()?;
        take_record_batch(&self.rows, &UInt64Array::from(positions))
            .map_err(|e| Error::invalid_input(format!("Taking {} rows: {e}", keys.len())))
    }
}

fn failed(error: ArrowError) -> Error {
    Error::invalid_input(format!("Reading the data failed: {error}"))
}
