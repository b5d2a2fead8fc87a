//! Many writers of one table, in one process and in others.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, Result};
use pennon_core::{ErrorKind, RowAddress};
use pennon_table::runtime::env;
use pennon_table::{ConflictRetries, Dataset, FindRows, MergeOptions, UpdateOptions, WriteMode};

use crate::processes::Patient;
use crate::stores::{Behaving, Behaviour, Observed, Request, Verb, is_manifest};
use crate::support::*;

const WRITERS: i64 = 6;
const ROUNDS: i64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_and_deletes_on_disjoint_rows() {
    let (_directory, uris) = uris("races");
    for uri in &uris {
        create(uri, 0..WRITERS * ROUNDS).await;
        let writers = (0..WRITERS).map(|writer| {
            let uri = uri.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let row = writer * ROUNDS + round;
                    let options = ConflictRetries::at_most(100);
                    let mut dataset = open(&uri).await;
                    let result = dataset.delete(&format!("a = {row}"), options).await.unwrap();
                    assert_eq!(result.num_deleted_rows, 1);
                    append(&uri, [1000 + row]).await.unwrap();
                }
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.unwrap();
        }
        let dataset = open(uri).await;
        let commits = u64::try_from(WRITERS * ROUNDS * 2).unwrap();
        assert_eq!(dataset.version().0, 1 + commits);
        let rows = by_id(&dataset).await;
        let found: BTreeSet<i64> = rows.values().copied().collect();
        assert_eq!(found, (1000..1000 + WRITERS * ROUNDS).collect());
        assert_eq!(rows.len(), found.len());
        dataset.validate().await.unwrap();
        assert_eq!(dataset.versions().await.unwrap().len(), usize::try_from(1 + commits).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_creator_wins() {
    let (directory, uris) = uris("creators");
    for uri in &uris {
        let creators = (0..8).map(|writer| {
            let uri = uri.clone();
            tokio::spawn(async move { Dataset::write(rows([writer]), &uri, params(WriteMode::Create)).await })
        });
        let mut won = Vec::new();
        for creator in futures::future::join_all(creators).await {
            match creator.unwrap() {
                Ok(dataset) => won.push(values(&dataset).await),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        assert_eq!(won, [values(&open(uri).await).await]);
    }
    let data = files(directory.path()).into_iter().filter(|name| name.ends_with(".lance")).count();
    assert_eq!(data, 1, "the losers' files are gone");
}

/// A store with writers that publish versions: ten when somebody else is about to, then one while somebody reads data.
#[derive(Debug)]
struct Busy {
    /// Versions to come, the next one first.
    next: Mutex<VecDeque<(Path, PutPayload)>>,
}

#[async_trait]
impl Behaviour for Busy {
    async fn ask(&self, request: &Request, inner: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        let next: Vec<_> = {
            let mut next = self.next.lock().unwrap();
            let is_publishing = request.verb == Verb::Create && request.is_of_manifest() && next.len() == 11;
            let is_reading =
                request.verb == Verb::Get && request.path.as_ref().contains("/data/") && next.len() == 1;
            let count = if is_publishing { 10 } else { usize::from(is_reading) };
            next.drain(..count).collect()
        };
        for (path, manifest) in next {
            inner.put(&path, manifest).await?;
        }
        work.await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_far_behind_looks_again_before_it_publishes() {
    let source = Behaving::register("busy", Observed::default());
    create("memory://busy/table", 0..10).await;
    let first = source.objects();
    for at in 0..11 {
        append("memory://busy/table", [100 + at]).await.unwrap();
    }
    // The files of all versions, the manifest of the first one, and the others for later.
    let objects = source.objects();
    let mut later = VecDeque::new();
    for object in objects.list(None).try_collect::<Vec<_>>().await.unwrap() {
        let is_new = first.head(&object.location).await.is_err();
        if object.location.as_ref().contains("/_versions/") && (is_new || !is_manifest(&object.location)) {
            let body = objects.get(&object.location).await.unwrap().bytes().await.unwrap();
            objects.delete(&object.location).await.unwrap();
            if is_manifest(&object.location) {
                later.push_front((object.location, PutPayload::from(body)));
            }
        }
    }
    assert_eq!(later.len(), 11);
    let _busy = Behaving::register_with("busy", Busy { next: Mutex::new(later) }, objects);
    let mut dataset = open("memory://busy/table").await;
    assert_eq!(dataset.version().0, 1);
    dataset.merge_insert(rows([3, 50]), &upsert(&["a"]), &MergeOptions::default()).await.unwrap();
    assert_eq!(dataset.version().0, 13);
    assert_eq!(values(&dataset).await, (0..10).chain([50]).chain(100..111).collect::<Vec<_>>());
    // The second attempt reads the ten versions, then finds the eleventh, and not by trying to publish another one.
    assert_eq!(dataset.session().metrics().counters().commit_retries, 1);
}

#[tokio::test]
async fn a_verb_that_is_done_again_waits_before_it_is() {
    let (_directory, [uri, _]) = uris("retried-verb");
    let mut dataset = create(&uri, 0..3).await;
    let writer = uri.clone();
    // Somebody else changes the row each time after it was found.
    let find: Box<FindRows> = Box::new(move |base: Dataset| {
        let uri = writer.clone();
        let find = async move {
            let found = base.matching_rows("a = 1", None).await?;
            let assignments = [("name".to_owned(), "name || 'x'".to_owned())];
            open(&uri).await.update(&assignments, Some("a = 1"), UpdateOptions::default()).await?;
            let address = |(fragment, rows): (_, pennon_core::deletion::DeletionVector)| {
                rows.iter().map(|offset| RowAddress::new(fragment, offset)).collect::<Vec<_>>()
            };
            Ok(found.into_iter().flat_map(address).collect())
        };
        find.boxed()
    });
    for (timeout, least) in [(Duration::from_secs(600), 3), (Duration::from_millis(40), 1)] {
        let process = Arc::new(Patient::default());
        let entered = env::enter(Arc::<Patient>::clone(&process));
        let options = ConflictRetries { count: 3, timeout };
        let error = dataset.delete_found(&find, "a = 1", options).await.unwrap_err();
        drop(entered);
        assert!(
            error.is_retryable() && error.to_string().starts_with("Too many concurrent writers."),
            "{error}"
        );
        // Turns of a commit have a patience of a second.
        let waited = process.waited.lock().unwrap();
        let waited: Vec<Duration> =
            waited.iter().copied().filter(|wait| *wait != Duration::from_secs(1)).collect();
        assert!(waited.len() >= least && waited.iter().all(|wait| !wait.is_zero()), "{waited:?}");
        assert!(waited.iter().sum::<Duration>() <= timeout, "{waited:?}");
    }
}
