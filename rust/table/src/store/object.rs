//! Everything behind an `object_store` client: memory and clouds.

use std::collections::HashSet;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload,
};
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, EndSource, VerifyReads};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::{Instrument, trace_span, warn};

use super::types::check_length;
use super::{Durability, FileEnd, FileInfo, ListedFile, Sink, Uploads};
use crate::runtime::{self, Metrics, waiting};

/// Ranges closer than this are one request.
const COALESCE: u64 = 64 * 1024;
/// A request asks for so many bytes at most: of more, several at a time come faster.
const MOST: u64 = 4 << 20;
/// Size of the parts of a large upload; 10,000 of them are allowed.
const PART: usize = 16 << 20;
/// Parts on their way at a time.
const PARTS_IN_FLIGHT: usize = 4;
/// Deletions asked for at a time.
const LISTED: usize = 1000;

pub(super) type StoreResult<T> = Result<T, object_store::Error>;

#[derive(Debug, Clone)]
pub(super) struct ObjectBackend {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Whether calls return without waiting for anything, so that no runtime is needed.
    immediate: bool,
    verify_reads: VerifyReads,
    metrics: Arc<Metrics>,
}

impl ObjectBackend {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        immediate: bool,
        verify_reads: VerifyReads,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        let prefix = Path::parse(prefix)
            .map_err(|e| Error::invalid_input(format!("Cannot use the path {prefix:?}: {e}")))?;
        Ok(Self { store, prefix, immediate, verify_reads, metrics })
    }

    /// The path of the table's root.
    pub(super) fn prefix(&self) -> &str {
        self.prefix.as_ref()
    }

    fn path(&self, path: &str) -> Path {
        path.split('/').filter(|part| !part.is_empty()).fold(self.prefix.clone(), |at, part| at.join(part))
    }

    pub(super) async fn get(&self, path: &str) -> StoreResult<Bytes> {
        let bytes = self.store.get(&self.path(path)).await?.bytes().await?;
        self.metrics.add_read(bytes.len());
        Ok(bytes)
    }

    pub(super) async fn get_range(&self, path: &str, range: Range<u64>) -> StoreResult<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        get_range(&self.store, &self.path(path), range, &self.metrics).await
    }

    /// Waits for a call on this thread: use it on a blocking one.
    pub(super) fn wait<T>(&self, call: impl Future<Output = T>) -> Result<T> {
        wait(self.immediate, call)
    }

    pub(super) async fn get_tail(&self, path: &str, length: u64) -> StoreResult<(Bytes, u64)> {
        let end = self.get_end(path, length, None).await?;
        Ok(end.map_or_else(Default::default, |end| (end.bytes, end.info.size)))
    }

    /// `None` if the content still has the e-tag.
    pub(super) async fn get_end(
        &self,
        path: &str,
        length: u64,
        e_tag: Option<&str>,
    ) -> StoreResult<Option<FileEnd>> {
        let options = GetOptions {
            range: Some(GetRange::Suffix(length)),
            if_none_match: e_tag.map(str::to_owned),
            ..GetOptions::default()
        };
        let path = self.path(path);
        match self.store.get_opts(&path, options).await {
            Ok(result) => {
                let info = file_info(&result.meta);
                let bytes = result.bytes().await?;
                self.metrics.add_read(bytes.len());
                Ok(Some(FileEnd { bytes, info }))
            }
            Err(object_store::Error::NotModified { .. }) => {
                self.metrics.add_read(0);
                Ok(None)
            }
            // An empty object has no suffix, and Azure has no suffix requests.
            Err(object_store::Error::NotFound { path, source }) => {
                Err(object_store::Error::NotFound { path, source })
            }
            Err(_) => {
                self.metrics.add_read(0);
                let info = file_info(&self.store.head(&path).await?);
                let tail = info.size.saturating_sub(length)..info.size;
                let bytes = match tail.is_empty() {
                    true => Bytes::new(),
                    false => get_range(&self.store, &path, tail, &self.metrics).await?,
                };
                Ok(Some(FileEnd { bytes, info }))
            }
        }
    }

    pub(super) async fn info(&self, path: &str) -> StoreResult<Option<FileInfo>> {
        self.metrics.add_read(0);
        match self.store.head(&self.path(path)).await {
            Ok(meta) => Ok(Some(file_info(&meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) async fn list(&self, directory: &str) -> StoreResult<Vec<String>> {
        self.metrics.add_read(0);
        let listing = self.store.list_with_delimiter(Some(&self.path(directory))).await?;
        Ok(listing.objects.iter().filter_map(|o| o.location.filename().map(str::to_owned)).collect())
    }

    pub(super) async fn list_below(&self, directory: &str) -> StoreResult<Vec<ListedFile>> {
        self.metrics.add_read(0);
        let mut listing = self.store.list(Some(&self.path(directory)));
        let mut found = Vec::new();
        while let Some(object) = listing.try_next().await? {
            let Some(parts) = object.location.prefix_match(&self.prefix) else { continue };
            let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
            let time = object.last_modified;
            let modified = Timestamp { seconds: time.timestamp(), nanos: time.timestamp_subsec_nanos() };
            found.push(ListedFile { path: parts.join("/"), size: object.size, modified });
        }
        Ok(found)
    }

    pub(super) async fn list_first<T>(
        &self,
        directory: &str,
        accept: impl Fn(&str) -> Option<T>,
    ) -> StoreResult<Option<T>> {
        self.metrics.add_read(0);
        let mut listing = self.store.list(Some(&self.path(directory)));
        while let Some(object) = listing.try_next().await? {
            if let Some(found) = object.location.filename().and_then(&accept) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(super) async fn put(&self, path: &str, bytes: Bytes) -> StoreResult<()> {
        self.metrics.add_write(bytes.len());
        self.store.put(&self.path(path), PutPayload::from_bytes(bytes)).await.map(drop)
    }

    pub(super) async fn put_if_absent(&self, path: &str, bytes: Bytes) -> StoreResult<bool> {
        self.metrics.add_write(bytes.len());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.path(path), PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    pub(super) async fn copy(&self, from: &str, to: &str) -> StoreResult<()> {
        self.metrics.add_write(0);
        self.store.copy(&self.path(from), &self.path(to)).await
    }

    pub(super) async fn delete(&self, path: &str) -> StoreResult<()> {
        self.metrics.add_write(0);
        match self.store.delete(&self.path(path)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    /// What became of each file, in their order.
    pub(super) async fn delete_many(&self, paths: &[String]) -> Vec<StoreResult<()>> {
        let locations: Vec<Path> = paths.iter().map(|path| self.path(path)).collect();
        for _ in locations.chunks(LISTED) {
            self.metrics.add_write(0);
        }
        let asked = futures::stream::iter(locations.clone().into_iter().map(Ok)).boxed();
        let mut answers = self.store.delete_stream(asked);
        let (mut deleted, mut errors) = (HashSet::new(), Vec::new());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(path) => drop(deleted.insert(path)),
                Err(object_store::Error::NotFound { path, .. }) => drop(deleted.insert(Path::from(path))),
                Err(error) => errors.push(error),
            }
        }
        // A request that failed is one error for all of its files.
        let mut errors = errors.into_iter();
        let failed = || object_store::Error::Generic { store: "delete", source: "it was not deleted".into() };
        let result = |path: &Path| match deleted.contains(path) {
            true => Ok(()),
            false => Err(errors.next().unwrap_or_else(failed)),
        };
        locations.iter().map(result).collect()
    }

    /// Removes files some time, or never.
    pub(super) fn discard(&self, paths: Vec<String>) {
        if paths.is_empty() {
            return;
        }
        let backend = self.clone();
        let discard = async move {
            for (path, result) in paths.iter().zip(backend.delete_many(&paths).await) {
                if let Err(error) = result {
                    warn!(path, %error, "a file was not removed: cleanup will");
                }
            }
        };
        detach(self.immediate, None, discard.boxed());
    }

    pub(super) async fn delete_all(&self) -> StoreResult<bool> {
        let mut found = false;
        let mut listing = self.store.list(Some(&self.prefix)).map_ok(|meta| meta.location).chunks(LISTED);
        while let Some(chunk) = listing.next().await {
            found = true;
            self.metrics.add_write(0);
            let paths = futures::stream::iter(chunk).boxed();
            self.store.delete_stream(paths).try_for_each(|_| async { Ok(()) }).await?;
        }
        Ok(found)
    }

    pub(super) fn source(&self, path: &str, name: String, size: Option<u64>) -> Arc<dyn ByteSource> {
        Arc::new(self.object_source(path, name, size))
    }

    fn object_source(&self, path: &str, name: String, size: Option<u64>) -> ObjectSource {
        ObjectSource {
            store: Arc::clone(&self.store),
            path: self.path(path),
            name,
            size,
            immediate: self.immediate,
            verify_reads: self.verify_reads,
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// Files with their sizes, if these are known, and with so many of their last bytes in memory; each has a name.
    pub(super) fn sources_with_ends(
        &self,
        files: Vec<(String, Option<u64>, u64)>,
        name: impl Fn(&str) -> String,
    ) -> Result<Vec<Arc<dyn ByteSource>>> {
        let open = |(path, size, wanted): (String, Option<u64>, u64)| {
            (self.object_source(&path, name(&path), size), size, wanted)
        };
        let read = |(source, size, wanted): (ObjectSource, Option<u64>, u64)| async move {
            let Some(size) = size else { return Ok(Arc::new(source) as Arc<dyn ByteSource>) };
            let range = size.saturating_sub(wanted)..size;
            let end = source.fetch(&range).await.map_err(|e| error(&source.name, e))?;
            let end = check_length(&source.name, &range, range.end - range.start, end)?;
            Ok(Arc::new(EndSource::new(Arc::new(source), range.start, end)) as Arc<dyn ByteSource>)
        };
        wait(self.immediate, try_join_all(files.into_iter().map(open).map(read)))?
    }

    pub(super) fn sink(&self, path: &str, name: String) -> Result<Box<dyn Sink>> {
        Ok(Box::new(ObjectSink {
            store: Arc::clone(&self.store),
            path: self.path(path),
            name,
            immediate: self.immediate,
            metrics: Arc::clone(&self.metrics),
            buffer: Vec::new(),
            upload: None,
            runtime: Handle::try_current().ok().filter(|_| !runtime::is_single_threaded()),
            parts: Vec::new(),
        }))
    }
}

fn file_info(meta: &ObjectMeta) -> FileInfo {
    let modified = meta.last_modified;
    let e_tag = meta.e_tag.clone();
    FileInfo {
        size: meta.size,
        stamp: e_tag.clone().unwrap_or_else(|| modified.timestamp_micros().to_string()),
        e_tag,
        changed: Timestamp { seconds: modified.timestamp(), nanos: modified.timestamp_subsec_nanos() },
    }
}

/// The bytes of a range, fewer if the file ends before. Stores say in many ways that a range begins behind the end: the
/// answer then is what is there, nothing.
async fn get_range(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    range: Range<u64>,
    metrics: &Metrics,
) -> StoreResult<Bytes> {
    match store.get_range(path, range.clone()).await {
        Ok(bytes) => {
            metrics.add_read(bytes.len());
            Ok(bytes)
        }
        Err(error @ object_store::Error::NotFound { .. }) => Err(error),
        Err(error) => {
            metrics.add_read(0);
            if store.head(path).await?.size <= range.start { Ok(Bytes::new()) } else { Err(error) }
        }
    }
}

/// An object store's error with the file it is about.
pub(super) fn error(name: &str, error: object_store::Error) -> Error {
    let typed = match &error {
        object_store::Error::NotFound { .. } => Error::not_found(format!("Not found: {name}")),
        object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => {
            Error::unsupported(format!("{name}: {error}"))
        }
        _ => Error::store(format!("{name}: {error}")),
    };
    typed.concerning(name).with_source(error)
}

/// Lets a future come to its end without waiting for it: now, if it has nothing to wait for, else on the runtime. Where
/// there is none it is given up.
fn detach(immediate: bool, runtime: Option<&Handle>, mut future: BoxFuture<'static, ()>) {
    let current = Handle::try_current().ok();
    let runtime = runtime.or(current.as_ref());
    let _context = runtime.map(Handle::enter);
    if immediate && (&mut future).now_or_never().is_some() {
        return;
    }
    match runtime {
        Some(runtime) => drop(runtime.spawn(future)),
        None => warn!("files or parts of uploads were not removed, since no runtime is left: cleanup will"),
    }
}

/// Waits on a blocking thread.
fn wait<T>(immediate: bool, future: impl Future<Output = T>) -> Result<T> {
    if immediate {
        return Ok(futures::executor::block_on(future));
    }
    let handle = Handle::try_current()
        .map_err(|_| Error::internal("a remote file is read outside the runtime's blocking threads"))?;
    Ok(waiting(|| handle.block_on(future)))
}

/// Ranges that are read in one go.
pub(super) struct Group<'a> {
    /// From the first to the last byte of all.
    pub(super) span: Range<u64>,
    ranges: &'a [Range<u64>],
}

impl Group<'_> {
    /// The parts of the span's bytes, one per range.
    pub(super) fn split(&self, bytes: &Bytes, out: &mut Vec<Bytes>) {
        let offset =
            |position: u64| usize::try_from(position.saturating_sub(self.span.start)).unwrap_or(usize::MAX);
        for range in self.ranges {
            let end = offset(range.end).min(bytes.len());
            out.push(bytes.slice(offset(range.start).min(end)..end));
        }
    }
}

/// Joins neighbouring ranges that lie, in order, within `gap` bytes of each other.
pub(super) fn coalesce(ranges: &[Range<u64>], gap: u64) -> impl Iterator<Item = Group<'_>> {
    let mut rest = ranges;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut span = first.clone();
        let mut count = 1;
        for next in rest.iter().skip(1) {
            if next.start < span.start || next.start > span.end.saturating_add(gap) {
                break;
            }
            span.end = span.end.max(next.end);
            count += 1;
        }
        let (ranges, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(Group { span, ranges })
    })
}

#[derive(Debug)]
struct ObjectSource {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    size: Option<u64>,
    immediate: bool,
    verify_reads: VerifyReads,
    metrics: Arc<Metrics>,
}

impl ObjectSource {
    /// The bytes of a range, with several requests at a time if it is long; fewer if the file ends before.
    async fn fetch(&self, range: &Range<u64>) -> StoreResult<Bytes> {
        let request = |range: Range<u64>| {
            let span = trace_span!("read", path = self.name, ?range);
            get_range(&self.store, &self.path, range, &self.metrics).instrument(span)
        };
        let length = range.end.saturating_sub(range.start);
        match length {
            0 => Ok(Bytes::new()),
            1..=MOST => request(range.clone()).await,
            _ => {
                let starts = (range.start..range.end).step_by(usize::try_from(MOST).unwrap_or(usize::MAX));
                let parts = starts.map(|start| request(start..range.end.min(start.saturating_add(MOST))));
                let parts: Vec<Bytes> = try_join_all(parts).await?;
                let mut joined = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
                parts.iter().for_each(|part| joined.extend_from_slice(part));
                Ok(joined.freeze())
            }
        }
    }
}

impl ByteSource for ObjectSource {
    fn size(&self) -> Result<u64> {
        match self.size {
            Some(size) => Ok(size),
            None => {
                self.metrics.add_read(0);
                let meta = wait(self.immediate, self.store.head(&self.path))?;
                meta.map(|meta| meta.size).map_err(|e| error(&self.name, e))
            }
        }
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let groups: Vec<Group<'_>> = coalesce(ranges, COALESCE).collect();
        let fetched = try_join_all(groups.iter().map(|group| self.fetch(&group.span)));
        let fetched = wait(self.immediate, fetched)?.map_err(|e| error(&self.name, e))?;
        let mut parts = Vec::with_capacity(ranges.len());
        for (group, bytes) in groups.iter().zip(fetched) {
            let expected = group.span.end.saturating_sub(group.span.start);
            let bytes = check_length(&self.name, &group.span, expected, bytes)?;
            group.split(&bytes, &mut parts);
        }
        Ok(parts)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn verify_reads(&self) -> VerifyReads {
        self.verify_reads
    }
}

/// Collects parts and uploads them while the encoder continues; small files are one put.
struct ObjectSink {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    immediate: bool,
    metrics: Arc<Metrics>,
    buffer: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
    /// The runtime of the thread that began the file, if tasks of their own may run there.
    runtime: Option<Handle>,
    parts: Vec<JoinHandle<StoreResult<()>>>,
}

impl ObjectSink {
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
        if self.immediate {
            return wait(true, sent)?.map_err(|e| error(&name, e));
        }
        while self.parts.len() >= PARTS_IN_FLIGHT {
            let oldest = self.parts.remove(0);
            Self::arrived(&name, oldest)?;
        }
        self.parts.push(Handle::current().spawn(sent));
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
        for part in std::mem::take(&mut self.parts) {
            Self::arrived(&self.name, part)?;
        }
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
        let abort = async move {
            if let Err(error) = upload.abort().await {
                warn!(path = name, %error, "an upload that was given up was not aborted: the store keeps its parts");
            }
        };
        detach(self.immediate, self.runtime.as_ref(), abort.boxed());
    }
}
