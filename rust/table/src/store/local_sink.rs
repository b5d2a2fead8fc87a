//! A new file of the local disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use pennon_core::Result;
use tracing::trace_span;

use super::disk::{io_error, remove, rename, sync, sync_parent};
use super::{Durability, Sink, trace};
use crate::runtime::Metrics;

/// A new file that is written.
pub(super) struct LocalSink {
    pub(super) file: Option<BufWriter<File>>,
    pub(super) full: PathBuf,
    /// The name that the file gets when it is complete.
    pub(super) target: Option<PathBuf>,
    pub(super) complete: bool,
    pub(super) metrics: Arc<Metrics>,
    pub(super) written: usize,
}

impl LocalSink {
    fn writer(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.file.as_mut().ok_or_else(|| io::Error::other("written to after it was finished"))
    }
}

impl Write for LocalSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer()?.write(bytes)?;
        self.written += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer()?.flush()
    }
}

impl Sink for LocalSink {
    fn finish(mut self: Box<Self>, durability: Durability) -> Result<()> {
        let full = self.full.clone();
        let _span = trace_span!("finish", path = %full.display(), bytes = self.written).entered();
        self.metrics.add_write(self.written);
        let mut flush = || -> io::Result<()> {
            let writer = self.writer()?;
            writer.flush()?;
            trace::written(&full);
            if durability == Durability::Full { sync(writer.get_ref(), &full) } else { Ok(()) }
        };
        flush().map_err(|e| io_error(&self.full, e))?;
        if let Some(target) = &self.target {
            rename(&self.full, target)?;
        }
        sync_parent(&self.full, durability)?;
        self.complete = true;
        Ok(())
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if !self.complete {
            if let Some(writer) = self.file.take() {
                // Without this the buffer would be written out first.
                let _ = writer.into_parts();
            }
            let _ = remove(&self.full);
        }
    }
}
