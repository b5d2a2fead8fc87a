//! Columns of fragments that exist: one more data file for each, with the same rows.
//! `column_writer` writes the files.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::StreamExt;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::file::FileVersion;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Schema;
use pennon_core::transaction::{Update, UpdateMode};
use pennon_core::{Error, FieldId, Result};

use super::column_writer::ColumnWriter;
use super::in_place::{self, RowsInPlace, has_column};
use super::moved::{self, Staged};
use crate::runtime::{CancellationToken, cancellation, check, wait_for};
use crate::scan::BatchStream;
use crate::store::{Durability, Uploads};
use crate::versions::snapshot::Snapshot;

/// Values of columns: batches that are asked for on a blocking thread.
pub(crate) type Values = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The batches of a scan as values. Call it inside the runtime.
pub(crate) fn values(mut stream: BatchStream) -> Values {
    Box::new(std::iter::from_fn(move || wait_for(stream.next())))
}

/// Columns of some fragments.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnFiles {
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
    mut columns: ColumnFiles,
    values: Values,
    durability: Durability,
) -> Result<Vec<Fragment>> {
    let (token, _guard) = cancellation();
    let version = columns.file_version.map_or_else(|| snapshot.manifest.version_of_new_files(), Ok)?;
    let in_place = columns.in_place.take();
    // Whatever becomes of them, nobody looks at older columns any more.
    columns.replaced.extend(in_place.as_ref().map(|_| FieldId::ROW_LAST_UPDATED_AT));
    let writer = ColumnWriter::new(&snapshot.store, columns.schema, columns.replaced, version, durability)?;
    crate::runtime::blocking(move || match in_place {
        None => write_all(&snapshot, &fragments, writer, values, &token)?.finish(),
        Some(rows) => in_place::write_with_versions(&rows, &snapshot, &fragments, durability, &token, || {
            write_all(&snapshot, &fragments, writer, values, &token)
        }),
    })
    .await
}

/// [`write`] of columns whose values change in some rows, which keep their addresses: the update that says so. What is
/// replaced is what `columns` hold.
pub(crate) async fn stage(
    snapshot: &Arc<Snapshot>,
    rows: &RowsByFragment,
    mut columns: ColumnFiles,
    values: Values,
    durability: Durability,
) -> Result<Staged> {
    let fragments = rows.keys().filter_map(|id| snapshot.manifest.fragment(*id)).cloned().collect();
    let updated_offset_bitmaps = moved::offset_bitmaps(rows);
    let fields_modified = moved::with_members(&columns.schema.fields);
    columns.replaced.clone_from(&fields_modified);
    let in_place = columns.in_place.clone();
    let updated_fragments = write(Arc::clone(snapshot), fragments, columns, values, durability).await?;
    let in_place = in_place.filter(|_| updated_fragments.iter().any(has_column));
    let mode = UpdateMode::RewriteColumns;
    let update =
        Update { updated_fragments, fields_modified, mode, updated_offset_bitmaps, ..Update::default() };
    // No row is removed.
    Ok(Staged { update, affected: RowsByFragment::new(), in_place, uploads: Uploads::default() })
}

fn write_all(
    snapshot: &Snapshot,
    fragments: &[Arc<Fragment>],
    mut writer: ColumnWriter,
    values: Values,
    token: &CancellationToken,
) -> Result<ColumnWriter> {
    let mut values = values.filter(|batch| !batch.as_ref().is_ok_and(|b| b.num_rows() == 0));
    let mut rest = None;
    for fragment in fragments {
        check(token)?;
        let deletions = snapshot.deletion_vector_blocking(fragment)?;
        let mut left = fragment.physical_rows.saturating_sub(deletions.len());
        writer.begin(fragment)?;
        while left > 0 {
            check(token)?;
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

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Int32Array, RecordBatchIterator};
    use proptest::prelude::*;

    use arrow_array::ArrayRef;
    use pennon_core::manifest::DataFile;
    use pennon_core::rows::RowRanges;

    use super::super::WriteOptions;
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
            WriteOptions { mode: WriteMode::Overwrite, max_rows_per_file: 4, ..WriteOptions::default() };
        let mut dataset = Dataset::write(Box::new(reader), name, params).await.unwrap();
        if !deleted.is_empty() {
            let list: Vec<String> = deleted.iter().map(ToString::to_string).collect();
            let predicate = format!("a in ({})", list.join(","));
            dataset.delete(&predicate, crate::ConflictRetries::default()).await.unwrap();
        }
        dataset
    }

    fn columns(dataset: &Dataset) -> ColumnFiles {
        let new = Schema::from_arrow(&batch("b", []).schema()).unwrap();
        let evolved = dataset.schema().with_columns(&new, dataset.manifest().next_field_id()).unwrap();
        ColumnFiles { schema: evolved.added, ..ColumnFiles::default() }
    }

    async fn add(
        dataset: &Dataset,
        columns: ColumnFiles,
        batches: Vec<RecordBatch>,
    ) -> Result<Vec<Fragment>> {
        let values: Values = Box::new(batches.into_iter().map(Ok));
        let fragments = dataset.manifest().fragments.decode_all().collect();
        write(Arc::clone(dataset.snapshot()), fragments, columns, values, Durability::Os).await
    }

    /// Values of the new file of a fragment, deleted rows included.
    fn physical(dataset: &Dataset, columns: &ColumnFiles, fragment: &Fragment) -> Vec<i32> {
        let reader = FragmentReader::new(Arc::clone(dataset.snapshot()), Arc::new(fragment.clone()), 0);
        let field = &columns.schema.fields[0];
        let read = reader.read(&[field], &RowRanges::from(0..fragment.physical_rows)).unwrap();
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
                // What was written is removed by a task of its own.
                let mut left = 0;
                for _ in 0..200 {
                    left = dataset.snapshot().store.list("data").await.unwrap().len();
                    if left == files {
                        break;
                    }
                    crate::runtime::sleep(std::time::Duration::from_millis(10)).await;
                }
                assert_eq!(left, files);
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
        let is_replaced = |id: &FieldId| [1, 3].contains(&id.0);
        assert_eq!(file(&[0, 1, 2, 3]).without(is_replaced), Some(file(&[0, -2, 2, -2])));
        assert_eq!(file(&[1, -2, 3]).without(is_replaced), None);
        assert_eq!(file(&[1, -3]).without(is_replaced), Some(file(&[-2, -3])));
        assert_eq!(file(&[2]).without(is_replaced), Some(file(&[2])));
        assert_eq!(file(&[]).without(is_replaced), Some(file(&[])));
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
                let name = format!("memory://column-values-{}", crate::runtime::uuid());
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
