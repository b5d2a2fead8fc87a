//! The budget of requests, deadlines, and what is asked a second time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::StreamExt;
use object_store::memory::InMemory;
use object_store::{Error, GetResult, GetResultPayload, Result};
use pennon_core::{ErrorKind, RowId};
use pennon_table::compact::CompactionOptions;
use pennon_table::scan::{Missing, ScanOptions, TakeOptions, TakeRows};
use pennon_table::{
    ConflictRetries, ConnectOptions, Dataset, OpenOptions, RequestLimits, Session, StorageOptions, Store,
    UpdateOptions, WriteMode, WriteOptions,
};

use crate::stores::{Behaving, Behaviour, Observed, Request, Verb, reset};
use crate::support::*;

fn storage(pairs: &[(&str, &str)]) -> ConnectOptions {
    let storage_options: StorageOptions =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ConnectOptions { storage_options, ..ConnectOptions::default() }
}

async fn open_with(uri: &str, pairs: &[(&str, &str)]) -> Dataset {
    Dataset::open(uri, OpenOptions { connect: storage(pairs), ..options() }).await.unwrap()
}

/// A table of so many fragments.
async fn table(uri: &str, fragments: i64) {
    create_cut(uri, 0..fragments * 10, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_are_bounded() {
    let observed = Observed { latency: Duration::from_millis(5), ..Observed::default() };
    let store = Behaving::register("requests-budget", observed);
    let uri = "memory://requests-budget/table";
    table(uri, 40).await;
    for (most, limits) in [
        (1, &[("max_requests_in_flight", "1")][..]),
        (5, &[("max_requests_in_flight", "5")]),
        (1, &[("max_bytes_in_flight", "1")]),
    ] {
        let dataset = open_with(uri, limits).await;
        store.most.store(0, Ordering::SeqCst);
        let scan = dataset.scan(&ScanOptions::default()).unwrap();
        let rows: usize =
            scan.stream().map(|batch| batch.unwrap().num_rows()).fold(0, |a, b| async move { a + b }).await;
        let seen = store.most.load(Ordering::SeqCst);
        assert_eq!((rows, seen), (400, most), "{limits:?}");
    }
}

/// Without a cache, what is deleted of a fragment is read once for all the ids that are asked for.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_are_read_once_for_many_ids() {
    let store = Behaving::register("requests-ids", Observed::default());
    let uri = "memory://requests-ids/table";
    let params = WriteOptions { create: layout(false), ..params(WriteMode::Create) };
    Dataset::write(rows(0..20), uri, params).await.unwrap();
    open(uri).await.delete("a = 3", ConflictRetries::default()).await.unwrap();
    let connect =
        ConnectOptions { cache: pennon_table::CacheSizes { bytes: 0 }, ..ConnectOptions::default() };
    let dataset = Dataset::open(uri, OpenOptions { connect, ..options() }).await.unwrap();
    let mut requests = Vec::new();
    for ids in [7..8, 4..12] {
        store.requests.store(0, Ordering::SeqCst);
        let options = TakeOptions { missing: Missing::Error, ..TakeOptions::default() };
        dataset.take(TakeRows::Ids(ids.map(RowId).collect()), &options).await.unwrap();
        requests.push(store.requests.load(Ordering::SeqCst));
    }
    assert_eq!(requests[0], requests[1]);
}

/// A budget of one request, and of one byte: whoever waits for another request with a permit waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn one_request_at_a_time_is_enough_for_everything() {
    for (name, limits) in
        [("one", [("max_requests_in_flight", "1")]), ("byte", [("max_bytes_in_flight", "1")])]
    {
        let uri = format!("memory://requests-{name}/table");
        table(&uri, 5).await;
        let all = async {
            let mut dataset = open_with(&uri, &limits).await;
            dataset.insert(rows(50..60), params(WriteMode::Append)).await.unwrap();
            dataset.delete("a % 7 = 0", ConflictRetries::default()).await.unwrap();
            let assignments = [("a".to_owned(), "a + 1000".to_owned())];
            dataset.update(&assignments, Some("a % 5 = 0"), UpdateOptions::default()).await.unwrap();
            dataset.compact(&CompactionOptions::default()).await.unwrap();
            dataset.tags().create("t", None).await.unwrap();
            assert_eq!(dataset.versions().await.unwrap().len(), 6);
            dataset.validate().await.unwrap();
            values(&dataset).await
        };
        let found = tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
        let expected = (0..60).filter(|n| n % 7 != 0).map(|n| if n % 5 == 0 { n + 1000 } else { n });
        let mut expected: Vec<i64> = expected.collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_budget_of_nothing_is_refused() {
    for name in ["max_requests_in_flight", "max_bytes_in_flight"] {
        let options = OpenOptions { connect: storage(&[(name, "0")]), ..options() };
        let error = Dataset::open("memory://requests-zero/table", options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let requests = RequestLimits { requests: 0, ..RequestLimits::default() };
    let options =
        OpenOptions { connect: ConnectOptions { requests, ..ConnectOptions::default() }, ..options() };
    let error = Dataset::open("memory://requests-zero/table", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let session =
        Session::with_limits(pennon_table::CacheSizes { bytes: 0 }, RequestLimits { requests: 1, bytes: 1 });
    let connect = ConnectOptions { session: Some(session), ..ConnectOptions::default() };
    let write = WriteOptions { connect, ..params(WriteMode::Create) };
    Dataset::write(rows([1]), "memory://requests-zero/table", write).await.unwrap();
    let misspelt =
        OpenOptions { connect: storage(&[("max_request_in_flight", "1")]), ..crate::support::options() };
    let error = Dataset::open("memory://requests-zero/table", misspelt).await.unwrap_err();
    assert!(error.to_string().contains("max_requests_in_flight"), "{error}");
}

/// The n-th request of a verb goes wrong in this way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mishap {
    /// The store is busy.
    SlowDown,
    /// No answer ever comes.
    Hang,
    /// Half of the body comes, then an error or nothing.
    Cut(bool),
    /// The request was done, the answer was lost.
    Lost,
}

#[derive(Debug, Default)]
struct Planned {
    mishaps: Mutex<BTreeMap<(u8, usize), Mishap>>,
    counts: Mutex<BTreeMap<u8, usize>>,
    met: AtomicUsize,
    /// What becomes of the body of the next answer.
    cut: Mutex<Option<bool>>,
    creates: AtomicUsize,
}

impl Planned {
    fn plan(&self, verb: Verb, number: usize, mishap: Mishap) {
        self.counts.lock().unwrap().clear();
        self.mishaps.lock().unwrap().insert((verb as u8, number), mishap);
    }

    fn next(&self, verb: Verb) -> Option<Mishap> {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(verb as u8).or_default();
        *count += 1;
        let mishap = self.mishaps.lock().unwrap().remove(&(verb as u8, *count));
        self.met.fetch_add(usize::from(mishap.is_some()), Ordering::SeqCst);
        mishap
    }
}

#[async_trait]
impl Behaviour for Planned {
    async fn ask(&self, request: &Request, _: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        if request.verb == Verb::Create {
            // Others are those that ask whether the store keeps its word.
            if !request.is_of_manifest() {
                return work.await;
            }
            self.creates.fetch_add(1, Ordering::SeqCst);
        }
        match self.next(request.verb) {
            None => work.await,
            Some(Mishap::SlowDown) => Err(Error::Generic { store: "test", source: "503 SlowDown".into() }),
            Some(Mishap::Hang) => futures::future::pending().await,
            Some(Mishap::Cut(fails)) => {
                *self.cut.lock().unwrap() = Some(fails);
                work.await
            }
            Some(Mishap::Lost) => {
                work.await?;
                Err(reset())
            }
        }
    }

    fn answered(&self, _: &Request, mut answer: GetResult) -> GetResult {
        let Some(fails) = self.cut.lock().unwrap().take() else { return answer };
        let half = usize::try_from((answer.range.end - answer.range.start) / 2).unwrap();
        let GetResultPayload::Stream(body) = answer.payload else { panic!("a file") };
        let cut = body.map(move |piece| piece.map(|bytes| bytes.slice(..half.min(bytes.len()))));
        let end = futures::stream::iter(fails.then(|| Err(reset())));
        answer.payload = GetResultPayload::Stream(cut.chain(end).boxed());
        answer
    }
}

const PATIENT: [(&str, &str); 1] = [("request_timeout", "150ms")];

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_asked_twice_is_asked_twice() {
    let store = Behaving::register("requests-twice", Planned::default());
    let uri = "memory://requests-twice/table";
    table(uri, 3).await;
    let mishaps = [Mishap::SlowDown, Mishap::Hang, Mishap::Lost, Mishap::Cut(true), Mishap::Cut(false)];
    let mut version = 1;
    for mishap in mishaps {
        for verb in [Verb::List, Verb::Get, Verb::Put, Verb::Delete] {
            if verb != Verb::Get && matches!(mishap, Mishap::Cut(_)) {
                continue;
            }
            let case = format!("{verb:?} {mishap:?}");
            let before = store.met.load(Ordering::SeqCst);
            // The second of all, where there are several.
            store.plan(verb, if verb == Verb::List { 1 } else { 2 }, mishap);
            let mut dataset = open_with(uri, &PATIENT).await;
            match verb {
                Verb::Delete => {
                    let store =
                        Store::open("memory://requests-twice/files", dataset.storage_options()).unwrap();
                    for name in ["a", "b"] {
                        store.put(name, "x".into(), pennon_table::Durability::Os).await.unwrap();
                    }
                    assert!(store.delete_all().await.unwrap(), "{case}");
                    assert!(!store.delete_all().await.unwrap(), "{case}");
                }
                Verb::Put => {
                    dataset.delete(&format!("a = {version}"), ConflictRetries::default()).await.unwrap();
                    version += 1;
                }
                _ => {}
            }
            assert_eq!(dataset.version().0, version, "{case}");
            assert_eq!(values(&dataset).await.len(), 31 - usize::try_from(version).unwrap(), "{case}");
            assert_eq!(store.met.load(Ordering::SeqCst), before + 1, "{case}");
            if verb != Verb::Delete {
                assert_eq!(dataset.session().metrics().counters().request_retries, 1, "{case}");
            }
        }
    }
    open(uri).await.validate().await.unwrap();
}

/// A manifest is put once: who put it and heard nothing looks for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_conditional_put_is_not_sent_twice() {
    let store = Behaving::register("requests-once", Planned::default());
    let uri = "memory://requests-once/table";
    table(uri, 1).await;
    for (mishap, commits) in [(Mishap::Lost, true), (Mishap::Hang, false), (Mishap::SlowDown, false)] {
        let mut dataset = open_with(uri, &PATIENT).await;
        dataset.insert(rows([100]), params(WriteMode::Append)).await.unwrap();
        let before = dataset.version().0;
        store.creates.store(0, Ordering::SeqCst);
        store.plan(Verb::Create, 1, mishap);
        let result = dataset.delete("a = 100", ConflictRetries::default()).await;
        assert_eq!(store.creates.load(Ordering::SeqCst), 1, "{mishap:?}: {result:?}");
        assert_eq!(result.is_ok(), commits, "{mishap:?}: {result:?}");
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
        }
        assert_eq!(open(uri).await.version().0, before + u64::from(commits));
        if !commits {
            open_with(uri, &PATIENT).await.delete("a = 100", ConflictRetries::default()).await.unwrap();
        }
    }
}

/// A call that is given up gives its permit back at once.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_stands_in_nobodys_way() {
    let store = Behaving::register("requests-dropped", Planned::default());
    let uri = "memory://requests-dropped/table";
    table(uri, 1).await;
    let limits = [("max_requests_in_flight", "1"), ("request_timeout", "60s")];
    let dataset = open_with(uri, &limits).await;
    store.plan(Verb::List, 1, Mishap::Hang);
    let waited = tokio::time::timeout(Duration::from_millis(50), dataset.latest_version()).await;
    assert!(waited.is_err());
    let started = Instant::now();
    assert_eq!(dataset.latest_version().await.unwrap().0, 1);
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// Without an answer within the deadline, nor a second time, the error says so.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_too_long_hears_why() {
    let store = Behaving::register("requests-late", Planned::default());
    let uri = "memory://requests-late/table";
    table(uri, 1).await;
    let dataset = open_with(uri, &PATIENT).await;
    for number in [1, 2] {
        store.mishaps.lock().unwrap().insert((Verb::List as u8, number), Mishap::Hang);
    }
    store.counts.lock().unwrap().clear();
    let error = dataset.latest_version().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
    assert!(error.to_string().contains("no answer within 150ms"), "{error}");
}

/// Whoever gives up a writer does not wait for a store that does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_behind_is_removed_by_somebody_else() {
    use arrow_array::RecordBatchIterator;
    let store = Behaving::register("requests-leftovers", Planned::default());
    let uri = "memory://requests-leftovers/table";
    table(uri, 1).await;
    let mut dataset = open_with(uri, &[("request_timeout", "2s")]).await;
    let before = store.paths();
    store.plan(Verb::Delete, 1, Mishap::Hang);
    let batches = [batch(0..10), batch(10..20)].map(Ok);
    let failing = batches.into_iter().chain([Err(arrow_schema::ArrowError::ComputeError("enough".into()))]);
    let data = RecordBatchIterator::new(failing, batch([]).schema());
    let few = WriteOptions { max_rows_per_file: 10, ..params(WriteMode::Append) };
    let started = Instant::now();
    let error = dataset.insert(Box::new(data), few).await.unwrap_err();
    assert!(error.to_string().contains("enough"), "{error}");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    // The deletion that hung is made again.
    while store.paths() != before {
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", store.paths());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
