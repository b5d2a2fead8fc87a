//! Jobs: work that is divided, done in any order and committed once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use pennon_core::rows::RowRanges;
use pennon_core::schema::Metadata;
use pennon_core::{ErrorKind, FragmentId, Version};
use pennon_table::jobs::{Division, FragmentSlice, JobPlan, NewTable, ScanWork, Task, TaskResult, Work};
use pennon_table::scan::ScanOptions;
use pennon_table::{
    CommitLock, CommitOptions, ConflictRetries, Dataset, HeldLock, TransactionOptions, WriteMode,
    WriteOptions, WrittenFragments,
};

use crate::support::*;

fn delete(predicate: &str) -> Work {
    Work::Delete { predicate: predicate.into() }
}

fn update(assignment: (&str, &str), predicate: Option<&str>) -> Work {
    let (column, sql) = assignment;
    Work::Update {
        assignments: vec![(column.to_owned(), sql.to_owned())].into(),
        predicate: predicate.map(Into::into),
    }
}

/// Runs tasks as strangers do: from JSON, last one first, each result as JSON.
pub async fn run(plan: &JobPlan, dataset: &Dataset) -> Vec<TaskResult> {
    let mut results = Vec::new();
    for number in (0..plan.num_tasks().unwrap()).rev() {
        let task = Task::from_json(&plan.task(number).unwrap().to_json().unwrap()).unwrap();
        assert_eq!(task, plan.task(number).unwrap());
        let result = task.run(dataset).await.unwrap();
        let parsed = TaskResult::from_json(&result.to_json().unwrap()).unwrap();
        assert_eq!(parsed, result);
        results.push(parsed);
    }
    results
}

pub async fn commit(
    plan: &JobPlan,
    dataset: &Dataset,
    results: Vec<TaskResult>,
) -> pennon_core::Result<(u64, Dataset)> {
    let plan = JobPlan::from_json(&plan.to_json()?)?;
    let report = plan.commit(Some(dataset), results, Metadata::new(), TransactionOptions::default()).await?;
    Ok((report.num_rows, report.dataset))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_and_an_update_are_those_of_one_process() {
    let (_directory, uris) = uris("jobs");
    for uri in &uris {
        for tasks in [1, 2, 3, 7] {
            let copy = format!("{uri}-{tasks}");
            let base = create_cut(&copy, 0..40, 16).await;
            let plan = base.plan_job(delete("a % 3 = 0"), Division::Tasks(tasks)).unwrap();
            assert!(plan.num_tasks().unwrap() <= tasks);
            let results = run(&plan, &base).await;
            let (rows, done) = commit(&plan, &base, results.clone()).await.unwrap();
            assert_eq!((rows, done.version()), (14, Version(2)));
            // Twins and a second commit change nothing.
            let (rows, repeated) = commit(&plan, &base, [results.clone(), results].concat()).await.unwrap();
            assert_eq!((rows, repeated.version()), (14, Version(2)));
            assert_eq!(by_id(&done).await.keys().filter(|id| *id % 3 == 0).count(), 0);

            let plan =
                done.plan_job(update(("a", "a * 100"), Some("a > 9")), Division::Tasks(tasks)).unwrap();
            let (rows, updated) = commit(&plan, &done, run(&plan, &done).await).await.unwrap();
            updated.validate().await.unwrap();
            let expected: Vec<_> =
                by_id(&done).await.into_iter().map(|(id, a)| (id, if a > 9 { a * 100 } else { a })).collect();
            assert_eq!(by_id(&updated).await.into_iter().collect::<Vec<_>>(), expected);
            assert_eq!(rows, expected.iter().filter(|(_, a)| *a > 9).count() as u64);
            let twins = run(&plan, &done).await;
            let (rows_then, repeated) = commit(&plan, &done, twins).await.unwrap();
            assert_eq!((rows_then, repeated.version()), (rows, updated.version()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_fragment_is_divided_by_rows() {
    let (_directory, uris) = uris("jobs-divided");
    for uri in &uris {
        let mut dataset = create_cut(uri, 0..1000, 1000).await;
        dataset.delete("a < 100", ConflictRetries::default()).await.unwrap();
        let plan = dataset.plan_job(Work::Scan(ScanWork::default().into()), Division::Tasks(4)).unwrap();
        let mut seen = RowRanges::new();
        for number in 0..4 {
            let task = plan.task(number).unwrap();
            let [slice] = &task.slices[..] else { panic!("not one slice: {task:?}") };
            seen.insert(slice.rows.clone().unwrap());
            let options = task.scan_options(&dataset).unwrap();
            let found = dataset.scan(&options).unwrap().count().await.unwrap();
            assert_eq!(found, 225);
        }
        assert_eq!(seen.as_slice(), [0..900]);
        // Filters that statistics help, that they do not help, and none; with a window, and with deleted rows.
        let rows_of = |filter: Option<&str>, slices: Option<Vec<_>>, limit, include_deleted_rows| {
            let options = ScanOptions {
                filter: filter.map(Into::into),
                fragments: slices,
                limit,
                with_row_id: true,
                include_deleted_rows,
                ..ScanOptions::default()
            };
            let scan = dataset.scan(&options).unwrap();
            async move {
                let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
                let column = |batch: &RecordBatch| batch["a"].as_primitive::<Int64Type>().values().to_vec();
                batches.iter().flat_map(column).collect::<Vec<i64>>()
            }
        };
        for filter in [None, Some("a > 450"), Some("a % 3 = 0"), Some("_rowid < 333"), Some("a > 5000")] {
            let all = rows_of(filter, None, None, false).await;
            let mut found = Vec::new();
            for number in 0..4 {
                let slices = plan.task(number).unwrap().slices;
                let part = rows_of(filter, Some(slices.clone()), None, false).await;
                let few = rows_of(filter, Some(slices), Some(3), false).await;
                assert_eq!(few, part[..part.len().min(3)]);
                found.extend(part);
            }
            assert_eq!(found, all);
            let slices = vec![FragmentSlice { fragment: FragmentId(0), rows: Some(50..250) }];
            let all = rows_of(filter, None, None, true).await;
            let expected = all.into_iter().filter(|a| (50..250).contains(a)).collect::<Vec<_>>();
            assert_eq!(rows_of(filter, Some(slices), None, true).await, expected, "{filter:?}");
        }
        assert_eq!(plan.task(4).unwrap_err().kind(), ErrorKind::InvalidInput);
        let plan = dataset.plan_job(delete("a % 2 = 0"), Division::Tasks(4)).unwrap();
        let (rows, done) = commit(&plan, &dataset, run(&plan, &dataset).await).await.unwrap();
        assert_eq!((rows, done.count_rows(None).await.unwrap()), (450, 450));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_planned_again() {
    let (_directory, uris) = uris("jobs-renewed");
    for uri in &uris {
        for work in [delete("a % 2 = 0"), update(("a", "a + 1000"), Some("a % 2 = 0"))] {
            let uri = format!("{uri}-{}", work.name());
            let base = create_cut(&uri, 0..40, 10).await;
            let plan = base.plan_job(work, Division::Tasks(4)).unwrap();
            let results = run(&plan, &base).await;
            // Another writer changes a row of the second fragment that the job found, and adds some.
            let mut other = open(&uri).await;
            other.delete("a = 12", ConflictRetries::default()).await.unwrap();
            append(&uri, 100..105).await.unwrap();
            let error = commit(&plan, &base, results.clone()).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");

            let newest = open(&uri).await;
            let renewed = plan.renew(&base, &newest, results.clone()).unwrap();
            let parsed = JobPlan::from_json(&renewed.to_json().unwrap()).unwrap();
            assert_eq!(parsed, renewed);
            assert_eq!(renewed.pin().uuid, plan.pin().uuid);
            let fragments: BTreeSet<u32> = (0..renewed.num_tasks().unwrap())
                .flat_map(|number| renewed.task(number).unwrap().slices)
                .map(|slice| slice.fragment.0)
                .collect();
            assert_eq!(fragments, [1, 4].into());
            // Results of the plan before are refused by name.
            let error = commit(&renewed, &newest, results).await.unwrap_err();
            assert!(error.to_string().contains("is not of this plan"), "{error}");
            let (rows, done) = commit(&renewed, &newest, run(&renewed, &newest).await).await.unwrap();
            assert_eq!(rows, 22);
            done.validate().await.unwrap();
            let even = by_id(&done).await.into_values().filter(|a| a % 2 == 0 && *a < 1000).count();
            assert_eq!(even, 0);
            let left = if plan.work().name() == "delete" { 22 } else { 44 };
            assert_eq!(done.count_rows(None).await.unwrap(), left);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_tasks_are_given_come_in_the_order_of_the_tasks() {
    let (_directory, uris) = uris("jobs-given");
    for uri in &uris {
        let empty = WrittenFragments::empty(&rows(0..0).schema(), None).unwrap();
        let config = Metadata::from([("a".to_owned(), "b".to_owned())]);
        let table = NewTable { empty, create: Default::default(), must_create: true, config: config.clone() };
        let plan = JobPlan::new_table(uri, table, Division::Auto).unwrap();
        let plan = JobPlan::from_json(&plan.to_json().unwrap()).unwrap();
        let mut results = Vec::new();
        for number in [2, 0, 1] {
            let start = i64::try_from(number).unwrap() * 10;
            let task = plan.task(number).unwrap();
            let written = task.write(None, rows(start..start + 10), WriteOptions::default()).await.unwrap();
            results.push(TaskResult::from_json(&written.to_json().unwrap()).unwrap());
        }
        let report =
            plan.commit(None, results.clone(), Metadata::new(), TransactionOptions::default()).await.unwrap();
        assert_eq!((report.num_rows, report.dataset.version()), (30, Version(1)));
        assert_eq!(report.dataset.manifest().config, config);
        let in_order = by_id(&report.dataset).await.into_iter().collect::<Vec<_>>();
        assert_eq!(in_order, (0_i64..30).map(|row| (row.cast_unsigned(), row)).collect::<Vec<_>>());
        let repeated =
            plan.commit(None, results.clone(), Metadata::new(), TransactionOptions::default()).await.unwrap();
        assert_eq!(repeated.dataset.version(), Version(1));

        let table = report.dataset;
        let plan = table.plan_job(Work::Append, Division::Tasks(2)).unwrap();
        let write = |number: usize, range| {
            let task = plan.task(number).unwrap();
            let table = table.clone();
            async move { task.write(Some(&table), rows(range), params(WriteMode::Append)).await.unwrap() }
        };
        let results = vec![write(1, 40..50).await, write(0, 30..40).await];
        let (added, done) = commit(&plan, &table, results).await.unwrap();
        assert_eq!((added, by_id(&done).await.into_values().collect::<Vec<_>>()), (20, (0..50).collect()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_belong_together_is_refused() {
    let (_directory, uris) = uris("jobs-refused");
    for uri in &uris {
        let base = create_cut(uri, 0..20, 10).await;
        for (work, text) in [
            (delete("zz = 1"), "zz"),
            (update(("zz", "1"), None), "zz"),
            (Work::Scan(ScanWork { filter: Some("a +".into()), ..ScanWork::default() }.into()), ""),
        ] {
            let error = base.plan_job(work, Division::Auto).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        assert!(base.plan_job(delete("true"), Division::Tasks(0)).is_err());
        let plan = base.plan_job(delete("a = 1"), Division::Tasks(2)).unwrap();
        let results = run(&plan, &base).await;

        // Another version, and another table at the same place.
        let mut newer = base.clone();
        newer.delete("a = 19", ConflictRetries::default()).await.unwrap();
        let error = plan.task(0).unwrap().run(&newer).await.unwrap_err();
        assert!(
            error.to_string().contains("version 1") && error.to_string().contains("version 2"),
            "{error}"
        );
        let other = create_cut(&format!("{uri}-other"), 0..20, 10).await;
        assert_eq!(plan.task(0).unwrap().run(&other).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(commit(&plan, &other, results.clone()).await.unwrap_err().kind(), ErrorKind::InvalidInput);

        // A task without a result, a result of another job, another release.
        let error = commit(&plan, &base, results[..1].to_vec()).await.unwrap_err();
        assert!(
            error.to_string().contains("1 of 2 tasks") && error.to_string().contains("task 0"),
            "{error}"
        );
        let twin = base.plan_job(delete("a = 1"), Division::Tasks(2)).unwrap();
        let error = commit(&twin, &base, results.clone()).await.unwrap_err();
        assert!(error.to_string().contains("is not of this plan"), "{error}");
        let json = plan.task(0).unwrap().to_json().unwrap();
        let newer_format = json.replace("\"pennon_job\":1", "\"pennon_job\":2");
        let error = Task::from_json(&newer_format).unwrap_err();
        assert!(error.to_string().contains("format 2"), "{error}");
        for text in ["", "{}", "[1]", &json[..json.len() - 1], "{\"pennon_job\":1}"] {
            assert_eq!(Task::from_json(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
            assert_eq!(TaskResult::from_json(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
            assert_eq!(JobPlan::from_json(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
        }
        // Rows that the fragment does not have.
        let far = json.replace("\"slices\":[", "\"slices\":[{\"fragment\":1,\"rows\":[5,50]},");
        let error = Task::from_json(&far).unwrap().run(&base).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        // What a task is not for.
        assert!(plan.task(0).unwrap().scan_options(&base).is_err());
        let append = base.plan_job(Work::Append, Division::Auto).unwrap();
        assert!(append.task(0).unwrap().run(&base).await.is_err());
    }
}

/// Remembers the versions that were published under it.
#[derive(Debug, Default)]
struct Remembering(Arc<Mutex<Vec<u64>>>);

impl HeldLock for Remembering {
    fn release(self: Box<Self>) -> BoxFuture<'static, pennon_core::Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

impl CommitLock for Remembering {
    fn acquire(&self, version: Version) -> BoxFuture<'static, pennon_core::Result<Box<dyn HeldLock>>> {
        self.0.lock().unwrap().push(version.0);
        let held: Box<dyn HeldLock> = Box::new(Self(Arc::clone(&self.0)));
        std::future::ready(Ok(held)).boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_any_kind_is_committed_as_its_options_say() {
    let (_directory, [uri, _]) = uris("jobs-options");
    let mut table = create(&uri, 0..3).await;
    let (given, of_handle) = (Remembering::default(), Remembering::default());
    let locked = |lock: &Remembering| CommitOptions {
        lock: Some(Arc::new(Remembering(Arc::clone(&lock.0)))),
        ..commit_options()
    };
    table.set_commit_options(locked(&of_handle));
    let append = async |table: &Dataset, commit: CommitOptions| {
        let plan = table.plan_job(Work::Append, Division::Tasks(1)).unwrap();
        let task = plan.task(0).unwrap();
        let written = task.write(Some(table), rows(3..4), params(WriteMode::Append)).await.unwrap();
        let options = TransactionOptions { commit, ..TransactionOptions::default() };
        plan.commit(Some(table), vec![written], Metadata::new(), options).await.unwrap().dataset
    };
    let table = append(&table, locked(&given)).await;
    assert_eq!((given.0.lock().unwrap().clone(), of_handle.0.lock().unwrap().len()), (vec![2], 0));
    // The handle of the report commits like that as well.
    let mut table = append(&table, commit_options()).await;
    assert_eq!(*given.0.lock().unwrap(), [2, 3]);
    table.delete("a = 0", ConflictRetries::default()).await.unwrap();
    assert_eq!(*given.0.lock().unwrap(), [2, 3, 4]);
}
