//! The values of rows that changed, in either version.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
    new_null_array,
};
use arrow_ord::cmp::distinct;
use arrow_ord::ord::make_comparator;
use arrow_schema::SortOptions;
use arrow_select::filter::filter_record_batch;
use futures::FutureExt;
use pennon_core::manifest::Timestamp;
use pennon_core::rows::{RowRanges, RowRun};
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result, RowAddress, Version};

use super::columns::FeedColumns;
use super::plan::{Pair, Side, Unit, UnitKind};
use super::{FeedPart, Images};
use crate::batches::{batch_with_rows, interleave_batches};
use crate::runtime::{Fault, each_concurrently, planted};
use crate::scan::{FragmentReader, Needs, NeedsDeletions, prepare};
use crate::versions::snapshot::Snapshot;

/// Two versions that are compared, and what is shown of the difference.
#[derive(Debug)]
pub(super) struct Step {
    pair: Pair,
    columns: Arc<FeedColumns>,
    images: Images,
    drop_unchanged: bool,
    version: Version,
    time: Timestamp,
}

impl Step {
    pub(super) async fn new(
        old: Option<Arc<Snapshot>>,
        new: Arc<Snapshot>,
        columns: Arc<FeedColumns>,
        images: Images,
        drop_unchanged: bool,
    ) -> Result<Self> {
        let pair = Pair::new(old.as_ref(), &new, &columns).await?;
        let (version, time) = (new.version(), new.manifest.timestamp);
        Ok(Self { pair, columns, images, drop_unchanged, version, time })
    }

    /// The rows that changed, or a part of them, to be read by so many at a time.
    pub(super) async fn plan(self: &Arc<Self>, readers: usize, part: Option<FeedPart>) -> Result<Vec<Unit>> {
        let fragments = self.pair.len();
        let each = fragments.div_ceil(readers * 4).max(1);
        let lineages = (0..fragments).step_by(each).map(|start| {
            let step = Arc::clone(self);
            crate::runtime::blocking(move || step.pair.lineages(start..fragments.min(start + each))).boxed()
        });
        let lineages: Vec<_> =
            crate::runtime::gather(lineages.collect()).await?.into_iter().flatten().collect();
        let step = Arc::clone(self);
        let two = self.images == Images::Both || self.drop_unchanged;
        let reading = (u64::try_from(readers).unwrap_or(1), two);
        let mut units = crate::runtime::blocking(move || step.pair.units(&lineages, reading, part)).await?;
        match planted() {
            Some(Fault::FeedLeavesOutDeletes) => units.retain(|unit| unit.kind != UnitKind::Deleted),
            Some(Fault::FeedLeavesOutUpdates) => units.retain(|unit| unit.kind != UnitKind::Updated),
            _ => {}
        }
        Ok(units)
    }

    /// The changes of a unit, or smaller units where its values are too large together: how large, the files tell. Blocks
    /// on the store.
    pub(super) fn read(&self, unit: &Unit) -> Result<UnitChanges> {
        let (reads_old, reads_new) = match (unit.kind, self.images) {
            (UnitKind::Deleted, images) => (images == Images::Both, false),
            (UnitKind::Inserted, _) => (false, true),
            (UnitKind::Updated, Images::Post) => (self.drop_unchanged, true),
            (UnitKind::Updated | UnitKind::Candidate, _) => (true, true),
        };
        let old = reads_old.then(|| self.rows_of(&self.pair.old, &unit.runs, |run| run.old)).transpose()?;
        let new = reads_new.then(|| self.rows_of(&self.pair.new, &unit.runs, |run| run.new)).transpose()?;
        let sides: Vec<&SideRows<'_>> = old.iter().chain(&new).collect();
        let bytes = sides.iter().try_fold(0_u64, |bytes, side| Ok(bytes.saturating_add(side.bytes()?)))?;
        if let Some(parts) = unit.parts(bytes) {
            return Ok(UnitChanges::Parts(parts));
        }
        let ids: Vec<u64> = unit.runs.iter().flat_map(|run| run.id.0..=run.id.0 + (run.rows - 1)).collect();
        let values = |side: Option<SideRows<'_>>| side.map(|side| self.values(side)).transpose();
        let changes = match (unit.kind, values(old)?, values(new)?) {
            (UnitKind::Deleted, Some(old), _) => self.batch("delete", ids, &old),
            (UnitKind::Inserted, _, Some(new)) => self.batch("insert", ids, &new),
            (UnitKind::Updated, None, Some(new)) => self.batch("update_postimage", ids, &new),
            (UnitKind::Updated | UnitKind::Candidate, Some(old), Some(new)) => {
                let only_changed = self.drop_unchanged || unit.kind == UnitKind::Candidate;
                let mask = only_changed.then(|| differs(&old, &new));
                self.updates(ids, old, new, mask)
            }
            _ => self.batch("delete", ids.clone(), &self.batch_of(self.nulls(ids.len()), ids.len())?),
        };
        changes.map(UnitChanges::Batch)
    }

    /// Updates, or those of them that a mask selects.
    fn updates(
        &self,
        mut ids: Vec<u64>,
        mut old: RecordBatch,
        mut new: RecordBatch,
        mask: Option<BooleanArray>,
    ) -> Result<RecordBatch> {
        let fail = |e| Error::internal(format!("leaving out unchanged rows: {e}"));
        if let Some(mask) = mask.filter(|mask| mask.true_count() < mask.len()) {
            let mut kept = mask.values().iter();
            ids.retain(|_| kept.next().unwrap_or(false));
            old = filter_record_batch(&old, &mask).map_err(fail)?;
            new = filter_record_batch(&new, &mask).map_err(fail)?;
        }
        if self.images == Images::Post {
            return self.batch("update_postimage", ids, &new);
        }
        let order: Vec<(usize, usize)> = (0..ids.len()).flat_map(|row| [(0, row), (1, row)]).collect();
        let both = if new.num_columns() == 0 {
            self.batch_of(Vec::new(), order.len())?
        } else {
            interleave_batches(&[&old, &new], &order, fail)?
        };
        let kinds =
            StringArray::from_iter_values(ids.iter().flat_map(|_| ["update_preimage", "update_postimage"]));
        let ids = ids.into_iter().flat_map(|id| [id, id]).collect();
        self.batch_with(Arc::new(kinds), ids, &both)
    }

    fn batch(&self, kind: &str, ids: Vec<u64>, values: &RecordBatch) -> Result<RecordBatch> {
        let kinds = StringArray::from_iter_values(repeat_n(kind, ids.len()));
        self.batch_with(Arc::new(kinds), ids, values)
    }

    fn batch_with(&self, kinds: ArrayRef, ids: Vec<u64>, values: &RecordBatch) -> Result<RecordBatch> {
        let rows = ids.len();
        let time =
            self.time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(self.time.nanos / 1000));
        let times = TimestampMicrosecondArray::from_value(time, rows).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![
            kinds,
            Arc::new(UInt64Array::from(ids)),
            Arc::new(UInt64Array::from_value(self.version.0, rows)),
            Arc::new(times),
        ];
        columns.extend(values.columns().iter().map(Arc::clone));
        RecordBatch::try_new(Arc::clone(&self.columns.made), columns)
            .map_err(|e| Error::internal(format!("a batch of changes: {e}")))
    }

    fn nulls(&self, rows: usize) -> Vec<ArrayRef> {
        self.columns.values.fields().iter().map(|field| new_null_array(field.data_type(), rows)).collect()
    }

    fn batch_of(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        batch_with_rows(Arc::clone(&self.columns.values), arrays, rows)
            .map_err(|e| Error::corrupt(format!("the columns read do not fit the schema: {e}")))
    }

    /// Where the rows of runs lie in a version.
    fn rows_of<'a>(
        &self,
        side: &'a Side,
        runs: &[RowRun],
        address_of: impl Fn(&RowRun) -> Option<RowAddress>,
    ) -> Result<SideRows<'a>> {
        // By fragment: offsets, and the position of the run in the order.
        let mut parts: BTreeMap<FragmentId, Vec<(Range<u64>, usize)>> = BTreeMap::new();
        let mut total = 0_usize;
        for run in runs {
            let address =
                address_of(run).ok_or_else(|| Error::internal("a changed row without its address"))?;
            let start = u64::from(address.offset());
            parts.entry(address.fragment()).or_default().push((start..start + run.rows, total));
            total = total.saturating_add(length(run.rows)?);
        }
        let mut reads = Vec::with_capacity(parts.len());
        // Batch and row of each row in the order.
        let mut order = vec![(0, 0); total];
        let mut in_order = true;
        let mut next = 0;
        for (number, (fragment, mut ranges)) in parts.into_iter().enumerate() {
            ranges.sort_unstable_by_key(|(range, _)| range.start);
            let mut rows_read = RowRanges::new();
            let mut row = 0;
            for (range, at) in ranges {
                in_order &= at == next;
                let rows = length(range.end - range.start)?;
                let slots = order.get_mut(at..at + rows).unwrap_or_default();
                slots.iter_mut().zip(row..).for_each(|(slot, row)| *slot = (number, row));
                row += rows;
                next = at + rows;
                rows_read.insert(range);
            }
            reads.push((side.reader(fragment)?, rows_read, row));
        }
        Ok(SideRows { side, reads, order, in_order })
    }

    /// The values of rows in a version, in their order.
    fn values(&self, rows: SideRows<'_>) -> Result<RecordBatch> {
        let SideRows { side, reads, order, in_order } = rows;
        let present: Vec<&Field> = side.fields.iter().flatten().collect();
        if present.is_empty() {
            return self.batch_of(self.nulls(order.len()), order.len());
        }
        let read = |(reader, ranges, rows): &(&FragmentReader, RowRanges, usize)| {
            let mut read = reader.read(&present, ranges)?.into_iter();
            let fields = side.fields.iter().zip(self.columns.values.fields());
            let arrays = fields.map(|(field, ours)| match field {
                Some(_) => read.next().ok_or_else(|| Error::internal("a column was not read")),
                None => Ok(new_null_array(ours.data_type(), *rows)),
            });
            self.batch_of(arrays.collect::<Result<_>>()?, *rows)
        };
        let threads = reads.first().map_or(1, |(reader, ..)| reader.store().readers());
        let mut batches = each_concurrently(threads, &reads, read)?;
        if in_order && batches.len() == 1 {
            return batches.pop().ok_or_else(|| Error::internal("no rows were read"));
        }
        let failed = |e| Error::invalid_input(format!("Putting {} rows in order: {e}", order.len()));
        interleave_batches(&batches.iter().collect::<Vec<_>>(), &order, failed)
    }
}

/// What reading a unit gives.
pub(super) enum UnitChanges {
    Batch(RecordBatch),
    /// Units of fewer rows to read instead.
    Parts(Vec<Unit>),
}

/// Rows of a version.
struct SideRows<'a> {
    side: &'a Side,
    /// By fragment: its rows in the order of the file, and their number.
    reads: Vec<(&'a FragmentReader, RowRanges, usize)>,
    /// The position in `reads` of each row, and its row in it.
    order: Vec<(usize, usize)>,
    in_order: bool,
}

impl SideRows<'_> {
    /// Opens the files; gives the bytes of the values, about. Blocks on the store.
    fn bytes(&self) -> Result<u64> {
        let fields: Vec<Field> = self.side.fields.iter().flatten().cloned().collect();
        let present: Vec<&Field> = fields.iter().collect();
        let needs = Needs { fields: &fields, values: true, deletions: NeedsDeletions::No };
        let threads = self.reads.first().map_or(1, |(reader, ..)| reader.store().readers());
        let bytes = each_concurrently(threads, &self.reads, |(reader, ranges, _)| {
            prepare([(*reader, needs)])?;
            reader.bytes_in_memory(&present, ranges)
        })?;
        Ok(bytes.into_iter().fold(0, u64::saturating_add))
    }
}

/// The rows whose values are not the same in both, null being one value.
fn differs(old: &RecordBatch, new: &RecordBatch) -> BooleanArray {
    let rows = old.num_rows();
    let mut differ = vec![false; rows];
    for (old, new) in old.columns().iter().zip(new.columns()) {
        mark(old, new, &mut differ);
    }
    BooleanArray::from(differ)
}

fn mark(old: &ArrayRef, new: &ArrayRef, differ: &mut [bool]) {
    if !old.data_type().is_nested()
        && let Ok(found) = distinct(old, new)
    {
        differ.iter_mut().zip(found.values()).for_each(|(differ, found)| *differ |= found);
        return;
    }
    let rows = differ.iter_mut().enumerate();
    match make_comparator(old, new, SortOptions::default()) {
        Ok(compare) => rows.for_each(|(row, differ)| *differ |= compare(row, row).is_ne()),
        // Types without an order.
        Err(_) => {
            rows.for_each(|(row, differ)| {
                *differ |= old.slice(row, 1).to_data() != new.slice(row, 1).to_data()
            });
        }
    }
}

fn length(rows: u64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::invalid_input(format!("{rows} rows at once")))
}
