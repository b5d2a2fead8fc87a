//! A scan's plan put together, and the work on one unit.

use std::sync::Arc;
use std::thread::available_parallelism;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::fragment::FragmentReader;
use super::plan::{self, Unit, UnitRows, Window, array_rows, is_selective, select};
use super::projection::{self, Input, Output, input_batch, predicate};
use super::prune::Pruner;
use super::system_columns::System;
use super::{DEFAULT_BATCH_SIZE, Filter, Scan, ScanOptions};
use crate::expr::Expression;
use crate::runtime::concurrently;
use crate::versions::snapshot::Snapshot;

/// Units of a filter with a limit: the first matches may be near.
const FIRST_MATCHES: u64 = 16 << 10;
/// Units under way on a store where requests take long.
const REMOTE_CONCURRENCY: usize = 16;

/// Fewer rows are read faster than a thread is begun.
const SHARED_ROWS: usize = 256;
/// Bytes of a row with blobs of the second kind, of which the data file tells nothing.
const BLOB_BYTES: u64 = 256 << 10;

/// What is done with each unit.
#[derive(Debug)]
pub(super) struct Job {
    fragments: Vec<FragmentReader>,
    input: Input,
    output: Output,
    filter: Option<Expression>,
    /// What leaves rows out before they are read.
    pruner: Option<Pruner>,
    /// Rows of a unit.
    unit_rows: u64,
    /// Of the columns of `input`: which the filter needs, which the output needs.
    filter_needs: Vec<bool>,
    output_needs: Vec<bool>,
    include_deleted: bool,
    pub(super) batch_size: usize,
    batch_bytes: Option<usize>,
}

/// Plans a scan.
pub(super) fn plan(snapshot: Arc<Snapshot>, options: &ScanOptions) -> Result<Scan> {
    snapshot.manifest.check_file_versions()?;
    let batch_size = options.batch_size.unwrap_or(DEFAULT_BATCH_SIZE);
    if batch_size == 0 || u32::try_from(batch_size).is_err() {
        return Err(Error::invalid_input(format!(
            "batch_size must be between 1 and {}, got {batch_size}",
            u32::MAX
        )));
    }
    let filter = match &options.filter {
        Some(Filter::Sql(sql)) => Some(predicate(&snapshot, sql, options.blobs)?),
        Some(Filter::Expression(filter)) => Some(filter.clone()),
        None => None,
    };
    let constant = filter.as_ref().and_then(Expression::constant);
    let filter = filter.filter(|_| constant.is_none());
    let wanted = [(options.with_row_id, System::RowId), (options.with_row_address, System::RowAddress)];
    let appended: Vec<System> =
        wanted.into_iter().filter_map(|(with, column)| with.then_some(column)).collect();
    let (input, output) =
        projection::resolve(&snapshot, options.columns.as_ref(), &appended, filter.as_ref(), options.blobs)?;
    if options.include_deleted_rows
        && !output.schema.fields().iter().any(|f| f.name() == System::RowId.name())
    {
        return Err(Error::invalid_input("include_deleted_rows is set but with_row_id is false"));
    }
    let fragments = if constant == Some(false) { Vec::new() } else { fragments(&snapshot, options)? };
    let rows = |f: &FragmentReader| {
        if options.include_deleted_rows { f.fragment.physical_rows } else { f.fragment.live_rows() }
    };
    let asked = Window::new(options.offset, options.limit);
    let size = plan::unit_rows(bytes_per_row(&fragments, &input), plan::to_u64(batch_size));
    let size = size.min(options.unit_rows.unwrap_or(u64::MAX)).max(1);
    let unit_rows = if options.limit.is_some() { size.min(FIRST_MATCHES) } else { size };
    let pruner = filter.as_ref().filter(|_| !options.ignore_statistics);
    let pruner = pruner.and_then(|f| Pruner::new(f, &snapshot.manifest));
    let (units, window, known_rows) = if filter.is_none() {
        let units = plan::units(fragments.iter().map(rows), asked, size);
        let shown = fragments.iter().map(rows).fold(0, u64::saturating_add);
        let known = shown.saturating_sub(asked.skip).min(asked.rows);
        (units, None, Some(known))
    } else {
        // What is left of a fragment is cut when it is known.
        let size = if pruner.is_some() { u64::MAX } else { unit_rows };
        let units = plan::units(fragments.iter().map(rows), Window::new(None, None), size);
        (units, (!asked.is_everything()).then_some(asked), None)
    };
    let concurrency = options.readahead.unwrap_or_else(|| concurrency(&snapshot)).max(1);
    let filter_needs = filter.as_ref().map(|f| input.filter_columns(f)).unwrap_or_default();
    let job = Job {
        filter_needs,
        output_needs: output.needs(&input),
        fragments,
        input,
        output,
        filter,
        pruner,
        unit_rows,
        include_deleted: options.include_deleted_rows,
        batch_size,
        batch_bytes: options.batch_bytes,
    };
    let strict = options.strict_batch_size;
    Ok(Scan { job, units, window, known_rows, concurrency, unordered: options.unordered, strict })
}

fn concurrency(snapshot: &Snapshot) -> usize {
    // One more than cores: the consumer holds a finished one while it works on it.
    let cores = available_parallelism().map_or(2, usize::from) + 1;
    if snapshot.store.is_local() { cores } else { cores.max(REMOTE_CONCURRENCY) }
}

fn fragments(snapshot: &Arc<Snapshot>, options: &ScanOptions) -> Result<Vec<FragmentReader>> {
    let all = &snapshot.manifest.fragments;
    let reader = |live_before: u64, fragment: &Arc<Fragment>| {
        FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), live_before)
    };
    let mut live = 0_u64;
    let starts: Vec<u64> = all
        .live_rows()
        .map(|(_, rows)| {
            let start = live;
            live = live.saturating_add(rows);
            start
        })
        .collect();
    let Some(wanted) = &options.fragments else {
        return Ok(all.iter().zip(starts).map(|(f, start)| reader(start, f)).collect());
    };
    wanted
        .iter()
        .map(|id| {
            let missing = || {
                Error::invalid_input(format!("Fragment {id} is not in version {}", snapshot.manifest.version))
            };
            let at = all.position(*id).ok_or_else(missing)?;
            let (fragment, start) = all.by_id(*id).zip(starts.get(at)).ok_or_else(missing)?;
            Ok(reader(*start, fragment))
        })
        .collect()
}

fn bytes_per_row(fragments: &[FragmentReader], input: &Input) -> u64 {
    let in_files = fragments.first().map_or(0, |f| {
        let bytes: u64 = f.fragment.files.iter().filter_map(|file| file.size).sum();
        bytes / f.fragment.physical_rows.max(1)
    });
    input
        .schema
        .fields()
        .iter()
        .map(|f| plan::value_bytes(f.data_type(), in_files))
        .chain(fragments.first().and_then(|f| f.reads_blobs(&input.fields).then_some(BLOB_BYTES)))
        .fold(0, u64::saturating_add)
}

impl Job {
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.output.schema
    }

    /// The same rows without columns.
    pub(super) fn counting(self) -> Result<Self> {
        let output = Output::nothing();
        let output_needs = output.needs(&self.input);
        let batch_size = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
        Ok(Self { output, output_needs, batch_size, batch_bytes: None, ..self })
    }

    /// Whether units are whole fragments that [`Self::divide`] is to cut.
    pub(super) fn prunes(&self) -> bool {
        self.pruner.is_some()
    }

    /// Whether dividing units may read from files.
    pub(super) fn opens_files(&self) -> bool {
        self.pruner.as_ref().is_some_and(Pruner::opens_files)
    }

    fn fragment(&self, at: usize) -> Result<&FragmentReader> {
        let missing = || Error::internal(format!("no fragment number {at} in the scan"));
        self.fragments.get(at).ok_or_else(missing)
    }

    /// Units of what the filter can match in a unit. Blocks on the store.
    pub(super) fn divide(&self, unit: Unit) -> Result<Vec<Unit>> {
        let Some(pruner) = &self.pruner else { return Ok(vec![unit]) };
        let fragment = self.fragment(unit.fragment)?;
        let ranges = match pruner.kept(fragment)? {
            Some(kept) if self.include_deleted => kept,
            Some(kept) => fragment.live_among(kept)?,
            None => self.ranges(fragment, &unit.rows)?,
        };
        let units = ranges.split_by(self.unit_rows);
        Ok(units.map(|rows| Unit { rows: UnitRows::Physical(rows), ..unit }).collect())
    }

    fn ranges(&self, fragment: &FragmentReader, rows: &UnitRows) -> Result<RowRanges> {
        match rows {
            UnitRows::Shown(rows) if self.include_deleted => Ok(RowRanges::from(rows.clone())),
            UnitRows::Shown(rows) => fragment.live_ranges(rows),
            UnitRows::Physical(rows) => Ok(rows.clone()),
        }
    }

    /// The batches of one unit. Blocks on the store.
    pub(super) fn run(&self, unit: &Unit) -> Result<Vec<RecordBatch>> {
        let fragment = self.fragment(unit.fragment)?;
        let ranges = self.ranges(fragment, &unit.rows)?;
        let rows = array_rows(&ranges)?;
        let Some(filter) = &self.filter else {
            let mut arrays = vec![None; self.output_needs.len()];
            self.read(fragment, &ranges, &self.output_needs, &mut arrays)?;
            return Ok(self.slices(&self.output.make(&self.input, &arrays, rows)?));
        };
        let mut arrays = vec![None; self.output_needs.len()];
        self.read(fragment, &ranges, &self.filter_needs, &mut arrays)?;
        let mask = filter.evaluate_mask(&input_batch(&self.input, &arrays, rows)?)?;
        let selected = mask.true_count();
        if selected == 0 {
            return Ok(Vec::new());
        }
        if selected == rows {
            self.read(fragment, &ranges, &self.output_needs, &mut arrays)?;
        } else if is_selective(selected, rows) {
            self.keep(&mut arrays, &mask)?;
            let ranges = select(&ranges, mask.values());
            self.read(fragment, &ranges, &self.output_needs, &mut arrays)?;
        } else {
            self.read(fragment, &ranges, &self.output_needs, &mut arrays)?;
            self.keep(&mut arrays, &mask)?;
        }
        Ok(self.slices(&self.output.make(&self.input, &arrays, selected)?))
    }

    /// Reads the needed columns that are not there yet.
    fn read(
        &self,
        fragment: &FragmentReader,
        ranges: &RowRanges,
        needed: &[bool],
        arrays: &mut [Option<ArrayRef>],
    ) -> Result<()> {
        read_columns(fragment, &self.input, ranges, needed, self.include_deleted, arrays)
    }

    /// Filters what was read and forgets what the output does not need.
    fn keep(&self, arrays: &mut [Option<ArrayRef>], mask: &BooleanArray) -> Result<()> {
        let predicate: FilterPredicate = FilterBuilder::new(mask).optimize().build();
        for (array, needed) in arrays.iter_mut().zip(&self.output_needs) {
            *array = match array.take() {
                Some(array) if *needed => {
                    let kept = predicate.filter(array.as_ref());
                    Some(kept.map_err(|e| Error::internal(format!("filtering a column: {e}")))?)
                }
                _ => None,
            };
        }
        Ok(())
    }

    fn slices(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let rows = batch.num_rows();
        let mut size = self.batch_size;
        if let Some(bytes) = self.batch_bytes {
            let per_row = batch.get_array_memory_size().div_ceil(rows.max(1)).max(1);
            size = size.min(bytes / per_row);
        }
        let size = size.max(1);
        (0..rows).step_by(size).map(|at| batch.slice(at, size.min(rows - at))).collect()
    }
}

impl Input {
    /// The columns of live rows of a fragment, the rows of all ranges one after another. Blocks on the store.
    pub(crate) fn read(&self, fragment: &FragmentReader, ranges: &RowRanges) -> Result<RecordBatch> {
        let all = vec![true; self.schema.fields().len()];
        let mut arrays = vec![None; all.len()];
        read_columns(fragment, self, ranges, &all, false, &mut arrays)?;
        input_batch(self, &arrays, array_rows(ranges)?)
    }

    /// As [`Self::read`], with the columns shared among the cores: for whoever reads one batch at a time.
    pub(crate) fn read_side_by_side(
        &self,
        fragment: &FragmentReader,
        ranges: &RowRanges,
    ) -> Result<RecordBatch> {
        let needed = vec![true; self.schema.fields().len()];
        let arrays = read_side_by_side(fragment, self, ranges, &needed, false)?;
        input_batch(self, &arrays, array_rows(ranges)?)
    }
}

/// The needed columns, shared among the cores if they have many rows.
pub(super) fn read_side_by_side(
    fragment: &FragmentReader,
    input: &Input,
    ranges: &RowRanges,
    needed: &[bool],
    deleted: bool,
) -> Result<Vec<Option<ArrayRef>>> {
    let columns = needed.iter().filter(|needed| **needed).count();
    let threads = available_parallelism().map_or(1, usize::from).min(columns);
    if threads < 2 || array_rows(ranges)? < SHARED_ROWS {
        let mut arrays = vec![None; needed.len()];
        read_columns(fragment, input, ranges, needed, deleted, &mut arrays)?;
        return Ok(arrays);
    }
    let share = |thread: usize| {
        let mut before = 0..;
        let mut mine = |needed: &bool| *needed && before.next().is_some_and(|at| at % threads == thread);
        let needed: Vec<bool> = needed.iter().map(&mut mine).collect();
        let mut arrays = vec![None; needed.len()];
        read_columns(fragment, input, ranges, &needed, deleted, &mut arrays)?;
        Ok(arrays)
    };
    let mut all = vec![None; needed.len()];
    for arrays in concurrently(threads, share)? {
        for (slot, array) in all.iter_mut().zip(arrays) {
            *slot = slot.take().or(array);
        }
    }
    Ok(all)
}

/// Reads the needed columns that are not there yet.
pub(super) fn read_columns(
    fragment: &FragmentReader,
    input: &Input,
    ranges: &RowRanges,
    needed: &[bool],
    deleted: bool,
    arrays: &mut [Option<ArrayRef>],
) -> Result<()> {
    let missing: Vec<usize> = needed
        .iter()
        .zip(arrays.iter())
        .enumerate()
        .filter(|(_, (needed, array))| **needed && array.is_none())
        .map(|(at, _)| at)
        .collect();
    let stored: Vec<usize> = missing.iter().copied().filter(|&at| at < input.fields.len()).collect();
    let fields: Vec<&Field> = stored.iter().filter_map(|&at| input.fields.get(at)).collect();
    let read = if fields.is_empty() { Vec::new() } else { fragment.read(&fields, ranges)? };
    for (at, array) in stored.into_iter().zip(read) {
        if let Some(slot) = arrays.get_mut(at) {
            *slot = Some(array);
        }
    }
    for at in missing {
        let system = at.checked_sub(input.fields.len()).and_then(|i| input.system.get(i));
        if let (Some(&system), Some(slot)) = (system, arrays.get_mut(at)) {
            *slot = Some(fragment.system(system, ranges, deleted)?);
        }
    }
    Ok(())
}
