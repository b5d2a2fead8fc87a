//! Clones that are recorded in the table that they were made of, and cannot be reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use object_store::Result;
use object_store::memory::InMemory;
use pennon_core::ErrorKind;
use pennon_table::ops::cleanup::CleanupOptions;
use pennon_table::ops::verify::Depth;
use pennon_table::{Dataset, Store, VersionRef, WriteMode};

use crate::stores::{Behaving, Behaviour, Request};
use crate::support::*;

/// A store that may be away.
#[derive(Debug, Default)]
struct Away(AtomicBool);

#[async_trait]
impl Behaviour for Away {
    async fn ask(&self, _: &Request, _: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(object_store::Error::Generic { store: "test", source: "404 NoSuchBucket".into() });
        }
        work.await
    }
}

fn everything() -> CleanupOptions {
    CleanupOptions { older_than: Some(Duration::ZERO), ..CleanupOptions::default() }
}

/// A table of whose first version there is a clone, which alone needs its data file.
async fn source_of(clone: &str, source: &str) -> Dataset {
    let mut dataset = create(source, 0..10).await;
    dataset.shallow_clone(clone, VersionRef::Number(1), &Default::default()).await.unwrap();
    dataset = Dataset::write(rows(10..20), source, params(WriteMode::Overwrite)).await.unwrap();
    dataset.cleanup_old_versions(&everything()).await.unwrap();
    assert_eq!(values(&open(clone).await).await, (0..10).collect::<Vec<_>>());
    dataset
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_that_cannot_be_reached_is_a_note_and_keeps_cleanup_from_removing() {
    let clones = Behaving::register("clones-away", Away::default());
    let (clone, source) = ("memory://clones-away/clone", "memory://clones-source/table");
    let mut dataset = source_of(clone, source).await;
    let report = dataset.verify(Depth::Rows).await.unwrap();
    assert_eq!((report.leftovers.len(), report.notes.len()), (0, 0), "{report:?}");

    clones.0.store(true, Ordering::Relaxed);
    let report = dataset.verify(Depth::Rows).await.unwrap();
    assert!(report.findings.is_empty() && report.leftovers.is_empty(), "{report:?}");
    let store = Store::open(source, &Default::default()).unwrap();
    let records = store.list("_refs/clones").await.unwrap();
    let record = store.full_path(&format!("_refs/clones/{}", records[0]));
    let [note] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
    for part in [clone, &record, "NoSuchBucket"] {
        assert!(note.contains(part), "{note}");
    }
    dataset.delete("a = 10", Default::default()).await.unwrap();
    let error = dataset.cleanup_old_versions(&everything()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    let advice = format!("remove the record of it, {record}");
    for part in [clone, &advice, "NoSuchBucket"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(dataset.versions().await.unwrap().len(), 2, "nothing was removed");

    store.delete(&format!("_refs/clones/{}", records[0])).await.unwrap();
    assert_eq!(dataset.cleanup_old_versions(&everything()).await.unwrap().old_versions, 1);
    let report = dataset.verify(Depth::Rows).await.unwrap();
    assert!(report.notes.is_empty() && report.findings.is_empty(), "{report:?}");
    assert_eq!(report.leftovers.iter().map(|leftover| leftover.files).sum::<u64>(), 1, "the clone's file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_whose_directory_is_absent_counts_as_gone() {
    let (directory, [source, _]) = uris("clones-gone");
    let clone = directory.path().join("clone");
    let dataset = source_of(clone.to_str().unwrap(), &source).await;
    std::fs::remove_dir_all(&clone).unwrap();
    let explained = dataset.explain_cleanup_old_versions(&everything()).await.unwrap();
    let [warning] = explained.warnings.as_slice() else { panic!("{:?}", explained.warnings) };
    assert!(warning.contains("is not there any more") && warning.contains("_refs/clones/"), "{warning}");
    let all = CleanupOptions { delete_unverified: true, ..everything() };
    assert_eq!(dataset.cleanup_old_versions(&all).await.unwrap().data_files_removed, 1);
}
