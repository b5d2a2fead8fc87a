//! Queries of local tables whose few rows are read on the calling thread, and those that are not.

use std::sync::mpsc;

use arrow_array::RecordBatch;
use futures::{FutureExt, TryStreamExt};
use pennon_table::scan::{Filter, ScanOptions};
use pennon_table::{Dataset, DeleteOptions, StorageOptions, VersionRef};
use tokio::runtime::{Builder, Runtime};

use crate::support::*;

const ROWS: i64 = 1_000;

/// A table with an index over `a`.
async fn indexed(uri: &str) -> Dataset {
    let mut dataset = create_cut(uri, 0..ROWS, 300).await;
    dataset.create_index(btree("a")).await.unwrap();
    dataset
}

fn scanned(dataset: &Dataset, filter: &str) -> impl Future<Output = Vec<RecordBatch>> {
    let filter = Some(Filter::Sql(filter.to_owned()));
    let scan = dataset.scan(&ScanOptions { filter, ..ScanOptions::default() }).unwrap();
    scan.stream().try_collect::<Vec<_>>().map(Result::unwrap)
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A runtime with one thread for work that waits.
fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().max_blocking_threads(1).build().unwrap()
}

/// What a query finds without any other thread: the one for work that waits is busy.
async fn at_once(dataset: &Dataset, filter: &str) -> Option<usize> {
    let (done, wait) = mpsc::channel::<()>();
    let busy = tokio::task::spawn_blocking(move || wait.recv().is_err());
    let found = scanned(dataset, filter).now_or_never();
    drop(done);
    assert!(busy.await.unwrap());
    found.map(|found| count(&found))
}

#[test]
fn few_rows_that_an_index_finds_are_there_at_once() {
    runtime().block_on(async {
        let (_directory, [local, memory]) = uris("at-once");
        let mut dataset = indexed(&local).await;
        dataset.delete("a = 8", DeleteOptions::default()).await.unwrap();
        let few = [("a = 7", 1), ("a = 8", 0), ("a in (1, 299, 300, 999, 5000)", 4), ("a = 7 or a = 8", 1)];
        for (filter, rows) in few {
            // The first one reads what the session keeps.
            assert_eq!(count(&scanned(&dataset, filter).await), rows, "{filter}");
            assert_eq!(at_once(&dataset, filter).await, Some(rows), "{filter}");
        }
        // An index is opened by other threads.
        assert_eq!(at_once(&open(&local).await, "a = 7").await, None);
        // More rows are read by other threads, and so are those of an interval and those that no index finds.
        let many: Vec<String> = (0..17).map(|value| value.to_string()).collect();
        let many = format!("a in ({})", many.join(", "));
        for (filter, rows) in [(many.as_str(), 16), ("a >= 998", 2), ("name = 'n7'", 1)] {
            assert_eq!(count(&scanned(&dataset, filter).await), rows, "{filter}");
            assert_eq!(at_once(&dataset, filter).await, None, "{filter}");
        }
        // Nor are those of a table whose requests may take their time.
        let remote = indexed(&memory).await;
        assert_eq!(count(&scanned(&remote, "a = 7").await), 1);
        assert_eq!(at_once(&remote, "a = 7").await, None);
    });
}

#[test]
fn a_local_clone_of_a_remote_table_is_read_by_other_threads() {
    runtime().block_on(async {
        let (directory, [_, memory]) = uris("at-once-clone");
        let source = indexed(&memory).await;
        let uri = directory.path().join("clone").to_str().unwrap().to_owned();
        let version = VersionRef::Number(source.version().0);
        source.shallow_clone(&uri, version, &StorageOptions::default()).await.unwrap();
        let clone = open(&uri).await;
        assert_eq!(count(&scanned(&clone, "a = 7").await), 1);
        assert_eq!(at_once(&clone, "a = 7").await, None);
    });
}
