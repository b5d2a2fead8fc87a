//! The files of a segment: the values of a column are read, sorted in runs on several threads, merged and written. Runs
//! that are too many for the memory are in temporary files.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use futures::{StreamExt, TryStreamExt};
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result};
use pennon_index::{
    BTreeWriter, BitmapWriter, DEFAULT_PAGE_ROWS, DEFAULT_PROBABILITY, DEFAULT_ZONE_ROWS, IndexKind,
    LabelListWriter, RowSet, ScalarIndex, SortedRun, WrittenFile, items_of,
};
use uuid::Uuid;

use super::entries::Entries;
use crate::batches::array_bytes;
use crate::runtime::{advance, blocking, processors};
use crate::scan::{Projection, Scan, ScanOptions};
use crate::store::{Durability, Sink};
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{StagedFile, index_file};

/// Rows of a sorted run, at most, and bytes of its values, about.
pub(super) const RUN_ROWS: usize = 1 << 20;
pub(super) const RUN_BYTES: u64 = 128 << 20;
/// Rows of a batch that is read.
pub(super) const READ_ROWS: usize = 128 << 10;
/// Rows that are merged at a time.
const MERGED_ROWS: usize = 64 << 10;

/// Settings of an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexParameters {
    /// Rows of a page of a B-tree.
    pub page_rows: u32,
    /// Rows of a zone of a zone map or a Bloom filter index.
    pub zone_rows: u32,
    /// The share of other values that a Bloom filter takes for its own.
    pub probability: f64,
}

impl Default for IndexParameters {
    fn default() -> Self {
        Self { page_rows: DEFAULT_PAGE_ROWS, zone_rows: DEFAULT_ZONE_ROWS, probability: DEFAULT_PROBABILITY }
    }
}

impl IndexParameters {
    /// Those of an index that is there.
    pub(super) fn of(index: &ScalarIndex) -> Self {
        let default = Self::default();
        match index {
            ScalarIndex::BTree(index) => {
                Self { page_rows: u32::try_from(index.page_rows()).unwrap_or(u32::MAX), ..default }
            }
            ScalarIndex::ZoneMap(index) => Self { zone_rows: index.zone_rows(), ..default },
            ScalarIndex::BloomFilter(index) => {
                Self { zone_rows: index.zone_rows(), probability: index.probability(), ..default }
            }
            ScalarIndex::Bitmap(_) | ScalarIndex::LabelList(_) | ScalarIndex::NGram(_) => default,
        }
    }
}

/// A segment to make.
pub(super) struct Build {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) field: Field,
    pub(super) kind: IndexKind,
    pub(super) uuid: Uuid,
    pub(super) fragments: Vec<FragmentId>,
    pub(super) parameters: IndexParameters,
    pub(super) durability: Durability,
}

impl Build {
    /// The version of the files.
    pub(super) fn version(&self) -> i32 {
        written_version(self.kind, self.snapshot.manifest.has_stable_row_ids())
    }

    /// Whether rows are named by their addresses; else by their ids.
    pub(super) fn by_address(&self) -> bool {
        self.kind.has_addresses(self.version(), self.snapshot.manifest.has_stable_row_ids())
    }
}

/// The version of the files that are written, as the reference does.
pub(super) fn written_version(kind: IndexKind, stable_row_ids: bool) -> i32 {
    match kind {
        IndexKind::BTree => i32::from(stable_row_ids),
        IndexKind::LabelList => 1,
        _ => 0,
    }
}

/// The files of a segment.
pub(super) struct Built {
    pub(super) sizes: Vec<(String, u64)>,
    pub(super) files: Vec<StagedFile>,
}

/// What some rows put into the files.
struct SortedRows {
    run: SortedRun,
    /// Of lists: the rows whose list is null.
    null_lists: RowSet,
    /// How many rows were read.
    rows: u64,
}

/// Makes the files, of the values of the fragments and of entries that are there already.
///
/// Errors: those of reading and writing; nothing is left of the files then.
pub(super) async fn run(build: Build, entries: Entries) -> Result<Built> {
    let entries = with_sorted_runs(&build, entries).await?;
    blocking(move || write(&build, &entries)).await
}

/// Adds the values of the fragments in sorted runs.
async fn with_sorted_runs(build: &Build, mut entries: Entries) -> Result<Entries> {
    let schema = &build.snapshot.manifest.schema;
    let path =
        schema.path_of(build.field.id).ok_or_else(|| Error::internal("an indexed field without a path"))?;
    if build.fragments.is_empty() {
        return Ok(entries);
    }
    let options = ScanOptions {
        columns: Some(Projection::Names(vec![path])),
        fragments: Some(build.fragments.iter().map(|id| (*id).into()).collect()),
        with_row_id: !build.by_address(),
        with_row_address: build.by_address(),
        unordered: true,
        batch_size: Some(READ_ROWS),
        ..ScanOptions::default()
    };
    let batches = Scan::new(Arc::clone(&build.snapshot), &options)?.stream().fuse();
    let gathered = futures::stream::try_unfold((batches, None), |(mut batches, mut next)| async move {
        let (mut held, mut rows, mut bytes): (Vec<RecordBatch>, usize, u64) = (Vec::new(), 0, 0);
        loop {
            if next.is_none() {
                next = batches.try_next().await?;
            }
            let Some(batch) = next.take() else { break };
            rows += batch.num_rows();
            bytes =
                bytes.saturating_add(batch.columns().iter().map(|column| array_bytes(column.as_ref())).sum());
            // A batch that is too much for this run begins the next one.
            if !held.is_empty() && (rows > RUN_ROWS || bytes > RUN_BYTES) {
                next = Some(batch);
                break;
            }
            held.push(batch);
        }
        Ok::<_, Error>((!held.is_empty()).then_some((held, (batches, next))))
    });
    let kind = build.kind;
    let sorted = gathered.map_ok(move |held| blocking(move || sort(kind, &held)));
    let mut sorted = sorted.try_buffered(processors()).boxed();
    while let Some(SortedRows { run, null_lists, rows }) = sorted.try_next().await? {
        entries = blocking(move || {
            entries.add(run)?;
            entries.null_lists = std::mem::take(&mut entries.null_lists).union(null_lists);
            Ok(entries)
        })
        .await?;
        advance(|counts| {
            counts.stage = super::READ_STAGE;
            counts.rows += rows;
        })
        .await?;
    }
    Ok(entries)
}

fn sort(kind: IndexKind, batches: &[RecordBatch]) -> Result<SortedRows> {
    let column = |at: usize| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        concat(&parts).map_err(|e| Error::unsupported(format!("the values of a run: {e}")))
    };
    let (values, rows) = (column(0)?, column(1)?);
    let rows = rows.as_primitive_opt::<UInt64Type>();
    let rows = rows.ok_or_else(|| Error::internal("rows are not uint64"))?;
    let count = rows.len() as u64;
    if kind == IndexKind::LabelList {
        let (items, rows, null_lists) = items_of(&values, rows)?;
        return Ok(SortedRows { run: SortedRun::sort(&items, &rows)?, null_lists, rows: count });
    }
    Ok(SortedRows { run: SortedRun::sort(&values, rows)?, null_lists: RowSet::new(), rows: count })
}

fn write(build: &Build, entries: &Entries) -> Result<Built> {
    let data_type = build.field.data_type();
    let version = build.snapshot.manifest.version_of_index_files();
    let sink = |name: &str| sink(&build.snapshot, build.uuid, name, build.durability);
    let written: Vec<WrittenFile<Box<dyn Sink>>> = match build.kind {
        IndexKind::BTree => {
            let page_rows = build.parameters.page_rows;
            let mut writer = BTreeWriter::try_new(sink("page_data.lance")?, &data_type, version, page_rows)?;
            entries.merge(MERGED_ROWS, &mut |run| writer.write(&run))?;
            writer.finish(sink("page_lookup.lance")?)?.into()
        }
        IndexKind::Bitmap => {
            let name = "bitmap_page_lookup.lance";
            let mut writer = BitmapWriter::try_new(sink(name)?, &data_type, version)?;
            entries.merge(MERGED_ROWS, &mut |run| writer.write(&run))?;
            vec![writer.finish()?]
        }
        IndexKind::LabelList => {
            let (DataType::List(item) | DataType::LargeList(item)) = &data_type else {
                return Err(Error::internal("a label list index of values that are not lists"));
            };
            let sink = sink("bitmap_page_lookup.lance")?;
            let mut writer = LabelListWriter::try_new(sink, item.data_type(), version)?;
            entries.merge(MERGED_ROWS, &mut |run| writer.write(&run))?;
            vec![writer.finish(&entries.null_lists)?]
        }
        other => return Err(Error::unsupported(format!("an index of the kind {}", other.name()))),
    };
    complete(&build.snapshot, build.uuid, written, build.durability)
}

/// Where a file of a segment is written to.
pub(super) fn sink(
    snapshot: &Snapshot,
    uuid: Uuid,
    name: &str,
    durability: Durability,
) -> Result<Box<dyn Sink>> {
    snapshot.store.sink(&path_of(uuid, name), durability)
}

/// Completes the files of a segment: from now on they are there.
pub(super) fn complete(
    snapshot: &Snapshot,
    uuid: Uuid,
    written: Vec<WrittenFile<Box<dyn Sink>>>,
    durability: Durability,
) -> Result<Built> {
    let mut built = Built { sizes: Vec::new(), files: Vec::new() };
    for WrittenFile { name, size, sink } in written {
        sink.finish(durability)?;
        built.sizes.push((name.to_owned(), size));
        built.files.push(StagedFile {
            reference: index_file(uuid),
            store: Arc::clone(&snapshot.store),
            path: path_of(uuid, name),
        });
    }
    Ok(built)
}

/// Where the files of a segment are.
pub(super) fn directory_of(uuid: Uuid) -> String {
    format!("_indices/{uuid}")
}

fn path_of(uuid: Uuid, name: &str) -> String {
    format!("{}/{name}", directory_of(uuid))
}
