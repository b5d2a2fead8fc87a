//! The work of a scan: what a plan says, unit by unit.
//!
//! Nothing is decided here that the plan could know: what is left of a fragment after its statistics and deletions were
//! read, and of a unit after the filter.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::fragment::{FragmentReader, Loaded, Needs, prepare};
use super::metrics::ScanMetrics;
use super::plan::ScanPlan;
use super::projection::input_batch;
use super::read::read_columns;
use super::units::{Unit, UnitRows, array_rows, is_selective, select};

/// A scan in flight: its plan, and what was opened of its fragments.
#[derive(Debug)]
pub(super) struct Execution {
    plan: Arc<ScanPlan>,
    readers: Vec<Loaded<FragmentReader>>,
    metrics: Arc<ScanMetrics>,
}

impl Execution {
    pub(super) fn new(plan: Arc<ScanPlan>, metrics: Arc<ScanMetrics>) -> Self {
        let readers = plan.fragments.iter().map(|_| Loaded::default()).collect();
        Self { plan, readers, metrics }
    }

    pub(super) fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// The reader of a fragment of the plan.
    fn reader(&self, at: usize) -> Result<&FragmentReader> {
        let (Some(rows), Some(cell)) = (self.plan.fragments.get(at), self.readers.get(at)) else {
            return Err(Error::internal(format!("no fragment number {at} in the scan")));
        };
        cell.get_or_load(|| {
            let snapshot = &self.plan.snapshot;
            let fragment = snapshot.manifest.fragment(rows.id).cloned();
            let missing =
                || Error::internal(format!("fragment {} of the plan is not in its version", rows.id));
            self.metrics.add_fragment();
            Ok(FragmentReader::new(Arc::clone(snapshot), fragment.ok_or_else(missing)?, rows.live_before))
        })
    }

    /// The rows of a fragment of the plan that are shown and that the filter can match. Blocks on the store.
    pub(super) fn candidates(&self, at: usize) -> Result<RowRanges> {
        let reader = self.reader(at)?;
        let filter = self.plan.filter.as_deref();
        // A filter that reads files may need no deletion vector: then nothing is left of the fragment.
        self.prepare(reader, filter.is_none_or(|filter| !filter.opens_files()))?;
        match filter.map(|filter| filter.candidates(reader)).transpose()?.flatten() {
            Some(rows) if self.plan.include_deleted => Ok(rows),
            Some(rows) => reader.live_among(rows),
            None => {
                let shown = self.plan.fragments.get(at).map_or(0..0, |rows| rows.shown.clone());
                self.ranges(reader, &UnitRows::Shown(shown))
            }
        }
    }

    /// Loads what reading the columns needs.
    fn prepare(&self, reader: &FragmentReader, deletions: bool) -> Result<()> {
        prepare([reader], Needs { fields: &self.plan.input.fields, deletions })
    }

    /// Units of what the filter can match in a fragment of the plan. Blocks on the store.
    pub(super) fn divide(&self, fragment: usize) -> Result<impl Iterator<Item = Unit> + use<>> {
        let _scope = self.metrics.enter();
        let pieces = self.candidates(fragment)?.split_by(self.plan.unit_rows);
        Ok(pieces.map(move |rows| Unit { fragment, rows: UnitRows::Physical(rows) }))
    }

    fn ranges(&self, reader: &FragmentReader, rows: &UnitRows) -> Result<RowRanges> {
        match rows {
            UnitRows::Shown(rows) if self.plan.include_deleted => Ok(RowRanges::from(rows.clone())),
            UnitRows::Shown(rows) => reader.live_ranges(rows),
            UnitRows::Physical(rows) => Ok(rows.clone()),
        }
    }

    /// The batches of one unit. Blocks on the store.
    pub(super) fn run(&self, unit: &Unit) -> Result<Vec<RecordBatch>> {
        let _scope = self.metrics.enter();
        let ScanPlan { input, output, needed, .. } = &*self.plan;
        let reader = self.reader(unit.fragment)?;
        self.prepare(reader, !self.plan.include_deleted)?;
        let ranges = self.ranges(reader, &unit.rows)?;
        let rows = array_rows(&ranges)?;
        let mut arrays = vec![None; needed.len()];
        let Some(filter) = &self.plan.filter else {
            self.metrics.add_unit(rows, rows);
            self.read(reader, &ranges, needed, &mut arrays)?;
            return Ok(self.slices(&output.make(input, &arrays, rows)?));
        };
        self.read(reader, &ranges, &filter.needed, &mut arrays)?;
        let mask = filter.predicate.evaluate_mask(&input_batch(input, &arrays, rows)?)?;
        let selected = mask.true_count();
        self.metrics.add_unit(rows, selected);
        if selected == 0 {
            return Ok(Vec::new());
        }
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

    fn slices(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let rows = batch.num_rows();
        let mut size = self.plan.batch_size;
        if let Some(bytes) = self.plan.batch_bytes {
            let per_row = batch.get_array_memory_size().div_ceil(rows.max(1)).max(1);
            size = size.min(bytes / per_row);
        }
        let size = size.max(1);
        (0..rows).step_by(size).map(|at| batch.slice(at, size.min(rows - at))).collect()
    }
}
