//! Writing one data file.
//!
//! Invariant: the file gets its name when it is complete. After a failed write, or if it is dropped unfinished,
//! nothing is left, and a file that had the name before is as it was.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::Schema as ArrowSchema;
use bytes::Bytes;
use pennon_core::file::FileVersion;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result};
use pennon_datafile::{FileWriter, WriteOptions};

use crate::json;
use crate::store::{Durability, Names, Sink, StorageOptions, Store};

/// How a file is written.
#[derive(Clone, Default)]
pub struct FileWriteParams {
    /// Version of the file; the newest stable one if not given.
    pub version: Option<FileVersion>,
    /// Bytes after which a page is written; the writer's own choice if not given.
    pub max_page_bytes: Option<usize>,
    /// Settings of the store.
    pub storage_options: StorageOptions,
    /// What a finished file survives.
    pub durability: Durability,
}

impl fmt::Debug for FileWriteParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWriteParams")
            .field("version", &self.version)
            .field("max_page_bytes", &self.max_page_bytes)
            .field("storage_options", &Names(&self.storage_options))
            .field("durability", &self.durability)
            .finish()
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSummary {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// Writes batches to a file. Clones write to the same file.
#[derive(Clone)]
pub struct DataFileWriter(Arc<Mutex<State>>);

enum State {
    /// The schema is not known yet; what the file shall have besides rows.
    Waiting(Target, Vec<(String, String)>, Vec<Bytes>),
    Writing(Box<FileWriter<Box<dyn Sink>>>, Durability),
    Done,
    Failed,
}

struct Target {
    store: Arc<Store>,
    path: String,
    options: WriteOptions,
    durability: Durability,
}

impl DataFileWriter {
    /// A writer to that address. Without a schema that of the first batch is taken.
    ///
    /// Errors: `InvalidInput` for an address that cannot be understood and for a page size of 0; `Unsupported` for a
    /// version or a type that cannot be written; `Store`.
    pub async fn create(uri: &str, schema: Option<ArrowSchema>, params: FileWriteParams) -> Result<Self> {
        let (store, path) = Store::of_file(uri, &params.storage_options)?;
        let mut options = WriteOptions::default();
        options.version = params.version.unwrap_or(options.version);
        options.max_page_bytes = match params.max_page_bytes {
            Some(0) => return Err(Error::invalid_input("max_page_bytes must be greater than 0, got 0")),
            Some(bytes) => bytes,
            None => options.max_page_bytes,
        };
        let target = Target { store, path, options, durability: params.durability };
        let state = match schema {
            None => State::Waiting(target, Vec::new(), Vec::new()),
            Some(schema) => {
                crate::runtime::blocking(move || target.begin(&schema, Vec::new(), Vec::new())).await?
            }
        };
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Appends the rows of a batch. Columns are found by name; columns the schema does not have are left out.
    ///
    /// Errors: `SchemaMismatch` for a missing column, after which the writer can go on; `SchemaMismatch` for another
    /// type and for nulls where there must not be any, and `Store`, after which it cannot.
    pub async fn write(&self, batch: RecordBatch) -> Result<()> {
        self.on_a_thread(move |state| {
            if matches!(state, State::Waiting(..)) {
                let State::Waiting(target, metadata, buffers) = std::mem::replace(state, State::Failed)
                else {
                    return Err(closed());
                };
                *state = target.begin(&batch.schema(), metadata, buffers)?;
            }
            match state {
                State::Waiting(..) => Ok(()),
                State::Writing(writer, _) => {
                    if let Some(missing) =
                        writer.schema().fields.iter().find(|f| batch.column_by_name(&f.name).is_none())
                    {
                        return Err(Error::schema_mismatch(format!(
                            "Cannot write batch.  The batch was missing the column `{}`",
                            missing.name
                        )));
                    }
                    writer.write(&json::stored_batch(&batch)?)
                }
                State::Done | State::Failed => Err(closed()),
            }
        })
        .await
    }

    /// Sets a key of the schema's metadata.
    pub fn add_schema_metadata(&self, key: String, value: String) -> Result<()> {
        match &mut *self.lock() {
            State::Waiting(_, metadata, _) => metadata.push((key, value)),
            State::Writing(writer, _) => writer.add_schema_metadata(key, value),
            State::Done | State::Failed => return Err(closed()),
        }
        Ok(())
    }

    /// Stores bytes next to the rows. Returns their index among the global buffers, 1 or more.
    pub async fn add_global_buffer(&self, bytes: Bytes) -> Result<u32> {
        self.on_a_thread(move |state| match state {
            State::Waiting(_, _, buffers) => {
                buffers.push(bytes);
                u32::try_from(buffers.len()).map_err(|_| Error::unsupported("too many global buffers"))
            }
            State::Writing(writer, _) => writer.add_global_buffer(&bytes),
            State::Done | State::Failed => Err(closed()),
        })
        .await
    }

    /// Completes the file and gives it its name.
    ///
    /// Errors: `InvalidInput` if the schema is still not known or an earlier write failed; `Store`.
    pub async fn finish(&self) -> Result<FileSummary> {
        self.on_a_thread(|state| match std::mem::replace(state, State::Failed) {
            State::Waiting(..) => Err(Error::invalid_input(
                "No schema provided on writer open and no data provided.  Schema is unknown and file cannot be created",
            )),
            State::Writing(writer, durability) => {
                let (finished, sink) = writer.finish()?;
                sink.finish(durability)?;
                *state = State::Done;
                Ok(FileSummary { rows: finished.rows, size: finished.size })
            }
            State::Done | State::Failed => Err(closed()),
        })
        .await
    }

    /// Gives the file up: nothing is left of it.
    pub async fn abandon(&self) -> Result<()> {
        self.on_a_thread(|state| {
            *state = State::Failed;
            Ok(())
        })
        .await
    }

    async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let this = self.clone();
        crate::runtime::blocking(move || work(&mut this.lock())).await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A writer that panicked has marked itself as failed before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    fn begin(
        self,
        schema: &ArrowSchema,
        metadata: Vec<(String, String)>,
        buffers: Vec<Bytes>,
    ) -> Result<State> {
        let schema = Schema::from_arrow(schema)?;
        let sink = self.store.replacing_sink(&self.path, self.durability)?;
        let mut writer = FileWriter::try_new(sink, schema, self.options)?;
        metadata.into_iter().for_each(|(key, value)| writer.add_schema_metadata(key, value));
        for bytes in buffers {
            writer.add_global_buffer(&bytes)?;
        }
        Ok(State::Writing(Box::new(writer), self.durability))
    }
}

fn closed() -> Error {
    Error::invalid_input("The data file is closed, or an earlier write to it failed")
}
