//! What a call leaves in a store that refuses some of its files.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use object_store::Result;
use object_store::memory::InMemory;
use pennon_core::FragmentId;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{CreateIndex, Operation, Transaction};
use pennon_core::wire::index_parts::IndexParts;
use pennon_table::ops::index::IndexCare;
use pennon_table::{ConflictRetries, Dataset, WriteMode};

use crate::stores::{Behaving, Behaviour, Request, reset};
use crate::support::*;

/// A store that refuses to write files, and takes its time for those it does not refuse.
#[derive(Debug, Default)]
struct Refusing {
    /// Part of the paths that are refused.
    refused: Mutex<Option<&'static str>>,
}

impl Refusing {
    fn refuse(&self, part: Option<&'static str>) {
        *self.refused.lock().unwrap() = part;
    }
}

#[async_trait]
impl Behaviour for Refusing {
    async fn ask(&self, request: &Request, _: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        let refused = *self.refused.lock().unwrap();
        let Some(part) = refused.filter(|_| request.body.is_some()) else { return work.await };
        if request.path.as_ref().contains(part) {
            return Err(reset());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        work.await
    }
}

/// A table of four fragments of ten rows.
async fn table(store: &str) -> (String, Dataset) {
    let uri = format!("memory://{store}/table");
    let mut dataset = create(&uri, 0..10).await;
    for start in 1..4 {
        dataset.insert(rows(start * 10..(start + 1) * 10), params(WriteMode::Append)).await.unwrap();
    }
    (uri, dataset)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_repeated_keeps_its_transaction_file() {
    let store = Behaving::register("orphans-repeated", Refusing::default());
    let (uri, dataset) = table("orphans-repeated").await;
    let matched = dataset.matching_rows("a = 3", None).await.unwrap();
    let uuid = || Some("0c1d7a3e-5a43-4d5f-8a55-6d7f1f7d2a11".to_owned());
    let mut first = dataset.clone();
    first.commit_delete(matched.clone(), "a = 3", uuid(), Metadata::new()).await.unwrap();
    let before = store.paths();
    assert!(before.iter().any(|path| path.contains("_transactions/4-0c1d7a3e")), "{before:?}");
    store.refuse(Some("_transactions/"));
    let mut second = dataset.clone();
    second.commit_delete(matched, "a = 3", uuid(), Metadata::new()).await.unwrap();
    store.refuse(None);
    assert_eq!(second.version(), first.version());
    assert_eq!(store.paths(), before);
    assert_eq!(values(&open(&uri).await).await.len(), 39);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_failed_change_are_removed_after_they_have_arrived() {
    let store = Behaving::register("orphans-late", Refusing::default());
    let (uri, mut dataset) = table("orphans-late").await;
    let before = store.paths();
    // The deletion file of the first fragment is refused at once, the others arrive later.
    store.refuse(Some("_deletions/0-"));
    dataset.delete("a % 10 = 3", ConflictRetries::default()).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(600)).await;
    store.refuse(None);
    assert_eq!(store.paths(), before);
    let found = open(&uri).await;
    assert_eq!(found.manifest().fragment(FragmentId(0)).unwrap().live_rows(), 10);
    assert_eq!(values(&found).await.len(), 40);
}

/// The first index is made again before the entry of the second one turns out to be damaged.
#[tokio::test(flavor = "multi_thread")]
async fn indices_that_cannot_be_taken_care_of_together_leave_nothing() {
    let store = Behaving::register("orphans-indices", Refusing::default());
    let uri = "memory://orphans-indices/table";
    let mut dataset = create(uri, 0..10).await;
    dataset.create_index(btree("a")).await.unwrap();
    let first = dataset.indices().await.unwrap()[0].clone();
    let damaged = IndexParts {
        uuid: "0c1d7a3e-5a43-4d5f-8a55-6d7f1f7d2a12".parse().unwrap(),
        name: "b_idx".to_owned(),
        details: Some(("/lance.index.pb.VectorIndexDetails".to_owned(), vec![0xff; 3].into())),
        ..IndexParts::of(&first).unwrap()
    };
    let operation = Operation::CreateIndex(CreateIndex {
        new_indices: vec![damaged.entry().unwrap()],
        removed_indices: Vec::new(),
    });
    let transaction = Transaction {
        read_version: dataset.version(),
        uuid: "0c1d7a3e-5a43-4d5f-8a55-6d7f1f7d2a13".to_owned(),
        tag: String::new(),
        properties: Metadata::new(),
        operation,
    };
    let mut dataset = Dataset::commit(uri, transaction, transaction_options()).await.unwrap();
    dataset.insert(rows(10..20), params(WriteMode::Append)).await.unwrap();
    let before = store.paths();
    dataset.optimize_indices(&IndexCare::default()).await.unwrap_err();
    assert_eq!(store.paths(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_carried_over_leaves_nothing() {
    let store = Behaving::register("orphans-carried-over", Refusing::default());
    let (uri, mut dataset) = table("orphans-carried-over").await;
    let mut other = dataset.clone();
    other.delete("a = 3", ConflictRetries::default()).await.unwrap();
    let before = store.paths();
    // The deletion file on top of the other one, for the version that the other one made.
    store.refuse(Some("_deletions/0-5-"));
    dataset.delete("a = 4", ConflictRetries::default()).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(600)).await;
    store.refuse(None);
    assert_eq!(store.paths(), before);
    dataset.delete("a = 4", ConflictRetries::default()).await.unwrap();
    assert_eq!(values(&open(&uri).await).await.len(), 38);
}
