//! Jobs whose tasks are told which rows are deleted, updated and inserted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use futures::TryStreamExt;
use pennon_core::schema::Metadata;
use pennon_core::transaction::Operation;
use pennon_core::{ErrorKind, FragmentId, RowAddress, Version};
use pennon_table::jobs::{ChangeWork, Division, JobPlan, ScanWork, Task, TaskResult, Work};
use pennon_table::scan::Projection;
use pennon_table::{ConflictRetries, Dataset, TransactionOptions, UpdateOptions, WriteMode, WriteOptions};

use crate::jobs::commit;
use crate::jobs_with_rows::{create_pairs, pairs, pairs_by_id};
use crate::support::*;

type Row = (Option<u64>, &'static str, i64, Option<i64>);

/// Address, change, `a` and `n`.
fn changes(rows: &[Row]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("_rowaddr", Arc::new(rows.iter().map(|row| row.0).collect::<UInt64Array>())),
        ("_change_type", Arc::new(rows.iter().map(|row| Some(row.1)).collect::<StringArray>())),
        ("a", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>())),
        ("n", Arc::new(rows.iter().map(|row| row.3).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn work(scan: bool, keys: &[&str]) -> Work {
    let columns = Some(Projection::Names(vec!["a".to_owned()]));
    let scan = scan.then(|| ScanWork { columns, ..ScanWork::default() });
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Work::ChangeRows(
        ChangeWork {
            scan,
            changes: changes(&[]).schema(),
            updates: None,
            keys,
            exact_keys: true,
            predicate: None,
        }
        .into(),
    )
}

/// Rows whose `a` is a multiple of five are deleted, those after them get another `n`, and the last has a successor.
fn decided(a: i64, address: u64) -> Vec<Row> {
    let change = match a % 5 {
        0 => Some((Some(address), "delete", 0, None)),
        1 => Some((Some(address), "update", a, Some(-a))),
        _ => None,
    };
    let inserted = (a == 49).then_some((None, "insert", 149, Some(0)));
    change.into_iter().chain(inserted).collect()
}

async fn run(plan: &JobPlan, dataset: &Dataset) -> Vec<TaskResult> {
    let mut results = Vec::new();
    for number in 0..plan.num_tasks().unwrap() {
        let task = Task::from_json(&plan.task(number).unwrap().to_json().unwrap()).unwrap();
        assert_eq!(task, plan.task(number).unwrap());
        let scan = dataset.scan(&task.scan_options(dataset).unwrap()).unwrap();
        let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
        let mut rows = Vec::new();
        for batch in batches {
            let addresses = batch["_rowaddr"].as_primitive::<UInt64Type>().values();
            let values = batch["a"].as_primitive::<Int64Type>().values();
            rows.extend(values.iter().zip(addresses).flat_map(|(a, address)| decided(*a, *address)));
        }
        let given = reader(changes(&rows));
        let result = task.write(Some(dataset), given, WriteOptions::default()).await.unwrap();
        let parsed = TaskResult::from_json(&result.to_json().unwrap()).unwrap();
        assert_eq!(parsed, result);
        results.push(parsed);
    }
    results
}

fn expected(rows: impl IntoIterator<Item = (u64, (i64, Option<i64>))>) -> BTreeMap<u64, (i64, Option<i64>)> {
    let changed = |(id, (a, n)): (u64, (i64, Option<i64>))| match a % 5 {
        0 => None,
        1 => Some((id, (a, Some(-a)))),
        _ => Some((id, (a, n))),
    };
    rows.into_iter().filter_map(changed).chain([(50, (149, Some(0)))]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_becomes_what_was_decided() {
    let (_directory, [uri, _]) = uris("changed-rows");
    for tasks in [1, 2, 3, 7] {
        let base = create_pairs(&format!("{uri}-{tasks}"), 50).await;
        let wanted = expected(pairs_by_id(&base).await);
        let plan = base.plan_job(work(true, &["a"]), Division::Tasks(tasks)).unwrap();
        let results = run(&plan, &base).await;
        let properties = Metadata::from_iter([("by".to_owned(), "a test".to_owned())]);
        let options = TransactionOptions::default();
        let report = plan.commit(Some(&base), results.clone(), properties, options.clone()).await.unwrap();
        let counts = report.merged.unwrap();
        assert_eq!((counts.num_inserted_rows, counts.num_updated_rows, counts.num_deleted_rows), (1, 10, 10));
        let done = report.dataset;
        done.validate().await.unwrap();
        assert_eq!((pairs_by_id(&done).await, done.version()), (wanted, Version(2)));
        let transaction = done.read_transaction(done.version()).await.unwrap().unwrap();
        assert_eq!(transaction.properties.get("by").map(String::as_str), Some("a test"));
        assert!(matches!(transaction.operation, Operation::Update(_)));
        let (_, repeated) = commit(&plan, &base, [results.clone(), results].concat()).await.unwrap();
        assert_eq!(repeated.version(), Version(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_conflict_only_what_changed_is_decided_again() {
    let (_directory, [uri, _]) = uris("changed-rows-again");
    let base = create_pairs(&uri, 50).await;
    let plan = base.plan_job(work(true, &[]), Division::Tasks(4)).unwrap();
    let results = run(&plan, &base).await;
    let mut other = open(&uri).await;
    let assignments = [("n".to_owned(), "1000".to_owned())];
    other.update(&assignments, Some("a = 1"), UpdateOptions::default()).await.unwrap();
    let before = pairs_by_id(&other).await;
    assert!(commit(&plan, &base, results.clone()).await.unwrap_err().is_retryable());
    let renewed = plan.renew(&base, &other, results).unwrap();
    let tasks = (0..renewed.num_tasks().unwrap()).map(|number| renewed.task(number).unwrap());
    let planned: BTreeSet<_> = tasks.flat_map(|task| task.slices).map(|slice| slice.fragment.0).collect();
    assert!(planned.contains(&0) && planned.contains(&4) && planned.len() < 5, "{planned:?}");
    let (_, done) = commit(&renewed, &other, run(&renewed, &other).await).await.unwrap();
    assert_eq!(pairs_by_id(&done).await, expected(before));
    done.validate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_inserted_by_one_of_two_jobs() {
    let (_directory, [uri, _]) = uris("changed-rows-keys");
    let base = create_pairs(&uri, 4).await;
    let insert = |a| vec![(None, "insert", a, Some(0))];
    for (rows, conflicts) in [(insert(7), true), (insert(8), false)] {
        let base = { open(&uri).await };
        let mut plans = Vec::new();
        for rows in [insert(7), rows] {
            let plan = base.plan_job(work(false, &["a"]), Division::Auto).unwrap();
            assert!(plan.num_tasks().is_none());
            let task = plan.task(0).unwrap();
            let write = task.write(Some(&base), reader(changes(&rows)), WriteOptions::default());
            plans.push((plan, write.await.unwrap()));
        }
        let (second, result) = plans.pop().unwrap();
        let (first, won) = plans.pop().unwrap();
        commit(&first, &base, vec![won]).await.unwrap();
        match commit(&second, &base, vec![result.clone()]).await {
            Ok(_) => assert!(!conflicts),
            Err(error) => assert!(conflicts && error.is_retryable(), "{error}"),
        }
        let error = second.renew(&base, &open(&uri).await, vec![result]).unwrap_err();
        assert!(error.to_string().contains("cannot be planned again"), "{error}");
    }
    drop(base);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_match_by_more_than_their_keys_conflict_with_every_append() {
    let (_directory, [uri, _]) = uris("changed-rows-inexact");
    for (exact_keys, conflicts) in [(true, false), (false, true)] {
        let uri = format!("{uri}-{exact_keys}");
        let base = create_pairs(&uri, 4).await;
        let Work::ChangeRows(work) = work(false, &["a"]) else { unreachable!() };
        let work = Work::ChangeRows(ChangeWork { exact_keys, ..work.as_ref().clone() }.into());
        let plan = base.plan_job(work, Division::Auto).unwrap();
        let task = Task::from_json(&plan.task(0).unwrap().to_json().unwrap()).unwrap();
        let insert = reader(changes(&[(None, "insert", 7, Some(0))]));
        let result = task.write(Some(&base), insert, WriteOptions::default()).await.unwrap();
        let result = TaskResult::from_json(&result.to_json().unwrap()).unwrap();
        Dataset::write(reader(pairs([(8, 0)])), &uri, params(WriteMode::Append)).await.unwrap();
        match commit(&plan, &base, vec![result]).await {
            Ok(_) => assert!(!conflicts),
            Err(error) => assert!(conflicts && error.is_retryable(), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_alone_are_a_delete_that_the_history_shows() {
    let (_directory, [uri, _]) = uris("changed-rows-delete");
    let mut base = create_pairs(&uri, 40).await;
    base.delete("a = 17", ConflictRetries::default()).await.unwrap();
    let address = |fragment, offset| RowAddress::new(FragmentId(fragment), offset).0;
    // Signed, as Spark has them.
    let column = |rows: &[u64]| Arc::new(rows.iter().map(|row| row.cast_signed()).collect::<Int64Array>());
    let batch = |rows: &[u64]| RecordBatch::try_from_iter([("_rowaddr", column(rows) as ArrayRef)]).unwrap();
    let predicate = Some("mine = true".to_owned());
    let changes = batch(&[]).schema();
    let work = Work::ChangeRows(
        ChangeWork { scan: None, changes, updates: None, keys: Vec::new(), exact_keys: true, predicate }
            .into(),
    );
    let plan = base.plan_job(work, Division::Tasks(2)).unwrap();
    let rows = [&[address(0, 3), address(1, 1)][..], &[address(2, 0), address(0, 4)][..]];
    let mut results = Vec::new();
    for (number, rows) in rows.into_iter().enumerate() {
        let task = plan.task(number).unwrap();
        results.push(task.write(Some(&base), reader(batch(rows)), WriteOptions::default()).await.unwrap());
    }
    let (rows, done) = commit(&plan, &base, results).await.unwrap();
    // The second row of fragment 1 was deleted before.
    assert_eq!(rows, 3);
    let gone: Vec<u64> = (0..40).filter(|id| [3, 4, 17, 32].contains(id)).collect();
    let left = pairs_by_id(&done).await;
    assert_eq!((0..40).filter(|id| !left.contains_key(id)).collect::<Vec<_>>(), gone);
    match done.read_transaction(done.version()).await.unwrap().unwrap().operation {
        Operation::Delete(delete) => assert_eq!(delete.predicate, "mine = true"),
        other => panic!("{}", other.name()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_said_before_anything_is_committed() {
    let (_directory, [uri, _]) = uris("changed-rows-wrong");
    let mut base = create_pairs(&uri, 40).await;
    base.delete("a = 1", ConflictRetries::default()).await.unwrap();
    let address = |fragment, offset| Some(RowAddress::new(FragmentId(fragment), offset).0);
    let plan = base.plan_job(work(true, &[]), Division::Tasks(3)).unwrap();
    let task = plan.task(0).unwrap();
    let cases: [(&[Row], &str); 9] = [
        (&[(address(0, 1), "update", 1, None)], "1 rows to update are deleted at version 2"),
        (&[(address(0, 2), "update", 1, None), (address(0, 2), "update", 1, None)], "more than once"),
        (&[(address(0, 2), "update", 1, None), (address(0, 2), "delete", 1, None)], "two changes"),
        (&[(address(0, 2), "delete", 1, None), (address(0, 2), "delete", 1, None)], "two changes"),
        (&[(address(0, 99), "delete", 1, None)], "fragment 0"),
        (&[(address(2, 0), "delete", 1, None)], "which it does not read"),
        (&[(None, "delete", 1, None)], "has no address"),
        (&[(address(0, 2), "insert", 1, None)], "expected none"),
        (&[(address(0, 2), "upsert", 1, None)], "expected 'delete', 'update' or 'insert'"),
    ];
    for (rows, wanted) in cases {
        let write = task.write(Some(&base), reader(changes(rows)), WriteOptions::default());
        let error = write.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let changes_of = |columns: Vec<(&str, ArrayRef)>| RecordBatch::try_from_iter(columns).unwrap().schema();
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let addresses: ArrayRef = Arc::new(UInt64Array::from(vec![0]));
    for (columns, keys, wanted) in [
        (vec![("a", addresses.clone())], vec![], "no column _rowaddr"),
        (vec![("_rowaddr", strings.clone())], vec![], "of type Utf8"),
        (vec![("_rowaddr", addresses.clone()), ("b", strings)], vec![], "does not exist"),
        (vec![("_rowaddr", addresses)], vec!["a".to_owned()], "The key a is not among"),
    ] {
        let work = ChangeWork {
            scan: None,
            changes: changes_of(columns),
            updates: None,
            keys,
            exact_keys: true,
            predicate: None,
        };
        let error = base.plan_job(Work::ChangeRows(work.into()), Division::Auto).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    assert_eq!(open(&uri).await.version(), Version(2));
}
