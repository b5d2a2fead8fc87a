//! How a commit ends: committed, not committed or unknown; and what is left behind when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, Result};
use pennon_core::manifest::naming::{NamingScheme, manifest_name, parse};
use pennon_core::manifest::{Flags, Manifest, Tail, write_manifest_file};
use pennon_core::schema::Metadata;
use pennon_core::{ErrorKind, Version};
use pennon_table::{
    CommitOptions, CommitStatus, ConflictRetries, Dataset, OpenOptions, WriteMode, WriteOptions,
};

use crate::stores::{Behaving, Behaviour, Request, Verb, reset};
use crate::support::*;

/// A store whose answer to the next put of a manifest is lost, and what happens before it is asked again.
#[derive(Debug, Default)]
struct Denying {
    /// The manifest is written, the answer is that there is one: what the retry of a client looks like.
    deny: AtomicBool,
    /// What another program does right after that.
    then: AtomicUsize,
    /// Manifests cannot be read.
    blind: AtomicBool,
    /// Listings are turned around.
    reversed: AtomicBool,
}

const NOTHING: usize = 0;
const CLEAN_UP: usize = 1;
const FORGET_TRANSACTIONS: usize = 2;
const NEWER_FEATURES: usize = 3;

impl Denying {
    fn register(name: &str) -> Arc<Behaving<Self>> {
        Behaving::register(name, Self::default())
    }

    /// Another program follows the version that was just published, and then does its work.
    async fn other_program(&self, inner: &InMemory, path: &Path, bytes: &bytes::Bytes) {
        let then = self.then.swap(NOTHING, Ordering::Relaxed);
        if then == NOTHING {
            return;
        }
        let size = u64::try_from(bytes.len()).unwrap();
        let range = Tail::locate(bytes, size).unwrap();
        let message = bytes.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        let mut manifest = Manifest::decode(message).unwrap();
        let (table, name) = path.as_ref().split_once("/_versions/").unwrap();
        let (version, _) = parse(name).unwrap();
        manifest.version = version.next();
        manifest.transaction_file.clear();
        if then == NEWER_FEATURES {
            manifest.reader_flags = manifest.reader_flags.with(Flags(1 << 40));
            manifest.writer_flags = manifest.writer_flags.with(Flags(1 << 40));
        }
        let next = format!("{table}/_versions/{}", manifest_name(version.next(), NamingScheme::V2));
        let file = write_manifest_file(&mut manifest, None, None).unwrap();
        inner.put(&Path::from(next), file.into()).await.unwrap();
        if then == CLEAN_UP {
            inner.delete(path).await.unwrap();
        }
        if then == CLEAN_UP || then == FORGET_TRANSACTIONS {
            let objects = inner.list(None).try_collect::<Vec<_>>().now_or_never().unwrap().unwrap();
            for object in objects.iter().filter(|object| object.location.as_ref().contains("/_transactions/"))
            {
                inner.delete(&object.location).await.unwrap();
            }
        }
    }
}

#[async_trait]
impl Behaviour for Denying {
    async fn ask(&self, request: &Request, inner: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        if request.is_of_manifest() && !request.verb.changes() && self.blind.load(Ordering::Relaxed) {
            return Err(reset());
        }
        work.await?;
        let is_put = matches!(request.verb, Verb::Put | Verb::Create);
        if is_put && request.is_of_manifest() && self.deny.swap(false, Ordering::Relaxed) {
            let bytes = bytes::Bytes::from(request.body.clone().unwrap());
            self.other_program(inner, &request.path, &bytes).await;
            return Err(Error::AlreadyExists { path: request.path.to_string(), source: "412".into() });
        }
        Ok(())
    }

    fn listed(&self, mut objects: Vec<ObjectMeta>) -> Vec<ObjectMeta> {
        if self.reversed.load(Ordering::Relaxed) {
            objects.reverse();
        }
        objects
    }
}

/// A write whose transaction is kept as a file only, and which gives up after one attempt.
fn impatient(mode: WriteMode) -> WriteOptions {
    let properties = Metadata::from([("large".to_owned(), "x".repeat(70_000))]);
    let commit = CommitOptions { timeout: Duration::ZERO, ..commit_options() };
    WriteOptions { properties, commit, ..params(mode) }
}

/// Files that the newest version refers to are there.
async fn is_whole(uri: &str, dataset: &Dataset) {
    let newest = Dataset::open(uri, options()).await;
    match newest {
        Ok(newest) => newest.validate().await.unwrap(),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    dataset.validate().await.unwrap();
}

/// The first exit of four: the time is up after an answer "there is one", which was ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_ends_at_the_timeout_looks_for_itself() {
    let store = Denying::register("outcome-timeout");
    let uri = "memory://outcome-timeout/table";
    let mut dataset = create(uri, 0..3).await;
    store.deny.store(true, Ordering::Relaxed);
    dataset.insert(rows(3..5), impatient(WriteMode::Append)).await.unwrap();
    assert_eq!((dataset.version().0, values(&open(uri).await).await), (2, vec![0, 1, 2, 3, 4]));
    is_whole(uri, &dataset).await;
}

/// The second: the version that may be ours was cleaned up. Its files are those of the next version.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_cleaned_up_may_have_been_ours() {
    let store = Denying::register("outcome-cleaned");
    let uri = "memory://outcome-cleaned/table";
    let mut dataset = create(uri, 0..3).await;
    store.then.store(CLEAN_UP, Ordering::Relaxed);
    store.deny.store(true, Ordering::Relaxed);
    let error = dataset.insert(rows(3..5), params(WriteMode::Append)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    assert!(error.to_string().contains("commit_status("), "{error}");
    let status = dataset.commit_status(error.transaction().unwrap()).await.unwrap();
    assert_eq!(status, CommitStatus::Unknown);
    assert_eq!((dataset.version().0, values(&open(uri).await).await), (1, vec![0, 1, 2, 3, 4]));
    is_whole(uri, &dataset).await;
}

/// The third: the transaction is neither in the manifest nor in its file any more; its name is still in the manifest.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_not_kept_is_known_by_its_name() {
    let store = Denying::register("outcome-forgotten");
    let uri = "memory://outcome-forgotten/table";
    let mut dataset = create(uri, 0..3).await;
    store.then.store(FORGET_TRANSACTIONS, Ordering::Relaxed);
    store.deny.store(true, Ordering::Relaxed);
    let patient = WriteOptions { commit: commit_options(), ..impatient(WriteMode::Append) };
    dataset.insert(rows(3..5), patient).await.unwrap();
    assert_eq!(dataset.version().0, 2);
    is_whole(uri, &dataset).await;
}

/// The fourth: a peer raises a feature flag, so that the newest version cannot be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_a_newer_release_hides_no_commit() {
    let store = Denying::register("outcome-features");
    let uri = "memory://outcome-features/table";
    let mut dataset = create(uri, 0..3).await;
    store.then.store(NEWER_FEATURES, Ordering::Relaxed);
    store.deny.store(true, Ordering::Relaxed);
    dataset.delete("a = 1", ConflictRetries::default()).await.unwrap();
    assert_eq!((dataset.version().0, values(&dataset).await), (2, vec![0, 2]));
    is_whole(uri, &dataset).await;
}

/// Somebody else's version of that number: the change is not committed, and its files are gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_lost_is_not_committed_and_leaves_nothing() {
    let store = Denying::register("outcome-lost");
    let uri = "memory://outcome-lost/table";
    let base = create(uri, 0..3).await;
    append(uri, 3..4).await.unwrap();
    let before = store.paths();
    let commit = CommitOptions { max_retries: 0, ..commit_options() };
    let mut stale = base.clone();
    let overwrite = WriteOptions { commit, ..params(WriteMode::Overwrite) };
    let error = stale.insert(rows(7..9), overwrite).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(store.paths(), before);
}

/// The manifest cannot be read: unknown, and everything stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_gives_nothing_back_leaves_the_outcome_unknown() {
    let store = Denying::register("outcome-blind");
    let uri = "memory://outcome-blind/table";
    let mut dataset = create(uri, 0..3).await;
    store.deny.store(true, Ordering::Relaxed);
    store.blind.store(true, Ordering::Relaxed);
    let error = dataset.insert(rows(3..5), impatient(WriteMode::Append)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    store.blind.store(false, Ordering::Relaxed);
    let status = dataset.commit_status(error.transaction().unwrap()).await.unwrap();
    assert_eq!(status, CommitStatus::Committed(Version(2)));
    assert_eq!(values(&open(uri).await).await, [0, 1, 2, 3, 4]);
    is_whole(uri, &dataset).await;
}

/// The order of a listing means nothing on a store that promises none.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_without_an_order_hides_no_version() {
    let store = Denying::register("outcome-order");
    let uri = "memory://outcome-order/table";
    create(uri, 0..1).await;
    for value in 1..12 {
        append(uri, [value]).await.unwrap();
    }
    store.reversed.store(true, Ordering::Relaxed);
    let mut newest = open(uri).await;
    assert_eq!((newest.version().0, newest.latest_version().await.unwrap().0), (12, 12));
    newest.insert(rows([12]), params(WriteMode::Append)).await.unwrap();
    assert_eq!(newest.version().0, 13);
    let old = OpenOptions { version: Some(pennon_table::VersionRef::Number(1)), ..options() };
    let mut old = Dataset::open(uri, old).await.unwrap();
    old.delete("a = 0", ConflictRetries::default()).await.unwrap();
    assert_eq!(values(&open(uri).await).await, (1..13).collect::<Vec<_>>());
}

/// A commit that is dropped at any of its awaits leaves a whole table, with the change or without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_dropped_leaves_a_whole_table() {
    Denying::register("outcome-dropped");
    let mut finished = 0;
    for polls in 1..400 {
        let uri = format!("memory://outcome-dropped/{polls}");
        let dataset = create(&uri, 0..4).await;
        append(&uri, 4..6).await.unwrap();
        let mut stale = dataset.clone();
        let mut delete = Box::pin(async move { stale.delete("a = 1", ConflictRetries::default()).await });
        let mut done = false;
        for _ in 0..polls {
            let mut yielded = false;
            done = futures::future::poll_fn(|context| {
                if yielded {
                    return std::task::Poll::Ready(false);
                }
                yielded = true;
                delete.as_mut().poll(context).map(|result| result.is_ok())
            })
            .await;
            if done {
                break;
            }
        }
        drop(delete);
        // Blocking work that was begun may still end.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let newest = open(&uri).await;
        newest.validate().await.unwrap();
        let found = values(&newest).await;
        match newest.version().0 {
            2 => assert_eq!(found, [0, 1, 2, 3, 4, 5]),
            _ => assert_eq!(found, [0, 2, 3, 4, 5]),
        }
        assert!(!done || newest.version().0 == 3);
        append(&uri, [9]).await.unwrap();
        open(&uri).await.validate().await.unwrap();
        finished += usize::from(done);
        if finished > 3 {
            return;
        }
    }
    panic!("{finished} deletes came to their end");
}
