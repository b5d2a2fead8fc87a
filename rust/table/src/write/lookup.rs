//! Rows of other data by their keys: what a left join of new columns looks into.
//!
//! The rows are held in memory, their keys in a map. Keys are equal if their bytes are: null is equal to null, zero to
//! minus zero, and any NaN to any other. Of several rows with one key the last counts.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, SchemaRef};
use pennon_core::{Error, FragmentId, Result};

use super::BatchReader;
use super::floats::canonical_float;
use crate::batches::interleave_arrays;
use crate::scan::{JsonHandling, Projection, ROW_ADDRESS, ROW_ID, Scan, ScanOptions, system_fields};
use crate::versions::snapshot::Snapshot;

/// Data of which one column is a key, before it is read.
pub(crate) struct KeyedData {
    data: BatchReader,
    /// The position of the key.
    key: usize,
    /// The positions of the other columns, and their schema.
    others: Vec<usize>,
    pub(crate) schema: Schema,
}

impl KeyedData {
    /// Data by the column `key`, which `missing` is the error for want of. Errors: `InvalidInput` if keys of the table
    /// are of another type, `Unsupported` if they are no keys.
    pub(crate) fn new(
        data: BatchReader,
        key: &str,
        of_table: &DataType,
        missing: impl FnOnce() -> Error,
    ) -> Result<Self> {
        let all = data.schema();
        let (key, found) = all.column_with_name(key).ok_or_else(missing)?;
        if found.data_type() != of_table {
            return Err(Error::invalid_input(format!(
                "Index column type mismatch: expected {}, got {of_table}",
                found.data_type()
            )));
        }
        check_key(of_table)?;
        let others: Vec<usize> = (0..all.fields().len()).filter(|other| *other != key).collect();
        let schema =
            all.project(&others).map_err(|e| Error::internal(format!("leaving out the key: {e}")))?;
        Ok(Self { data, key, others, schema })
    }

    /// Reads all of it. Errors: `InvalidInput` if that fails.
    pub(crate) fn read(self) -> Result<Lookup> {
        Lookup::new(self.data, self.key, &self.others, Arc::new(self.schema))
    }
}

/// A scan of the column `key` of some fragments, and of its rows' ids and addresses if that is asked for.
///
/// Errors: `missing` if there is no such column; those of a scan.
pub(crate) fn scan_keys(
    snapshot: &Arc<Snapshot>,
    fragments: impl IntoIterator<Item = FragmentId>,
    key: &str,
    with_rows: bool,
    missing: impl FnOnce() -> Error,
) -> Result<Scan> {
    let is_system = system_fields().iter().any(|field| field.name() == key);
    if !is_system && snapshot.manifest.schema.field_by_path(key).is_none() {
        return Err(missing());
    }
    let options = ScanOptions {
        columns: Some(Projection::Names(vec![key.to_owned()])),
        // The key comes first, also if it is one of them.
        with_row_id: with_rows && key != ROW_ID,
        with_row_address: with_rows && key != ROW_ADDRESS,
        fragments: Some(fragments.into_iter().map(Into::into).collect()),
        json: JsonHandling::Stored,
        ..ScanOptions::default()
    };
    Scan::new(Arc::clone(snapshot), &options)
}

/// Rows by key, held in memory.
pub(crate) struct Lookup {
    schema: SchemaRef,
    /// For each column, one null, then the batches.
    columns: Vec<Vec<ArrayRef>>,
    /// Batch and row by key; batches count from 1.
    rows: HashMap<Box<[u8]>, (usize, usize)>,
}

impl Lookup {
    /// The rows of data by the column `key`; `others` are the columns that are kept, with this schema.
    fn new(data: BatchReader, key: usize, others: &[usize], schema: SchemaRef) -> Result<Self> {
        let mut columns: Vec<Vec<ArrayRef>> =
            schema.fields().iter().map(|f| vec![new_null_array(f.data_type(), 1)]).collect();
        let mut rows = HashMap::new();
        for (number, batch) in (1..).zip(data) {
            let batch = batch.map_err(|e| Error::invalid_input(format!("Reading the data failed: {e}")))?;
            each_key(batch.column(key), |row, bytes| {
                rows.insert(bytes.into(), (number, row));
            })?;
            for (column, at) in columns.iter_mut().zip(others) {
                column.push(Arc::clone(batch.column(*at)));
            }
        }
        Ok(Self { schema, columns, rows })
    }

    /// The columns that are kept.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The positions of the rows for keys.
    pub(crate) fn find(&self, keys: &ArrayRef) -> Result<Vec<Option<(usize, usize)>>> {
        let mut positions = Vec::with_capacity(keys.len());
        each_key(keys, |_, key| positions.push(self.rows.get(key).copied()))?;
        Ok(positions)
    }

    /// The rows for keys, null where there is none.
    pub(crate) fn rows_for(&self, keys: &ArrayRef) -> Result<RecordBatch> {
        let positions: Vec<_> = self.find(keys)?.into_iter().map(Option::unwrap_or_default).collect();
        self.take(&positions)
    }

    /// The rows at these positions; null for the position (0, 0).
    pub(crate) fn take(&self, positions: &[(usize, usize)]) -> Result<RecordBatch> {
        let unmatched = positions.iter().any(|(batch, _)| *batch == 0);
        let mut columns = Vec::with_capacity(self.columns.len());
        for (field, arrays) in self.schema.fields().iter().zip(&self.columns) {
            if unmatched && !field.is_nullable() {
                return Err(Error::invalid_input(format!(
                    "Column '{}' is declared as non-nullable but contains null values: some rows have no match",
                    field.name()
                )));
            }
            let (count, name) = (positions.len(), field.name());
            let failed = |e| Error::invalid_input(format!("Taking {count} values of column {name}: {e}"));
            columns.push(interleave_arrays(arrays, positions, failed)?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::invalid_input(format!("The joined columns do not fit their schema: {e}")))
    }
}

/// Errors: `Unsupported` for a type whose values are no keys.
fn check_key(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Null | DataType::Boolean | DataType::FixedSizeBinary(_) => Ok(()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Ok(()),
        DataType::Dictionary(_, value) => check_key(value),
        other if other.is_primitive() => Ok(()),
        other => Err(Error::unsupported(format!("Keys of type {other} cannot be looked up"))),
    }
}

/// Calls for each row with bytes that are equal where the keys are.
fn each_key(keys: &ArrayRef, mut each: impl FnMut(usize, &[u8])) -> Result<()> {
    let keys = plain(keys)?;
    let data = keys.to_data();
    let width = match keys.data_type() {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or_default(),
        other => other.primitive_width().unwrap_or_default(),
    };
    let fixed = data.buffers().first().map(|buffer| buffer.as_slice()).unwrap_or_default();
    let mut bytes = Vec::new();
    for row in 0..keys.len() {
        bytes.clear();
        if keys.is_valid(row) && keys.data_type() != &DataType::Null {
            bytes.push(1);
            if let Some(keys) = keys.as_binary_opt::<i64>() {
                bytes.extend_from_slice(keys.value(row));
            } else if let Some(keys) = keys.as_boolean_opt() {
                bytes.push(u8::from(keys.value(row)));
            } else {
                let start = (data.offset() + row).saturating_mul(width);
                bytes.extend_from_slice(fixed.get(start..start.saturating_add(width)).unwrap_or_default());
            }
        }
        each(row, &bytes);
    }
    Ok(())
}

/// The same keys in one of few forms.
fn plain(keys: &ArrayRef) -> Result<ArrayRef> {
    let to = |data_type: &DataType| {
        cast(keys, data_type)
            .map_err(|e| Error::invalid_input(format!("Keys of type {}: {e}", keys.data_type())))
    };
    match keys.data_type() {
        DataType::Dictionary(_, value) => plain(&to(value)?),
        DataType::Utf8 | DataType::Utf8View => plain(&to(&DataType::LargeUtf8)?),
        DataType::LargeUtf8 | DataType::Binary | DataType::BinaryView => to(&DataType::LargeBinary),
        _ => Ok(canonical_float(keys)),
    }
}
