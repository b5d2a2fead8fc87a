//! Jobs whose tasks are given rows or columns, and compactions: the same as one process does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use pennon_core::schema::Metadata;
use pennon_core::{ErrorKind, Version};
use pennon_table::compact::CompactionOptions;
use pennon_table::jobs::{ColumnsWork, Division, JobPlan, JoinWork, MergeWork, Task, TaskResult, Work};
use pennon_table::ops::merge_insert::{
    MergeClauses, MergeOptions, MergeWriteMode, WhenMatched, WhenUnmatchedTarget,
};
use pennon_table::scan::ScanOptions;
use pennon_table::{BatchReader, ConflictRetries, Dataset, TransactionOptions, WriteMode, WriteOptions};

use crate::jobs::{commit, run};
use crate::support::*;

/// Columns `a` and `n`.
pub fn pairs(values: impl IntoIterator<Item = (i64, i64)>) -> RecordBatch {
    let (a, n): (Vec<i64>, Vec<i64>) = values.into_iter().unzip();
    let column = |values| Arc::new(Int64Array::from(values)) as ArrayRef;
    RecordBatch::try_from_iter([("a", column(a)), ("n", column(n))]).unwrap()
}

/// `n` by row id and `a`.
pub async fn pairs_by_id(dataset: &Dataset) -> BTreeMap<u64, (i64, Option<i64>)> {
    let options = ScanOptions { with_row_id: true, ..ScanOptions::default() };
    let batches: Vec<RecordBatch> = dataset.scan(&options).unwrap().stream().try_collect().await.unwrap();
    let mut found = BTreeMap::new();
    for batch in batches {
        let values = |name: &str| batch[name].as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        let ids = batch["_rowid"].as_primitive::<UInt64Type>().values();
        for ((id, a), n) in ids.iter().zip(values("a")).zip(values("n")) {
            assert!(found.insert(*id, (a.unwrap(), n)).is_none());
        }
    }
    found
}

pub async fn create_pairs(uri: &str, rows: i64) -> Dataset {
    let batch = pairs((0..rows).map(|a| (a, a)));
    let params = WriteOptions { max_rows_per_file: 16, ..params(WriteMode::Create) };
    Dataset::write(reader(batch), uri, params).await.unwrap()
}

/// Runs tasks that are given rows, from JSON: those of a merge's source that are their own, or all of them.
async fn run_given(plan: &JobPlan, dataset: &Dataset, source: &RecordBatch) -> Vec<TaskResult> {
    let mut results = Vec::new();
    for number in (0..plan.num_tasks().unwrap()).rev() {
        let task = Task::from_json(&plan.task(number).unwrap().to_json().unwrap()).unwrap();
        assert_eq!(task, plan.task(number).unwrap());
        let mut rows = reader(source.clone());
        if plan.work().name() == "merge" {
            rows = task.part_of(dataset, rows).unwrap();
        }
        let result = task.write(Some(dataset), rows, WriteOptions::default()).await.unwrap();
        let parsed = TaskResult::from_json(&result.to_json().unwrap()).unwrap();
        assert_eq!(parsed, result);
        results.push(parsed);
    }
    results
}

fn merge(clauses: MergeClauses, source: &RecordBatch) -> Work {
    Work::Merge(MergeWork { clauses, source: source.schema(), memory_limit: None }.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_is_that_of_one_process() {
    let (_directory, uris) = uris("jobs-merge");
    let on = vec!["a".to_owned()];
    let upsert = MergeClauses {
        on: on.clone(),
        when_matched: WhenMatched::UpdateAll,
        insert: true,
        ..Default::default()
    };
    let everything = MergeClauses {
        when_matched: WhenMatched::UpdateIf("source.n > target.n + 1000".to_owned()),
        when_unmatched_target: WhenUnmatchedTarget::DeleteIf("a % 2 = 0".to_owned()),
        ..upsert.clone()
    };
    let remove = MergeClauses { on, when_matched: WhenMatched::Delete, ..Default::default() };
    let source = pairs((30..60).map(|a| (a, 1000 + a + a % 3)));
    for uri in &uris {
        for (name, clauses) in [("upsert", &upsert), ("everything", &everything), ("remove", &remove)] {
            let mut alone = create_pairs(&format!("{uri}-{name}"), 50).await;
            let expected =
                alone.merge_insert(reader(source.clone()), clauses, &MergeOptions::default()).await.unwrap();
            let in_both = |rows: BTreeMap<u64, (i64, Option<i64>)>| {
                rows.into_iter().filter(|(_, (a, _))| *a < 50).collect::<Vec<_>>()
            };
            for tasks in [1, 2, 5] {
                let base = create_pairs(&format!("{uri}-{name}-{tasks}"), 50).await;
                let plan = base.plan_job(merge(clauses.clone(), &source), Division::Tasks(tasks)).unwrap();
                let results = run_given(&plan, &base, &source).await;
                let report = plan
                    .commit(Some(&base), results.clone(), Metadata::new(), TransactionOptions::default())
                    .await
                    .unwrap();
                assert_eq!(report.merged, Some(expected));
                let done = report.dataset;
                done.validate().await.unwrap();
                let (found, wanted) = (pairs_by_id(&done).await, pairs_by_id(&alone).await);
                // Rows that come have ids in the order of their tasks.
                assert_eq!(in_both(found.clone()), in_both(wanted.clone()));
                let values = |rows: BTreeMap<u64, _>| rows.into_values().collect::<BTreeSet<_>>();
                assert_eq!(values(found), values(wanted));
                let twins = run_given(&plan, &base, &source).await;
                let repeated = plan
                    .commit(Some(&base), twins, Metadata::new(), TransactionOptions::default())
                    .await
                    .unwrap();
                assert_eq!(repeated.dataset.version(), done.version());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_that_insert_the_same_keys_do_not_both_do_so() {
    let (_directory, uris) = uris("jobs-merge-keys");
    let clauses = MergeClauses { on: vec!["a".to_owned()], insert: true, ..Default::default() };
    for uri in &uris {
        // Many keys make filters, of which those of the tasks must have one size.
        for rows in [60, 60_000] {
            let uri = format!("{uri}-{rows}");
            let base = create_pairs(&uri, 50).await;
            let source = pairs((0..rows).map(|a| (a, a)));
            let plan = base.plan_job(merge(clauses.clone(), &source), Division::Tasks(3)).unwrap();
            let results = run_given(&plan, &base, &source).await;
            let mut other = open(&uri).await;
            let few = pairs([(55, 5), (-1, 0)]);
            other.merge_insert(reader(few), &clauses, &MergeOptions::default()).await.unwrap();
            let error = commit(&plan, &base, results).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            let newest = open(&uri).await;
            let renewed = plan.renew(&base, &newest, run_given(&plan, &base, &source).await).unwrap();
            let results = run_given(&renewed, &newest, &source).await;
            let (count, done) = commit(&renewed, &newest, results).await.unwrap();
            let left = u64::try_from(rows).unwrap();
            assert_eq!((count, done.count_rows(None).await.unwrap()), (left - 51, left + 1));
            // Keys that nobody has are no conflict, up to a filter's mistakes.
            let plan = done.plan_job(merge(clauses.clone(), &source), Division::Tasks(3)).unwrap();
            let results = run_given(&plan, &done, &pairs([(-7, 1)])).await;
            other.checkout_latest().await.unwrap();
            let few = pairs([(-5, 5)]);
            other.merge_insert(reader(few), &clauses, &MergeOptions::default()).await.unwrap();
            commit(&plan, &done, results).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_sources_of_a_merge_are_refused() {
    let (_directory, uris) = uris("jobs-merge-refused");
    let upsert = MergeClauses {
        on: vec!["a".to_owned()],
        when_matched: WhenMatched::UpdateAll,
        insert: true,
        ..Default::default()
    };
    for uri in &uris {
        let base = create_pairs(uri, 50).await;
        let source = pairs([(1, 1), (2, 2), (60, 60)]);
        for wrong in [
            MergeClauses { on: vec!["zz".to_owned()], ..upsert.clone() },
            MergeClauses { when_matched: WhenMatched::DoNothing, insert: false, ..upsert.clone() },
            MergeClauses { write_mode: MergeWriteMode::RewriteColumns, insert: false, ..upsert.clone() },
        ] {
            let error = base.plan_job(merge(wrong, &source), Division::Tasks(2)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let plan = base.plan_job(merge(upsert.clone(), &source), Division::Tasks(2)).unwrap();
        // All rows to each task: both match row 1.
        let mut results = Vec::new();
        for number in 0..2 {
            let task = plan.task(number).unwrap();
            let write = task.write(Some(&base), reader(source.clone()), WriteOptions::default());
            results.push(write.await.unwrap());
        }
        let error = commit(&plan, &base, results).await.unwrap_err();
        assert!(error.to_string().contains("two tasks change the same row"), "{error}");
        let other = other("b", DataType::Utf8);
        let task = plan.task(0).unwrap();
        let write = task.write(Some(&base), other, WriteOptions::default());
        assert_eq!(write.await.unwrap_err().kind(), ErrorKind::SchemaMismatch);
        // Two rows for one row of the table, in one task.
        let duplicate_key = pairs([(1, 1), (1, 2)]);
        let task = plan.task(0).unwrap();
        let write = task.write(Some(&base), reader(duplicate_key), WriteOptions::default());
        assert!(write.await.unwrap_err().to_string().contains("Ambiguous"), "one task");
        let open_ended = base.plan_job(merge(upsert.clone(), &source), Division::Auto).unwrap();
        assert!(open_ended.task(9).unwrap().part_of(&base, reader(source.clone())).is_err());
        assert_eq!(open(uri).await.version(), Version(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_those_of_one_process() {
    let (_directory, uris) = uris("jobs-columns");
    for uri in &uris {
        let mut base = create_pairs(uri, 50).await;
        base.delete("a = 20", ConflictRetries::default()).await.unwrap();
        let expressions =
            vec![("b".to_owned(), "a * 2".to_owned()), ("c".to_owned(), "n IS NULL".to_owned())];
        let work = ColumnsWork::Expressions { expressions, batch_size: None };
        let plan = base.plan_job(Work::AddColumns(work.into()), Division::Tasks(3)).unwrap();
        let results = run(&plan, &base).await;
        // A row that goes meanwhile: only its fragment is done again.
        let mut other = open(uri).await;
        other.delete("a = 3", ConflictRetries::default()).await.unwrap();
        let error = commit(&plan, &base, results.clone()).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let renewed = plan.renew(&base, &other, results).unwrap();
        let planned: usize =
            (0..renewed.num_tasks().unwrap()).map(|n| renewed.task(n).unwrap().slices.len()).sum();
        assert!(planned < 4, "{planned} fragments");
        let (rows, done) = commit(&renewed, &other, run(&renewed, &other).await).await.unwrap();
        done.validate().await.unwrap();
        assert_eq!((rows, done.count_rows(Some("b = a * 2 AND NOT c")).await.unwrap()), (48, 48));

        // Values that a program makes of the rows that a task reads.
        let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Int64, true)]));
        let work = ColumnsWork::Values(Arc::clone(&schema));
        let plan = done.plan_job(Work::AddColumns(work.into()), Division::Tasks(2)).unwrap();
        let mut results = Vec::new();
        for number in 0..plan.num_tasks().unwrap() {
            let task = plan.task(number).unwrap();
            let options = ScanOptions { fragments: Some(task.slices.clone()), ..ScanOptions::default() };
            let batches: Vec<RecordBatch> =
                done.scan(&options).unwrap().stream().try_collect().await.unwrap();
            let values =
                batches.iter().flat_map(|batch| batch["a"].as_primitive::<Int64Type>().values().to_vec());
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values.map(|a| -a)));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
            results.push(task.write(Some(&done), reader(batch), WriteOptions::default()).await.unwrap());
        }
        let (rows, done) = commit(&plan, &done, results).await.unwrap();
        assert_eq!((rows, done.count_rows(Some("d = -a")).await.unwrap()), (48, 48));

        // A join, and then new values of that column by the same key.
        let column = |name: &str, values: Vec<i64>| {
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(10..30));
            let values: ArrayRef = Arc::new(Int64Array::from(values));
            RecordBatch::try_from_iter_with_nullable([("key", keys, false), (name, values, true)]).unwrap()
        };
        let joined = column("e", (10..30).map(|key| key + 100).collect());
        let join = |source: &RecordBatch| JoinWork {
            left_on: "a".to_owned(),
            right_on: "key".to_owned(),
            source: source.schema(),
        };
        let work = Work::AddColumns(ColumnsWork::Join(join(&joined)).into());
        let plan = done.plan_job(work, Division::Tasks(2)).unwrap();
        let (rows, done) = commit(&plan, &done, run_given(&plan, &done, &joined).await).await.unwrap();
        assert_eq!((rows, done.count_rows(Some("e = a + 100")).await.unwrap()), (48, 19));
        let ids = pairs_by_id(&done).await.into_keys().collect::<Vec<_>>();
        let plan = done.plan_job(Work::UpdateColumns(join(&joined).into()), Division::Tasks(2)).unwrap();
        let changed = column("e", vec![7; 20]);
        let results = run_given(&plan, &done, &changed).await;
        let (rows, updated) = commit(&plan, &done, results.clone()).await.unwrap();
        updated.validate().await.unwrap();
        assert_eq!((rows, updated.count_rows(Some("e = 7")).await.unwrap()), (19, 19));
        assert_eq!(pairs_by_id(&updated).await.into_keys().collect::<Vec<_>>(), ids);
        let version = updated.version();
        let moved =
            updated.count_rows(Some(&format!("_row_last_updated_at_version = {version}"))).await.unwrap();
        assert_eq!(moved, 19);
        assert_eq!(commit(&plan, &done, results).await.unwrap().1.version(), version);

        for (work, text) in [
            (Work::UpdateColumns(join(&column("zz", vec![1; 20])).into()), "zz"),
            (Work::AddColumns(ColumnsWork::Values(Arc::clone(&schema)).into()), "d"),
        ] {
            let error = updated.plan_job(work, Division::Auto).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        let keys = updated.plan_job(Work::UpdateColumns(join(&joined).into()), Division::Tasks(1)).unwrap();
        let wrong =
            keys.task(0).unwrap().write(Some(&updated), rows_of_others(), WriteOptions::default()).await;
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::SchemaMismatch);
    }
}

fn rows_of_others() -> BatchReader {
    other("b", DataType::Utf8)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_file_is_gone_is_named() {
    let (_directory, uris) = uris("jobs-gone");
    for uri in &uris {
        let base = create_pairs(uri, 50).await;
        let source = pairs([(1, 7), (70, 7)]);
        let upsert = MergeClauses {
            on: vec!["a".to_owned()],
            when_matched: WhenMatched::UpdateAll,
            insert: true,
            ..Default::default()
        };
        let plan = base.plan_job(merge(upsert, &source), Division::Tasks(1)).unwrap();
        let results = run_given(&plan, &base, &source).await;
        let store = &base.snapshot().store;
        let before: BTreeSet<String> = base
            .manifest()
            .fragments
            .decode_all()
            .flat_map(|f| f.files.iter().map(|f| f.path.clone()).collect::<Vec<_>>())
            .collect();
        let new = store.list("data").await.unwrap().into_iter().find(|name| !before.contains(name)).unwrap();
        store.delete(&format!("data/{new}")).await.unwrap();
        let error = commit(&plan, &base, results).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(&new) && error.to_string().contains("task 0"), "{error}");
        let results = run_given(&plan, &base, &source).await;
        assert_eq!(commit(&plan, &base, results).await.unwrap().0, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_is_committed_once() {
    let (_directory, uris) = uris("jobs-compact");
    for uri in &uris {
        let mut base = create_cut(uri, 0..100, 10).await;
        base.delete("a % 5 = 0", ConflictRetries::default()).await.unwrap();
        let options =
            CompactionOptions { target_rows_per_fragment: Some(40), ..CompactionOptions::default() };
        assert!(base.plan_job(Work::Compact(options.clone().into()), Division::Auto).is_err());
        let plan = base.plan_compaction_job(options).await.unwrap();
        assert_eq!(plan.num_tasks(), Some(2));
        let results = run(&plan, &base).await;
        let mut other = open(uri).await;
        other.delete("a = 1", ConflictRetries::default()).await.unwrap();
        let (rows, done) = commit(&plan, &base, results.clone()).await.unwrap();
        done.validate().await.unwrap();
        assert_eq!((rows, done.manifest().fragments.len()), (80, 2));
        let expected: BTreeMap<u64, i64> =
            (0..100_i64).filter(|a| a % 5 != 0 && *a != 1).map(|a| (a.cast_unsigned(), a)).collect();
        assert_eq!(by_id(&done).await, expected);
        let (_, repeated) = commit(&plan, &base, results.clone()).await.unwrap();
        assert_eq!(repeated.version(), done.version());
        assert!(plan.renew(&base, &done, results).is_err());
    }
}
