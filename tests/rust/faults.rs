//! Stores whose answers get lost, that lag behind, throttle, overwrite or stop: every commit happens once or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, PutMode, Result};
use pennon_core::ErrorKind;
use pennon_core::schema::Alteration;
use pennon_table::compact::CompactionOptions;
use pennon_table::{
    CommitStatus, ConflictRetries, Dataset, MergeClauses, MergeOptions, NewColumns, VersionRef, WhenMatched,
    WriteMode,
};

use crate::stores::{Behaving, Behaviour, Request, Verb, is_manifest, reset};
use crate::support::*;

/// A store that goes wrong in one of several ways.
#[derive(Debug)]
struct Faulty {
    /// Manifests are written, the answer is an error.
    lose_answers: AtomicBool,
    /// Manifests are written, the answer is that they exist already: what a client's own retry looks like.
    deny: AtomicBool,
    /// Nothing whose path contains `data/` can be written.
    refuse_data: AtomicBool,
    /// Manifests cannot be written.
    refuse_manifests: AtomicBool,
    /// The condition of a put is ignored.
    overwrite: AtomicBool,
    /// Listings leave out as many of the newest manifests.
    lag: AtomicUsize,
    /// Every so many changes one is refused; 0 is never.
    throttle: AtomicUsize,
    /// Changes take that many milliseconds.
    slowness: AtomicUsize,
    /// Changes that are still possible: after that the process is as good as dead.
    changes_left: AtomicUsize,
    changes: AtomicUsize,
    faults: AtomicUsize,
}

impl Faulty {
    fn register(name: &str) -> Arc<Behaving<Self>> {
        let behaviour = Self {
            lose_answers: AtomicBool::default(),
            deny: AtomicBool::default(),
            refuse_data: AtomicBool::default(),
            refuse_manifests: AtomicBool::default(),
            overwrite: AtomicBool::default(),
            lag: AtomicUsize::default(),
            throttle: AtomicUsize::default(),
            slowness: AtomicUsize::default(),
            changes_left: AtomicUsize::new(usize::MAX),
            changes: AtomicUsize::default(),
            faults: AtomicUsize::default(),
        };
        Behaving::register(name, behaviour)
    }

    fn fault(&self) -> Error {
        self.faults.fetch_add(1, Ordering::Relaxed);
        reset()
    }

    /// Called before each change except deletions.
    async fn change(&self) -> Result<()> {
        let left = self.changes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if left.is_err() {
            return Err(self.fault());
        }
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        let slowness = self.slowness.load(Ordering::Relaxed);
        if slowness > 0 {
            tokio::time::sleep(Duration::from_millis(u64::try_from(number % slowness).unwrap())).await;
        }
        match self.throttle.load(Ordering::Relaxed) {
            0 => Ok(()),
            every if number % every == every - 1 => Err(self.fault()),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Behaviour for Faulty {
    async fn ask(&self, request: &Request, _: &InMemory, work: BoxFuture<'_, Result<()>>) -> Result<()> {
        let on = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let is_put = matches!(request.verb, Verb::Put | Verb::Create);
        match request.verb {
            Verb::Delete if self.changes_left.load(Ordering::Relaxed) == 0 => return Err(self.fault()),
            verb if verb.changes() && verb != Verb::Delete => self.change().await?,
            _ => {}
        }
        if is_put
            && (on(&self.refuse_data) && request.path.as_ref().contains("/data/")
                || on(&self.refuse_manifests) && request.is_of_manifest())
        {
            return Err(self.fault());
        }
        work.await?;
        if is_put && request.is_of_manifest() && self.lose_answers.swap(false, Ordering::Relaxed) {
            return Err(self.fault());
        }
        if is_put && request.is_of_manifest() && self.deny.swap(false, Ordering::Relaxed) {
            self.faults.fetch_add(1, Ordering::Relaxed);
            return Err(Error::AlreadyExists { path: request.path.to_string(), source: "412".into() });
        }
        Ok(())
    }

    fn put_mode(&self, mode: PutMode) -> PutMode {
        if self.overwrite.load(Ordering::Relaxed) { PutMode::Overwrite } else { mode }
    }

    /// What a listing shows that lags behind.
    fn listed(&self, mut objects: Vec<ObjectMeta>) -> Vec<ObjectMeta> {
        let mut manifests: Vec<Path> =
            objects.iter().map(|o| o.location.clone()).filter(is_manifest).collect();
        manifests.sort();
        manifests.truncate(self.lag.load(Ordering::Relaxed));
        objects.retain(|o| !manifests.contains(&o.location));
        objects
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_a_commit() {
    let faulty = Faulty::register("lost");
    let uri = "memory://lost/table";
    for (number, flag) in [&faulty.lose_answers, &faulty.deny].into_iter().enumerate() {
        let uri = format!("{uri}{number}");
        flag.store(true, Ordering::Relaxed);
        let mut dataset = create(&uri, 0..3).await;
        assert_eq!(dataset.version().0, 1);
        flag.store(true, Ordering::Relaxed);
        dataset.insert(rows(3..5), params(WriteMode::Append)).await.unwrap();
        assert_eq!(dataset.version().0, 2);
        flag.store(true, Ordering::Relaxed);
        dataset.delete("a = 0", ConflictRetries::default()).await.unwrap();
        assert_eq!((dataset.version().0, open(&uri).await.version().0), (3, 3));
        assert_eq!(values(&open(&uri).await).await, [1, 2, 3, 4]);
        dataset.validate().await.unwrap();
    }
    assert_eq!(faulty.faults.load(Ordering::Relaxed), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_store_leaves_the_table_as_it_was() {
    let faulty = Faulty::register("failing");
    let uri = "memory://failing/table";
    let mut dataset = create(uri, 0..3).await;
    for flag in [&faulty.refuse_data, &faulty.refuse_manifests] {
        flag.store(true, Ordering::Relaxed);
        let error = dataset.insert(rows([9]), params(WriteMode::Append)).await.unwrap_err();
        let is_manifest = std::ptr::eq(flag, &faulty.refuse_manifests);
        let kind = if is_manifest { ErrorKind::CommitUnknown } else { ErrorKind::Store };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("the connection was reset"), "{error}");
        if is_manifest {
            let uuid = error.transaction().unwrap();
            assert_eq!(dataset.commit_status(uuid).await.unwrap(), CommitStatus::NotCommitted);
        }
        assert_eq!((dataset.version().0, open(uri).await.version().0), (1, 1));
        flag.store(false, Ordering::Relaxed);
    }
    dataset.insert(rows([9]), params(WriteMode::Append)).await.unwrap();
    assert_eq!(values(&dataset).await, [0, 1, 2, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_overwrites_is_refused() {
    let faulty = Faulty::register("overwriting");
    let uri = "memory://overwriting/table";
    create(uri, 0..3).await;
    faulty.overwrite.store(true, Ordering::Relaxed);
    let refused = |error: pennon_core::Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("the store overwrites files"), "{error}");
    };
    refused(append(uri, [3]).await.unwrap_err());
    let new = Dataset::write(rows([3]), "memory://overwriting/new", params(WriteMode::Create)).await;
    refused(new.unwrap_err());
    assert!(Dataset::open("memory://overwriting/new", options()).await.unwrap_err().is_not_found());
    assert_eq!(values(&open(uri).await).await, [0, 1, 2]);
    // A handle asks once, when it first commits.
    faulty.overwrite.store(false, Ordering::Relaxed);
    let mut dataset = open(uri).await;
    dataset.insert(rows([3]), params(WriteMode::Append)).await.unwrap();
    let before = faulty.changes.load(Ordering::Relaxed);
    dataset.insert(rows([4]), params(WriteMode::Append)).await.unwrap();
    // Data file, transaction file, manifest, hint.
    assert_eq!(faulty.changes.load(Ordering::Relaxed) - before, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_lags_behind_hides_no_commit() {
    let faulty = Faulty::register("lagging");
    let uri = "memory://lagging/table";
    create(uri, 0..10).await;
    for value in 10..14 {
        append(uri, [value]).await.unwrap();
    }
    for lag in [1, 2, 3] {
        let before = { open(uri).await }.version().0;
        faulty.lag.store(lag, Ordering::Relaxed);
        let stale = open(uri).await;
        assert_eq!(stale.version().0, before - u64::try_from(lag).unwrap());
        stale
            .clone()
            .insert(rows([100 + i64::try_from(lag).unwrap()]), params(WriteMode::Append))
            .await
            .unwrap();
        let options = ConflictRetries::default();
        stale.clone().delete(&format!("a = {lag}"), options).await.unwrap();
        faulty.lag.store(0, Ordering::Relaxed);
        assert_eq!(open(uri).await.version().0, before + 2);
    }
    let dataset = open(uri).await;
    dataset.validate().await.unwrap();
    assert_eq!(values(&dataset).await, [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 101, 102, 103]);
}

/// What became of a transaction, asked until the store answers.
async fn status_of(uri: &str, uuid: &str) -> CommitStatus {
    loop {
        if let Ok(dataset) = Dataset::open(uri, options()).await
            && let Ok(status) = dataset.commit_status(uuid).await
        {
            return status;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn throttled_and_slow_writers_commit_once() {
    for (name, throttle, slowness) in [("throttled", 5, 0), ("slow", 0, 7), ("both", 7, 5)] {
        let faulty = Faulty::register(name);
        let uri = format!("memory://{name}/table");
        create(&uri, [-1]).await;
        faulty.throttle.store(throttle, Ordering::Relaxed);
        faulty.slowness.store(slowness, Ordering::Relaxed);
        let writers = (0..4).map(|writer| {
            let uri = uri.clone();
            tokio::spawn(async move {
                let (mut commits, mut errors) = (BTreeSet::new(), 0);
                for value in (0..8).map(|round| writer * 10 + round) {
                    // The caller tries again after an error: that must not write the rows twice.
                    while !commits.contains(&value) {
                        match append(&uri, [value]).await {
                            Ok(_) => drop(commits.insert(value)),
                            Err(error) if error.kind() == ErrorKind::CommitUnknown => {
                                let status = status_of(&uri, error.transaction().unwrap()).await;
                                if let CommitStatus::Committed(_) = status {
                                    commits.insert(value);
                                }
                                errors += 1;
                            }
                            Err(error) => {
                                assert!(error.kind() == ErrorKind::Store || error.is_retryable(), "{error}");
                                errors += 1;
                            }
                        }
                    }
                }
                (commits, errors)
            })
        });
        let (mut expected, mut errors) = (BTreeSet::from([-1]), 0);
        for writer in futures::future::join_all(writers).await {
            let (commits, failed) = writer.unwrap();
            expected.extend(commits);
            errors += failed;
        }
        faulty.throttle.store(0, Ordering::Relaxed);
        assert_eq!(errors > 0, throttle > 0, "{name}: {errors} errors");
        let dataset = open(&uri).await;
        dataset.validate().await.unwrap();
        assert_eq!(values(&dataset).await, expected.into_iter().collect::<Vec<i64>>());
        assert_eq!(dataset.version().0, 33);
    }
}

/// One step of the program that is stopped everywhere.
async fn step(number: usize, uri: &str) -> pennon_core::Result<()> {
    if number == 0 {
        return Dataset::write(rows([1, 2, 3]), uri, params(WriteMode::Create)).await.map(drop);
    }
    let mut dataset = Dataset::open(uri, options()).await?;
    match number {
        1 => dataset.insert(rows([4, 5]), params(WriteMode::Append)).await,
        2 => dataset.delete("a = 2", ConflictRetries::default()).await.map(drop),
        3 => dataset.tags().create("three", Some(VersionRef::Number(3))).await,
        4 => dataset.insert(rows([7, 8]), params(WriteMode::Overwrite)).await,
        5 => dataset.checkout(VersionRef::Tag("three".to_owned())).await?.restore().await,
        6 => dataset.insert(rows([9]), params(WriteMode::Append)).await,
        _ => {
            let clauses = MergeClauses {
                on: vec!["a".to_owned()],
                when_matched: WhenMatched::UpdateAll,
                insert: true,
                ..MergeClauses::default()
            };
            dataset.merge_insert(rows([3, 10]), &clauses, &MergeOptions::default()).await.map(drop)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_between_two_requests_leaves_a_whole_version() {
    let faulty = Faulty::register("stopping");
    let mut states = 0;
    for stopped in 0..8 {
        for left in 0.. {
            let uri = format!("memory://stopping/{stopped}-{left}");
            faulty.changes_left.store(usize::MAX, Ordering::Relaxed);
            for number in 0..stopped {
                step(number, &uri).await.unwrap();
            }
            let before = match Dataset::open(&uri, options()).await {
                Ok(dataset) => Some((dataset.version(), values(&dataset).await)),
                Err(_) => None,
            };
            faulty.changes_left.store(left, Ordering::Relaxed);
            let finished = step(stopped, &uri).await.is_ok();
            let spare = faulty.changes_left.swap(usize::MAX, Ordering::Relaxed);
            states += 1;
            let case = format!("step {stopped} after {left} changes");
            let after = Dataset::open(&uri, options()).await;
            match (&before, after) {
                (None, Err(error)) => assert!(error.is_not_found() && !finished, "{case}: {error}"),
                (_, Err(error)) => panic!("{case}: {error}"),
                (before, Ok(mut dataset)) => {
                    dataset.validate().await.unwrap();
                    let mut found = values(&dataset).await;
                    if !finished {
                        let old = before.as_ref().is_some_and(|(version, values)| {
                            (*version, values) == (dataset.version(), &found)
                        });
                        assert!(old, "{case}: version {} with {found:?}", dataset.version());
                    }
                    dataset.insert(rows([1000]), params(WriteMode::Append)).await.unwrap();
                    found.push(1000);
                    let reopened = open(&uri).await;
                    reopened.validate().await.unwrap();
                    assert_eq!(values(&reopened).await, found, "{case}");
                }
            }
            if finished && spare > 0 {
                break;
            }
        }
    }
    println!("{states} states");
    assert!(states > 25, "{states} states");
}

/// New columns, another type and a compaction, stopped between any two requests.
#[tokio::test(flavor = "multi_thread")]
async fn columns_and_compactions_come_whole_or_not_at_all() {
    let faulty = Faulty::register("evolving");
    for kind in 0..3 {
        for left in 0.. {
            let uri = format!("memory://evolving/{kind}-{left}");
            faulty.changes_left.store(usize::MAX, Ordering::Relaxed);
            let mut dataset = create_cut(&uri, 0..6, 2).await;
            dataset.delete("a = 3", ConflictRetries::default()).await.unwrap();
            faulty.changes_left.store(left, Ordering::Relaxed);
            let done = match kind {
                0 => {
                    let columns = vec![("b".to_owned(), "a + 1".to_owned())];
                    dataset.add_columns(NewColumns::Expressions(columns), None).await
                }
                1 => {
                    let data_type = Some(arrow_schema::DataType::LargeUtf8);
                    let path = "name".to_owned();
                    dataset.alter_columns(&[Alteration { path, data_type, ..Alteration::default() }]).await
                }
                _ => dataset.compact(&CompactionOptions::default()).await.map(drop),
            };
            let spare = faulty.changes_left.swap(usize::MAX, Ordering::Relaxed);
            let case = format!("kind {kind} after {left} changes");
            let after = open(&uri).await;
            after.validate().await.unwrap();
            assert_eq!(values(&after).await, [0, 1, 2, 4, 5], "{case}");
            let is_complete = match kind {
                0 => after.schema().field("b").is_some(),
                1 => after.schema().max_field_id().0 == 2,
                _ => after.manifest().fragments.len() == 1,
            };
            assert_eq!(done.is_ok(), is_complete, "{case}: {done:?}");
            if is_complete && spare > 0 {
                break;
            }
        }
    }
}
