//! Queries of local tables whose few rows are read on the calling thread, and those that are not.

use std::sync::{Arc, mpsc};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use futures::{FutureExt, TryStreamExt};
use pennon_index::{DistanceRange, Metric, VectorIndexKind};
use pennon_table::ops::index::{NewVectorIndex, VectorParameters};
use pennon_table::scan::{Filter, Nearest, Probes, Projection, ScanOptions};
use pennon_table::{ConflictRetries, Dataset, StorageOptions, VersionRef, WriteMode};
use tokio::runtime::{Builder, Runtime};

use crate::support::*;

const ROWS: i64 = 1_000;

/// A table with an index over `a`.
async fn indexed(uri: &str) -> Dataset {
    let mut dataset = create_cut(uri, 0..ROWS, 300).await;
    dataset.create_index(btree("a")).await.unwrap();
    dataset
}

fn scanned(dataset: &Dataset, filter: &str) -> impl Future<Output = Vec<RecordBatch>> + use<> {
    let filter = Some(Filter::Sql(filter.to_owned()));
    found(dataset, &ScanOptions { filter, ..ScanOptions::default() })
}

fn found(dataset: &Dataset, options: &ScanOptions) -> impl Future<Output = Vec<RecordBatch>> + use<> {
    let scan = dataset.scan(options).unwrap();
    scan.stream().try_collect::<Vec<_>>().map(Result::unwrap)
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A runtime with one thread for work that waits.
fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().max_blocking_threads(1).build().unwrap()
}

/// How many rows a filter finds without any other thread.
async fn at_once(dataset: &Dataset, filter: &str) -> Option<usize> {
    without_other_threads(scanned(dataset, filter)).await.map(|found| count(&found))
}

/// What a query finds without any other thread: the one for work that waits is busy.
async fn without_other_threads<T>(query: impl Future<Output = T>) -> Option<T> {
    let (done, wait) = mpsc::channel::<()>();
    let busy = tokio::task::spawn_blocking(move || wait.recv().is_err());
    let found = query.now_or_never();
    drop(done);
    assert!(busy.await.unwrap());
    found
}

#[test]
fn few_rows_that_an_index_finds_are_there_at_once() {
    runtime().block_on(async {
        let (_directory, [local, memory]) = uris("at-once");
        let mut dataset = indexed(&local).await;
        dataset.delete("a = 8", ConflictRetries::default()).await.unwrap();
        let few = [("a = 7", 1), ("a = 8", 0), ("a in (1, 299, 300, 999, 5000)", 4), ("a = 7 or a = 8", 1)];
        for (filter, rows) in few {
            // The first one reads what the session keeps.
            assert_eq!(count(&scanned(&dataset, filter).await), rows, "{filter}");
            assert_eq!(at_once(&dataset, filter).await, Some(rows), "{filter}");
        }
        // A small index is opened at once, too, and the rows that it finds are counted.
        assert_eq!(at_once(&open(&local).await, "a = 7").await, Some(1));
        for (filter, rows) in few {
            let counted = without_other_threads(dataset.count_rows(Some(filter))).await;
            assert_eq!(counted.unwrap().unwrap(), u64::try_from(rows).unwrap(), "{filter}");
        }
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
fn a_handful_of_rows_without_a_filter_is_there_at_once() {
    runtime().block_on(async {
        let (_directory, [local, memory]) = uris("at-once-limit");
        let dataset = create_cut(&local, 0..ROWS, 300).await;
        let options = |limit, offset| ScanOptions { limit: Some(limit), offset, ..ScanOptions::default() };
        for (limit, offset) in [(10, None), (16, Some(292))] {
            let batches = without_other_threads(found(&dataset, &options(limit, offset))).await.unwrap();
            assert_eq!(count(&batches), usize::try_from(limit).unwrap());
        }
        assert!(without_other_threads(found(&dataset, &options(17, None))).await.is_none());
        let remote = create_cut(&memory, 0..ROWS, 300).await;
        assert!(without_other_threads(found(&remote, &options(10, None))).await.is_none());
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

/// So many rows `a` with vectors `v`, whose elements seem to be in no order.
fn vectors(rows: i64) -> RecordBatch {
    let element = |n: i64| f32::from(u16::try_from(((n * 2_654_435_761) >> 8) % 65_521).unwrap());
    let elements = (0..rows * i64::from(DIMENSION)).map(element);
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let elements = Arc::new(elements.collect::<Float32Array>());
    let vectors = FixedSizeListArray::new(item, DIMENSION, elements, None);
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    RecordBatch::try_from_iter([("a", a), ("v", Arc::new(vectors) as ArrayRef)]).unwrap()
}

/// Elements of a vector.
const DIMENSION: i32 = 256;

/// The ten rows nearest to one.
fn nearest(batch: &RecordBatch, row: i64) -> ScanOptions {
    let nearest = Nearest {
        column: "v".to_owned(),
        query: batch["v"].as_fixed_size_list().value(usize::try_from(row).unwrap()),
        vectors: None,
        k: None,
        metric: None,
        use_index: true,
        probes: Probes::default(),
        refine_factor: None,
        ef: None,
        range: DistanceRange::default(),
        prefilter: false,
        without_distance: false,
    };
    let columns = Some(Projection::Names(vec!["a".to_owned()]));
    ScanOptions { columns, nearest: Some(nearest), ..ScanOptions::default() }
}

fn first(found: &[RecordBatch]) -> (i64, f32) {
    let batch = &found[0];
    let distances = batch["_distance"].as_primitive::<Float32Type>();
    (batch["a"].as_primitive::<Int64Type>().value(0), distances.value(0))
}

/// The index has more bytes than may be looked at, but whoever follows a graph looks at few of them.
#[test]
fn a_graph_is_followed_at_once() {
    runtime().block_on(async {
        let (_directory, [local, _]) = uris("at-once-graph");
        let batch = vectors(5_000);
        let mut dataset =
            Dataset::write(reader(batch.clone()), &local, params(WriteMode::Create)).await.unwrap();
        let index = |kind| NewVectorIndex {
            column: "v".to_owned(),
            kind,
            metric: Metric::L2,
            name: None,
            replace: true,
            train: true,
            uuid: None,
            parameters: VectorParameters { num_partitions: Some(1), m: 8, ..VectorParameters::default() },
        };
        for (kind, follows) in [(VectorIndexKind::IvfFlat, false), (VectorIndexKind::IvfHnswFlat, true)] {
            dataset.create_vector_index(index(kind)).await.unwrap();
            let dataset = open(&local).await;
            // The first one reads what the session keeps.
            assert_eq!(first(&found(&dataset, &nearest(&batch, 7)).await), (7, 0.0));
            let second = without_other_threads(found(&dataset, &nearest(&batch, 9))).await;
            assert_eq!(second.as_deref().map(first), follows.then_some((9, 0.0)));
        }
        // Where some rows do not count, more of them may have to be looked at.
        dataset.delete("a < 100", ConflictRetries::default()).await.unwrap();
        for row in [200, 300] {
            assert_eq!(without_other_threads(found(&dataset, &nearest(&batch, row))).await, None);
            assert_eq!(first(&found(&dataset, &nearest(&batch, row)).await), (row, 0.0));
        }
    });
}
