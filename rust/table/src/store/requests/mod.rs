//! All requests to one store: within a budget, not waited for longer than a deadline, and some of them made again.
//!
//! | file | what |
//! |---|---|
//! | `mod` | [`Requests`], a store around the client of a store |
//! | `budget` | permits for requests and bytes |
//! | `limits` | the settings |
//! | `streams` | listings and deletions: many requests each |
//! | `tries` | what the client sends for a request |
//!
//! | request | made again |
//! |---|---|
//! | reads, listings | yes |
//! | puts that replace, copies that replace, deletions, beginning of an upload | yes: names are unique, and twice is as good as once |
//! | puts of what must be absent, parts and completion of an upload | no: whoever waits must find out what became of it |
//!
//! Clients of clouds make requests again themselves, with growing pauses; what they tried twice is not tried again here.
//! What they do not: bodies that break off where the store gives no e-tag, answers that make no sense, and hangs that
//! their own timeout does not end. A request is signed for each try, with credentials that were renewed if they had to.
//!
//! Invariant: nobody who has a permit waits for another request. So permits are only taken here, and bodies are read
//! before they are handed on.

mod budget;
mod limits;
mod streams;
mod tries;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};
use tracing::debug;

use self::budget::Budget;
pub(super) use self::limits::Patience;
pub use self::limits::RequestLimits;
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
pub(super) use self::tries::CountingConnector;
use self::tries::Tries;
use crate::runtime::{self, Counter, Metrics};

/// The length of an answer that is not known before it comes.
const ASSUMED: u64 = 1 << 20;
/// Pause before a request is made again, and as much again at random.
const PAUSE: Duration = Duration::from_millis(20);

/// A client and what may be asked of it at a time.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    budget: Budget,
    patience: Patience,
    /// How long an answer, or the next piece of it, is waited for.
    deadline: Duration,
}

impl Client {
    /// The limits must have been checked.
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        limits: RequestLimits,
        patience: Patience,
        deadline: Duration,
    ) -> Arc<Self> {
        Arc::new(Self { store, budget: Budget::new(limits), patience, deadline })
    }
}

/// The store that a client is for, as one session uses it.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    client: Arc<Client>,
    metrics: Arc<Metrics>,
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.store.fmt(f)
    }
}

/// One try of a request.
type Try<'a, T> = BoxFuture<'a, Result<T>>;

impl Requests {
    pub(super) fn new(client: Arc<Client>, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics }
    }

    /// Makes a request of so many bytes, and again if that may help and is allowed.
    async fn request<'a, T>(
        &self,
        path: &Path,
        bytes: u64,
        mut retries: u32,
        request: impl Fn() -> Try<'a, T>,
    ) -> Result<T> {
        loop {
            let permit = self.client.budget.acquire(bytes).await?;
            let tries = Arc::<Tries>::default();
            let answer = self.attempt(path, &tries, request()).await;
            drop(permit);
            match answer {
                Err(error) if retries > 0 && tries.retries() == 0 && may_pass(&error) => {
                    retries -= 1;
                    self.pause(path, &error).await;
                }
                answer => return answer,
            }
        }
    }

    /// Waits for an answer, but not longer than the deadline. What the client sent for it is counted.
    async fn attempt<T>(
        &self,
        path: &Path,
        tries: &Arc<Tries>,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let before = tries.retries();
        let answer = tries.count(runtime::within(self.client.deadline, request)).await;
        let retries = tries.retries().saturating_sub(before);
        if retries > 0 {
            self.metrics.add(Counter::RequestRetries, retries);
        }
        answer.unwrap_or_else(|| Err(self.late(path)))
    }

    /// Counts a request that is made again, and lets some time pass.
    async fn pause(&self, path: &Path, error: &Error) {
        debug!(path = path.as_ref(), %error, "a request is made again");
        self.metrics.add(Counter::RequestRetries, 1);
        runtime::pause(PAUSE).await;
    }

    fn late(&self, path: &Path) -> Error {
        let why = format!("{path}: no answer within {}", humantime::format_duration(self.client.deadline));
        Error::Generic { store: "deadline", source: why.into() }
    }

    /// One try of a read, to the last byte.
    async fn read(
        &self,
        path: &Path,
        tries: &Arc<Tries>,
        options: GetOptions,
        bytes: u64,
    ) -> Result<GetResult> {
        let client = &self.client;
        let mut permit = client.budget.acquire(bytes).await?;
        let is_head = options.head;
        let answer = self.attempt(path, tries, client.store.get_opts(path, options)).await?;
        if is_head {
            return Ok(answer);
        }
        let (meta, range, attributes) =
            (answer.meta.clone(), answer.range.clone(), answer.attributes.clone());
        let length = range.end.saturating_sub(range.start);
        client.budget.extend(&mut permit, length);
        let mut pieces = Vec::new();
        let (mut found, mut body) = (0_u64, answer.into_stream());
        while let Some(piece) = self.attempt(path, tries, async { body.next().await.transpose() }).await? {
            found = found.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            pieces.push(piece);
        }
        if found != length {
            let why = format!("{path}: found {found} bytes of an answer of {length}");
            return Err(Error::Generic { store: "body", source: why.into() });
        }
        let payload = GetResultPayload::Stream(stream::iter([Ok(joined(pieces))]).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }
}

/// The pieces of a body, copied only if there are several.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() < 2 {
        return pieces.pop().unwrap_or_default();
    }
    let mut joined = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| joined.extend_from_slice(piece));
    joined.freeze()
}

/// Whether a request that ended like this may end otherwise the next time.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::NotFound { .. }
        | Error::AlreadyExists { .. }
        | Error::Precondition { .. }
        | Error::NotModified { .. }
        | Error::PermissionDenied { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => false,
        Error::Unauthenticated { .. } => true,
        // A store that answers "4xx" found the request wrong, unless it was too much or signed too long ago.
        error => {
            let text = error.to_string();
            !text.contains("status code: 4")
                || ["status code: 408", "status code: 429", "ExpiredToken"].iter().any(|at| text.contains(at))
        }
    }
}

#[async_trait]
impl ObjectStore for Requests {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let retries = if options.mode == PutMode::Overwrite { self.client.patience.write_retries } else { 0 };
        let put = || self.client.store.put_opts(path, payload.clone(), options.clone());
        self.request(path, length(&payload), retries, put).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = || self.client.store.put_multipart_opts(path, options.clone());
        let inner = self.request(path, 0, self.client.patience.write_retries, begin).await?;
        Ok(Box::new(Upload { inner, requests: self.clone(), path: path.clone() }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let bytes = match &options.range {
            _ if options.head => 0,
            Some(GetRange::Bounded(range)) => range.end.saturating_sub(range.start),
            Some(GetRange::Suffix(length)) => *length,
            Some(GetRange::Offset(_)) | None => ASSUMED,
        };
        let mut retries = self.client.patience.read_retries;
        loop {
            let tries = Arc::<Tries>::default();
            match self.read(path, &tries, options.clone(), bytes).await {
                Err(error) if retries > 0 && tries.retries() == 0 && may_pass(&error) => {
                    retries -= 1;
                    self.pause(path, &error).await;
                }
                answer => return answer,
            }
        }
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        streams::delete(self.clone(), paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        streams::list(self.clone(), prefix.cloned())
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let at = prefix.cloned().unwrap_or_default();
        let list = || self.client.store.list_with_delimiter(prefix);
        self.request(&at, 0, self.client.patience.read_retries, list).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let retries = match options.mode {
            CopyMode::Overwrite => self.client.patience.write_retries,
            CopyMode::Create => 0,
        };
        let copy = || self.client.store.copy_opts(from, to, options.clone());
        self.request(from, 0, retries, copy).await
    }
}

fn length(payload: &PutPayload) -> u64 {
    u64::try_from(payload.content_length()).unwrap_or(u64::MAX)
}

/// An upload in parts.
#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    requests: Requests,
    path: Path,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (bytes, requests, path) = (length(&payload), self.requests.clone(), self.path.clone());
        let part = self.inner.put_part(payload);
        async move {
            let _permit = requests.client.budget.acquire(bytes).await?;
            requests.attempt(&path, &Arc::default(), part).await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let _permit = self.requests.client.budget.acquire(0).await?;
        self.requests.attempt(&self.path, &Arc::default(), self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let _permit = self.requests.client.budget.acquire(0).await?;
        self.requests.attempt(&self.path, &Arc::default(), self.inner.abort()).await
    }
}
