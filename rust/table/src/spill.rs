//! Record batches in temporary files, in the stream form of Arrow's IPC format.
//!
//! A file has no name from the moment it is made: it is removed with its last handle, also after a crash. Several
//! readers may read one file at a time.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use pennon_core::{Error, Result};

/// Rows of a batch in a file, at most: what a reader holds.
pub(crate) const BATCH_ROWS: usize = 8192;

/// A new file without a name. Errors: `Store` with the folder for temporary files if none can be made there.
pub(crate) fn temporary_file() -> Result<File> {
    tempfile::tempfile().map_err(|error| failed(error.into()))
}

/// A file that is being written.
pub(crate) struct Writer {
    writer: StreamWriter<BufWriter<File>>,
}

impl Writer {
    /// Errors: `Store` if there is no room for temporary files.
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let file = temporary_file()?;
        Ok(Self { writer: StreamWriter::try_new(BufWriter::new(file), schema).map_err(failed)? })
    }

    /// Adds rows, in batches of at most [`BATCH_ROWS`].
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            let rows = BATCH_ROWS.min(batch.num_rows() - start);
            self.writer.write(&batch.slice(start, rows)).map_err(failed)?;
        }
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<Spilled> {
        self.writer.finish().map_err(failed)?;
        let buffered = self.writer.into_inner().map_err(failed)?;
        let file = buffered.into_inner().map_err(|e| failed(ArrowError::from(e.into_error())))?;
        Ok(Spilled(Arc::new(file)))
    }
}

/// A file that was written.
#[derive(Debug, Clone)]
pub(crate) struct Spilled(Arc<File>);

impl Spilled {
    /// Its batches, in order.
    pub(crate) fn read(&self) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + use<>> {
        let from_start = Position { file: Arc::clone(&self.0), at: 0 };
        let reader = StreamReader::try_new(BufReader::new(from_start), None).map_err(failed)?;
        Ok(reader.map(|batch| batch.map_err(failed)))
    }
}

/// A position in a file, so that readers do not move each other.
struct Position {
    file: Arc<File>,
    at: u64,
}

impl Read for Position {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

fn failed(error: ArrowError) -> Error {
    Error::store(format!("a temporary file in {}", tempfile::env::temp_dir().display())).with_source(error)
}
