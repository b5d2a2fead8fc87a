//! Files that somebody removes after they were listed.

use std::sync::Mutex;

use async_trait::async_trait;
use futures::future::BoxFuture;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, Result};
use pennon_core::Version;
use pennon_table::ops::verify::Depth;
use pennon_table::{CommitStatus, VersionRef};

use crate::stores::{Behaving, Behaviour, Request, Verb};
use crate::support::*;

/// A store in which a file is removed just before it is read.
#[derive(Debug, Default)]
struct Vanishing(Mutex<Option<Path>>);

#[async_trait]
impl Behaviour for Vanishing {
    async fn ask(&self, request: &Request, inner: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        let is_vanishing = self.0.lock().unwrap().as_ref() == Some(&request.path);
        if is_vanishing && request.verb == Verb::Get {
            let _ = inner.delete(&request.path).await;
        }
        work.await
    }
}

impl Vanishing {
    fn register(name: &str) -> std::sync::Arc<Behaving<Self>> {
        Behaving::register(name, Self::default())
    }
}

/// The file whose path has such an end vanishes.
fn vanish(store: &Behaving<Vanishing>, part: &str) {
    let found = store.paths().into_iter().find(|path| path.contains(part)).unwrap();
    *store.0.lock().unwrap() = Some(Path::from(found));
}

fn manifest(version: u64) -> String {
    format!("_versions/{}.manifest", u64::MAX - version)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_version_is_removed_while_it_is_looked_for_is_unknown() {
    let store = Vanishing::register("vanishing-status");
    let uri = "memory://vanishing-status/table";
    create(uri, 0..3).await;
    let second = append(uri, [3]).await.unwrap();
    let uuid = second.read_transaction(Version(2)).await.unwrap().unwrap().uuid;
    let dataset = append(uri, [4]).await.unwrap();
    assert_eq!(dataset.commit_status(&uuid).await.unwrap(), CommitStatus::Committed(Version(2)));
    vanish(&store, &manifest(2));
    assert_eq!(dataset.commit_status(&uuid).await.unwrap(), CommitStatus::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_those_of_the_versions_that_are_left() {
    let store = Vanishing::register("vanishing-transactions");
    let uri = "memory://vanishing-transactions/table";
    create(uri, 0..3).await;
    append(uri, [3]).await.unwrap();
    let dataset = append(uri, [4]).await.unwrap();
    assert_eq!(dataset.get_transactions(10).await.unwrap().len(), 3);
    vanish(&store, &manifest(2));
    let read: Vec<u64> =
        dataset.get_transactions(10).await.unwrap().into_iter().map(|t| t.unwrap().read_version.0).collect();
    assert_eq!(read, [2, 0]);
    assert_eq!(dataset.versions().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn references_that_are_removed_while_they_are_listed_are_left_out() {
    let store = Vanishing::register("vanishing-references");
    let uri = "memory://vanishing-references/table";
    let dataset = create(uri, 0..3).await;
    for clone in ["memory://vanishing-clones/a", "memory://vanishing-clones/b"] {
        dataset.shallow_clone(clone, VersionRef::Number(1), &Default::default()).await.unwrap();
    }
    for name in ["a", "b"] {
        dataset.tags().create(name, None).await.unwrap();
        dataset.create_branch(name, None).await.unwrap();
    }
    vanish(&store, "_refs/clones/");
    let report = dataset.verify(Depth::Rows).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    vanish(&store, "_refs/tags/a");
    assert_eq!(dataset.tags().list().await.unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
    vanish(&store, "_refs/branches/a");
    assert_eq!(dataset.branches().list().await.unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
}
