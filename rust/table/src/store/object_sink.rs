//! A new file of an object store.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use futures::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use pennon_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::{Instrument, trace_span, warn};

use super::object::{ObjectBackend, StoreResult, detach, error, wait};
use super::{Durability, Sink, Uploads};
use crate::runtime::{self, Metrics};

/// Size of the parts of a large upload; 10,000 of them are allowed.
pub(super) const PART: usize = 16 << 20;
/// Parts on their way at a time.
const PARTS_IN_FLIGHT: usize = 4;

/// Collects parts and uploads them while the encoder continues; small files are one put.
pub(super) struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    immediate: bool,
    metrics: Arc<Metrics>,
    buffer: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
    /// The runtime of the thread that began the file, if tasks of their own may run there.
    runtime: Option<Handle>,
    parts: VecDeque<JoinHandle<StoreResult<()>>>,
}

impl ObjectSink {
    /// The file at a path, which `name` names in messages.
    pub(super) fn new(object: &ObjectBackend, path: &str, name: String) -> Self {
        let ObjectBackend { store, immediate, metrics, .. } = object.clone();
        let path = object.path(path);
        let runtime = Handle::try_current().ok().filter(|_| !runtime::is_single_threaded());
        let (buffer, parts) = (Vec::new(), VecDeque::new());
        Self { store, path, name, immediate, metrics, buffer, upload: None, runtime, parts }
    }

    fn send_part(&mut self) -> Result<()> {
        let part = PutPayload::from(std::mem::take(&mut self.buffer));
        let name = self.name.clone();
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                let started = wait(self.immediate, self.store.put_multipart(&self.path))?;
                none.insert(started.map_err(|e| error(&name, e))?)
            }
        };
        self.metrics.add_write(part.content_length());
        let sent = upload.put_part(part);
        let Some(runtime) = self.runtime.clone().filter(|_| !self.immediate) else {
            return wait(self.immediate, sent)?.map_err(|e| error(&name, e));
        };
        self.wait_for_parts(PARTS_IN_FLIGHT - 1)?;
        self.parts.push_back(runtime.spawn(sent));
        Ok(())
    }

    /// Waits until no more than so many parts are on their way.
    fn wait_for_parts(&mut self, most: usize) -> Result<()> {
        while self.parts.len() > most
            && let Some(oldest) = self.parts.pop_front()
        {
            Self::arrived(&self.name, oldest)?;
        }
        Ok(())
    }

    fn arrived(name: &str, part: JoinHandle<StoreResult<()>>) -> Result<()> {
        wait(false, part)?
            .map_err(|e| Error::store(format!("{name}: an upload was given up")).with_source(e))?
            .map_err(|e| error(name, e))
    }
}

impl Write for ObjectSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PART.saturating_sub(self.buffer.len());
        let (taken, _) = bytes.split_at(bytes.len().min(room));
        self.buffer.extend_from_slice(taken);
        if self.buffer.len() >= PART {
            self.send_part().map_err(io::Error::other)?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for ObjectSink {
    fn finish_later(mut self: Box<Self>, durability: Durability) -> Result<Uploads> {
        let Some(runtime) = self.runtime.clone().filter(|_| self.upload.is_none()) else {
            return self.finish(durability).map(|()| Uploads::default());
        };
        let payload = PutPayload::from(std::mem::take(&mut self.buffer));
        let bytes = payload.content_length();
        self.metrics.add_write(bytes);
        let span = trace_span!("put", path = self.name, bytes);
        let (store, path, name) =
            (Arc::clone(&self.store), self.path.clone(), std::mem::take(&mut self.name));
        let put = async move { store.put(&path, payload).await.map(drop).map_err(|e| error(&name, e)) };
        Ok(Uploads::start(&runtime, put.instrument(span)))
    }

    fn finish(mut self: Box<Self>, _: Durability) -> Result<()> {
        if self.upload.is_none() {
            let payload = PutPayload::from(std::mem::take(&mut self.buffer));
            self.metrics.add_write(payload.content_length());
            let span = trace_span!("put", path = self.name, bytes = payload.content_length());
            let put = wait(self.immediate, self.store.put(&self.path, payload).instrument(span))?;
            return put.map(drop).map_err(|e| error(&self.name, e));
        }
        if !self.buffer.is_empty() {
            self.send_part()?;
        }
        self.wait_for_parts(0)?;
        if let Some(upload) = &mut self.upload {
            wait(self.immediate, upload.complete())?.map_err(|e| error(&self.name, e))?;
        }
        self.upload = None;
        Ok(())
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        let name = std::mem::take(&mut self.name);
        let parts = std::mem::take(&mut self.parts);
        let abort = async move {
            // What arrives after the upload was aborted would stay.
            parts.iter().for_each(JoinHandle::abort);
            for part in parts {
                let _ = part.await;
            }
            if let Err(error) = upload.abort().await {
                warn!(path = name, %error, "an upload that was given up was not aborted: the store keeps its parts");
            }
        };
        detach(self.immediate, self.runtime.as_ref(), abort.boxed());
    }
}
