//! A scan decided without reading: columns, filter, rows of each fragment, limits.
//!
//! The plan is made once, from a version and the options, and is a value: it can be executed any number of times,
//! printed, and sent to another thread. What only files know (deleted rows, statistics, the filter's matches) is left to
//! `execute.rs`.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pennon_core::manifest::FragmentSummary;
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result};
use pennon_index::is_ordered;
use roaring::RoaringBitmap;

use super::brief;
use super::filter::PlannedFilter;
use super::first_rows::{self, FirstRows};
use super::fragment::reads_blobs;
use super::index_matches::IndexMatches;
use super::index_plan;
use super::projection::{self, Input, Output, ValueForm, predicate};
use super::system_columns::System;
use super::units::{self, Unit, UnitRows, Window};
use super::{DEFAULT_BATCH_SIZE, Filter, FragmentSlice, Members, ScanOptions};
use crate::expr::Expression;
use crate::runtime::{IN_FLIGHT, processors};
use crate::versions::snapshot::Snapshot;

/// Rows of a unit of a filter with a limit: the first matches may be close to the start.
const FIRST_MATCHES: u64 = 16 << 10;
/// Units in flight on a store where requests take long: as many as have so many decoded bytes, within these limits.
const REMOTE_BYTES: u64 = 256 << 20;
const REMOTE_UNITS: RangeInclusive<usize> = 16..=IN_FLIGHT;
/// Decoded bytes that are read from a store where requests take long before it is known that the result has them.
const TOGETHER_BYTES: u64 = 1 << 20;
/// Bytes of a row with blobs of which the data file has the descriptors only.
const BLOB_BYTES: u64 = 256 << 10;
/// Fragments that are printed.
const SHOWN_FRAGMENTS: usize = 8;

/// What a scan reads, decided once.
///
/// Printed it is a tree: the version, the columns, the filter, the limits, and the rows to look at by fragment.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
/// use pennon_table::scan::ScanOptions;
/// use pennon_table::{Dataset, WriteOptions};
///
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # let _inside = runtime.enter();
/// # let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
/// # let batch = RecordBatch::try_from_iter([("n", column)])?;
/// # let data = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
/// # let params = WriteOptions::default();
/// # let table = runtime.block_on(Dataset::write(Box::new(data), "memory://scan-plan/table", params))?;
/// let scan = table.scan(&ScanOptions { filter: Some("n > 90".into()), limit: Some(3), ..ScanOptions::default() })?;
/// let plan = scan.plan().to_string();
/// assert!(plan.starts_with("scan of memory://scan-plan/table at version 1"), "{plan}");
/// assert!(plan.contains("filter: n > 90"), "{plan}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScanPlan {
    pub(super) snapshot: Arc<Snapshot>,
    /// What is read, and the result that is made of it.
    pub(super) input: Arc<Input>,
    pub(super) output: Arc<Output>,
    /// The columns of the input that the output needs.
    pub(super) needed: Vec<bool>,
    pub(super) filter: Option<Arc<PlannedFilter>>,
    pub(super) fragments: Arc<[ShownRows]>,
    /// Of the rows that the filter leaves.
    window: Window,
    /// Rows of a unit of work, at most.
    pub(super) unit_rows: u64,
    /// Bytes of a row when decoded, about.
    row_bytes: u64,
    pub(super) include_deleted: bool,
    /// Rows that indices found before: the only ones of the fragments that these cover, and the filter is true for them.
    pub(super) found: Option<Arc<IndexMatches>>,
    /// Only these of the rows are needed, if an index knows them.
    pub(super) first: Option<FirstRows>,
    /// Whether indices may answer the filter.
    pub(super) uses_indices: bool,
    /// The only column of the input, other than system columns, that the output needs, if an index can have its values.
    only_column: Option<usize>,
    /// Whether fragments that they do not cover are left out.
    pub(super) only_indexed: bool,
    /// Whether an index that cannot be read is an error.
    pub(super) strict_indices: bool,
    pub(super) batch_size: usize,
    pub(super) batch_bytes: Option<usize>,
    pub(super) strict_batch_size: bool,
    pub(super) concurrency: usize,
    pub(super) unordered: bool,
}

/// The rows of a fragment that a scan looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownRows {
    pub(super) id: FragmentId,
    /// Live rows of the table before this fragment.
    pub(super) live_before: u64,
    /// Positions among the rows that the scan shows: the live ones, or all physical ones.
    pub(super) shown: Range<u64>,
    /// Whether a part of the fragment was asked for.
    pub(super) is_part: bool,
}

impl ScanPlan {
    /// Decides what to read. Nothing is read yet. Errors: see [`super::Scan::plan`].
    pub(super) fn new(snapshot: Arc<Snapshot>, options: &ScanOptions) -> Result<Self> {
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
        let appended = System::appended(options.with_row_id, options.with_row_address);
        let columns = options.columns.as_ref();
        let form = ValueForm { blobs: options.blobs, json: options.json, members: Members::Apart };
        let (input, output) = projection::resolve(&snapshot, columns, &appended, filter.as_ref(), form)?;
        if options.include_deleted_rows
            && !output.schema.fields().iter().any(|f| f.name() == System::RowId.name())
        {
            return Err(Error::invalid_input("include_deleted_rows is set but with_row_id is false"));
        }
        let window = Window::new(options.offset, options.limit);
        let filter = filter.map(|predicate| {
            let with_statistics = !options.ignore_statistics;
            Arc::new(PlannedFilter::new(predicate, &input, &snapshot.manifest, with_statistics))
        });
        // A filter's matches are counted as they are found.
        let of_rows = if filter.is_none() { window } else { Window::everything() };
        let fragments = match constant {
            Some(false) => Vec::new(),
            _ => within(fragments(&snapshot, options)?, of_rows),
        };
        let row_bytes = input_row_bytes(&snapshot, fragments.first().map(|rows| rows.id), &input);
        let mut unit_rows = match snapshot.store.is_local() {
            true => units::unit_rows(row_bytes, batch_size),
            false => units::remote_unit_rows(row_bytes, batch_size),
        };
        unit_rows = unit_rows.min(options.unit_rows.unwrap_or(u64::MAX)).max(1);
        if filter.is_some() && options.limit.is_some() {
            unit_rows = unit_rows.min(FIRST_MATCHES);
        }
        let largest = fragments.iter().map(|rows| rows.shown.end - rows.shown.start).max().unwrap_or(0);
        let concurrency = concurrency(&snapshot, row_bytes.saturating_mul(unit_rows.min(largest)));
        let uses_indices = !options.ignore_indices && !options.include_deleted_rows;
        let needed = output.needs(&input);
        Ok(Self {
            only_column: only_stored_column(&snapshot, &input, &needed).filter(|_| uses_indices),
            first: options
                .first
                .clone()
                .filter(|_| uses_indices && !fragments.iter().any(|rows| rows.is_part)),
            needed,
            filter,
            fragments: fragments.into(),
            window,
            unit_rows,
            row_bytes,
            include_deleted: options.include_deleted_rows,
            found: None,
            uses_indices,
            only_indexed: options.only_indexed,
            strict_indices: options.strict_indices,
            batch_size,
            batch_bytes: options.batch_bytes,
            strict_batch_size: options.strict_batch_size,
            concurrency: options.readahead.unwrap_or(concurrency).max(1),
            unordered: options.unordered,
            input: Arc::new(input),
            output: Arc::new(output),
            snapshot,
        })
    }

    /// The same rows without columns, in as few batches as can be.
    pub(super) fn counting(&self) -> Self {
        let output = Output::nothing();
        Self {
            needed: output.needs(&self.input),
            only_column: None,
            output: Arc::new(output),
            batch_size: usize::try_from(u32::MAX).unwrap_or(usize::MAX),
            batch_bytes: None,
            strict_batch_size: false,
            unordered: true,
            ..self.clone()
        }
    }

    /// The same without some fragments.
    pub(super) fn without(&self, left_out: &RoaringBitmap) -> Self {
        let kept = self.fragments.iter().filter(|rows| !left_out.contains(rows.id.0)).cloned();
        Self { fragments: kept.collect(), ..self.clone() }
    }

    /// The same of rows that indices found, see [`super::Scan::among`].
    pub(super) fn among(&self, found: Arc<IndexMatches>) -> Self {
        Self { found: Some(found), ..self.clone() }
    }

    /// Whether what a filter needs of some rows and what the result needs is read at once: where that takes as long as
    /// either of them.
    pub(super) fn reads_together(&self, rows: u64) -> bool {
        reads_together(&self.snapshot, rows, self.row_bytes)
    }

    /// The column whose values an index that answers the filter, or knows the first rows, may give: its position in the
    /// input, and its field. Then no data file is read for the rows that it finds.
    pub(super) fn only_column(&self) -> Option<(usize, &Field)> {
        self.only_column.and_then(|at| Some((at, self.input.fields.get(at)?)))
    }

    /// The field whose values an index that answers the filter gives: not if only the first rows are needed.
    pub(super) fn values_of_filter(&self) -> Option<Field> {
        self.only_column().filter(|_| self.first.is_none()).map(|(_, field)| field.clone())
    }

    /// The field whose values an index that knows the first rows gives.
    pub(super) fn values_of_first(&self) -> Option<Field> {
        let first = self.first.as_ref()?;
        self.only_column().filter(|(_, field)| field.name == first.column).map(|(_, field)| field.clone())
    }

    /// The columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.output.schema
    }

    /// Number of rows of the result, if the manifest alone says so.
    pub fn known_rows(&self) -> Option<u64> {
        (self.filter.is_none() && self.found.is_none()).then(|| self.rows_to_look_at())
    }

    /// The filter, if indices may answer it and all rows of the version are asked for that it is true for.
    pub(super) fn filter_of_all(&self) -> Option<&Expression> {
        let filter = self.filter.as_ref().filter(|_| self.uses_indices && !self.strict_indices)?;
        let is_all = self.found.is_none()
            && self.window.is_everything()
            && !self.fragments.iter().any(|rows| rows.is_part)
            && self.fragments.iter().map(|rows| rows.id).eq(self.snapshot.manifest.fragments.ids());
        is_all.then_some(&filter.predicate)
    }

    /// Number of rows that a filter is asked about, or that are read without one; fewer if statistics leave some out.
    pub fn rows_to_look_at(&self) -> u64 {
        self.fragments.iter().map(|rows| rows.shown.end - rows.shown.start).fold(0, u64::saturating_add)
    }

    /// Whether few and small rows are read, whatever their values are.
    pub(super) fn reads_few(&self) -> bool {
        if self.filter.is_some() || self.fragments.len() > brief::OPENED {
            return false;
        }
        let rows = self.rows_to_look_at();
        rows <= brief::ROWS && rows.saturating_mul(self.row_bytes) <= brief::ROW_BYTES
    }

    /// The part of the filter's matches that the result has, unless that is all of them.
    pub(super) fn window_of_matches(&self) -> Option<Window> {
        (self.filter.is_some() && !self.window.is_everything()).then_some(self.window)
    }

    /// The units of all fragments, of a scan whose filter leaves nothing out before it is read.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + Send + use<> {
        let (fragments, unit_rows) = (Arc::clone(&self.fragments), self.unit_rows);
        (0..fragments.len()).flat_map(move |fragment| {
            let shown = fragments.get(fragment).map_or(0..0, |rows| rows.shown.clone());
            units::split(shown, unit_rows).map(move |rows| Unit { fragment, rows: UnitRows::Shown(rows) })
        })
    }
}

/// The only column of data files that is needed, if an index can have its values.
fn only_stored_column(snapshot: &Snapshot, input: &Input, needed: &[bool]) -> Option<usize> {
    let mut stored = (0..input.fields.len()).filter(|at| needed.get(*at) == Some(&true));
    let (at, None) = (stored.next()?, stored.next()) else { return None };
    let field = input.fields.get(at)?;
    let is_blob = field.is_legacy_blob() || reads_blobs(snapshot, std::slice::from_ref(field));
    (!is_blob && is_ordered(&field.data_type())).then_some(at)
}

/// Units of so many bytes that are read at a time.
fn concurrency(snapshot: &Snapshot, unit_bytes: u64) -> usize {
    // One more than cores: the consumer holds a finished one while it works on it.
    let cores = processors() + 1;
    if snapshot.store.is_local() {
        return cores;
    }
    let units = usize::try_from(REMOTE_BYTES / unit_bytes.max(1)).unwrap_or(usize::MAX);
    cores.max(units.clamp(*REMOTE_UNITS.start(), *REMOTE_UNITS.end()))
}

/// All rows of the fragments that were asked for, from their summaries.
fn fragments<'a>(
    snapshot: &'a Snapshot,
    options: &'a ScanOptions,
) -> Result<Box<dyn Iterator<Item = ShownRows> + 'a>> {
    let all = &snapshot.manifest.fragments;
    let rows = |fragment: &FragmentSummary, live_before| {
        let shown = if options.include_deleted_rows { fragment.physical_rows } else { fragment.live_rows() };
        ShownRows { id: fragment.id, live_before, shown: 0..shown, is_part: false }
    };
    let Some(wanted) = &options.fragments else {
        let mut live_before = 0_u64;
        return Ok(Box::new(all.summaries().map(move |fragment| {
            let rows = rows(fragment, live_before);
            live_before = live_before.saturating_add(fragment.live_rows());
            rows
        })));
    };
    let find = |slice: &FragmentSlice| {
        let id = slice.fragment;
        let summary = all.summary(id).ok_or_else(|| snapshot.manifest.no_fragment(id))?;
        let mut found = rows(summary, all.rows_before(id));
        found.shown = slice.positions(found.shown.end)?;
        found.is_part = slice.rows.is_some();
        Ok(found)
    };
    Ok(Box::new(wanted.iter().map(find).collect::<Result<Vec<_>>>()?.into_iter()))
}

/// The rows in a window, and no fragment without one: ends where the window does.
pub(super) fn within(fragments: impl Iterator<Item = ShownRows>, mut window: Window) -> Vec<ShownRows> {
    let mut found = Vec::new();
    for mut rows in fragments {
        if window.rows == 0 {
            break;
        }
        let (start, part) = (rows.shown.start, window.advance(rows.shown.end - rows.shown.start));
        rows.shown = start + part.start..start + part.end;
        if rows.shown.start < rows.shown.end {
            found.push(rows);
        }
    }
    found
}

/// Whether rows of so many bytes are read before it is known that the result has them: where that takes no longer.
pub(super) fn reads_together(snapshot: &Snapshot, rows: u64, row_bytes: u64) -> bool {
    !snapshot.store.is_local() && rows.saturating_mul(row_bytes) <= TOGETHER_BYTES
}

/// Bytes of a row of the input when decoded, as far as the first fragment tells.
pub(super) fn input_row_bytes(snapshot: &Snapshot, first: Option<FragmentId>, input: &Input) -> u64 {
    let first = first.and_then(|id| snapshot.manifest.fragment(id));
    let in_files = units::file_bytes_per_row(first);
    let blobs = first.is_some() && reads_blobs(snapshot, &input.fields);
    let fields = input.schema.fields().iter();
    fields
        .map(|f| units::value_bytes(f.data_type(), in_files))
        .chain(blobs.then_some(BLOB_BYTES))
        .fold(0, u64::saturating_add)
}

impl fmt::Display for ScanPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &IndexUse::default())
    }
}

/// What indices do for a plan, as text.
#[derive(Debug, Clone, Default)]
pub struct IndexUse {
    /// How they answer its filter; `None` if they do not.
    pub filter: Option<String>,
    /// Which one finds its first rows; `None` if none does.
    pub first: Option<String>,
}

/// A plan, and what indices do for it. Printed, the plan with that.
pub(super) struct WithIndices<'a>(pub(super) &'a ScanPlan, pub(super) &'a IndexUse);

impl fmt::Display for WithIndices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, self.1)
    }
}

impl ScanPlan {
    /// What indices do for it. Reads which there are, and nothing else.
    pub(super) async fn index_use(&self) -> Result<IndexUse> {
        let filter = match self.filter.as_ref().filter(|_| self.uses_indices) {
            Some(filter) => {
                index_plan::explain(&self.snapshot, &filter.predicate, self.values_of_filter()).await?
            }
            None => None,
        };
        let first = match &self.first {
            Some(first) if filter.is_some() || self.filter.is_none() => {
                first_rows::explain(&self.snapshot, first, self.values_of_first().is_some()).await?
            }
            _ => None,
        };
        Ok(IndexUse { filter, first })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indices: &IndexUse) -> fmt::Result {
        let names = |needed: &[bool]| {
            let fields = self.input.schema.fields().iter().zip(needed);
            fields
                .filter(|(_, needed)| **needed)
                .map(|(f, _)| f.name().as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let result: Vec<&str> = self.output.schema.fields().iter().map(|f| f.name().as_str()).collect();
        writeln!(f, "scan of {} at version {}", self.snapshot.store.root(), self.snapshot.version())?;
        writeln!(f, "  columns: {}", result.join(", "))?;
        writeln!(f, "  columns read: {}", names(&self.needed))?;
        if let Some(filter) = &self.filter {
            writeln!(f, "  filter: {}", filter.predicate.sql())?;
            writeln!(f, "    columns read: {}", names(&filter.needed))?;
            let pruned = match (filter.prunes(), filter.opens_files()) {
                (false, _) => "nothing",
                (true, false) => "lineage and row addresses",
                (true, true) => "statistics of files, lineage and row addresses",
            };
            writeln!(f, "    rows left out unread by: {pruned}")?;
            if let Some(indices) = &indices.filter {
                writeln!(f, "    rows found by indices: {indices}")?;
                if self.only_indexed {
                    writeln!(f, "    other fragments: left out")?;
                }
            }
        }
        if let Some(first) = &indices.first {
            writeln!(f, "  found by an index: {first}")?;
        }
        if !self.window.is_everything() {
            write!(f, "  rows: skip {}", self.window.skip)?;
            match self.window.rows {
                u64::MAX => writeln!(f)?,
                rows => writeln!(f, ", at most {rows}")?,
            }
        }
        if self.include_deleted {
            writeln!(f, "  deleted rows: shown")?;
        }
        let order = if self.unordered { "any order" } else { "table order" };
        writeln!(f, "  batches: at most {} rows, in {order}", self.batch_size)?;
        let (read, all) = (self.fragments.len(), self.snapshot.manifest.fragments.len());
        write!(f, "  fragments: {read} of {all}, {} rows to look at", self.rows_to_look_at())?;
        for rows in self.fragments.iter().take(SHOWN_FRAGMENTS) {
            write!(f, "\n    fragment {}: rows {}..{}", rows.id, rows.shown.start, rows.shown.end)?;
        }
        match read.checked_sub(SHOWN_FRAGMENTS) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\n    and {more} more"),
        }
    }
}
