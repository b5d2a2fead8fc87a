//! Source and table as the sides of a join: their keys, the columns of the condition, and the numbers of their rows.

use std::sync::Arc;

use arrow_arith::aggregate::{max, min};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result};

use super::keys::Encoder;
use super::plan::MergePlan;
use super::source::MergeSource;
use crate::expr::Expression;
use crate::scan::{Filter, IndexMatches, JsonHandling, Projection, Scan, ScanOptions};
use crate::versions::snapshot::Snapshot;
use crate::write::{columns, table_types};

/// Bytes that a row of the hashed side takes besides its values.
pub(super) const OVERHEAD: u64 = 48;

/// Batches of a side.
pub(super) type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + Send + 'a>;

/// One side of a join.
pub(super) struct Side<'a> {
    pub(super) batches: Batches<'a>,
    pub(super) rows: u64,
    /// Bytes of all values, about.
    pub(super) bytes: u64,
}

impl Side<'_> {
    /// Bytes of all rows in a hash table.
    pub(super) fn hashed_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.rows.saturating_mul(OVERHEAD))
    }
}

/// Rows of a batch of the table.
const BATCH_ROWS: usize = 64 << 10;
/// The same where that costs no requests: few columns take less memory then, and no more time.
const SMALL_BATCH_ROWS: usize = 16 << 10;
/// The column of row addresses.
const ADDRESS: &str = "_rowaddr";

/// Key columns and columns of the condition of both sides.
pub(super) struct JoinColumns {
    /// Names of the key columns and their types in the table.
    keys: Vec<Field>,
    source: Vec<String>,
    target: Vec<String>,
}

impl JoinColumns {
    pub(super) fn of(plan: &MergePlan) -> Self {
        Self {
            keys: plan.on.iter().map(|field| field.to_arrow()).collect(),
            source: plan.condition_columns("source"),
            target: plan.condition_columns("target"),
        }
    }

    pub(super) fn encoder(&self) -> Result<Encoder> {
        Encoder::new(&self.keys.iter().map(|key| key.data_type().clone()).collect::<Vec<_>>())
    }

    pub(super) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The key columns of a batch, in the types of the table.
    pub(super) fn keys_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let key = |key: &Field| {
            let column = column(batch, key.name())?;
            if column.data_type().equals_datatype(key.data_type()) {
                return Ok(column);
            }
            let cast = match column.data_type().is_integer() {
                true => arrow_cast::cast(&column, key.data_type()),
                false => table_types::cast(&column, key.data_type()),
            };
            cast.map_err(|e| Error::schema_mismatch(format!("key column {}: {e}", key.name())))
        };
        self.keys.iter().map(key).collect()
    }

    /// A filter for rows of the table: the bounds of the source's keys, if that is one column of integers. What lies
    /// outside cannot match, and statistics may show where that is without reading it.
    pub(super) fn bounds(&self, source: &MergeSource) -> Result<Option<Expression>> {
        let [key] = self.keys.as_slice() else { return Ok(None) };
        if !key.data_type().is_integer() {
            return Ok(None);
        }
        let widest = match key.data_type() {
            DataType::UInt64 => DataType::UInt64,
            _ => DataType::Int64,
        };
        let mut bounds: Option<(i128, i128)> = None;
        for numbered in source.batches()? {
            let batch = column(&numbered?.1, key.name())?;
            let values = arrow_cast::cast(&batch, &widest)
                .map_err(|e| Error::schema_mismatch(format!("key column {}: {e}", key.name())))?;
            let found: Option<(i128, i128)> = match values.as_primitive_opt::<UInt64Type>() {
                Some(values) => min(values).zip(max(values)).map(|(min, max)| (min.into(), max.into())),
                None => {
                    let values = values.as_primitive_opt::<Int64Type>();
                    let ends = values.and_then(|values| min(values).zip(max(values)));
                    ends.map(|(min, max)| (min.into(), max.into()))
                }
            };
            bounds = match (bounds, found) {
                (Some((low, high)), Some((min, max))) => Some((low.min(min), high.max(max))),
                (known, found) => known.or(found),
            };
        }
        bounds.map(|(low, high)| Expression::between(key, low, high)).transpose()
    }

    /// The source. Row numbers count from its first row.
    pub(super) fn source<'a>(&'a self, source: &MergeSource) -> Result<Side<'a>> {
        let batches = source.batches()?.map(|numbered| {
            let (first, batch) = numbered?;
            let row_numbers: UInt64Array =
                (first..first + to_u64(batch.num_rows())).collect::<Vec<_>>().into();
            self.side(&batch, "source", &self.source, Arc::new(row_numbers))
        });
        let share = to_u64(self.keys.len() + self.source.len());
        let columns = to_u64(source.schema.fields().len()).max(1);
        let bytes = source.bytes / columns * share;
        Ok(Side { batches: Box::new(batches), rows: source.rows, bytes })
    }

    /// The live rows of a version that `filter` may match; where indices cover them, only those that these found. Row
    /// numbers are addresses. Blocks on the stream.
    ///
    /// `width`: bytes of the columns of a row, about.
    pub(super) fn target<'a>(
        &'a self,
        snapshot: &Arc<Snapshot>,
        filter: Option<Expression>,
        indexed: Option<IndexMatches>,
        width: u64,
    ) -> Result<Side<'a>> {
        let mut names: Vec<String> = self.keys.iter().map(|key| key.name().clone()).collect();
        let more: Vec<_> =
            self.target.iter().filter(|n| !names.contains(n) && *n != ADDRESS).cloned().collect();
        names.extend(more);
        // Each batch of a dictionary contains all items.
        let is_dictionary = |key: &Field| matches!(key.data_type(), DataType::Dictionary(..));
        let small = snapshot.store.is_local() && !self.keys.iter().any(is_dictionary);
        let options = ScanOptions {
            columns: Some(Projection::Names(names)),
            filter: filter.map(Filter::Expression),
            with_row_address: true,
            batch_size: Some(if small { SMALL_BATCH_ROWS } else { BATCH_ROWS }),
            unit_rows: small.then_some(to_u64(SMALL_BATCH_ROWS)),
            unordered: true,
            ignore_indices: true,
            json: JsonHandling::Stored,
            ..ScanOptions::default()
        };
        let mut scan = Scan::new(Arc::clone(snapshot), &options)?;
        let mut rows = snapshot.manifest.live_rows();
        if let Some(indexed) = indexed {
            rows = rows.saturating_sub(indexed.covered_rows(&snapshot.manifest));
            rows = rows.saturating_add(indexed.found_rows());
            scan = scan.among(Arc::new(indexed));
        }
        let stream = scan.stream();
        let batches = columns::values(stream).map(|batch| {
            let batch = batch?;
            let addresses = column(&batch, ADDRESS)?;
            self.side(&batch, "target", &self.target, addresses)
        });
        Ok(Side { batches: Box::new(batches), rows, bytes: rows.saturating_mul(width) })
    }

    fn side(
        &self,
        batch: &RecordBatch,
        name: &str,
        condition: &[String],
        row_numbers: ArrayRef,
    ) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.keys.len() + condition.len() + 1);
        for (at, array) in self.keys_of(batch)?.into_iter().enumerate() {
            columns.push((format!("key{at}"), array));
        }
        for wanted in condition {
            columns.push((format!("{name}.{wanted}"), column(batch, wanted)?));
        }
        columns.push(("row".to_owned(), row_numbers));
        batch_of(columns)
    }

    /// The columns of the condition, for pairs of rows: a row of each side.
    pub(super) fn condition_input(&self, source: &RecordBatch, target: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.source.len() + self.target.len());
        for (side, batch, names) in [("source", source, &self.source), ("target", target, &self.target)] {
            for name in names {
                columns.push((format!("{side}.{name}"), column(batch, name)?));
            }
        }
        batch_of(columns)
    }

    /// Columns of the table that the condition reads.
    pub(super) fn of_target(&self) -> &[String] {
        &self.target
    }
}

fn batch_of(columns: Vec<(String, ArrayRef)>) -> Result<RecordBatch> {
    let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Arc::new(ArrowSchema::new(columns.iter().map(field).collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect())
        .map_err(|e| Error::internal(format!("a side of a join: {e}")))
}

pub(super) fn column(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    let missing = || Error::internal(format!("column {name} was not read for a merge"));
    batch.column_by_name(name).cloned().ok_or_else(missing)
}
