//! Columns of fragments that exist: one more data file for each, row by row beside the others.
//!
//! Invariant: a file has exactly the physical rows of its fragment. Those that are deleted hold the values of the live
//! row after them, or of the last one; nobody reads them. Fields that the file replaces are tombstoned (-2) in the
//! other files, and a file that has no other field left is not the fragment's any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, make_array, new_null_array};
use arrow_select::take::take_record_batch;
use futures::StreamExt;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{DataFile, Fragment};
use pennon_core::schema::Schema;
use pennon_core::{Error, FieldId, Result};
use pennon_datafile::check_writable;
use tokio::runtime::Handle;

use super::WriteParams;
use super::fragments::{FragmentWriter, Limits, StopOnDrop};
use super::in_place::{self, RowsInPlace};
use super::placement::Placement;
use crate::scan::BatchStream;
use crate::snapshot::Snapshot;
use crate::store::{Durability, Store};

/// Rows in the place of deleted ones that are made at once.
const FILL: u64 = 64 << 10;

/// Values of columns: batches that are asked for on a blocking thread.
pub(crate) type Values = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The batches of a scan as values. Call it inside the runtime.
pub(crate) fn values(mut stream: BatchStream) -> Values {
    let runtime = Handle::current();
    Box::new(std::iter::from_fn(move || runtime.block_on(stream.next())))
}

/// Columns of some fragments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    /// What the new files hold, with its field ids.
    pub(crate) schema: Schema,
    /// Fields of other files that the new ones take the place of; empty if all are new.
    pub(crate) replaced: Vec<FieldId>,
    /// Version of the new files; `None`: the table's.
    pub(crate) file_version: Option<FileVersion>,
    /// Rows that change by that, whose last-updated-at versions may be columns too: then in one more file.
    pub(crate) in_place: Option<RowsInPlace>,
}

/// Writes columns of fragments and gives the fragments with their new files, the last ones. Nothing is committed.
///
/// `values` are those of the live rows of all fragments, in order; batches may be of any size. Errors: `InvalidInput`
/// if there are more or fewer rows; those of the values. Files that were written are removed then.
pub(crate) async fn write(
    snapshot: Arc<Snapshot>,
    fragments: Vec<Arc<Fragment>>,
    mut columns: Columns,
    values: Values,
    durability: Durability,
) -> Result<Vec<Fragment>> {
    let stop = StopOnDrop::default();
    let given_up = stop.watch();
    let version = columns.file_version.unwrap_or(snapshot.manifest.file_version);
    let in_place = columns.in_place.take();
    // Whatever becomes of them, nobody looks at older columns any more.
    columns.replaced.extend(in_place.as_ref().map(|_| FieldId::ROW_LAST_UPDATED_AT));
    let writer = ColumnWriter::new(&snapshot.store, columns, version, durability)?;
    crate::blocking(move || match in_place {
        None => write_all(&snapshot, &fragments, writer, values, &given_up)?.finish(),
        Some(rows) => in_place::write_beside(&rows, &snapshot, &fragments, durability, &given_up, || {
            write_all(&snapshot, &fragments, writer, values, &given_up)
        }),
    })
    .await
}

fn write_all(
    snapshot: &Snapshot,
    fragments: &[Arc<Fragment>],
    mut writer: ColumnWriter,
    values: Values,
    given_up: &impl Fn() -> Result<()>,
) -> Result<ColumnWriter> {
    let mut values = values.filter(|batch| !batch.as_ref().is_ok_and(|b| b.num_rows() == 0));
    let mut rest = None;
    for fragment in fragments {
        given_up()?;
        let deletions = snapshot.deletion_vector_blocking(fragment)?;
        let mut left = fragment.physical_rows.saturating_sub(deletions.len());
        writer.begin(fragment)?;
        while left > 0 {
            given_up()?;
            let batch = match rest.take() {
                Some(batch) => batch,
                None => values.next().ok_or_else(too_few)??,
            };
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
            writer.append_live(&batch.slice(0, take), &deletions)?;
            left -= to_u64(take);
            if take < batch.num_rows() {
                rest = Some(batch.slice(take, batch.num_rows() - take));
            }
        }
        writer.end()?;
    }
    match rest.map(Ok).or_else(|| values.next()) {
        Some(batch) => {
            batch?;
            Err(Error::invalid_input("Stream produced more values than expected for dataset"))
        }
        None => Ok(writer),
    }
}

fn too_few() -> Error {
    Error::invalid_input("Stream ended before producing values for all rows in dataset")
}

/// Writes the files of one fragment after the other. Blocks on the store. Dropped before [`Self::finish`], it removes
/// them.
pub(crate) struct ColumnWriter {
    files: FragmentWriter,
    replaced: BTreeSet<FieldId>,
    /// Those that were begun.
    fragments: Vec<Fragment>,
    /// Rows of the current one that were written.
    rows: u64,
    /// Live rows among them.
    live: u64,
    /// The last live row.
    last: Option<RecordBatch>,
    schema: Schema,
}

impl ColumnWriter {
    /// A writer of files of this version. Errors: those of writing a field of the schema.
    pub(crate) fn new(
        store: &Arc<Store>,
        columns: Columns,
        version: FileVersion,
        durability: Durability,
    ) -> Result<Self> {
        check_writable(version)?;
        let Columns { schema, replaced, .. } = columns;
        let params = WriteParams { durability, ..WriteParams::default() };
        let limits = Limits::new(&params, version)?;
        let files = FragmentWriter::new(Placement::own(Arc::clone(store)), schema.clone(), limits)?;
        let replaced = replaced.into_iter().collect();
        Ok(Self { files, replaced, fragments: Vec::new(), rows: 0, live: 0, last: None, schema })
    }

    /// Begins the file of a fragment.
    pub(crate) fn begin(&mut self, fragment: &Fragment) -> Result<()> {
        self.files.begin(&[])?;
        self.fragments.push(fragment.edit());
        (self.rows, self.live, self.last) = (0, 0, None);
        Ok(())
    }

    /// The next physical rows of the fragment. Columns are found by name.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows = self.rows.saturating_add(to_u64(batch.num_rows()));
        let physical = self.fragments.last().map_or(0, |f| f.physical_rows);
        if self.rows > physical {
            return Err(Error::internal(format!("{} rows for {physical} physical ones", self.rows)));
        }
        self.files.append(batch).map(|_| ())
    }

    /// The next live rows of the fragment, from which `deletions` are deleted, and the deleted ones before each.
    pub(crate) fn append_live(&mut self, batch: &RecordBatch, deletions: &DeletionVector) -> Result<()> {
        let Some(last) = batch.num_rows().checked_sub(1) else { return Ok(()) };
        let rows = to_u64(batch.num_rows());
        self.last = Some(batch.slice(last, 1));
        let end = if deletions.is_empty() {
            self.rows.saturating_add(rows)
        } else {
            deletions.live_offset(self.live.saturating_add(rows - 1)).saturating_add(1)
        };
        self.live = self.live.saturating_add(rows);
        if end - self.rows == rows {
            return self.append(batch);
        }
        let mut next = 0;
        let mut sources = Vec::new();
        for live in deletions.live_ranges(self.rows..end) {
            let mut gap = live.start - self.rows - to_u64(sources.len());
            while gap > 0 {
                let filled = gap.min(FILL);
                sources.extend((0..filled).map(|_| next));
                gap -= filled;
                self.take(batch, &mut sources, FILL)?;
            }
            for _ in live {
                sources.push(next);
                next += 1;
                self.take(batch, &mut sources, FILL)?;
            }
        }
        self.take(batch, &mut sources, 0)
    }

    /// Appends these rows of a batch if they are more than so many.
    fn take(&mut self, batch: &RecordBatch, sources: &mut Vec<u64>, most: u64) -> Result<()> {
        if to_u64(sources.len()) <= most {
            return Ok(());
        }
        let rows = UInt64Array::from(std::mem::take(sources));
        let taken = take_record_batch(batch, &rows)
            .map_err(|e| Error::invalid_input(format!("Taking {} rows: {e}", rows.len())))?;
        self.append(&taken)
    }

    /// Completes the file. The rows behind the last live one are deleted.
    pub(crate) fn end(&mut self) -> Result<()> {
        let physical = self.fragments.last().map_or(0, |f| f.physical_rows);
        while self.rows < physical {
            let rows = (physical - self.rows).min(FILL);
            let filling = match self.last.clone() {
                Some(last) => {
                    let first = UInt64Array::from_iter_values((0..rows).map(|_| 0));
                    take_record_batch(&last, &first)
                        .map_err(|e| Error::invalid_input(format!("Taking {rows} rows: {e}")))?
                }
                None => self.nothing(rows)?,
            };
            self.append(&filling)?;
        }
        self.files.end(|_| ())
    }

    /// Rows of a fragment without a live one.
    fn nothing(&self, rows: u64) -> Result<RecordBatch> {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let fields = self.schema.fields.iter().map(pennon_core::schema::Field::to_arrow);
        let arrow = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        let column = |field: &Arc<arrow_schema::Field>| -> Result<ArrayRef> {
            let nulls = new_null_array(field.data_type(), rows);
            if field.is_nullable() {
                return Ok(nulls);
            }
            let data = nulls.to_data().into_builder().nulls(None).build();
            data.map(make_array).map_err(|e| Error::internal(format!("rows that are all deleted: {e}")))
        };
        let columns = arrow.fields().iter().map(column).collect::<Result<_>>()?;
        RecordBatch::try_new(arrow, columns)
            .map_err(|e| Error::internal(format!("rows that are all deleted: {e}")))
    }

    /// The fragments that were begun, with their new files.
    pub(crate) fn finish(self) -> Result<Vec<Fragment>> {
        let Self { files, fragments, replaced, schema, .. } = self;
        let written = files.finish(schema)?;
        let with_file = |(mut fragment, new): (Fragment, Fragment)| {
            fragment.files = fragment.files.iter().filter_map(|file| without(file, &replaced)).collect();
            fragment.files.extend(new.files);
            fragment
        };
        Ok(fragments.into_iter().zip(written.fragments).map(with_file).collect())
    }
}

/// A file whose values of some fields are not looked at any more; `None` if it has no others.
fn without(file: &DataFile, replaced: &BTreeSet<FieldId>) -> Option<DataFile> {
    if !file.fields.iter().any(|id| replaced.contains(id)) {
        return Some(file.clone());
    }
    let keep = |id: &FieldId| if replaced.contains(id) { FieldId::TOMBSTONE } else { *id };
    let fields: Arc<[FieldId]> = file.fields.iter().map(keep).collect();
    let any = fields.iter().any(|id| *id != FieldId::TOMBSTONE);
    any.then(|| DataFile { fields, ..file.clone() })
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, RecordBatchIterator};
    use proptest::prelude::*;

    use super::*;
    use crate::scan::FragmentReader;
    use crate::{Dataset, WriteMode};

    fn batch(name: &str, values: impl IntoIterator<Item = i32>) -> RecordBatch {
        let values = Int32Array::from_iter_values(values);
        RecordBatch::try_from_iter([(name, Arc::new(values) as ArrayRef)]).unwrap()
    }

    /// Fragments of four rows `a`: 0, 1, 2 ..., without some of them.
    async fn table(name: &str, rows: i32, deleted: &[u32]) -> Dataset {
        let data = batch("a", 0..rows);
        let reader = RecordBatchIterator::new([Ok(data.clone())], data.schema());
        let params =
            WriteParams { mode: WriteMode::Overwrite, max_rows_per_file: 4, ..WriteParams::default() };
        let mut dataset = Dataset::write(Box::new(reader), name, params).await.unwrap();
        if !deleted.is_empty() {
            let list: Vec<String> = deleted.iter().map(ToString::to_string).collect();
            let predicate = format!("a in ({})", list.join(","));
            dataset.delete(&predicate, crate::DeleteOptions::default()).await.unwrap();
        }
        dataset
    }

    fn columns(dataset: &Dataset) -> Columns {
        let new = Schema::from_arrow(&batch("b", []).schema()).unwrap();
        let evolved = dataset.schema().with_columns(&new, dataset.manifest().next_field_id()).unwrap();
        Columns { schema: evolved.added, ..Columns::default() }
    }

    async fn add(dataset: &Dataset, columns: Columns, batches: Vec<RecordBatch>) -> Result<Vec<Fragment>> {
        let values: Values = Box::new(batches.into_iter().map(Ok));
        let fragments = dataset.manifest().fragments.to_vec();
        write(Arc::clone(dataset.snapshot()), fragments, columns, values, Durability::Os).await
    }

    /// Values of the new file of a fragment, deleted rows included.
    fn physical(dataset: &Dataset, columns: &Columns, fragment: &Fragment) -> Vec<i32> {
        let reader = FragmentReader::new(Arc::clone(dataset.snapshot()), Arc::new(fragment.clone()), 0);
        let field = &columns.schema.fields[0];
        let read = reader.read(&[field], &[0..fragment.physical_rows]).unwrap();
        read[0].as_primitive::<Int32Type>().values().to_vec()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
    }

    #[test]
    fn too_many_and_too_few_rows() {
        runtime().block_on(async {
            let dataset = table("memory://column-count", 10, &[1]).await;
            let files = dataset.snapshot().store.list("data").await.unwrap().len();
            for (rows, text) in [(8, "ended before"), (10, "more values than expected")] {
                let error = add(&dataset, columns(&dataset), vec![batch("b", 0..rows)]).await.unwrap_err();
                assert!(error.to_string().contains(text), "{error}");
                assert_eq!(dataset.snapshot().store.list("data").await.unwrap().len(), files);
            }
        });
    }

    #[test]
    fn replaced_fields_are_tombstoned() {
        let file = |fields: &[i32]| DataFile {
            path: "x.lance".to_owned(),
            fields: fields.iter().copied().map(FieldId).collect(),
            column_indices: (0..).take(fields.len()).collect(),
            version: FileVersion::STABLE,
            size: None,
            base_id: None,
        };
        let replaced: BTreeSet<FieldId> = [FieldId(1), FieldId(3)].into();
        assert_eq!(without(&file(&[0, 1, 2, 3]), &replaced), Some(file(&[0, -2, 2, -2])));
        assert_eq!(without(&file(&[1, -2, 3]), &replaced), None);
        assert_eq!(without(&file(&[1, -3]), &replaced), Some(file(&[-2, -3])));
        assert_eq!(without(&file(&[2]), &replaced), Some(file(&[2])));
        assert_eq!(without(&file(&[]), &replaced), Some(file(&[])));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Live rows get their values, whatever is deleted and however the values are cut.
        #[test]
        fn values_meet_their_rows(
            deleted in proptest::collection::btree_set(0u32..14, 0..14),
            cuts in proptest::collection::vec(1usize..6, 1..14),
        ) {
            let deleted: Vec<u32> = deleted.into_iter().collect();
            runtime().block_on(async {
                // Ids of fragments start at 0 in a table of its own.
                let name = format!("memory://column-values-{}", uuid::Uuid::new_v4());
                let dataset = table(&name, 14, &deleted).await;
                let live: Vec<i32> = (0..14).filter(|a| !deleted.contains(&u32::try_from(*a).unwrap())).collect();
                let (mut batches, mut rest) = (Vec::new(), live.as_slice());
                for cut in cuts.iter().cycle() {
                    let (now, later) = rest.split_at((*cut).min(rest.len()));
                    batches.push(batch("b", now.iter().map(|a| a * 10)));
                    rest = later;
                    if rest.is_empty() {
                        break;
                    }
                }
                let columns = columns(&dataset);
                let written = add(&dataset, columns.clone(), batches).await.unwrap();
                for fragment in &written {
                    let vector = dataset.snapshot().deletion_vector(fragment).await.unwrap();
                    let first = i32::try_from(fragment.id.0).unwrap() * 4;
                    let found = physical(&dataset, &columns, fragment);
                    assert_eq!(found.len(), usize::try_from(fragment.physical_rows).unwrap());
                    for (offset, value) in (0..).zip(found) {
                        if !vector.contains(u32::try_from(offset).unwrap()) {
                            assert_eq!(value, (first + offset) * 10);
                        }
                    }
                }
            });
        }
    }
}
