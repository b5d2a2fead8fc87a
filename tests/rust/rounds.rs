//! Requests of single calls on a store where each takes its time, and their rounds: those that had to wait for one
//! another.
//!
//! A request belongs to the round after the last one that was answered before it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, LargeBinaryArray, RecordBatch, StructArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use async_trait::async_trait;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use object_store::Result;
use object_store::memory::InMemory;
use pennon_core::RowId;
use pennon_core::file::FileVersion;
use pennon_core::schema::Metadata;
use pennon_table::compact::CompactionOptions;
use pennon_table::ops::cleanup::CleanupOptions;
use pennon_table::scan::{BlobHandling, Filter, FirstRows, Projection, ScanOptions, TakeOptions, TakeRows};
use pennon_table::{
    ConflictRetries, CreateOptions, Dataset, FeedOptions, FeedPoint, MergeClauses, MergeOptions,
    UpdateOptions, VersionRef, WhenMatched, WriteMode, WriteOptions,
};

use crate::stores::{Behaving, Behaviour, Request, Verb};
use crate::support::*;

/// How long each request takes: so long that a busy machine does not make two rounds of one.
const LATENCY: Duration = Duration::from_millis(100);

/// A store that answers late, and notes what it was asked.
#[derive(Debug, Default)]
struct Late {
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    /// Whether requests take long and are noted.
    on: bool,
    /// The last round that was answered.
    answered: usize,
    seen: Vec<(usize, String)>,
}

impl Late {
    fn start(&self) {
        *self.requests.lock().unwrap() = Requests { on: true, ..Requests::default() };
    }

    /// Rounds and requests since [`Self::start`], and what they were.
    fn stop(&self) -> (usize, usize, String) {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        let lines: Vec<String> =
            requests.seen.iter().map(|(round, request)| format!("{round} {request}")).collect();
        let rounds = requests.seen.iter().map(|(round, _)| *round).max().unwrap_or(0);
        (rounds, requests.seen.len(), lines.join("\n"))
    }

    /// Notes a request; its round, if requests take long.
    fn begin(&self, request: &Request) -> Option<usize> {
        let what = match request.verb {
            Verb::Put | Verb::Create => "PUT",
            Verb::Head => "HEAD",
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Copy => "COPY",
            // Counted elsewhere.
            Verb::Multipart | Verb::Delete => return None,
        };
        let mut requests = self.requests.lock().unwrap();
        let round = requests.answered + 1;
        if requests.on {
            requests.seen.push((round, format!("{what} {}", request.path)));
        }
        requests.on.then_some(round)
    }
}

#[async_trait]
impl Behaviour for Late {
    async fn ask(&self, request: &Request, _: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        let Some(round) = self.begin(request) else { return work.await };
        tokio::time::sleep(LATENCY).await;
        let answer = work.await;
        let mut requests = self.requests.lock().unwrap();
        requests.answered = requests.answered.max(round);
        answer
    }
}

/// Rows of a fragment.
const ROWS: i64 = 20_000;

/// A table of ten fragments, half of them with a deleted row: fifteen versions.
async fn table(name: &str) -> (Arc<Behaving<Late>>, String) {
    let (store, uri) = (Behaving::register(name, Late::default()), format!("memory://{name}/table"));
    let mut dataset = create(&uri, 0..ROWS).await;
    for start in 1..10 {
        dataset.insert(rows(start * ROWS..(start + 1) * ROWS), params(WriteMode::Append)).await.unwrap();
    }
    for start in 0..5 {
        let predicate = format!("a = {}", start * ROWS + 7);
        dataset.delete(&predicate, ConflictRetries::default()).await.unwrap();
    }
    (store, uri)
}

/// Runs a call and compares its rounds and requests with the most there may be.
async fn within<T>(store: &Late, rounds: usize, requests: usize, call: impl Future<Output = T>) -> T {
    store.start();
    let result = call.await;
    let (found_rounds, found_requests, seen) = store.stop();
    assert!(
        found_rounds <= rounds && found_requests <= requests,
        "{found_rounds} rounds and {found_requests} requests, at most {rounds} and {requests}:\n{seen}"
    );
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn opening() {
    let (store, uri) = table("rounds-open").await;
    let dataset = within(&store, 2, 2, open(&uri)).await;
    within(&store, 0, 0, async { assert_eq!(dataset.count_rows(None).await.unwrap(), 199_995) }).await;
    let old = pennon_table::OpenOptions { version: Some(VersionRef::Number(1)), ..options() };
    within(&store, 1, 1, Dataset::open(&uri, old)).await.unwrap();
    // The manifest is asked for again, and has not changed.
    let mut dataset = dataset;
    within(&store, 2, 2, dataset.checkout_latest()).await.unwrap();
    assert_eq!(within(&store, 2, 16, dataset.versions()).await.unwrap().len(), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn takes() {
    let (store, uri) = table("rounds-take").await;
    let positions = TakeRows::Positions((0..10).map(|n| n * 19_900).collect());
    let take = async {
        let dataset = open(&uri).await;
        dataset.take(positions, &TakeOptions::default()).await.unwrap()
    };
    assert_eq!(within(&store, 3, 17, take).await.num_rows(), 10);
    let take = async {
        let dataset = open(&uri).await;
        let ids = TakeRows::Ids(vec![RowId(3), RowId(45_000), RowId(190_000)]);
        dataset.take(ids, &TakeOptions::default()).await.unwrap()
    };
    assert_eq!(within(&store, 3, 8, take).await.num_rows(), 3);
}

/// A table of blobs that have a file each.
async fn blobs_in_files(uri: &str, blobs: usize) {
    let bytes = LargeBinaryArray::from_iter_values((0..blobs).map(|at| format!("the bytes of blob {at}")));
    let bytes: ArrayRef = Arc::new(bytes);
    let members =
        vec![Field::new("data", DataType::LargeBinary, true), Field::new("uri", DataType::Utf8, true)];
    let uris = new_null_array(&DataType::Utf8, blobs);
    let column = StructArray::new(members.into(), vec![bytes, uris], None);
    let is_blob = ("ARROW:extension:name".to_owned(), "lance.blob.v2".to_owned());
    let threshold = |which: &str| (format!("lance-encoding:blob-{which}-size-threshold"), "1".to_owned());
    let field = Field::new("b", column.data_type().clone(), true)
        .with_metadata([is_blob, threshold("inline"), threshold("dedicated")].into());
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(column)]).unwrap();
    let layout = CreateOptions { file_version: Some(FileVersion::V2_2), ..layout(true) };
    let options = WriteOptions { create: layout, ..params(WriteMode::Create) };
    Dataset::write(reader(batch), uri, options).await.unwrap();
}

/// Blobs in files of their own are asked for at once.
#[tokio::test(flavor = "multi_thread")]
async fn blobs() {
    const BLOBS: usize = 12;
    let (store, uri) = (Behaving::register("rounds-blobs", Late::default()), "memory://rounds-blobs/table");
    blobs_in_files(uri, BLOBS).await;
    let rows = || TakeRows::Positions((0..BLOBS).map(|row| row as u64).collect());
    let options = TakeOptions { blobs: BlobHandling::Binary, ..TakeOptions::default() };
    let dataset = open(uri).await;
    // Descriptors; sizes; bytes.
    let found = within(&store, 3, 2 * BLOBS + 2, dataset.take(rows(), &options)).await.unwrap();
    let found = found.column(0).as_binary::<i64>();
    assert_eq!(found.iter().flatten().map(<[u8]>::len).sum::<usize>(), 12 * 19 + 2);
    let dataset = open(uri).await;
    let found = within(&store, 2, BLOBS + 2, dataset.take_blobs("b", rows())).await.unwrap();
    assert_eq!(found.iter().filter_map(|(_, blob)| Some(blob.as_ref()?.size())).sum::<u64>(), 12 * 19 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans() {
    let (store, uri) = table("rounds-scan").await;
    let scan = async { open(&uri).await.count_rows(Some("a = 84321")).await.unwrap() };
    // Listing; manifest; ten files, which are small, and five deletion vectors.
    assert_eq!(within(&store, 3, 17, scan).await, 1);
    let scan = async {
        let options =
            ScanOptions { filter: Some(Filter::Sql("a = 84321".to_owned())), ..ScanOptions::default() };
        let scan = open(&uri).await.scan(&options).unwrap();
        scan.stream().try_collect::<Vec<_>>().await.unwrap()
    };
    assert_eq!(within(&store, 3, 17, scan).await.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    // Fragments that lineage leaves out are not asked for.
    let dataset = open(&uri).await;
    let filtered = |filter: &str| {
        let options = ScanOptions { filter: Some(Filter::Sql(filter.to_owned())), ..ScanOptions::default() };
        let batches = dataset.scan(&options).unwrap().stream().try_collect::<Vec<_>>();
        async { batches.await.unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>() }
    };
    assert_eq!(within(&store, 2, 2, filtered("_rowid = 3")).await, 1);
    assert_eq!(within(&store, 0, 0, filtered("_row_created_at_version > 20")).await, 0);
    // Listing; manifest; deletion vectors and whole files.
    let scan = async { values(&open(&uri).await).await.len() };
    assert_eq!(within(&store, 3, 17, scan).await, 199_995);
}

/// Of a table that is not small, files are opened by their ends, and pages are read where rows match.
#[tokio::test(flavor = "multi_thread")]
async fn larger_tables() {
    const FILES: i64 = 10;
    const ROWS: i64 = 500;
    let (store, uri) = (Behaving::register("rounds-large", Late::default()), "memory://rounds-large/table");
    let noise = |seed: u64| {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()
        };
        (0..256).flat_map(|_| next()).collect::<Vec<u8>>()
    };
    for file in 0..FILES {
        let values: Vec<i64> = (file * ROWS..(file + 1) * ROWS).collect();
        let blobs = BinaryArray::from_iter_values(values.iter().map(|v| noise(v.unsigned_abs() + 1)));
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int64Array::from(values))), ("noise", Arc::new(blobs))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mode = if file == 0 { WriteMode::Create } else { WriteMode::Append };
        Dataset::write(reader(batch), uri, params(mode)).await.unwrap();
    }
    let dataset = open(uri).await;
    // Statistics of ten files; values of one.
    assert_eq!(within(&store, 2, 11, dataset.count_rows(Some("a = 1234"))).await.unwrap(), 1);
    let read = dataset.session().metrics().counters().read_bytes;
    assert!(read < 1 << 20, "{read} bytes");
}

/// Of a table that is not small: a B-tree and the rows that it finds.
#[tokio::test(flavor = "multi_thread")]
async fn searches_by_index() {
    const ROWS: i64 = 700_000;
    let (store, uri) = (Behaving::register("rounds-index", Late::default()), "memory://rounds-index/table");
    let mixed = |at: i64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    let columns: [(&str, ArrayRef); 2] = [
        ("a", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        ("b", Arc::new(Int64Array::from_iter_values((0..ROWS).map(mixed)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    Dataset::write(reader(batch), uri, params(WriteMode::Create)).await.unwrap();
    open(uri).await.create_index(btree("b")).await.unwrap();
    let find = async {
        let filter = Some(Filter::Sql(format!("b = {}", mixed(ROWS / 3))));
        let scan = open(uri).await.scan(&ScanOptions { filter, ..ScanOptions::default() }).unwrap();
        scan.stream().try_collect::<Vec<_>>().await.unwrap()
    };
    // Listing; manifest; bounds and the ends of the pages and of the data; pages; rows.
    let found = within(&store, 5, 13, find).await;
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    // The values come from the pages, or those of the first rows: no data file is read.
    let key = |options: ScanOptions| async move {
        let columns = Some(Projection::Names(vec!["b".to_owned()]));
        let scan = open(uri).await.scan(&ScanOptions { columns, ..options }).unwrap();
        scan.stream().try_collect::<Vec<_>>().await.unwrap()
    };
    let filter = Some(Filter::Sql(format!("b = {}", mixed(ROWS / 3))));
    let found = within(&store, 4, 9, key(ScanOptions { filter, ..ScanOptions::default() })).await;
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    let first = FirstRows { column: "b".to_owned(), descending: false, nulls_first: false, rows: 1 };
    let found = within(&store, 4, 9, key(ScanOptions { first: Some(first), ..ScanOptions::default() })).await;
    let least: &Int64Array = found[0].column(0).as_primitive();
    assert_eq!(Some(least.value(0)), (0..ROWS).map(mixed).min());
    // From pages: those at the ends of the range, then those inside of it. Of more rows the column would be scanned.
    let mut values: Vec<_> = (0..ROWS).map(mixed).collect();
    values.sort_unstable();
    let bound = values[values.len() / 100 * 99];
    let count = async { open(uri).await.count_rows(Some(&format!("b > {bound}"))).await.unwrap() };
    let expected = u64::try_from(values.iter().filter(|value| **value > bound).count()).unwrap();
    assert_eq!(within(&store, 5, 12, count).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes() {
    let (store, uri) = table("rounds-write").await;
    let mut dataset = open(&uri).await;
    // Data file; transaction, twice as the store is asked whether it overwrites, and listing; manifest; hint.
    within(&store, 4, 6, dataset.insert(rows([200_000]), params(WriteMode::Append))).await.unwrap();
    within(&store, 4, 5, dataset.insert(rows([200_001]), params(WriteMode::Append))).await.unwrap();
    let delete = async {
        let mut dataset = open(&uri).await;
        dataset.delete("a = 84321", ConflictRetries::default()).await.unwrap()
    };
    assert_eq!(within(&store, 6, 25, delete).await.num_deleted_rows, 1);
    let update = async {
        let mut dataset = open(&uri).await;
        let assignments = [("a".to_owned(), "a + 0".to_owned())];
        dataset.update(&assignments, Some("a = 105321"), UpdateOptions::default()).await.unwrap()
    };
    assert_eq!(within(&store, 6, 26, update).await.num_rows_updated, 1);
    let merge = async {
        let mut dataset = open(&uri).await;
        let clauses = MergeClauses {
            on: vec!["a".to_owned()],
            when_matched: WhenMatched::UpdateAll,
            insert: true,
            ..MergeClauses::default()
        };
        let source = rows((0..20).map(|n| n * 12_000));
        dataset.merge_insert(source, &clauses, &MergeOptions::default()).await.unwrap()
    };
    assert_eq!(within(&store, 6, 37, merge).await.num_updated_rows, 17);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_carried_over() {
    let (store, uri) = table("rounds-carried-over").await;
    let (mut dataset, mut other) = (open(&uri).await, open(&uri).await);
    let matched = dataset.matching_rows("a = 8", None).await.unwrap();
    other.delete("a = 9", ConflictRetries::default()).await.unwrap();
    // Deletion file, transaction and listing; manifest of the other one; its deletion file; the deletion file on top of that
    // and the transaction again; manifest; hint.
    let delete = dataset.commit_delete(matched, "a = 8", None, Metadata::new());
    within(&store, 6, 10, delete).await.unwrap();
    assert_eq!(values(&open(&uri).await).await.len(), 199_993);
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds() {
    let (store, uri) = table("rounds-feed").await;
    let feed = async {
        let dataset = open(&uri).await;
        let begin = FeedPoint::Version(VersionRef::Number(8));
        let feed = dataset.changes(begin, None, &FeedOptions::default()).await.unwrap();
        feed.stream().try_collect::<Vec<_>>().await.unwrap()
    };
    let batches = within(&store, 4, 10, feed).await;
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2 * 20_000 + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn care() {
    let (store, uri) = table("rounds-care").await;
    let compact = async {
        let mut dataset = open(&uri).await;
        dataset.compact(&CompactionOptions::default()).await.unwrap()
    };
    // Whole files are read and the new one is put while two rounds reserve its id.
    let report = within(&store, 10, 30, compact).await;
    assert_eq!((report.metrics.fragments_removed, report.metrics.fragments_added), (10, 1));
    assert_eq!(values(&open(&uri).await).await.len(), 199_995);
    let cleanup = async {
        let options =
            CleanupOptions { older_than: None, retain_versions: Some(1), ..CleanupOptions::default() };
        open(&uri).await.cleanup_old_versions(&options).await.unwrap()
    };
    // One of the requests lists seals. Before manifests go, one says which and then tags, branches and restores are listed
    // once more; after that restores, and then branches and clones.
    assert_eq!(within(&store, 9, 39, cleanup).await.old_versions, 16);
    assert_eq!(values(&open(&uri).await).await.len(), 199_995);
}
