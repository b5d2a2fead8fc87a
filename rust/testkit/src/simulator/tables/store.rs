//! Objects in memory that can be cut off after so many changes: from then on the process that makes them is dead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use pennon_table::Store;

/// The store of one program.
#[derive(Debug, Default)]
pub(super) struct CutStore {
    inner: InMemory,
    cut: Arc<Cut>,
}

/// When the store is cut off.
#[derive(Debug)]
struct Cut {
    /// Changes that are still done.
    left: AtomicUsize,
}

impl Default for Cut {
    fn default() -> Self {
        Self { left: AtomicUsize::new(usize::MAX) }
    }
}

impl Cut {
    fn change(&self) -> Result<()> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            usize::MAX => Some(left),
            _ => left.checked_sub(1),
        });
        left.map(drop).map_err(|_| dead())
    }

    fn read(&self) -> Result<()> {
        if self.left.load(Ordering::SeqCst) == 0 { Err(dead()) } else { Ok(()) }
    }
}

fn dead() -> Error {
    Error::Generic { store: "CutStore", source: "the process is dead".into() }
}

impl fmt::Display for CutStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CutStore")
    }
}

impl CutStore {
    /// Makes it the store of everything below `memory://name`.
    pub(super) fn register(name: &str) -> pennon_core::Result<Arc<Self>> {
        let store = Arc::<Self>::default();
        Store::register_memory(name, Arc::<Self>::clone(&store))?;
        Ok(store)
    }

    /// Cuts it off after so many changes.
    pub(super) fn cut_after(&self, changes: usize) {
        self.cut.left.store(changes, Ordering::SeqCst);
    }

    /// Whether it was cut off; it is not any more.
    pub(super) fn mend(&self) -> bool {
        self.cut.left.swap(usize::MAX, Ordering::SeqCst) == 0
    }

    /// Ends what a dead process said that it restores or removes, as an hour does.
    pub(super) async fn end_intents(&self) {
        let files: Vec<_> = self.inner.list(None).collect().await;
        let is_intent = |path: &Path| {
            ["/_refs/restores/", "/_refs/removals/"].iter().any(|of| path.as_ref().contains(of))
        };
        for file in files.into_iter().flatten().filter(|file| is_intent(&file.location)) {
            // A file in memory is always removed.
            drop(self.inner.delete(&file.location).await);
        }
    }
}

#[async_trait]
impl ObjectStore for CutStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.cut.change()?;
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.cut.change()?;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.cut.read()?;
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let cut = Arc::clone(&self.cut);
        self.inner.delete_stream(paths.map(move |path| cut.change().and(path)).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.cut.read() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.cut.read()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.cut.change()?;
        self.inner.copy_opts(from, to, options).await
    }
}
