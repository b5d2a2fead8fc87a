//! The files of a segment: vectors are read, assigned to partitions, encoded, gathered and written.
//!
//! Rows beyond [`GATHERED_BYTES`] are in a temporary file until their partition is written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_arith::boolean::is_not_null;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;
use futures::TryStreamExt;
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_index::{
    BuildOptions, GraphOptions, Inherited, SpillFile, VectorIndexBuilder, VectorIndexKind, VectorModel,
};
use roaring::RoaringTreemap;
use uuid::Uuid;

use super::super::build::{Built, complete, sink};
use super::train::{VectorSource, vectors_in};
use crate::indices::Segment;
use crate::runtime::{advance, blocking, blocking_counted, processors};
use crate::scan::{Projection, Scan, ScanOptions, ids_of_live_rows};
use crate::spill::temporary_file;
use crate::store::Durability;
use crate::versions::snapshot::Snapshot;
use crate::write::staged;

/// Bytes of encoded rows in memory.
const GATHERED_BYTES: usize = 1 << 30;
/// Bytes of vectors that are read before they are encoded.
const BATCH_BYTES: usize = 16 << 20;

/// A segment to make.
pub(super) struct VectorBuild {
    pub(super) source: VectorSource,
    pub(super) model: Arc<VectorModel>,
    /// Segments of the same model whose rows are taken over.
    pub(super) merged: Vec<Segment>,
    /// How graphs are built, if the model has graphs.
    pub(super) graphs: GraphOptions,
    pub(super) uuid: Uuid,
    pub(super) durability: Durability,
}

/// Makes the files, and tells how far it is. Errors: those of reading and writing, and of the observer; nothing is left of
/// the files then.
pub(super) async fn run(build: VectorBuild) -> Result<Built> {
    let VectorBuild { source, model, merged, graphs, uuid, durability } = build;
    let spill: Option<Box<dyn SpillFile>> = Some(Box::new(TemporaryFile::default()));
    let options = BuildOptions { threads: processors(), memory_limit: GATHERED_BYTES, spill };
    let mut builder = VectorIndexBuilder::new(Arc::clone(&model), options).with_graphs(graphs);
    if !source.fragments.is_empty() {
        let all = source.live_rows();
        advance(|counts| (counts.stage, counts.rows, counts.of_rows) = ("shuffle", 0, Some(all))).await?;
        let mut batches = Scan::new(Arc::clone(&source.snapshot), &scan_of(&source))?.stream();
        while let Some(batch) = batches.try_next().await? {
            let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
            builder = blocking(move || {
                add(&mut builder, &batch)?;
                Ok(builder)
            })
            .await?;
            advance(|counts| counts.rows += rows).await?;
        }
    }
    let (built, heard) = blocking_counted(move |counter| {
        let snapshot = source.snapshot;
        let open = |segment: &Segment| Ok((segment.open_vectors(&snapshot)?, live_rows(&snapshot, segment)?));
        let opened = merged.iter().map(open).collect::<Result<Vec<_>>>()?;
        // Of a row that is named by its address the one it has now.
        let current = merged.iter().zip(&opened).map(|(segment, (_, live))| {
            let has_addresses = segment.has_addresses(&snapshot);
            move |row: u64| {
                let now = if has_addresses { segment.current(RowAddress(row))?.0 } else { row };
                live.contains(now).then_some(now)
            }
        });
        let current: Vec<_> = current.collect();
        let inherited = opened.iter().zip(&current);
        let inherited = inherited.map(|((index, _), remap)| Inherited { index: index.as_ref(), remap });
        let mut tell = |done: u32, all: u32| {
            counter.count(move |counts| {
                (counts.stage, counts.tasks, counts.of_tasks) =
                    ("merge_partitions", done.into(), Some(all.into()));
            })
        };
        finish(&snapshot, builder, &inherited.collect::<Vec<_>>(), uuid, durability, &mut tell)
    })
    .await;
    let Err(error) = heard else { return built };
    if let Ok(built) = built {
        staged::remove(&built.files).await;
    }
    Err(error)
}

/// Writes a segment again with other numbers of its rows; those without one are left out. Blocks on the store.
pub(in crate::ops::index) fn rewrite(
    snapshot: &Snapshot,
    segment: &Segment,
    now: &dyn Fn(u64) -> Option<u64>,
    uuid: Uuid,
    durability: Durability,
) -> Result<Built> {
    let index = segment.open_vectors(snapshot)?;
    if index.kind() == VectorIndexKind::IvfRq {
        return Err(Error::unsupported("an index of type IVF_RQ is read and not made"));
    }
    let options = BuildOptions { threads: processors(), ..BuildOptions::default() };
    let builder = VectorIndexBuilder::new(Arc::clone(index.model()), options)
        .with_graphs(index.graph_options().unwrap_or_default());
    let inherited = [Inherited { index: index.as_ref(), remap: now }];
    finish(snapshot, builder, &inherited, uuid, durability, &mut |_, _| Ok(()))
}

fn finish(
    snapshot: &Snapshot,
    builder: VectorIndexBuilder,
    inherited: &[Inherited<'_>],
    uuid: Uuid,
    durability: Durability,
    tell: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<Built> {
    let version = snapshot.manifest.version_of_index_files();
    let [index, auxiliary] =
        ["index.idx", "auxiliary.idx"].map(|name| sink(snapshot, uuid, name, durability));
    let (written, _) = builder.finish(index?, auxiliary?, version, inherited, tell)?;
    complete(snapshot, uuid, written.into(), durability)
}

fn scan_of(source: &VectorSource) -> ScanOptions {
    let stable = source.snapshot.manifest.has_stable_row_ids();
    let vector_bytes = source.dimension * source.element.primitive_width().unwrap_or(8);
    ScanOptions {
        columns: Some(Projection::Names(vec![source.column.clone()])),
        fragments: Some(source.fragments.iter().map(|id| (*id).into()).collect()),
        with_row_id: stable,
        with_row_address: !stable,
        unordered: true,
        batch_size: Some((BATCH_BYTES / vector_bytes.max(1)).clamp(1, 1 << 20)),
        ..ScanOptions::default()
    }
}

/// Adds the vectors of a batch; of rows with lists each of theirs.
fn add(builder: &mut VectorIndexBuilder, batch: &RecordBatch) -> Result<()> {
    let [column, rows] = batch.columns() else { return Err(Error::internal("vectors without their rows")) };
    let is_list = matches!(column.data_type(), DataType::List(_) | DataType::LargeList(_));
    if is_list && column.null_count() > 0 {
        // There may be vectors beneath a null.
        let mask = is_not_null(column).map_err(|e| Error::internal(format!("lists of vectors: {e}")))?;
        let batch = filter_record_batch(batch, &mask);
        let batch = batch.map_err(|e| Error::internal(format!("lists of vectors: {e}")))?;
        return add(builder, &batch);
    }
    let rows = rows.as_primitive_opt::<UInt64Type>().ok_or_else(|| Error::internal("rows are not uint64"))?;
    let lengths: Option<Vec<usize>> = match column.data_type() {
        DataType::List(_) => Some(column.as_list::<i32>().offsets().lengths().collect()),
        DataType::LargeList(_) => Some(column.as_list::<i64>().offsets().lengths().collect()),
        _ => None,
    };
    let vectors = vectors_in(column)?;
    match lengths {
        None => builder.add(&vectors, rows.values())?,
        Some(lengths) => {
            let of_each = rows.values().iter().zip(lengths);
            let rows: Vec<u64> = of_each.flat_map(|(row, len)| std::iter::repeat_n(*row, len)).collect();
            builder.add(&vectors, &rows)?
        }
    };
    Ok(())
}

/// The rows of a version in the fragments that a segment covers, named as the segment names them now.
fn live_rows(snapshot: &Arc<Snapshot>, segment: &Segment) -> Result<RoaringTreemap> {
    let has_addresses = segment.has_addresses(snapshot);
    let mut live = RoaringTreemap::new();
    for id in segment.covered.iter().map(FragmentId) {
        let Some(fragment) = snapshot.manifest.fragment(id) else { continue };
        if has_addresses {
            let deleted = snapshot.deletion_vector_blocking(fragment)?;
            let start = RowAddress::new(id, 0).0;
            live.insert_range(start..start + fragment.physical_rows);
            deleted.to_roaring().iter().for_each(|offset| {
                live.remove(start + u64::from(offset));
            });
        } else {
            let mut ids = Vec::new();
            ids_of_live_rows(snapshot, Arc::clone(fragment), &mut ids)?;
            live.extend(ids);
        }
    }
    Ok(live)
}

/// A file without a name, which is made when it is needed.
#[derive(Debug, Default)]
struct TemporaryFile {
    file: Option<File>,
    size: u64,
}

impl SpillFile for TemporaryFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary_file()?),
        };
        file.write_all_at(bytes, self.size).map_err(failed)?;
        self.size += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or_else(|| Error::internal("nothing was written to the file"))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::store("a temporary file of an index").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read() {
        let mut file = TemporaryFile::default();
        assert!(file.read(0, 1).is_err());
        file.append(b"abc").unwrap();
        file.append(b"def").unwrap();
        assert_eq!(file.read(2, 3).unwrap(), b"cde");
        assert!(file.read(4, 3).is_err());
    }
}
