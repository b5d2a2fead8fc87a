//! The inner join of a source and a table on keys, by hash.
//!
//! The side with fewer rows is hashed, the other one streamed past it. If the table of hashes would take more memory
//! than allowed, both sides are first divided by hash into temporary files, and each pair of parts is joined by itself
//! (Grace); a part that is still too large is divided again. Rows of one key cannot be divided.
//!
//! A side is a stream of batches: its key columns, then what a condition asks for, then one column of row numbers.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::{take, take_record_batch};
use pennon_core::{Error, Result};

use super::found::Found;
use super::keys::{Encoder, HashTable, Keys, not_null};
use super::plan::Plan;
use super::sides::Columns;
use super::source::{Source, bytes_of, to_u64};
use super::spill::{Spilled, Writer};
use crate::expr::Expression;
use crate::snapshot::Snapshot;

/// Bytes that a row of the hashed side takes besides its values.
const OVERHEAD: u64 = 48;
/// Parts of one division, at most: each has an open file.
const PARTS: u64 = 32;
/// Divisions of a division, at most.
const DEPTH: u32 = 4;
/// Rows of a part that are collected before they are written.
const PENDING: usize = 1024;
/// Pairs of rows a condition is evaluated for at once.
const PAIRS: usize = 16 << 10;

/// Finds the rows of a source and of a version that have equal keys.
pub(super) fn find(
    snapshot: &Arc<Snapshot>,
    plan: &Plan,
    columns: &Columns,
    source: &Source,
    limit: u64,
    given_up: &impl Fn() -> Result<()>,
    found: &mut Found,
) -> Result<()> {
    if source.rows == 0 || snapshot.manifest.live_rows() == 0 {
        return Ok(());
    }
    let encoder = columns.encoder()?;
    let join =
        Join { encoder: &encoder, keys: columns.key_count(), condition: plan.condition(), limit, given_up };
    let side = columns.source(source)?;
    let width = side.bytes / side.rows.max(1) + 1;
    let target = columns.target(snapshot, columns.bounds(source)?, width)?;
    join.run(side, target, &mut |source, target, holds| found.add(source, target, holds))
}

/// One side of a join.
pub(super) struct Side<'a> {
    pub(super) batches: Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>,
    pub(super) rows: u64,
    /// Bytes of all values, about.
    pub(super) bytes: u64,
}

impl Side<'_> {
    fn hashed_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.rows.saturating_mul(OVERHEAD))
    }
}

/// How two sides are joined.
pub(super) struct Join<'a> {
    pub(super) encoder: &'a Encoder,
    /// Number of key columns.
    pub(super) keys: usize,
    pub(super) condition: Option<&'a Expression>,
    /// Bytes that hashed rows may take.
    pub(super) limit: u64,
    pub(super) given_up: &'a dyn Fn() -> Result<()>,
}

/// Takes pairs of matching rows: source, table, and whether the condition holds. Says whether to go on.
pub(super) type Sink<'a> = &'a mut dyn FnMut(u64, u64, bool) -> bool;

impl Join<'_> {
    /// Gives every pair of rows with equal keys to `sink`, in any order.
    pub(super) fn run(&self, source: Side<'_>, target: Side<'_>, sink: Sink<'_>) -> Result<()> {
        self.divide(source, target, 0, sink).map(|_| ())
    }

    fn divide(&self, source: Side<'_>, target: Side<'_>, depth: u32, sink: Sink<'_>) -> Result<bool> {
        let hash_source = source.rows <= target.rows;
        let hashed = if hash_source { &source } else { &target };
        let bytes = hashed.hashed_bytes();
        if bytes <= self.limit || depth >= DEPTH || hashed.rows <= 1 {
            let (build, probe) = if hash_source { (source, target) } else { (target, source) };
            return self.join(build, probe, hash_source, sink);
        }
        let parts = (bytes.saturating_mul(2) / self.limit.max(1)).clamp(2, PARTS);
        let source = self.parts(source, parts, depth)?;
        let target = self.parts(target, parts, depth)?;
        for (source, target) in source.into_iter().zip(target) {
            if let (Some(source), Some(target)) = (source, target)
                && !self.divide(source.side()?, target.side()?, depth + 1, sink)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of a side in parts by hash, without those that have no key; `None`: no row.
    fn parts(&self, side: Side<'_>, parts: u64, depth: u32) -> Result<Vec<Option<Part>>> {
        let mut writers: Vec<Option<PartWriter>> = (0..parts).map(|_| None).collect();
        let mut rows: Vec<Vec<u32>> = (0..parts).map(|_| Vec::new()).collect();
        for batch in side.batches {
            (self.given_up)()?;
            let batch = batch?;
            let (keys, not_null) = self.keys(&batch)?;
            for (row, at) in (0..batch.num_rows()).zip(0_u32..) {
                if not_null.as_ref().is_none_or(|n| n.is_valid(row)) {
                    // Other bits than a table of hashes uses, and others at each depth.
                    let part = (keys.hash(row) >> (20 + 8 * depth)) % parts;
                    if let Some(rows) = usize::try_from(part).ok().and_then(|part| rows.get_mut(part)) {
                        rows.push(at);
                    }
                }
            }
            for (rows, writer) in rows.iter_mut().zip(&mut writers) {
                if !rows.is_empty() {
                    let rows = UInt32Array::from(std::mem::take(rows));
                    let part = take_record_batch(&batch, &rows).map_err(failed)?;
                    writer.get_or_insert_with(PartWriter::default).add(part)?;
                }
            }
        }
        writers.into_iter().map(|writer| writer.map(PartWriter::finish).transpose()).collect()
    }

    fn keys(&self, batch: &RecordBatch) -> Result<(Keys, Option<NullBuffer>)> {
        let mut keys = self.encoder.empty();
        let columns = self.key_columns(batch);
        self.encoder.append(&mut keys, columns)?;
        Ok((keys, not_null(columns)))
    }

    fn key_columns<'b>(&self, batch: &'b RecordBatch) -> &'b [ArrayRef] {
        batch.columns().get(..self.keys).unwrap_or_default()
    }

    fn join(&self, build: Side<'_>, probe: Side<'_>, build_is_source: bool, sink: Sink<'_>) -> Result<bool> {
        let build = Build::new(self, build)?;
        if build.numbers.is_empty() {
            return Ok(true);
        }
        let mut pairs = Vec::new();
        for batch in probe.batches {
            (self.given_up)()?;
            let batch = batch?;
            let (keys, not_null) = self.keys(&batch)?;
            let numbers = numbers_of(&batch)?;
            pairs.clear();
            for row in 0..batch.num_rows() {
                if not_null.as_ref().is_some_and(|n| n.is_null(row)) {
                    continue;
                }
                for at in build.table.rows(keys.hash(row)) {
                    if build.keys.equal(at, &keys, row) {
                        pairs.push((at, row));
                    }
                }
                if pairs.len() >= PAIRS {
                    if !self.give(&build, &batch, numbers, &pairs, build_is_source, sink)? {
                        return Ok(false);
                    }
                    pairs.clear();
                }
            }
            if !self.give(&build, &batch, numbers, &pairs, build_is_source, sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives pairs of a row that was hashed and a row of `probe` to the sink.
    fn give(
        &self,
        build: &Build,
        probe: &RecordBatch,
        numbers: &[u64],
        pairs: &[(usize, usize)],
        build_is_source: bool,
        sink: Sink<'_>,
    ) -> Result<bool> {
        for pairs in pairs.chunks(PAIRS) {
            let holds = match self.condition {
                Some(condition) => Some(condition.evaluate_mask(&build.beside(self.keys, probe, pairs)?)?),
                None => None,
            };
            for (at, (hashed, row)) in pairs.iter().enumerate() {
                let (Some(hashed), Some(other)) = (build.numbers.get(*hashed), numbers.get(*row)) else {
                    return Err(Error::internal("a pair of rows that are not there"));
                };
                let holds = holds.as_ref().is_none_or(|mask| mask.value(at));
                let (source, target) = if build_is_source { (hashed, other) } else { (other, hashed) };
                if !sink(*source, *target, holds) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The side that is hashed.
struct Build {
    keys: Keys,
    table: HashTable,
    numbers: Vec<u64>,
    /// What a condition asks for, with the number of the first row of each batch.
    columns: Vec<(usize, RecordBatch)>,
}

impl Build {
    fn new(join: &Join<'_>, side: Side<'_>) -> Result<Self> {
        let mut keys = join.encoder.empty();
        let mut numbers = Vec::new();
        let mut columns = Vec::new();
        let mut without_key = Vec::new();
        for batch in side.batches {
            (join.given_up)()?;
            let batch = batch?;
            let key_columns = join.key_columns(&batch);
            join.encoder.append(&mut keys, key_columns)?;
            if let Some(not_null) = not_null(key_columns) {
                let nulls = (0..batch.num_rows()).filter(|row| not_null.is_null(*row));
                without_key.extend(nulls.map(|row| numbers.len() + row));
            }
            if join.condition.is_some() {
                columns.push((numbers.len(), others(join.keys, &batch)?));
            }
            numbers.extend_from_slice(numbers_of(&batch)?);
        }
        let table = HashTable::new(&keys, numbers.len(), |row| without_key.binary_search(&row).is_err())?;
        Ok(Self { keys, table, numbers, columns })
    }

    /// What a condition asks for of pairs of rows.
    fn beside(&self, keys: usize, probe: &RecordBatch, pairs: &[(usize, usize)]) -> Result<RecordBatch> {
        let mut places = Vec::with_capacity(pairs.len());
        let mut rows = Vec::with_capacity(pairs.len());
        for (hashed, row) in pairs {
            let batch = self.columns.partition_point(|(first, _)| first <= hashed).saturating_sub(1);
            let first = self.columns.get(batch).map_or(0, |(first, _)| *first);
            places.push((batch, hashed - first));
            rows.push(u32::try_from(*row).map_err(|_| Error::internal("a batch of 2^32 rows"))?);
        }
        let batches: Vec<&RecordBatch> = self.columns.iter().map(|(_, batch)| batch).collect();
        let rows = UInt32Array::from(rows);
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        // A condition may ask for columns of one side only.
        if batches.first().is_some_and(|batch| batch.num_columns() > 0) {
            let hashed = interleave_record_batch(&batches, &places).map_err(failed)?;
            fields.extend(hashed.schema().fields().iter().cloned());
            columns.extend(hashed.columns().iter().cloned());
        }
        let probe = others(keys, probe)?;
        for (field, column) in probe.schema().fields().iter().zip(probe.columns()) {
            fields.push(Arc::clone(field));
            columns.push(take(column, &rows, None).map_err(failed)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(failed)
    }
}

/// The columns between the keys and the numbers of rows.
fn others(keys: usize, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns: Vec<usize> = (keys..batch.num_columns().saturating_sub(1)).collect();
    batch.project(&columns).map_err(failed)
}

/// The numbers of the rows.
fn numbers_of(batch: &RecordBatch) -> Result<&[u64]> {
    let last = batch.columns().last().and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let numbers = last.ok_or_else(|| Error::internal("a side of a join without row numbers"))?;
    Ok(numbers.values())
}

/// Rows of one part that are being written.
#[derive(Default)]
struct PartWriter {
    writer: Option<(SchemaRef, Writer)>,
    pending: VecDeque<RecordBatch>,
    pending_rows: usize,
    rows: u64,
    bytes: u64,
}

impl PartWriter {
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows = self.rows.saturating_add(to_u64(batch.num_rows()));
        self.bytes = self.bytes.saturating_add(bytes_of(&batch));
        self.pending_rows += batch.num_rows();
        self.pending.push_back(batch);
        if self.pending_rows >= PENDING { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let Some(first) = self.pending.front() else { return Ok(()) };
        let schema = first.schema();
        let (schema, writer) = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert((schema.clone(), Writer::new(&schema)?)),
        };
        let batch = concat_batches(schema, &self.pending).map_err(failed)?;
        self.pending.clear();
        self.pending_rows = 0;
        writer.write(&batch)
    }

    fn finish(mut self) -> Result<Part> {
        self.flush()?;
        let (_, writer) = self.writer.ok_or_else(|| Error::internal("a part without rows"))?;
        Ok(Part { file: writer.finish()?, rows: self.rows, bytes: self.bytes })
    }
}

/// Rows of one part in a file.
struct Part {
    file: Spilled,
    rows: u64,
    bytes: u64,
}

impl Part {
    fn side(self) -> Result<Side<'static>> {
        Ok(Side { batches: Box::new(self.file.read()?), rows: self.rows, bytes: self.bytes })
    }
}

fn failed(error: ArrowError) -> Error {
    Error::invalid_input(format!("Joining a source with a table: {error}"))
}
