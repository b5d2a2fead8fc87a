//! What is written: rows that match with the values of the source, and rows that only the source has.
//!
//! Rows that match are read in an order that is not the source's. From memory they are picked; from a file they
//! are first divided into runs of that order, each small enough to be sorted in memory. They are given in pieces of a
//! few bytes, so that no array is longer than 32-bit offsets reach.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{BooleanArray, RecordBatch, UInt64Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use pennon_core::lengths::to_u64;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result, RowAddress};

use super::found::MatchedRows;
use super::sides::column;
use super::source::{MergeSource, Numbered};
use crate::batches::{batch_with_rows, interleave_batches, most_row_bytes, row_bytes, rows_within};
use crate::spill::{Spilled, Writer};
use crate::write::members::complete;

/// Runs of an order, at most: each has an open file.
const RUNS: u64 = 64;
/// Bytes of a piece: an eighth of what may be held within these bounds, far below what 32-bit offsets reach.
const PIECE_BYTES: RangeInclusive<u64> = 64 << 10..=64 << 20;

/// Rows of the source in some order.
pub(super) struct Ordered {
    rows: Remaining,
    schema: SchemaRef,
    /// Bytes that no row takes more of than.
    most_row_bytes: u64,
    /// Bytes that are put together at once, about.
    pub(super) piece_bytes: u64,
}

/// The rows that were not given yet.
enum Remaining {
    Memory { source: Arc<MergeSource>, order: Vec<u64>, next: usize },
    Runs { runs: std::vec::IntoIter<Spilled>, current: Option<Run> },
}

impl Ordered {
    /// The rows with these numbers. Of a file, about `limit` bytes are held at a time.
    pub(super) fn new(source: &Arc<MergeSource>, order: Vec<u64>, limit: u64) -> Result<Self> {
        let piece_bytes = (limit / 8).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
        let rows = if source.is_spilled() {
            let runs = divided(source, order, limit, piece_bytes)?;
            Remaining::Runs { runs: runs.into_iter(), current: None }
        } else {
            Remaining::Memory { source: Arc::clone(source), order, next: 0 }
        };
        let in_memory = source.in_memory();
        let most_row_bytes = in_memory.iter().map(|(_, batch)| most_row_bytes(batch)).max().unwrap_or(0);
        Ok(Self { rows, schema: Arc::clone(&source.schema), most_row_bytes, piece_bytes })
    }

    /// The first of the next rows: as many as make a piece, but at least one if there are any.
    pub(super) fn next_rows(&mut self, most: usize) -> Result<RecordBatch> {
        match &mut self.rows {
            Remaining::Memory { source, order, next } => {
                let end = next.saturating_add(most);
                let wanted = order.get(*next..end).ok_or_else(ran_out)?;
                let piece = pick(source, wanted, self.most_row_bytes, self.piece_bytes)?;
                *next += piece.num_rows();
                Ok(piece)
            }
            Remaining::Runs { .. } if most == 0 => Ok(RecordBatch::new_empty(Arc::clone(&self.schema))),
            Remaining::Runs { runs, current } => {
                let mut run = match current.take() {
                    Some(run) => run,
                    None => Run::read(&runs.next().ok_or_else(ran_out)?)?,
                };
                let piece = run.next_rows(most, self.piece_bytes)?;
                *current = Some(run).filter(|run| run.next < run.order.len());
                Ok(piece)
            }
        }
    }
}

/// The first of some rows of a source in memory, of which none takes more than `most_row_bytes`, as many as make a piece.
pub(super) fn pick(
    source: &MergeSource,
    rows: &[u64],
    most_row_bytes: u64,
    piece_bytes: u64,
) -> Result<RecordBatch> {
    let batches = source.in_memory();
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(&source.schema)));
    }
    let are_few = to_u64(rows.len()).saturating_mul(most_row_bytes) <= piece_bytes;
    if let ([(range, batch)], true) = (batches.as_slice(), are_few) {
        if rows.iter().any(|row| !range.contains(row)) {
            return Err(ran_out());
        }
        let rows = UInt64Array::from_iter_values(rows.iter().map(|row| row - range.start));
        return take_record_batch(batch, &rows).map_err(failed);
    }
    let mut positions = Vec::with_capacity(rows.len());
    for row in rows {
        let at = batches.partition_point(|(range, _)| range.end <= *row);
        let (range, _) = batches.get(at).ok_or_else(ran_out)?;
        positions.push((at, usize::try_from(row - range.start).map_err(|_| ran_out())?));
    }
    let batches: Vec<&RecordBatch> = batches.iter().map(|(_, batch)| *batch).collect();
    piece(&batches, &positions, most_row_bytes, piece_bytes)
}

/// The first of some rows, by the numbers of their batches and their own there, as many as make a piece.
fn piece(
    batches: &[&RecordBatch],
    positions: &[(usize, usize)],
    most_row_bytes: u64,
    piece_bytes: u64,
) -> Result<RecordBatch> {
    // To look at each row takes longer than to put them together.
    if to_u64(positions.len()).saturating_mul(most_row_bytes) <= piece_bytes {
        return put_together(batches, positions);
    }
    let size = |(batch, row): &(usize, usize)| batches.get(*batch).map_or(0, |batch| row_bytes(batch, *row));
    let rows = rows_within(piece_bytes, positions.iter().map(size));
    put_together(batches, positions.get(..rows).unwrap_or_default())
}

fn put_together(batches: &[&RecordBatch], positions: &[(usize, usize)]) -> Result<RecordBatch> {
    if let [batch] = batches {
        let rows = UInt64Array::from_iter_values(positions.iter().map(|(_, row)| to_u64(*row)));
        return take_record_batch(batch, &rows).map_err(failed);
    }
    interleave_batches(batches, positions, failed)
}

/// Divides the rows with these numbers into runs: files of rows that follow each other in this order.
fn divided(source: &MergeSource, order: Vec<u64>, limit: u64, piece_bytes: u64) -> Result<Vec<Spilled>> {
    let rows = to_u64(order.len());
    let width = source.bytes / source.rows.max(1) + 1;
    let run_rows = (limit / 2 / width).max(rows.div_ceil(RUNS)).max(1);
    let mut runs: Vec<Option<Writer>> = (0..rows.div_ceil(run_rows)).map(|_| None).collect();
    let mut ranks: Vec<(u64, u64)> = order.into_iter().zip(0..).collect();
    ranks.sort_unstable();
    let schema = with_rank(&source.schema);
    let mut ranks = ranks.as_slice();
    for numbered in source.batches()? {
        let (first, batch) = numbered?;
        let end = first + to_u64(batch.num_rows());
        let (in_batch, rest) = ranks.split_at(ranks.partition_point(|(row, _)| *row < end));
        ranks = rest;
        let row = |number: u64| usize::try_from(number - first).map_err(|_| ran_out());
        let in_batch = in_batch.iter().map(|(number, rank)| Ok((*rank, row(*number)?)));
        let mut in_batch = in_batch.collect::<Result<Vec<(u64, usize)>>>()?;
        in_batch.sort_unstable();
        let most = most_row_bytes(&batch);
        for mut run in in_batch.chunk_by(|a, b| a.0 / run_rows == b.0 / run_rows) {
            let at = run.first().and_then(|(rank, _)| usize::try_from(rank / run_rows).ok());
            let slot = at.and_then(|at| runs.get_mut(at));
            let slot = slot.ok_or_else(|| Error::internal("a row of an unknown run"))?;
            let writer = match slot {
                Some(writer) => writer,
                None => slot.insert(Writer::new(&schema)?),
            };
            // A row of the source may be wanted many times.
            while !run.is_empty() {
                let sizes = run.iter().map(|(_, row)| row_bytes(&batch, *row));
                let are_few = to_u64(run.len()).saturating_mul(most) <= piece_bytes;
                let (part, later) =
                    run.split_at(if are_few { run.len() } else { rows_within(piece_bytes, sizes) });
                writer.write(&ranked(&batch, part, &schema)?)?;
                run = later;
            }
        }
    }
    runs.into_iter().flatten().map(Writer::finish).collect()
}

/// Rows of a batch with their ranks.
fn ranked(batch: &RecordBatch, rows: &[(u64, usize)], schema: &SchemaRef) -> Result<RecordBatch> {
    let positions = UInt64Array::from_iter_values(rows.iter().map(|(_, row)| to_u64(*row)));
    let mut columns = take_record_batch(batch, &positions).map_err(failed)?.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(rank, _)| *rank))));
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(failed)
}

/// A run in memory.
struct Run {
    batches: Vec<RecordBatch>,
    /// Batches and rows, by rank.
    order: Vec<(usize, usize)>,
    next: usize,
    /// Bytes that no row takes more of than.
    most_row_bytes: u64,
}

impl Run {
    fn read(run: &Spilled) -> Result<Self> {
        let (mut batches, mut order, mut most) = (Vec::new(), Vec::new(), 0);
        for batch in run.read()? {
            let mut batch = batch?;
            let last = batch.num_columns().saturating_sub(1);
            let ranks = batch.columns().get(last).and_then(|column| column.as_primitive_opt::<UInt64Type>());
            let ranks = ranks.ok_or_else(|| Error::internal("a run without an order"))?;
            let at = batches.len();
            order.extend(ranks.values().iter().zip(0..).map(|(rank, row)| (*rank, (at, row))));
            batch.remove_column(last);
            most = most.max(most_row_bytes(&batch));
            batches.push(batch);
        }
        order.sort_unstable();
        let order = order.into_iter().map(|(_, position)| position).collect();
        Ok(Self { batches, order, next: 0, most_row_bytes: most })
    }

    fn next_rows(&mut self, most: usize, piece_bytes: u64) -> Result<RecordBatch> {
        let rest = self.order.get(self.next..).unwrap_or_default();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let rest = rest.get(..most).unwrap_or(rest);
        let piece = piece(&batches, rest, self.most_row_bytes, piece_bytes)?;
        self.next += piece.num_rows();
        Ok(piece)
    }
}

fn with_rank(schema: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(ArrowField::new("_rank", DataType::UInt64, false)));
    Arc::new(ArrowSchema::new(fields))
}

/// Puts the values of the source into rows that match.
pub(super) struct Replacement {
    /// The schema of the table.
    pub(super) schema: Arc<Schema>,
    /// The addresses in the order in which the rows are read.
    pub(super) addresses: Vec<RowAddress>,
    pub(super) next: usize,
    pub(super) source: Ordered,
}

impl Replacement {
    /// The first of the rows as they are written, a piece of them, from their addresses and the columns that the source
    /// has not, or not all of.
    pub(super) fn apply(&mut self, read: &RecordBatch) -> Result<RecordBatch> {
        let given = self.source.next_rows(read.num_rows())?;
        let read = read.slice(0, given.num_rows());
        let addresses = column(&read, crate::scan::ROW_ADDRESS)?;
        let addresses = addresses
            .as_primitive_opt::<UInt64Type>()
            .ok_or_else(|| Error::internal("row addresses that are no numbers"))?;
        let end = self.next.saturating_add(read.num_rows());
        let expected = self.addresses.get(self.next..end).unwrap_or_default();
        let mut pairs = expected.iter().zip(addresses.values());
        if expected.len() != read.num_rows() || pairs.any(|(expected, found)| expected.0 != *found) {
            return Err(Error::internal("rows that match were read in another order"));
        }
        self.next = end;
        table_rows(&self.schema, &given, Some(&read))
    }
}

/// A batch with the columns of the table: those of the source, and those that rows have already. The types may be those of
/// the source, which the writer converts.
fn table_rows(schema: &Schema, given: &RecordBatch, read: Option<&RecordBatch>) -> Result<RecordBatch> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for field in &schema.fields {
        let kept = read.and_then(|read| read.column_by_name(&field.name));
        let array = match (given.column_by_name(&field.name), kept) {
            (Some(given), kept) => complete(field, given, kept).map_err(failed)?,
            (None, Some(kept)) => Arc::clone(kept),
            (None, None) => new_null_array(&field.data_type(), given.num_rows()),
        };
        // The writer checks nulls later, with the path of the column.
        fields.push(field.to_arrow().with_data_type(array.data_type().clone()).with_nullable(true));
        columns.push(array);
    }
    batch_with_rows(Arc::new(ArrowSchema::new(fields)), columns, given.num_rows()).map_err(failed)
}

/// Rows of the source that match nothing, with the columns of the table.
pub(super) struct Unmatched {
    pub(super) rows: Numbered,
    pub(super) matched: Arc<MatchedRows>,
    /// The schema of the table.
    pub(super) schema: Arc<Schema>,
}

impl Unmatched {
    fn of(&self, first: u64, batch: &RecordBatch) -> Result<RecordBatch> {
        let unmatched = unmatched(&self.matched, first, batch).map_err(failed)?;
        table_rows(&self.schema, &unmatched, None)
    }
}

/// The rows of a batch that are not among those that match; `first` is the number of its first row.
pub(super) fn unmatched(
    matched: &MatchedRows,
    first: u64,
    batch: &RecordBatch,
) -> Result<RecordBatch, ArrowError> {
    let rows = batch.num_rows();
    let left = BooleanBuffer::collect_bool(rows, |row| !matched.contains(first + to_u64(row)));
    if left.count_set_bits() == rows {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, &BooleanArray::from(left))
}

impl Iterator for Unmatched {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let numbered = self.rows.next()?;
        let batch = numbered.and_then(|(first, batch)| self.of(first, &batch));
        Some(batch.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl arrow_array::RecordBatchReader for Unmatched {
    fn schema(&self) -> SchemaRef {
        Arc::new(self.schema.to_arrow())
    }
}

fn ran_out() -> Error {
    Error::internal("a row that the source does not have")
}

fn failed(error: ArrowError) -> Error {
    Error::invalid_input(format!("Putting rows of a source together: {error}"))
}
