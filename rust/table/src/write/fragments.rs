//! Record batches to data files: one file per fragment, cut by rows and bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{DataFile, Fragment, naming};
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_core::{Error, Result};
use pennon_datafile::{FileWriter, WriteOptions as FileOptions, check_writable};
use tokio::runtime::Handle;

use super::placement::Placement;
use super::{BatchReader, WriteOptions, WrittenFragments, members};
use crate::blobs::write::{self as blobs, BlobParams, BlobWriter};
use crate::json;
use crate::runtime::{self, CancellationToken, cancellation, check};
use crate::store::{Durability, Sink, Store, Uploads};

/// When a new file starts, and how files are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    options: FileOptions,
    durability: Durability,
    pub(super) blobs: BlobParams,
}

impl Limits {
    /// Errors: `InvalidInput` for limits of 0.
    pub(super) fn new(params: &WriteOptions, version: FileVersion) -> Result<Self> {
        let mut options = FileOptions { version, ..FileOptions::default() };
        if let Some(bytes) = params.max_page_bytes {
            options.max_page_bytes = bytes;
        }
        Ok(Self {
            rows: at_least_one(params.max_rows_per_file, "max_rows_per_file")?,
            bytes: at_least_one(params.max_bytes_per_file, "max_bytes_per_file")?,
            options,
            durability: params.commit.durability,
            blobs: params.blobs,
        })
    }
}

/// The schema that data of this Arrow schema has in tables of that file version: from 2.2 on all blobs are
/// blob v2.
pub(crate) fn schema_of(schema: &arrow_schema::Schema, version: FileVersion) -> Result<Schema> {
    let schema = Schema::from_arrow(schema)?;
    Ok(if version >= FileVersion::V2_2 { schema.with_blob_v2() } else { schema })
}

/// Writes rows whose columns carry the ids of `table`; the last files may be on their way still. Columns and members of
/// structs that the data does not have are left out of the files and read as null; in the items of lists they are
/// written as null.
pub(crate) async fn write(
    placement: Placement,
    table: &Schema,
    version: FileVersion,
    data: BatchReader,
    params: &WriteOptions,
) -> Result<WrittenFragments> {
    check_writable(version)?;
    let data = json::stored(data);
    let data_schema = schema_of(&data.schema(), version)?;
    let schema =
        Schema { fields: present(&table.fields, &data_schema.fields), metadata: table.metadata.clone() };
    let table = table.clone();
    let limits = Limits::new(params, version)?;
    let (token, _guard) = cancellation();
    runtime::blocking(move || {
        let failed = |e: ArrowError| Error::invalid_input(format!("Reading the data failed: {e}"));
        let mut writer = FragmentWriter::new(placement, schema.clone(), limits)?;
        for batch in data {
            let batch = members::with_items(&schema.fields, batch.map_err(failed)?).map_err(failed)?;
            if batch.num_columns() == 0 && batch.num_rows() > 0 {
                return Err(Error::invalid_input(format!(
                    "{} rows without columns cannot be stored",
                    batch.num_rows()
                )));
            }
            writer.write(&batch, &token)?;
        }
        writer.finish_later(table, &token)
    })
    .await
}

pub(crate) fn at_least_one(limit: u64, name: &str) -> Result<u64> {
    if limit == 0 {
        Err(Error::invalid_input(format!("{name} is 0, expected at least 1")))
    } else {
        Ok(limit)
    }
}

/// The fields of the table that the data has, with the table's ids and in the table's order.
fn present(table: &[Field], data: &[Field]) -> Vec<Field> {
    let find = |field: &Field| data.iter().find(|d| d.name == field.name);
    table
        .iter()
        .filter_map(|field| {
            let given = find(field)?;
            let children = match field.logical_type {
                // Nothing of a blob is left out: what it consists of is another matter in a file.
                _ if field.is_blob_v2() => field.children.clone(),
                LogicalType::Struct => present(&field.children, &given.children),
                _ => field.children.clone(),
            };
            Some(Field { children, ..field.clone() })
        })
        .collect()
}

/// Files of up to this many bytes are synced together when all are written; larger ones while the next is encoded.
const SYNCED_TOGETHER: u64 = 8 << 20;
/// Files that are completed while the next one starts: one is encoded and one is written.
const ENDING: usize = 2;

/// Files of a writer that are on their way to the store, at most.
const UPLOADS: usize = 4;

/// Files of so many rows are completed at once: a thread would cost more.
const FEW_ROWS: u64 = 4096;

/// Writes one data file after the other. Dropped before [`Self::finish`], it removes them.
///
/// While the last pages of files are encoded and written, the next file starts.
pub(super) struct FragmentWriter {
    placement: Placement,
    schema: Schema,
    /// The schema of the files.
    stored: Schema,
    limits: Limits,
    current: Option<Current>,
    /// Files begun so far.
    begun: usize,
    /// The files before the current one, and their fragments as far as they are known.
    ending: VecDeque<(Fragment, JoinHandle<Result<Completed>>)>,
    written: Vec<Fragment>,
    uploads: Uploads,
    /// The blobs of the files that are written.
    blobs: Vec<BlobWriter>,
}

/// A file and its blobs, and what of it is on its way.
type Completed = (DataFile, Option<BlobWriter>, Uploads);

/// A file that is being written.
struct Current {
    path: String,
    base_id: Option<u32>,
    writer: FileWriter<Box<dyn Sink>>,
    blobs: Option<BlobWriter>,
}

impl FragmentWriter {
    /// Errors: `Unsupported` for blobs that the files cannot hold.
    pub(super) fn new(placement: Placement, schema: Schema, limits: Limits) -> Result<Self> {
        let stored = blobs::stored_schema(&schema, limits.options.version)?;
        Ok(Self {
            placement,
            schema,
            stored,
            limits,
            current: None,
            begun: 0,
            ending: VecDeque::new(),
            written: Vec::new(),
            uploads: Uploads::default(),
            blobs: Vec::new(),
        })
    }

    /// Writes rows into the current file and as many more as it takes; `token` is checked between them.
    fn write(&mut self, batch: &RecordBatch, token: &CancellationToken) -> Result<()> {
        check(token)?;
        let mut start = 0;
        while start < batch.num_rows() {
            check(token)?;
            let rows = match &self.current {
                Some(current) => current.writer.rows(),
                None => self.begin(&[]).map(|()| 0)?,
            };
            let room = self.limits.rows.saturating_sub(rows);
            let count = usize::try_from(room).unwrap_or(usize::MAX).min(batch.num_rows() - start);
            let full = self.append(&batch.slice(start, count))?;
            start += count;
            if full {
                self.end(|_| ())?;
            }
        }
        Ok(())
    }

    /// Begins a file that has some fields besides those of the table.
    pub(super) fn begin(&mut self, more: &[Field]) -> Result<()> {
        let path = naming::data_file_name(runtime::uuid().as_bytes());
        let (store, path_in_store, base_id) = self.placement.next(self.begun, &path)?;
        self.begun += 1;
        let has_blobs = self.schema.fields.iter().any(Field::has_blob_v2);
        let sink = store.sink(&path_in_store, self.limits.durability)?;
        let mut schema = self.stored.clone();
        schema.fields.extend_from_slice(more);
        let writer = FileWriter::try_new(sink, schema, self.limits.options)?;
        let blob_writer =
            || BlobWriter::new(store, &path_in_store, self.limits.blobs, self.limits.durability);
        let blobs = has_blobs.then(blob_writer);
        self.current = Some(Current { path, base_id, writer, blobs });
        Ok(())
    }

    /// Writes rows into the file that was begun, and says whether it is full.
    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<bool> {
        let Some(Current { writer, blobs, .. }) = &mut self.current else {
            return Err(Error::internal("rows for a data file that was not begun"));
        };
        match blobs {
            Some(blobs) => {
                let described = blobs.store(&self.schema.fields, batch, writer)?;
                writer.write(&described)?;
            }
            None => writer.write(batch)?,
        }
        Ok(writer.rows() >= self.limits.rows || writer.bytes_written() >= self.limits.bytes)
    }

    /// Completes the file, if one was begun; the fragment may be changed before it is kept.
    pub(super) fn end(&mut self, change: impl FnOnce(&mut Fragment)) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        self.await_completion(ENDING - 1)?;
        let mut fragment = Fragment::new(Vec::new(), current.writer.rows());
        change(&mut fragment);
        if current.writer.rows() <= FEW_ROWS {
            self.await_completion(0)?;
            let done = current.complete(self.limits)?;
            return self.complete(fragment, done);
        }
        let (limits, runtime) = (self.limits, Handle::current());
        let finish = move || {
            // Sinks of object stores upload there.
            let _context = runtime.enter();
            current.complete(limits)
        };
        let thread = runtime::thread("pennon-finish", finish);
        let thread = thread.map_err(|e| Error::store("no thread to complete a data file").with_source(e))?;
        self.ending.push_back((fragment, thread));
        Ok(())
    }

    /// Waits until no more files than this are on their way to completion.
    fn await_completion(&mut self, most: usize) -> Result<()> {
        while self.ending.len() > most {
            let Some((fragment, thread)) = self.ending.pop_front() else { return Ok(()) };
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            self.complete(fragment, done)?;
        }
        Ok(())
    }

    /// Syncs what was not synced when it was completed.
    fn sync(&self) -> Result<()> {
        let small = |file: &&DataFile| file.size.is_some_and(|size| size <= SYNCED_TOGETHER);
        let files = self.written.iter().flat_map(|fragment| &fragment.files).filter(small);
        let mut stores: Vec<(&Arc<Store>, Vec<String>)> = Vec::new();
        for (store, path) in files.filter_map(|file| self.placement.find(file)) {
            match stores.iter_mut().find(|(known, _)| Arc::ptr_eq(known, store)) {
                Some((_, paths)) => paths.push(path),
                None => stores.push((store, vec![path])),
            }
        }
        stores.iter().try_for_each(|(store, paths)| {
            store.sync_new_blocking(paths.iter().map(String::as_str), self.limits.durability)
        })
    }

    fn complete(&mut self, mut fragment: Fragment, (file, blobs, uploads): Completed) -> Result<()> {
        self.blobs.extend(blobs);
        fragment.files.push(file);
        self.written.push(fragment);
        self.uploads.extend(uploads);
        if self.uploads.len() < UPLOADS {
            Ok(())
        } else {
            std::mem::take(&mut self.uploads).arrive_blocking()
        }
    }

    /// Completes all files.
    pub(super) fn finish(mut self, schema: Schema) -> Result<WrittenFragments> {
        self.complete_all()?;
        std::mem::take(&mut self.uploads).arrive_blocking()?;
        Ok(self.keep(schema))
    }

    /// Completes all files; some may be on their way to the store still. Errors: those of `token`.
    pub(super) fn finish_later(
        mut self,
        schema: Schema,
        token: &CancellationToken,
    ) -> Result<WrittenFragments> {
        self.complete_all()?;
        // Nobody would get what is kept of a call that was dropped meanwhile.
        check(token)?;
        Ok(self.keep(schema))
    }

    /// The files, which are complete; what is dropped removes them no more.
    fn keep(mut self, schema: Schema) -> WrittenFragments {
        self.blobs.drain(..).for_each(BlobWriter::keep);
        let (fragments, uploads) = (std::mem::take(&mut self.written), std::mem::take(&mut self.uploads));
        let rows = fragments.iter().map(|f| f.physical_rows).sum();
        let bytes = fragments.iter().flat_map(|f| &f.files).filter_map(|f| f.size).sum();
        WrittenFragments { fragments, schema, rows, bytes, uploads }
    }

    fn complete_all(&mut self) -> Result<()> {
        self.await_completion(0)?;
        if let Some(current) = self.current.take() {
            let rows = current.writer.rows();
            let done = current.complete(self.limits)?;
            self.complete(Fragment::new(Vec::new(), rows), done)?;
        }
        self.sync()
    }
}

impl Current {
    /// Completes the file, after its blobs.
    fn complete(self, limits: Limits) -> Result<Completed> {
        let Self { path, base_id, writer, mut blobs } = self;
        blobs.as_mut().map_or(Ok(()), BlobWriter::finish)?;
        let (finished, sink) = writer.finish()?;
        let together = finished.size <= SYNCED_TOGETHER;
        let uploads = sink.finish_later(if together { Durability::Os } else { limits.durability })?;
        let file = DataFile {
            path,
            fields: finished.fields.into(),
            column_indices: finished.column_indices.into(),
            version: limits.options.version,
            size: Some(finished.size),
            base_id,
        };
        Ok((file, blobs, uploads))
    }
}

/// Files of a writer that was given up.
struct Orphans {
    placement: Placement,
    written: Vec<DataFile>,
    ending: VecDeque<JoinHandle<Result<Completed>>>,
    uploads: Uploads,
}

impl Orphans {
    fn is_waited_for(&self) -> bool {
        !self.ending.is_empty() || self.uploads.len() > 0
    }

    fn remove(mut self) {
        for (file, _blobs, uploads) in self.ending.drain(..).filter_map(|thread| thread.join().ok()?.ok()) {
            self.uploads.extend(uploads);
            self.written.push(file);
        }
        // What arrives after it was removed would stay; whether it arrives does not matter any more.
        let _ = self.uploads.arrive_blocking();
        for (store, paths) in self.placement.by_root(&self.written) {
            store.discard(paths);
        }
    }
}

impl Drop for FragmentWriter {
    fn drop(&mut self) {
        // The file in progress goes with its sink, and so does one that could not be completed.
        self.current = None;
        let orphans = Orphans {
            placement: self.placement.clone(),
            written: self.written.drain(..).flat_map(|fragment| fragment.files).collect(),
            ending: self.ending.drain(..).map(|(_, thread)| thread).collect(),
            uploads: std::mem::take(&mut self.uploads),
        };
        // Whoever drops a writer does not wait for uploads.
        if orphans.is_waited_for() && !self.placement.is_local() {
            runtime::detach_blocking(|| orphans.remove());
        } else {
            orphans.remove();
        }
    }
}
