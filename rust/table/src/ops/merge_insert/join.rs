//! The inner join of a source and a table on keys.
//!
//! Of the side with fewer rows a table by key is made, `table.rs`, and the other one is streamed past it, on all cores:
//! most look-ups wait for memory. If that table would take more memory than allowed, both sides are first divided by
//! hash into temporary files, and each pair of parts is joined by itself (Grace); a part that is still too large is
//! divided again. Rows of one key cannot be divided.
//!
//! A side is a stream of batches: its key columns, then the columns of a condition, then one column of row numbers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::take::{take, take_record_batch};
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result};

use super::found::JoinResult;
use super::keys::{Encoder, Keys};
use super::plan::MergePlan;
use super::sides::{Batches, JoinColumns, Side};
use super::source::{MergeSource, bytes_of};
use super::table::Table;
use crate::batches::{batch_with_rows, concat_batches, interleave_batches, row_bytes, rows_within};
use crate::expr::Expression;
use crate::runtime::{CancellationToken, check};
use crate::runtime::{concurrently, processors};
use crate::scan::IndexMatches;
use crate::spill::{Spilled, Writer};
use crate::versions::snapshot::Snapshot;
use crate::write::inserted_keys::not_null;

/// Parts of one division, at most: each has an open file.
const PARTS: u64 = 32;
/// Divisions of a division, at most.
const DEPTH: u32 = 4;
/// The least bytes that are worth a division: files of a few rows cost far more than they save.
const LEAST_LIMIT: u64 = 64 << 10;
/// Rows of a part that are collected before they are written, and their bytes.
const PENDING: usize = 1024;
const PENDING_BYTES: u64 = 1 << 20;
/// Pairs of rows a condition is evaluated for at once, and the bytes of what it reads.
pub(super) const PAIRS: usize = 16 << 10;
pub(super) const PAIR_BYTES: u64 = 64 << 20;
/// Streamed rows that are worth a thread.
const SHARED_ROWS: u64 = 256 << 10;
/// Threads that look for matches, at most.
const THREADS: usize = 8;

/// Finds the rows of a source and of a version that have equal keys; `indexed`: rows of the version that indices found.
#[expect(clippy::too_many_arguments, reason = "a version, a merge and its parts")]
pub(super) fn find(
    snapshot: &Arc<Snapshot>,
    plan: &MergePlan,
    columns: &JoinColumns,
    source: &MergeSource,
    indexed: Option<IndexMatches>,
    limit: u64,
    token: &CancellationToken,
    found: &mut JoinResult,
) -> Result<()> {
    if source.rows == 0 || snapshot.manifest.live_rows() == 0 {
        return Ok(());
    }
    let encoder = columns.encoder()?;
    let limit = limit.max(LEAST_LIMIT);
    let join =
        Join { encoder: &encoder, keys: columns.key_count(), condition: plan.condition(), limit, token };
    let side = columns.source(source)?;
    let width = side.bytes / side.rows.max(1) + 1;
    let target = columns.target(snapshot, columns.bounds(source)?, indexed, width)?;
    join.run(side, target, &mut |source, target, passes| found.add(source, target, passes))
}

/// How two sides are joined.
pub(super) struct Join<'a> {
    pub(super) encoder: &'a Encoder,
    /// Number of key columns.
    pub(super) keys: usize,
    pub(super) condition: Option<&'a Expression>,
    /// Bytes that hashed rows may take.
    pub(super) limit: u64,
    pub(super) token: &'a CancellationToken,
}

/// Takes pairs of matching rows: source, table, and whether the condition holds. Says whether to continue.
pub(super) type Sink<'a> = &'a mut (dyn FnMut(u64, u64, bool) -> bool + Send);

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
    fn parts(&self, side: Side<'_>, parts: u64, depth: u32) -> Result<Vec<Option<SpilledPart>>> {
        let mut writers: Vec<Option<PartWriter>> = (0..parts).map(|_| None).collect();
        let mut rows: Vec<Vec<u32>> = (0..parts).map(|_| Vec::new()).collect();
        for batch in side.batches {
            check(self.token)?;
            let batch = batch?;
            let (keys, not_null) = self.keys(&batch)?;
            for (row, at) in (0..batch.num_rows()).zip(0_u32..) {
                if not_null.as_ref().is_none_or(|n| n.is_valid(row)) {
                    let part = part_of(keys.hash(row), parts, depth);
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
        let columns = self.key_columns(batch);
        Ok((self.encoder.of(columns)?, not_null(columns)))
    }

    fn key_columns<'b>(&self, batch: &'b RecordBatch) -> &'b [ArrayRef] {
        batch.columns().get(..self.keys).unwrap_or_default()
    }

    fn join(&self, build: Side<'_>, probe: Side<'_>, build_is_source: bool, sink: Sink<'_>) -> Result<bool> {
        let build = Build::new(self, build)?;
        if build.row_numbers.len == 0 {
            return Ok(true);
        }
        let threads = if probe.rows < SHARED_ROWS { 1 } else { processors().min(THREADS) };
        let matching = Matching {
            join: self,
            build: &build,
            build_is_source,
            batches: Mutex::new(probe.batches),
            sink: Mutex::new(sink),
            stopped: AtomicBool::new(false),
        };
        concurrently(threads, |_| matching.run())?;
        Ok(!matching.stopped.into_inner())
    }
}

/// Which of some parts a hash belongs to: by other bits at each depth, and not by the lower half, which names the slots
/// of a table.
pub(super) fn part_of(hash: u64, parts: u64, depth: u32) -> u64 {
    (hash >> (32 + 8 * depth)) % parts
}

/// The streamed side on its way past the hashed one.
struct Matching<'a, 'b> {
    join: &'a Join<'a>,
    build: &'a Build,
    build_is_source: bool,
    batches: Mutex<Batches<'b>>,
    sink: Mutex<Sink<'a>>,
    /// After an error, or if the sink wants no more.
    stopped: AtomicBool,
}

impl Matching<'_, '_> {
    /// Takes batches until there is none.
    fn run(&self) -> Result<()> {
        let result = self.look();
        if result.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    fn look(&self) -> Result<()> {
        let (table, mut candidates, mut pairs) = (&self.build.table, Vec::new(), Vec::new());
        while !self.stopped.load(Ordering::Relaxed) {
            check(self.join.token)?;
            let next = self.batches.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(batch) = next.transpose()? else { return Ok(()) };
            let (keys, not_null) = self.join.keys(&batch)?;
            let row_numbers = row_numbers_of(&batch)?;
            // In two steps, so that the processor waits for many cache lines at a time.
            candidates.clear();
            let not_null = |row: usize| not_null.as_ref().is_none_or(|n| n.is_valid(row));
            table.candidates(&keys, batch.num_rows(), not_null, &mut candidates);
            for chunk in candidates.chunks(PAIRS) {
                pairs.clear();
                pairs.extend(chunk.iter().filter_map(|(row, code)| Some((table.last(*code)?, *row))));
                self.give_equal(&keys, &batch, row_numbers, &pairs)?;
            }
        }
        Ok(())
    }

    /// Gives those pairs to the sink whose keys are equal, and those of the rows that were hashed before.
    fn give_equal(
        &self,
        keys: &Keys,
        probe: &RecordBatch,
        row_numbers: &[u64],
        candidates: &[(u32, usize)],
    ) -> Result<()> {
        let build = self.build;
        let mut pairs = Vec::with_capacity(candidates.len());
        for &(last, row) in candidates {
            pairs.extend(build.table.rows(last, keys, row).map(|at| (at, row)));
            // A key may have any number of rows.
            if pairs.len() >= PAIRS {
                self.give(probe, row_numbers, &pairs)?;
                pairs.clear();
            }
        }
        self.give(probe, row_numbers, &pairs)
    }

    /// Gives pairs of a row that was hashed and a row of `probe` to the sink.
    fn give(&self, probe: &RecordBatch, row_numbers: &[u64], pairs: &[(usize, usize)]) -> Result<()> {
        let (join, build) = (self.join, self.build);
        let (others, mut left) = (others(join.keys, probe)?, pairs);
        while !left.is_empty() {
            let (pairs, later) = left.split_at(build.pairs_at_once(&others, left));
            left = later;
            let passes = match join.condition {
                Some(condition) => Some(condition.evaluate_mask(&build.condition_input(&others, pairs)?)?),
                None => None,
            };
            let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, (hashed, row)) in pairs.iter().enumerate() {
                let (Some(hashed), Some(&other)) = (build.row_numbers.get(*hashed), row_numbers.get(*row))
                else {
                    return Err(Error::internal("a pair with a row that its side does not have"));
                };
                let passes = passes.as_ref().is_none_or(|mask| mask.value(at));
                let (source, target) = if self.build_is_source { (hashed, other) } else { (other, hashed) };
                if !sink(source, target, passes) {
                    self.stopped.store(true, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The side that is hashed.
struct Build {
    table: Table,
    row_numbers: RowNumbers,
    /// The columns of a condition, with the number of the first row of each batch.
    columns: Vec<(usize, RecordBatch)>,
}

impl Build {
    fn new(join: &Join<'_>, side: Side<'_>) -> Result<Self> {
        let mut keys = join.encoder.with_capacity(usize::try_from(side.rows).unwrap_or(0));
        let mut row_numbers = RowNumbers::default();
        let mut columns = Vec::new();
        let mut without_key = Vec::new();
        for batch in side.batches {
            check(join.token)?;
            let batch = batch?;
            let key_columns = join.key_columns(&batch);
            join.encoder.append(&mut keys, key_columns)?;
            if let Some(not_null) = not_null(key_columns) {
                let nulls = (0..batch.num_rows()).filter(|row| not_null.is_null(*row));
                without_key.extend(nulls.map(|row| row_numbers.len + row));
            }
            if join.condition.is_some() {
                columns.push((row_numbers.len, others(join.keys, &batch)?));
            }
            row_numbers.extend(row_numbers_of(&batch)?);
        }
        let table = Table::new(keys, row_numbers.len, |row| without_key.binary_search(&row).is_err())?;
        Ok(Self { table, row_numbers, columns })
    }

    /// The batch of a hashed row with the columns of the condition, and the row there.
    fn position(&self, hashed: usize) -> (usize, usize) {
        let batch = self.columns.partition_point(|(first, _)| *first <= hashed).saturating_sub(1);
        (batch, hashed - self.columns.get(batch).map_or(0, |(first, _)| *first))
    }

    /// How many of some pairs the condition is evaluated for at once.
    fn pairs_at_once(&self, probe: &RecordBatch, pairs: &[(usize, usize)]) -> usize {
        let columns = self.columns.first().into_iter().flat_map(|(_, batch)| batch.columns());
        if columns.chain(probe.columns()).all(|column| column.data_type().is_primitive()) {
            return PAIRS.min(pairs.len());
        }
        let sizes = pairs.iter().take(PAIRS).map(|(hashed, row)| {
            let (batch, at) = self.position(*hashed);
            let hashed = self.columns.get(batch).map_or(0, |(_, batch)| row_bytes(batch, at));
            hashed.saturating_add(row_bytes(probe, *row))
        });
        rows_within(PAIR_BYTES, sizes)
    }

    /// The columns of the condition, for pairs of rows.
    fn condition_input(&self, probe: &RecordBatch, pairs: &[(usize, usize)]) -> Result<RecordBatch> {
        let mut positions = Vec::with_capacity(pairs.len());
        let mut rows = Vec::with_capacity(pairs.len());
        for (hashed, row) in pairs {
            positions.push(self.position(*hashed));
            rows.push(u32::try_from(*row).map_err(|_| Error::internal("a batch of 2^32 rows"))?);
        }
        let batches: Vec<&RecordBatch> = self.columns.iter().map(|(_, batch)| batch).collect();
        let rows = UInt32Array::from(rows);
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        // A condition may read columns of one side only.
        if batches.first().is_some_and(|batch| batch.num_columns() > 0) {
            let hashed = interleave_batches(&batches, &positions, failed)?;
            fields.extend(hashed.schema().fields().iter().cloned());
            columns.extend(hashed.columns().iter().cloned());
        }
        for (field, column) in probe.schema().fields().iter().zip(probe.columns()) {
            fields.push(Arc::clone(field));
            columns.push(take(column, &rows, None).map_err(failed)?);
        }
        batch_with_rows(Arc::new(Schema::new(fields)), columns, pairs.len()).map_err(failed)
    }
}

/// Numbers of rows.
#[derive(Default)]
struct RowNumbers {
    first: u64,
    len: usize,
    /// All, unless they are consecutive.
    list: Option<Vec<u64>>,
}

impl RowNumbers {
    fn extend(&mut self, more: &[u64]) {
        if self.len == 0 {
            self.first = more.first().copied().unwrap_or_default();
        }
        let next = self.first.saturating_add(to_u64(self.len));
        let end = next.saturating_add(to_u64(more.len()));
        if self.list.is_some() || !more.iter().copied().eq(next..end) {
            self.list.get_or_insert_with(|| (self.first..next).collect()).extend_from_slice(more);
        }
        self.len += more.len();
    }

    fn get(&self, at: usize) -> Option<u64> {
        match &self.list {
            Some(list) => list.get(at).copied(),
            None => (at < self.len).then(|| self.first.saturating_add(to_u64(at))),
        }
    }
}

/// The columns between the keys and the numbers of rows.
fn others(keys: usize, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns: Vec<usize> = (keys..batch.num_columns().saturating_sub(1)).collect();
    batch.project(&columns).map_err(failed)
}

/// The numbers of the rows.
fn row_numbers_of(batch: &RecordBatch) -> Result<&[u64]> {
    let last = batch.columns().last().and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let row_numbers = last.ok_or_else(|| Error::internal("a side of a join without row numbers"))?;
    Ok(row_numbers.values())
}

/// Rows of one part that are being written.
#[derive(Default)]
struct PartWriter {
    writer: Option<(SchemaRef, Writer)>,
    pending: VecDeque<RecordBatch>,
    pending_rows: usize,
    pending_bytes: u64,
    rows: u64,
    bytes: u64,
}

impl PartWriter {
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let bytes = bytes_of(&batch);
        if self.pending_bytes.saturating_add(bytes) > PENDING_BYTES {
            self.flush()?;
        }
        self.rows = self.rows.saturating_add(to_u64(batch.num_rows()));
        self.bytes = self.bytes.saturating_add(bytes);
        self.pending_rows += batch.num_rows();
        self.pending_bytes = self.pending_bytes.saturating_add(bytes);
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
        let batch = concat_batches(schema, &self.pending, failed)?;
        self.pending.clear();
        (self.pending_rows, self.pending_bytes) = (0, 0);
        writer.write(&batch)
    }

    fn finish(mut self) -> Result<SpilledPart> {
        self.flush()?;
        let (_, writer) = self.writer.ok_or_else(|| Error::internal("a part without rows"))?;
        Ok(SpilledPart { file: writer.finish()?, rows: self.rows, bytes: self.bytes })
    }
}

/// Rows of one part in a file.
struct SpilledPart {
    file: Spilled,
    rows: u64,
    bytes: u64,
}

impl SpilledPart {
    fn side(self) -> Result<Side<'static>> {
        Ok(Side { batches: Box::new(self.file.read()?), rows: self.rows, bytes: self.bytes })
    }
}

fn failed(error: ArrowError) -> Error {
    Error::invalid_input(format!("Joining a source with a table: {error}"))
}
