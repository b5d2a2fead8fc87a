//! A store whose answers get lost, and one that fails.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use pennon_core::ErrorKind;
use pennon_table::{DeleteOptions, Store, WriteMode};

use crate::support::*;

/// Puts of manifests go wrong in one of several ways.
#[derive(Debug, Default)]
struct Faulty {
    inner: InMemory,
    /// Manifests are written, the answer is an error.
    lose_answers: AtomicBool,
    /// Manifests are written, the answer is that they exist already: what a client's own retry looks like.
    deny: AtomicBool,
    /// Nothing whose path contains `data/` can be written.
    refuse_data: AtomicBool,
    /// Manifests cannot be written.
    refuse_manifests: AtomicBool,
    faults: AtomicUsize,
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

impl Faulty {
    fn new(name: &str) -> Arc<Self> {
        let store = Arc::new(Self::default());
        Store::register_memory(name, Arc::clone(&store) as Arc<dyn ObjectStore>).unwrap();
        store
    }

    fn fault(&self) -> Error {
        self.faults.fetch_add(1, Ordering::Relaxed);
        Error::Generic { store: "faulty", source: "the connection was reset".into() }
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let manifest = path.as_ref().ends_with(".manifest");
        let on = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if on(&self.refuse_data) && path.as_ref().contains("/data/") || on(&self.refuse_manifests) && manifest
        {
            return Err(self.fault());
        }
        let result = self.inner.put_opts(path, payload, options).await?;
        if manifest && self.lose_answers.swap(false, Ordering::Relaxed) {
            return Err(self.fault());
        }
        if manifest && self.deny.swap(false, Ordering::Relaxed) {
            self.faults.fetch_add(1, Ordering::Relaxed);
            return Err(Error::AlreadyExists { path: path.to_string(), source: "412".into() });
        }
        Ok(result)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_a_commit() {
    let faulty = Faulty::new("lost");
    let uri = "memory://lost/table";
    for (number, flag) in [&faulty.lose_answers, &faulty.deny].into_iter().enumerate() {
        let uri = format!("{uri}{number}");
        flag.store(true, Ordering::Relaxed);
        let mut dataset = create(&uri, 0..3).await;
        assert_eq!(dataset.version().0, 1);
        flag.store(true, Ordering::Relaxed);
        dataset.insert(rows(3..5), params(WriteMode::Append)).await.unwrap();
        assert_eq!(dataset.version().0, 2);
        flag.store(true, Ordering::Relaxed);
        dataset.delete("a = 0", DeleteOptions::default()).await.unwrap();
        assert_eq!((dataset.version().0, open(&uri).await.version().0), (3, 3));
        assert_eq!(values(&open(&uri).await).await, [1, 2, 3, 4]);
        dataset.validate().await.unwrap();
    }
    assert_eq!(faulty.faults.load(Ordering::Relaxed), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_store_leaves_the_table_as_it_was() {
    let faulty = Faulty::new("failing");
    let uri = "memory://failing/table";
    let mut dataset = create(uri, 0..3).await;
    for flag in [&faulty.refuse_data, &faulty.refuse_manifests] {
        flag.store(true, Ordering::Relaxed);
        let error = dataset.insert(rows([9]), params(WriteMode::Append)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.to_string().contains("the connection was reset"), "{error}");
        assert_eq!((dataset.version().0, open(uri).await.version().0), (1, 1));
        flag.store(false, Ordering::Relaxed);
    }
    dataset.insert(rows([9]), params(WriteMode::Append)).await.unwrap();
    assert_eq!(values(&dataset).await, [0, 1, 2, 9]);
}
