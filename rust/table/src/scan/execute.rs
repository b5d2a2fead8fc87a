//! The work of a scan: what a plan says, unit by unit.
//!
//! Nothing is decided here that the plan could know: what is left of a fragment after its statistics and deletions were
//! read, and of a unit after the filter.

use std::borrow::Cow;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use futures::future::{self, Either};
use pennon_core::lengths::to_u64;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result};
use roaring::RoaringBitmap;
use tokio::sync::mpsc::{Receiver, channel};

use super::brief;
use super::filter::PlannedFilter;
use super::first_rows::{self, FirstRows};
use super::fragment::{FragmentReader, Needs, NeedsDeletions, open_ahead, opens_ahead, prepare};
use super::index_matches::IndexMatches;
use super::index_search;
use super::metrics::ScanMetrics;
use super::narrow;
use super::plan::{ScanPlan, ShownRows};
use super::projection::input_batch;
use super::read::read_columns;
use super::units::{Unit, UnitRows, array_len, array_rows, is_selective, rows_of_a_part, select};
use crate::runtime::blocking;

/// What became of a unit.
#[derive(Debug)]
pub(super) enum UnitResult {
    /// Its rows.
    Batches(Vec<RecordBatch>),
    /// Its values would be too large together: units of fewer rows to run instead.
    Parts(Vec<Unit>),
}

/// A scan in flight: its plan, and what was opened of its fragments.
#[derive(Debug)]
pub(super) struct Execution {
    plan: Arc<ScanPlan>,
    /// Made when they are needed: a filter may leave out most of many fragments.
    readers: Vec<OnceLock<Box<FragmentReader>>>,
    /// What indices say of the filter, once they were searched.
    indexed: OnceLock<Arc<IndexMatches>>,
    metrics: Arc<ScanMetrics>,
}

impl Execution {
    pub(super) fn new(plan: Arc<ScanPlan>, metrics: Arc<ScanMetrics>) -> Self {
        let readers = plan.fragments.iter().map(|_| OnceLock::new()).collect();
        Self { plan, readers, indexed: OnceLock::new(), metrics }
    }

    pub(super) fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// Searches the indices that answer the filter, if there are some. Gives the positions of the fragments that are left
    /// to look at, or `None` if indices have nothing to say.
    pub(super) async fn search_indices(&self) -> Result<Option<Vec<usize>>> {
        let must = self.plan.only_indexed || self.plan.first.is_some();
        let found = match (&self.plan.found, &self.plan.filter) {
            (Some(found), _) => Some(Arc::clone(found)),
            (None, Some(filter)) if self.plan.uses_indices => {
                let (started, search_started) = channel(1);
                let search = pin!(index_search::search(
                    &self.plan.snapshot,
                    &filter.predicate,
                    self.plan.values_of_filter(),
                    must,
                    self.plan.strict_indices,
                    move |with_values| _ = started.try_send(with_values),
                ));
                let ahead = pin!(self.open_ahead(search_started));
                let found = match future::select(search, ahead).await {
                    Either::Left((found, ahead)) => {
                        // Without rows nothing is read of the files.
                        if found.as_ref().is_ok_and(|f| f.as_ref().is_none_or(|f| f.found_rows() > 0)) {
                            ahead.await;
                        }
                        found
                    }
                    Either::Right(((), search)) => search.await,
                };
                found?.map(Arc::new)
            }
            _ => None,
        };
        let found = match &self.plan.first {
            Some(first) => self.first_rows(first, found).await?,
            None => found,
        };
        let Some(found) = found else { return Ok(None) };
        let found = self.indexed.get_or_init(|| found);
        let is_left = |rows: &ShownRows| match found.bitmap_of(rows.id) {
            Some(rows) => rows.is_some(),
            None => !self.plan.only_indexed || self.plan.filter.is_none() || found.is_unreadable(rows.id),
        };
        let planned = self.plan.fragments.iter().enumerate();
        Ok(Some(planned.filter(|(_, rows)| is_left(rows)).map(|(at, _)| at).collect()))
    }

    /// Opens the files that are read next, once a search of indices has begun; not those of fragments whose values come with
    /// the rows.
    async fn open_ahead(&self, mut search_started: Receiver<RoaringBitmap>) {
        let snapshot = &self.plan.snapshot;
        if !opens_ahead(snapshot, self.plan.fragments.len()) || self.plan.values_of_first().is_some() {
            return;
        }
        let Some(with_values) = search_started.recv().await else { return };
        let fields = self.output_fields();
        let fragments: Vec<FragmentId> = self.plan.fragments.iter().map(|rows| rows.id).collect();
        let snapshot = Arc::clone(snapshot);
        let opened = blocking(move || {
            open_ahead(&snapshot, &fields, &fragments, &with_values);
            Ok(())
        });
        drop(opened.await);
    }

    /// The first rows of an order among those that a filter of the plan, if it has one, matches.
    async fn first_rows(
        &self,
        first: &FirstRows,
        matching: Option<Arc<IndexMatches>>,
    ) -> Result<Option<Arc<IndexMatches>>> {
        if matching.is_none() && self.plan.filter.is_some() {
            return Ok(None);
        }
        let scope = self.plan.fragments.iter().map(|rows| rows.id.0).collect();
        let (matching, values) = (matching.map(Arc::unwrap_or_clone), self.plan.values_of_first());
        let (snapshot, strict) = (&self.plan.snapshot, self.plan.strict_indices);
        let found = first_rows::first_rows(snapshot, first, scope, matching, values, strict).await?;
        Ok(found.map(Arc::new))
    }

    /// The rows of a fragment of the plan that indices found and that are shown, and whether the filter is true for all of
    /// them; `None` if indices do not cover it. Blocks on the store.
    fn found_by_index(&self, at: usize) -> Result<Option<(RowRanges, bool)>> {
        let (Some(found), Some(planned)) = (self.indexed.get(), self.plan.fragments.get(at)) else {
            return Ok(None);
        };
        let Some(rows) = found.of(planned.id) else { return Ok(None) };
        let reader = self.reader(at)?;
        let rows = match planned.is_part {
            true => rows.intersect(&self.ranges(reader, &UnitRows::Shown(planned.shown.clone()))?),
            false => reader.live_among(rows)?,
        };
        Ok(Some((rows, found.is_exact || self.plan.found.is_some())))
    }

    /// How many live rows of a fragment of the plan an index found, if that is all that is asked for. Blocks on the store.
    fn counted_by_index(&self, at: usize) -> Result<Option<u64>> {
        let Some(rows) = self.only_counted(at) else { return Ok(None) };
        rows.map_or(Ok(0), |rows| self.reader(at)?.count_live_among(rows)).map(Some)
    }

    /// The rows of a fragment of the plan that an index found, if it found some and their number is all that is asked for.
    fn only_counted(&self, at: usize) -> Option<Option<&RoaringBitmap>> {
        let (found, planned) = (self.indexed.get()?, self.plan.fragments.get(at)?);
        let is_exact = found.is_exact || self.plan.found.is_some();
        (is_exact && !planned.is_part && self.plan.output.is_nothing())
            .then(|| found.bitmap_of(planned.id))?
    }

    /// The positions of the fragments that the filter can match by what it says of row ids; `None` if that may be any.
    /// Blocks on the store.
    pub(super) fn narrowed(&self) -> Result<Option<Vec<usize>>> {
        let Some(filter) = &self.plan.filter else { return Ok(None) };
        let Some(found) = narrow::fragments(&self.plan.snapshot, &filter.predicate)? else { return Ok(None) };
        let planned = self.plan.fragments.iter().enumerate();
        let is_found = |rows: &ShownRows| found.binary_search(&rows.id).is_ok();
        Ok(Some(planned.filter(|(_, rows)| is_found(rows)).map(|(at, _)| at).collect()))
    }

    /// The reader of a fragment of the plan.
    fn reader(&self, at: usize) -> Result<&FragmentReader> {
        let (Some(rows), Some(cell)) = (self.plan.fragments.get(at), self.readers.get(at)) else {
            return Err(Error::internal(format!("no fragment number {at} in the scan")));
        };
        if let Some(reader) = cell.get() {
            return Ok(reader);
        }
        let snapshot = &self.plan.snapshot;
        let missing = || Error::internal(format!("fragment {} of the plan is not in its version", rows.id));
        let fragment = snapshot.manifest.fragment(rows.id).cloned().ok_or_else(missing)?;
        Ok(cell.get_or_init(|| {
            self.metrics.add_fragment();
            Box::new(FragmentReader::new(Arc::clone(snapshot), fragment, rows.live_before))
        }))
    }

    /// The rows of a fragment of the plan that are shown and that the filter can match. Blocks on the store.
    pub(super) fn candidates(&self, at: usize) -> Result<RowRanges> {
        let reader = self.reader(at)?;
        let filter = self.plan.filter.as_deref();
        if filter.is_some_and(PlannedFilter::opens_files) {
            let deletions = match self.plan.include_deleted {
                true => NeedsDeletions::No,
                false => NeedsDeletions::WithFiles,
            };
            self.prepare(reader, false, deletions)?;
        }
        let (shown, is_part) =
            self.plan.fragments.get(at).map_or((0..0, false), |rows| (rows.shown.clone(), rows.is_part));
        let shown = UnitRows::Shown(shown);
        match filter.map(|filter| filter.candidates(reader)).transpose()?.flatten() {
            Some(rows) if is_part => Ok(rows.intersect(&self.ranges(reader, &shown)?)),
            Some(rows) if self.plan.include_deleted => Ok(rows),
            Some(rows) => reader.live_among(rows),
            None => self.ranges(reader, &shown),
        }
    }

    /// What [`super::spans`] says of a fragment of the plan. Blocks on the store.
    pub(super) fn span(&self, at: usize) -> Option<(FragmentId, Range<u64>)> {
        let rows = self.plan.fragments.get(at)?;
        let candidates = || -> Result<Option<RowRanges>> {
            let (reader, Some(filter)) = (self.reader(at)?, &self.plan.filter) else { return Ok(None) };
            if filter.opens_files() {
                self.prepare(reader, false, NeedsDeletions::No)?;
            }
            filter.candidates(reader)
        };
        // A task says what is wrong with a file.
        let Ok(Some(found)) = candidates() else { return Some((rows.id, rows.shown.clone())) };
        let Range { start, end } = found.span();
        let deleted = self.reader(at).map_or(0, |reader| reader.fragment().deleted_rows());
        // As many rows may be deleted before a row as are deleted in all.
        let span = start.saturating_sub(deleted)..rows.shown.end.min(end);
        (!found.is_empty()).then_some((rows.id, span))
    }

    /// Loads what the columns need: before their statistics are read, or their values.
    fn prepare(&self, reader: &FragmentReader, values: bool, deletions: NeedsDeletions) -> Result<()> {
        prepare([(reader, Needs { fields: &self.plan.input.fields, values, deletions })])
    }

    /// Loads what the values of a unit are read with.
    fn prepare_unit(&self, reader: &FragmentReader, unit: &Unit) -> Result<()> {
        let fields = match unit.rows {
            UnitRows::Matching(_) if self.covered(unit).is_some() => Cow::Borrowed(&[][..]),
            UnitRows::Matching(_) => Cow::Owned(self.output_fields()),
            _ => Cow::Borrowed(&self.plan.input.fields[..]),
        };
        prepare([(reader, Needs { fields: &fields, values: true, deletions: self.deletions() })])
    }

    /// The stored columns that the output needs.
    fn output_fields(&self) -> Vec<Field> {
        let ScanPlan { input, needed, .. } = &*self.plan;
        let needed = input.fields.iter().zip(needed).filter(|(_, needed)| **needed);
        needed.map(|(field, _)| field.clone()).collect()
    }

    /// The only stored column that the output needs, by its position in the input, if its values came with the rows of a
    /// unit that an index found; and what the index found.
    fn covered(&self, unit: &Unit) -> Option<(usize, &IndexMatches, FragmentId)> {
        let fragment = self.plan.fragments.get(unit.fragment)?.id;
        let found = self.indexed.get().filter(|found| found.has_values(fragment))?;
        let (at, _) = self.plan.only_column()?;
        matches!(unit.rows, UnitRows::Matching(_)).then_some((at, &**found, fragment))
    }

    /// Whether deletion vectors are needed: not if deleted rows are shown.
    fn deletions(&self) -> NeedsDeletions {
        if self.plan.include_deleted { NeedsDeletions::No } else { NeedsDeletions::Yes }
    }

    /// Whether so few rows are read of a fragment of the plan, in local files, that no other thread is needed to read them:
    /// those that indices found, or all rows of the plan.
    fn is_brief(&self, fragment: usize) -> bool {
        let are_few = match (self.indexed.get(), self.plan.fragments.get(fragment)) {
            (Some(found), Some(rows)) => found.bitmap_of(rows.id).is_some() && found.are_at_most(brief::ROWS),
            _ => self.plan.reads_few(),
        };
        are_few && brief::is_brief_read(&self.plan.snapshot, &self.plan.input.fields, brief::ROWS)
    }

    /// Whether no other thread is needed to divide a fragment of the plan: to read its rows takes no longer, or they are
    /// counted.
    pub(super) fn is_divided_briefly(&self, fragment: usize) -> bool {
        let is_counted = || self.only_counted(fragment).is_some();
        self.is_brief(fragment) || (brief::is_brief_count(&self.plan.snapshot) && is_counted())
    }

    /// Whether no other thread is needed to run a unit.
    pub(super) fn is_run_briefly(&self, unit: &Unit) -> bool {
        matches!(unit.rows, UnitRows::Counted(_)) || self.is_brief(unit.fragment)
    }

    /// Units of what the filter can match in a fragment of the plan. Blocks on the store.
    pub(super) fn divide(&self, fragment: usize) -> Result<impl Iterator<Item = Unit> + use<>> {
        let _scope = self.metrics.enter();
        let counted = self.counted_by_index(fragment)?;
        let (rows, is_exact) = if counted.is_some() {
            (RowRanges::new(), true)
        } else if let Some(found) = self.found_by_index(fragment)? {
            found
        } else {
            (self.candidates(fragment)?, false)
        };
        let rows_of_unit =
            move |rows| if is_exact { UnitRows::Matching(rows) } else { UnitRows::Physical(rows) };
        let pieces = rows.split_by(self.plan.unit_rows);
        let units = counted.map(UnitRows::Counted).into_iter().chain(pieces.map(rows_of_unit));
        Ok(units.map(move |rows| Unit { fragment, rows }))
    }

    fn ranges(&self, reader: &FragmentReader, rows: &UnitRows) -> Result<RowRanges> {
        match rows {
            UnitRows::Shown(rows) if self.plan.include_deleted => Ok(RowRanges::from(rows.clone())),
            UnitRows::Shown(rows) => reader.live_ranges(rows),
            UnitRows::Physical(rows) | UnitRows::Matching(rows) => Ok(rows.clone()),
            UnitRows::Counted(_) => Err(Error::internal("values of rows that were only counted")),
        }
    }

    /// Loads what the values of a unit are read with. Blocks on the store.
    pub(super) fn open(&self, unit: &Unit) -> Result<()> {
        let _scope = self.metrics.enter();
        if self.is_answered(unit) {
            return Ok(());
        }
        self.prepare_unit(self.reader(unit.fragment)?, unit)
    }

    /// The batches of one unit, unless its values are too large: how large, its files tell. Blocks on the store.
    pub(super) fn run(&self, unit: &Unit) -> Result<UnitResult> {
        let _scope = self.metrics.enter();
        let reader = self.reader(unit.fragment)?;
        let result = self.read_unit(reader, unit)?;
        let all = self.plan.fragments.get(unit.fragment).map(|rows| &rows.shown);
        if matches!((&result, &unit.rows), (UnitResult::Batches(_), UnitRows::Shown(rows)) if Some(rows) == all)
        {
            reader.forget_ahead();
        }
        Ok(result)
    }

    /// Whether an index found the rows of a unit and no column is asked for: nothing is read.
    fn is_answered(&self, unit: &Unit) -> bool {
        match unit.rows {
            UnitRows::Counted(_) => true,
            UnitRows::Matching(_) => !self.plan.needed.contains(&true),
            UnitRows::Shown(_) | UnitRows::Physical(_) => false,
        }
    }

    fn read_unit(&self, reader: &FragmentReader, unit: &Unit) -> Result<UnitResult> {
        let ScanPlan { input, output, needed, .. } = &*self.plan;
        let matches = matches!(unit.rows, UnitRows::Matching(_));
        if self.is_answered(unit) {
            let rows = match &unit.rows {
                UnitRows::Counted(rows) => array_len(*rows)?,
                rows => array_rows(&self.ranges(reader, rows)?)?,
            };
            self.metrics.add_unit(rows, rows);
            return Ok(self.slices(&output.make(input, &vec![None; needed.len()], rows)?));
        }
        self.prepare_unit(reader, unit)?;
        let ranges = self.ranges(reader, &unit.rows)?;
        let rows = array_rows(&ranges)?;
        if let Some((at, found, fragment)) = self.covered(unit) {
            self.metrics.add_unit(rows, rows);
            let mut arrays = vec![None; needed.len()];
            if let Some(slot) = arrays.get_mut(at) {
                *slot = found.values_of(fragment, &ranges)?;
            }
            self.read(reader, &ranges, needed, &mut arrays)?;
            return Ok(self.slices(&output.make(input, &arrays, rows)?));
        }
        let fields = input.fields.iter().zip(needed).filter(|(_, needed)| **needed).map(|(field, _)| field);
        let fields: Vec<&Field> = fields.collect();
        let part = |fields: &[&Field], ranges: &RowRanges| -> Result<Option<u64>> {
            Ok(rows_of_a_part(ranges.count(), reader.bytes_in_memory(fields, ranges)?))
        };
        let Some(filter) = self.plan.filter.as_ref().filter(|_| !matches) else {
            if let Some(part) = part(&fields, &ranges)? {
                return Ok(parts(unit, &ranges, part));
            }
            self.metrics.add_unit(rows, rows);
            let mut arrays = vec![None; needed.len()];
            self.read(reader, &ranges, needed, &mut arrays)?;
            return Ok(self.slices(&output.make(input, &arrays, rows)?));
        };
        if let Some(part) = part(&filter.value_fields(input), &ranges)? {
            return Ok(parts(unit, &ranges, part));
        }
        let together = self.plan.reads_together(to_u64(rows)) && part(&fields, &ranges)?.is_none();
        let mut arrays = if together {
            let all: Vec<bool> = filter.needed.iter().zip(needed).map(|(a, b)| *a || *b).collect();
            let mut arrays = vec![None; all.len()];
            self.read(reader, &ranges, &all, &mut arrays)?;
            arrays
        } else {
            filter.read(reader, input, &ranges, self.plan.include_deleted)?
        };
        let mask = filter.predicate.evaluate_mask(&input_batch(input, &arrays, rows)?)?;
        if !together {
            filter.forget_nulls(&mut arrays);
        }
        let selected = mask.true_count();
        if selected == 0 {
            self.metrics.add_unit(rows, selected);
            return Ok(UnitResult::Batches(Vec::new()));
        }
        if !together && part(&fields, &ranges)?.is_some() {
            let matching = select(&ranges, mask.values());
            if let Some(part) = part(&fields, &matching)? {
                self.metrics.add_unit(rows - selected, 0);
                return Ok(parts(unit, &matching, part));
            }
        }
        self.metrics.add_unit(rows, selected);
        if selected == rows {
            self.read(reader, &ranges, needed, &mut arrays)?;
        } else if is_selective(selected, rows) {
            self.keep(&mut arrays, &mask)?;
            self.read(reader, &select(&ranges, mask.values()), needed, &mut arrays)?;
        } else {
            self.read(reader, &ranges, needed, &mut arrays)?;
            self.keep(&mut arrays, &mask)?;
        }
        Ok(self.slices(&output.make(input, &arrays, selected)?))
    }

    /// Reads the needed columns that were not read yet.
    fn read(
        &self,
        reader: &FragmentReader,
        ranges: &RowRanges,
        needed: &[bool],
        arrays: &mut [Option<ArrayRef>],
    ) -> Result<()> {
        read_columns(reader, &self.plan.input, ranges, needed, self.plan.include_deleted, arrays)
    }

    /// Filters what was read and forgets what the output does not need.
    fn keep(&self, arrays: &mut [Option<ArrayRef>], mask: &BooleanArray) -> Result<()> {
        let predicate: FilterPredicate = FilterBuilder::new(mask).optimize().build();
        for (array, needed) in arrays.iter_mut().zip(&self.plan.needed) {
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

    fn slices(&self, batch: &RecordBatch) -> UnitResult {
        let rows = batch.num_rows();
        let mut size = self.plan.batch_size;
        if let Some(bytes) = self.plan.batch_bytes {
            let per_row = batch.get_array_memory_size().div_ceil(rows.max(1)).max(1);
            size = size.min(bytes / per_row);
        }
        let size = size.max(1);
        UnitResult::Batches((0..rows).step_by(size).map(|at| batch.slice(at, size.min(rows - at))).collect())
    }
}

/// A unit in parts of so many rows.
fn parts(unit: &Unit, ranges: &RowRanges, rows: u64) -> UnitResult {
    let is_matching = matches!(unit.rows, UnitRows::Matching(_));
    let of_part = |rows| if is_matching { UnitRows::Matching(rows) } else { UnitRows::Physical(rows) };
    let part = |rows| Unit { fragment: unit.fragment, rows: of_part(rows) };
    UnitResult::Parts(ranges.clone().split_by(rows).map(part).collect())
}
