//! Stores in memory that behave as a test wants them to: they answer late, lose answers, cut bodies, lag behind.
//!
//! What one test needs is a [`Behaviour`] next to it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use pennon_table::Store;

/// What a store is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    Put,
    Create,
    Multipart,
    Get,
    Head,
    List,
    Delete,
    Copy,
}

impl Verb {
    /// Whether it changes something.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Get | Self::Head | Self::List)
    }
}

/// A request.
#[derive(Debug)]
pub struct Request {
    pub verb: Verb,
    pub path: Path,
    /// What is put.
    pub body: Option<PutPayload>,
}

impl Request {
    fn new(verb: Verb, path: &Path) -> Self {
        Self { verb, path: path.clone(), body: None }
    }

    pub fn is_of_manifest(&self) -> bool {
        is_manifest(&self.path)
    }
}

pub fn is_manifest(path: &Path) -> bool {
    path.as_ref().ends_with(".manifest")
}

/// An answer that never came.
pub fn reset() -> Error {
    Error::Generic { store: "test", source: "the connection was reset".into() }
}

/// What a store does with a request.
#[async_trait]
pub trait Behaviour: fmt::Debug + Send + Sync + 'static {
    /// Lets the store do its work, before or after what else happens, or not at all.
    async fn ask(&self, request: &Request, inner: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        let _ = (request, inner);
        work.await
    }

    /// How a put is done.
    fn put_mode(&self, mode: PutMode) -> PutMode {
        mode
    }

    /// What a listing shows.
    fn listed(&self, objects: Vec<ObjectMeta>) -> Vec<ObjectMeta> {
        objects
    }

    /// What arrives of an answer.
    fn answered(&self, request: &Request, answer: GetResult) -> GetResult {
        let _ = request;
        answer
    }
}

/// A store in memory that behaves like that.
#[derive(Debug)]
pub struct Behaving<B> {
    inner: Arc<InMemory>,
    behaviour: Arc<B>,
}

impl<B> Deref for Behaving<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.behaviour
    }
}

impl<B> fmt::Display for Behaving<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Behaving")
    }
}

impl<B: Behaviour> Behaving<B> {
    /// The store of `memory://name`.
    pub fn register(name: &str, behaviour: B) -> Arc<Self> {
        Self::register_with(name, behaviour, InMemory::new())
    }

    /// The store of `memory://name`, in which these objects are.
    pub fn register_with(name: &str, behaviour: B, objects: InMemory) -> Arc<Self> {
        let store = Arc::new(Self { inner: Arc::new(objects), behaviour: Arc::new(behaviour) });
        Store::register_memory(name, Arc::<Self>::clone(&store)).unwrap();
        store
    }

    /// A copy of what is there.
    pub fn objects(&self) -> InMemory {
        self.inner.fork()
    }

    /// The paths of what is there.
    pub fn paths(&self) -> BTreeSet<String> {
        let objects = self.inner.list(None).try_collect::<Vec<_>>().now_or_never().unwrap().unwrap();
        objects.into_iter().map(|object| object.location.to_string()).collect()
    }

    async fn call<T: Send>(
        &self,
        request: &Request,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let mut answer = None;
        let work = async {
            answer = Some(call.await?);
            Ok(())
        };
        self.behaviour.ask(request, &self.inner, work.boxed()).await?;
        answer.ok_or_else(reset)
    }
}

#[async_trait]
impl<B: Behaviour> ObjectStore for Behaving<B> {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let verb = if options.mode == PutMode::Overwrite { Verb::Put } else { Verb::Create };
        let options = PutOptions { mode: self.behaviour.put_mode(options.mode.clone()), ..options };
        let request = Request { body: Some(payload.clone()), ..Request::new(verb, path) };
        self.call(&request, self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let request = Request::new(Verb::Multipart, path);
        self.call(&request, self.inner.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let verb = if options.head { Verb::Head } else { Verb::Get };
        let request = Request::new(verb, path);
        let answer = self.call(&request, self.inner.get_opts(path, options)).await?;
        Ok(self.behaviour.answered(&request, answer))
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, behaviour) = (Arc::clone(&self.inner), Arc::clone(&self.behaviour));
        let store = Self { inner, behaviour };
        let delete = move |path: Result<Path>| {
            let store = Self { inner: Arc::clone(&store.inner), behaviour: Arc::clone(&store.behaviour) };
            async move {
                let path = path?;
                let asked = futures::stream::iter([Ok(path.clone())]).boxed();
                let work = store.inner.delete_stream(asked).try_collect::<Vec<_>>();
                store.call(&Request::new(Verb::Delete, &path), work).await.map(|_| path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = Self { inner: Arc::clone(&self.inner), behaviour: Arc::clone(&self.behaviour) };
        let prefix = prefix.cloned();
        let listed = async move {
            let request = Request::new(Verb::List, &prefix.clone().unwrap_or_default());
            let work = store.inner.list(prefix.as_ref()).try_collect::<Vec<_>>();
            let objects = store.call(&request, work).await;
            let objects = objects.map(|objects| store.behaviour.listed(objects));
            match objects {
                Ok(objects) => objects.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        };
        futures::stream::once(listed).flat_map(futures::stream::iter).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let request = Request::new(Verb::List, &prefix.cloned().unwrap_or_default());
        let listed = self.call(&request, self.inner.list_with_delimiter(prefix)).await?;
        Ok(ListResult { objects: self.behaviour.listed(listed.objects), ..listed })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let request = Request::new(Verb::Copy, from);
        self.call(&request, self.inner.copy_opts(from, to, options)).await
    }
}

/// A store that counts what it does at a time, and takes its time for it.
#[derive(Debug, Default)]
pub struct Observed {
    /// How long a request takes.
    pub latency: Duration,
    pub in_flight: AtomicUsize,
    pub most: AtomicUsize,
    pub requests: AtomicUsize,
}

/// Counts a request down again, also one that is given up.
struct Flying<'a>(&'a Observed);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Behaviour for Observed {
    async fn ask(&self, _: &Request, _: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        let _flying = Flying(self);
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(self.latency).await;
        work.await
    }
}
