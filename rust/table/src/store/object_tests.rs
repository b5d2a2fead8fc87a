//! What becomes of answers that a store gives in other ways than memory does.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use pennon_datafile::VerifyReads;

use super::object::ObjectBackend;
use super::object_sink::{ObjectSink, PART};
use super::*;

/// A store in memory that refuses some requests, and whose uploads do not come to their end.
#[derive(Debug, Default)]
struct Scripted {
    inner: InMemory,
    /// Files that are not deleted.
    kept: BTreeSet<Path>,
    /// Whether deletions are one request, which fails.
    fails_at_once: bool,
    /// The error of a request for the last bytes of an object.
    suffix: Option<fn() -> Error>,
    /// How many puts are refused without a reason.
    refusals: AtomicUsize,
    requests: Mutex<Vec<&'static str>>,
    parts: Arc<Parts>,
}

/// The parts of an upload.
#[derive(Debug, Default)]
struct Parts {
    in_flight: AtomicUsize,
    /// Those in flight when the upload was aborted.
    at_abort: Mutex<Option<usize>>,
}

impl fmt::Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

fn error(said: String) -> Error {
    Error::Generic { store: "test", source: said.into() }
}

#[async_trait]
impl ObjectStore for Scripted {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.requests.lock().unwrap().push("put");
        let left = self.refusals.load(Ordering::SeqCst);
        if left > 0 {
            self.refusals.store(left - 1, Ordering::SeqCst);
            return Err(Error::AlreadyExists { path: path.to_string(), source: "409 Conflict".into() });
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Upload(Arc::clone(&self.parts))))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let is_suffix = matches!(options.range, Some(GetRange::Suffix(_)));
        let request = if options.head { "head" } else { "get" };
        self.requests.lock().unwrap().push(if is_suffix { "suffix" } else { request });
        match self.suffix.filter(|_| is_suffix) {
            Some(error) => Err(error()),
            None => self.inner.get_opts(path, options).await,
        }
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.fails_at_once {
            return stream::iter([Err(error("503 SlowDown".to_owned()))]).boxed();
        }
        let kept = self.kept.clone();
        let delete = move |path: Result<Path>| match path {
            Ok(path) if kept.contains(&path) => Err(error(format!("{path} is kept"))),
            path => path,
        };
        paths.map(delete).boxed()
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

#[derive(Debug)]
struct Upload(Arc<Parts>);

/// A part that counts itself down when it is given up.
struct Flying(Arc<Parts>);

impl Drop for Flying {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, _: PutPayload) -> UploadPart {
        let parts = Arc::clone(&self.0);
        async move {
            parts.in_flight.fetch_add(1, Ordering::SeqCst);
            let _flying = Flying(parts);
            futures::future::pending().await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        Err(error("it has parts that did not arrive".to_owned()))
    }

    async fn abort(&mut self) -> Result<()> {
        *self.0.at_abort.lock().unwrap() = Some(self.0.in_flight.load(Ordering::SeqCst));
        Ok(())
    }
}

fn backend(store: &Arc<Scripted>) -> ObjectBackend {
    let store = Arc::<Scripted>::clone(store);
    ObjectBackend::new(store, "", false, VerifyReads::default(), Arc::default()).unwrap()
}

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("data/{name}")).collect()
}

#[tokio::test]
async fn a_file_that_is_not_deleted_has_its_own_error() {
    let kept = paths(&["b", "d"]).into_iter().map(Path::from).collect();
    let store = Arc::new(Scripted { kept, ..Scripted::default() });
    let asked = paths(&["d", "e", "b", "a"]);
    let answers = backend(&store).delete_many(&asked).await;
    let said: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(ToString::to_string)).collect();
    assert!(said[0].as_ref().unwrap().contains("data/d is kept"), "{said:?}");
    assert!(said[2].as_ref().unwrap().contains("data/b is kept"), "{said:?}");
    assert_eq!((&said[1], &said[3]), (&None, &None));
}

#[tokio::test]
async fn a_request_for_many_files_that_fails_is_the_error_of_each() {
    let store = Arc::new(Scripted { fails_at_once: true, ..Scripted::default() });
    let answers = backend(&store).delete_many(&paths(&["b", "a", "c"])).await;
    for answer in answers {
        assert!(answer.unwrap_err().to_string().contains("503 SlowDown"));
    }
}

#[tokio::test]
async fn the_end_of_a_file_is_asked_for_in_another_way_only_if_the_store_has_no_suffixes() {
    let unsupported = || Error::NotSupported { source: "no suffix ranges".into() };
    let invalid = || error("Server returned non-2xx status code: 416 Range Not Satisfiable: ".to_owned());
    let busy = || error("503 SlowDown".to_owned());
    type Way<'a> = (fn() -> Error, &'a [&'a str]);
    let ways: [Way<'_>; 3] = [
        (unsupported, &["suffix", "head", "get"]),
        (invalid, &["suffix", "head", "get"]),
        (busy, &["suffix"]),
    ];
    for (suffix, requests) in ways {
        let store = Arc::new(Scripted { suffix: Some(suffix), ..Scripted::default() });
        backend(&store).put("x", Bytes::from_static(b"0123456789")).await.unwrap();
        store.requests.lock().unwrap().clear();
        let found = backend(&store).get_end("x", 3, None).await;
        assert_eq!(*store.requests.lock().unwrap(), requests);
        match requests.len() {
            1 => assert!(found.unwrap_err().to_string().contains("503 SlowDown")),
            _ => {
                let end = found.unwrap().unwrap();
                assert_eq!((end.bytes.as_ref(), end.info.size), (b"789".as_slice(), 10));
            }
        }
    }
}

#[tokio::test]
async fn a_put_that_was_refused_without_a_file_is_made_again() {
    let bytes = || Bytes::from_static(b"x");
    let store = Arc::new(Scripted { refusals: AtomicUsize::new(2), ..Scripted::default() });
    let created = backend(&store).create("x", "x", bytes()).await.unwrap();
    assert_ne!(created, Created::Taken);
    assert_eq!(*store.requests.lock().unwrap(), ["put", "head", "put", "head", "put"]);
    assert_eq!(backend(&store).create("x", "x", bytes()).await.unwrap(), Created::Taken);

    store.refusals.store(9, Ordering::SeqCst);
    let error = backend(&store).create("y", "y", bytes()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(
        error.to_string(),
        "y: the store refused 5 puts, but there is no file of that name. Nothing was written: try again"
    );
    assert!(backend(&store).info("y").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_given_up_before_their_upload_is_aborted() {
    let store = Arc::new(Scripted::default());
    let (backend, parts) = (backend(&store), Arc::clone(&store.parts));
    let flying = Arc::clone(&parts);
    let write = move || {
        let mut sink = ObjectSink::new(&backend, "data/large", "data/large".to_owned());
        sink.write_all(&vec![7; 2 * PART]).unwrap();
        while flying.in_flight.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        drop(sink);
        Ok(())
    };
    runtime::blocking(write).await.unwrap();
    let at_abort = || *parts.at_abort.lock().unwrap();
    while at_abort().is_none() {
        runtime::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(at_abort(), Some(0), "none arrives after the upload is gone");
}
