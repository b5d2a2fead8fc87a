//! Everything behind an `object_store` client: memory and clouds.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, EndSource, VerifyReads};
use tokio::runtime::Handle;
use tracing::{Instrument, trace_span, warn};

use super::types::check_length;
use super::{Created, FileEnd, FileInfo, ListedFile};
use crate::runtime::{self, Metrics, waiting};

/// Ranges closer than this are one request.
const COALESCE: u64 = 64 * 1024;
/// A request asks for so many bytes at most: of more, several at a time come faster.
const MOST: u64 = 4 << 20;
/// What stores and their clients say of a suffix that they do not give.
const SUFFIX_REFUSED: [&str; 5] = [
    "416 Range Not Satisfiable",
    "InvalidRange",
    "Wanted range starting at",
    "Range started at",
    "non-partial response",
];
/// Reasons that are given for files whose deletions failed together.
const MOST_REASONS: usize = 3;
/// Deletions asked for at a time.
const LISTED: usize = 1000;
/// Files of a page of a listing, at least.
const PAGE: usize = 1000;
/// Pauses before a put is made again that was refused although there is no file of its name.
const REFUSED: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(320),
    Duration::from_millis(1280),
];

pub(super) type StoreResult<T> = Result<T, object_store::Error>;

#[derive(Debug, Clone)]
pub(super) struct ObjectBackend {
    pub(super) store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Whether calls return without waiting for anything, so that no runtime is needed.
    pub(super) immediate: bool,
    verify_reads: VerifyReads,
    pub(super) metrics: Arc<Metrics>,
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

    pub(super) fn path(&self, path: &str) -> Path {
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
            Err(error) if !refuses_suffix(&error) => Err(error),
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

    pub(super) async fn list(&self, directory: &str) -> StoreResult<Vec<(String, FileInfo)>> {
        self.metrics.add_read(0);
        let listing = self.store.list_with_delimiter(Some(&self.path(directory))).await?;
        let named = |object: &ObjectMeta| Some((object.location.filename()?.to_owned(), file_info(object)));
        Ok(listing.objects.iter().filter_map(named).collect())
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

    /// The first name that `accept` takes, and what the page of the listing that has it says of the file `also`.
    pub(super) async fn list_first<T>(
        &self,
        directory: &str,
        accept: impl Fn(&str) -> Option<T>,
        also: Option<&str>,
    ) -> StoreResult<(Option<T>, Option<FileInfo>)> {
        self.metrics.add_read(0);
        let mut listing = self.store.list(Some(&self.path(directory)));
        let (mut first, mut seen) = (None, 0);
        while let Some(object) = listing.try_next().await? {
            let Some(name) = object.location.filename() else { continue };
            seen += 1;
            first = first.or_else(|| accept(name));
            match also {
                Some(also) if also == name => return Ok((first, Some(file_info(&object)))),
                Some(also) if name < also && seen < PAGE => {}
                _ if first.is_some() => break,
                _ => {}
            }
        }
        Ok((first, None))
    }

    pub(super) async fn put(&self, path: &str, bytes: Bytes) -> StoreResult<()> {
        self.metrics.add_write(bytes.len());
        self.store.put(&self.path(path), PutPayload::from_bytes(bytes)).await.map(drop)
    }

    /// Puts a file unless there is one of its name. S3 also refuses a put while another request for the name is being
    /// served: where no file is there afterwards, the put is made again.
    ///
    /// Errors: retryable `Conflict` if every put was refused so, and nothing was written; those of the put.
    pub(super) async fn create(&self, path: &str, name: &str, bytes: Bytes) -> Result<Created> {
        let mut pauses = REFUSED.iter();
        loop {
            self.metrics.add_write(bytes.len());
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let payload = PutPayload::from_bytes(bytes.clone());
            let refused = match self.store.put_opts(&self.path(path), payload, options).await {
                Ok(put) => return Ok(Created::New { e_tag: put.e_tag }),
                Err(
                    refused @ (object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. }),
                ) => refused,
                Err(e) => return Err(error(name, e)),
            };
            // What cannot be looked up is taken, as the store says. Memory is always right.
            if self.immediate || !matches!(self.info(path).await, Ok(None)) {
                return Ok(Created::Taken);
            }
            let Some(pause) = pauses.next() else {
                return Err(Error::retryable_conflict(format!(
                    "{name}: the store refused {} puts, but there is no file of that name. Nothing was written: try again",
                    REFUSED.len() + 1
                ))
                .concerning(name)
                .with_source(refused));
            };
            warn!(path = name, error = %refused, "a put was refused, but there is no file of its name: it is made again");
            runtime::pause(*pause).await;
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
        // Errors come in the order of what was asked, or in that of their paths: here the two are one.
        let sorted: BTreeSet<Path> = locations.iter().cloned().collect();
        let asked = futures::stream::iter(sorted.clone().into_iter().map(Ok)).boxed();
        let mut answers = self.store.delete_stream(asked);
        let (mut left, mut errors) = (sorted, Vec::new());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(path) => drop(left.remove(&path)),
                Err(object_store::Error::NotFound { path, .. }) => drop(left.remove(&Path::from(path))),
                Err(error) => errors.push(error),
            }
        }
        let mut failed = errors_by_path(left, errors);
        locations.iter().map(|path| failed.remove(path).map_or(Ok(()), Err)).collect()
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
            let end = check_length(&source.name, &range, end)?;
            Ok(Arc::new(EndSource::new(Arc::new(source), range.start, end)) as Arc<dyn ByteSource>)
        };
        wait(self.immediate, try_join_all(files.into_iter().map(open).map(read)))?
    }
}

/// The error of each file that was not deleted. Errors name their file, or come in the order of the files; where there are
/// fewer than files, requests for many of them failed, and each file has all that was said.
fn errors_by_path(
    mut left: BTreeSet<Path>,
    errors: Vec<object_store::Error>,
) -> HashMap<Path, object_store::Error> {
    let mut found = HashMap::with_capacity(left.len());
    let mut nameless = Vec::new();
    for error in errors {
        match named(&error).and_then(|path| left.take(&path)) {
            Some(path) => drop(found.insert(path, error)),
            None => nameless.push(error),
        }
    }
    if left.len() == nameless.len() {
        found.extend(left.into_iter().zip(nameless));
        return found;
    }
    let mut said: Vec<String> = nameless.iter().map(ToString::to_string).collect();
    said.sort_unstable();
    said.dedup();
    said.truncate(MOST_REASONS);
    let said = if said.is_empty() { "it was not deleted".to_owned() } else { said.join("; ") };
    let error = || object_store::Error::Generic { store: "delete", source: said.as_str().into() };
    found.extend(left.into_iter().map(|path| (path, error())));
    found
}

/// The file that an error is about, if it says so.
fn named(error: &object_store::Error) -> Option<Path> {
    use object_store::Error::{AlreadyExists, PermissionDenied, Precondition, Unauthenticated};
    match error {
        PermissionDenied { path, .. } | Unauthenticated { path, .. } => Some(Path::from(path.as_str())),
        Precondition { path, .. } | AlreadyExists { path, .. } => Some(Path::from(path.as_str())),
        _ => None,
    }
}

/// Whether a store does not give the last bytes of an object for what was asked, and its size has to be known first: an
/// empty object has no suffix, Azure has no such requests, and some stores answer them with the whole object. `object_store`
/// has no type for two of these.
fn refuses_suffix(error: &object_store::Error) -> bool {
    match error {
        object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => true,
        object_store::Error::Generic { source, .. } => {
            let said = source.to_string();
            SUFFIX_REFUSED.iter().any(|reason| said.contains(reason))
        }
        _ => false,
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
pub(super) fn detach(immediate: bool, runtime: Option<&Handle>, mut future: BoxFuture<'static, ()>) {
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
pub(super) fn wait<T>(immediate: bool, future: impl Future<Output = T>) -> Result<T> {
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
    pub(super) immediate: bool,
    verify_reads: VerifyReads,
    pub(super) metrics: Arc<Metrics>,
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
            let bytes = check_length(&self.name, &group.span, bytes)?;
            group.split(&bytes, &mut parts);
        }
        Ok(parts)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        false
    }

    fn verify_reads(&self) -> VerifyReads {
        self.verify_reads
    }
}
