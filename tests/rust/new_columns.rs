//! Columns and a change of rows in one version.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use pennon_core::file::FileVersion;
use pennon_core::transaction::UpdateMode;
use pennon_core::{ErrorKind, Version};
use pennon_table::compact::CompactionOptions;
use pennon_table::jobs::{Division, JobPlan, Task, TaskResult, Work};
use pennon_table::scan::{Projection, ScanOptions};
use pennon_table::{
    BatchReader, ConflictRetries, CreateOptions, Dataset, MergeClauses, MergeOptions, MergeWriteMode,
    NewColumns, UpdateOptions, WhenMatched, WhenUnmatchedTarget, WriteMode, WriteOptions,
};

use crate::support::{append, by_id, create_cut, open, params, reader, transaction_options};

fn column(name: &str, data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
}

/// Rows with a value in the new column `b`.
fn with_b(rows: &[(i64, i64)]) -> BatchReader {
    let columns: [(&str, ArrayRef); 2] = [
        ("a", Arc::new(rows.iter().map(|(a, _)| *a).collect::<Int64Array>())),
        ("b", Arc::new(rows.iter().map(|(_, b)| *b).collect::<Int64Array>())),
    ];
    reader(RecordBatch::try_from_iter(columns).unwrap())
}

/// `a`, `b` and the versions that made and last changed each row.
async fn shown(dataset: &Dataset) -> Vec<[Option<i64>; 4]> {
    let names = ["a", "b", "_row_created_at_version", "_row_last_updated_at_version"];
    let columns = names.map(|name| (name.to_owned(), format!("CAST({name} AS bigint)")));
    let options =
        ScanOptions { columns: Some(Projection::Expressions(columns.to_vec())), ..ScanOptions::default() };
    let batches: Vec<RecordBatch> = dataset.scan(&options).unwrap().stream().try_collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        let value = |column: usize, row| {
            let array = batch.column(column).as_any().downcast_ref::<Int64Array>().unwrap();
            array.iter().nth(row).flatten()
        };
        rows.extend((0..batch.num_rows()).map(|row| std::array::from_fn(|column| value(column, row))));
    }
    rows.sort_unstable();
    rows
}

fn upsert() -> MergeClauses {
    MergeClauses {
        on: vec!["a".to_owned()],
        when_matched: WhenMatched::UpdateAll,
        insert: true,
        when_unmatched_target: WhenUnmatchedTarget::Keep,
        write_mode: MergeWriteMode::Auto,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_rows_commits_columns_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("t.lance").to_str().unwrap().to_owned();
    let plain = create_cut(&uri, 0..6, 3).await;
    let mut extended = plain.with_columns(column("b", DataType::Int64)).unwrap();
    assert_eq!(extended.version(), Version(1));
    assert!(plain.uncommitted_columns().is_none());
    assert_eq!(extended.count_rows(Some("b IS NULL")).await.unwrap(), 6);
    let ids = by_id(&plain).await;

    let (clauses, options) = (upsert(), MergeOptions::default());
    let result = extended.merge_insert(with_b(&[(4, 40), (9, 90)]), &clauses, &options).await.unwrap();
    assert_eq!((result.num_updated_rows, result.num_inserted_rows), (1, 1));
    assert_eq!(extended.version(), Version(2));
    assert!(extended.uncommitted_columns().is_none());
    let expected = [
        [Some(0), None, Some(1), Some(1)],
        [Some(1), None, Some(1), Some(1)],
        [Some(2), None, Some(1), Some(1)],
        [Some(3), None, Some(1), Some(1)],
        [Some(4), Some(40), Some(1), Some(2)],
        [Some(5), None, Some(1), Some(1)],
        [Some(9), Some(90), Some(2), Some(2)],
    ];
    assert_eq!(shown(&extended).await, expected);
    assert_eq!(shown(&open(&uri).await).await, expected);
    let mut merged = ids;
    merged.insert(6, 9);
    assert_eq!(by_id(&extended).await, merged);

    // An update and a delete, and what comes after them.
    let mut extended = extended.with_columns(column("c", DataType::Utf8)).unwrap();
    let assignments = [("c".to_owned(), "concat('of ', b)".to_owned())];
    extended.update(&assignments, Some("b > 50"), UpdateOptions::default()).await.unwrap();
    assert_eq!(
        (extended.version(), extended.count_rows(Some("c = 'of 90'")).await.unwrap()),
        (Version(3), 1)
    );
    let mut extended = extended.with_columns(column("d", DataType::Utf8)).unwrap();
    extended.delete("a < 2", ConflictRetries::default()).await.unwrap();
    assert_eq!((extended.version(), extended.count_rows(None).await.unwrap()), (Version(4), 5));
    assert_eq!(extended.schema().fields.len(), 5);
    extended.compact(&CompactionOptions::default()).await.unwrap();
    let left = by_id(&extended).await;
    merged.retain(|_, a| *a >= 2);
    assert_eq!(left, merged);
    assert!(extended.verify(Default::default()).await.unwrap().findings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn others_may_change_rows_but_not_columns() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("t.lance").to_str().unwrap().to_owned();
    let plain = create_cut(&uri, 0..2, 3).await;
    let mut extended = plain.with_columns(column("b", DataType::Int64)).unwrap();
    append(&uri, 10..12).await.unwrap();
    open(&uri).await.compact(&CompactionOptions::default()).await.unwrap();
    extended.insert(with_b(&[(2, 20)]), params(WriteMode::Append)).await.unwrap();
    assert_eq!(extended.count_rows(Some("b = 20")).await.unwrap(), 1);
    assert_eq!(by_id(&extended).await, [(0, 0), (1, 1), (2, 10), (3, 11), (4, 2)].into());
    let begin = extended.version();
    let mut extended = open(&uri).await.with_columns(column("e", DataType::Int64)).unwrap();
    open(&uri)
        .await
        .with_columns(column("f", DataType::Int64))
        .unwrap()
        .delete("a = 10", ConflictRetries::default())
        .await
        .unwrap();
    let error = extended.insert(with_b(&[(3, 30)]), params(WriteMode::Append)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    extended.checkout_latest().await.unwrap();
    assert!(extended.uncommitted_columns().is_some());
    extended.insert(with_b(&[(3, 30)]), params(WriteMode::Append)).await.unwrap();
    assert_eq!((extended.version().0, extended.schema().fields.len()), (begin.0 + 2, 5));

    // Somebody else commits one of the columns first: the merge is done again, with the other one.
    let mut late = open(&uri).await.with_columns(column("c", DataType::Int64)).unwrap();
    let mut first = open(&uri).await.with_columns(column("c", DataType::Int64)).unwrap();
    first.delete("a = 0", ConflictRetries::default()).await.unwrap();
    late.merge_insert(with_b(&[(1, 1)]), &upsert(), &MergeOptions::default()).await.unwrap();
    assert_eq!((late.version().0, late.schema().fields.len()), (begin.0 + 4, 6));
    assert_eq!(by_id(&late).await.len(), 4);
    let mut other = open(&uri).await.with_columns(column("d", DataType::Int64)).unwrap();
    let mut first = open(&uri).await.with_columns(column("d", DataType::Utf8)).unwrap();
    first.delete("a = 1", ConflictRetries::default()).await.unwrap();
    let error = other.merge_insert(with_b(&[(1, 1)]), &upsert(), &MergeOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_committed_with_columns_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("t.lance").to_str().unwrap().to_owned();
    let plain = create_cut(&uri, 0..6, 3).await;
    let files = || std::fs::read_dir(directory.path().join("t.lance/data")).unwrap().count();
    let before = files();
    let extended = plain.with_columns(column("b", DataType::Int64)).unwrap();
    let in_place = UpdateOptions { mode: Some(UpdateMode::RewriteColumns), ..UpdateOptions::default() };
    let assignments = [("b".to_owned(), "a".to_owned())];
    let error = extended.clone().update(&assignments, None, in_place).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = extended.clone().compact(&CompactionOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = extended.clone().insert(with_b(&[]), params(WriteMode::Overwrite)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!((files(), open(&uri).await.version()), (before, Version(1)));
    let refused = |handle: &Dataset, columns, kind| {
        assert_eq!(handle.with_columns(columns).unwrap_err().kind(), kind);
    };
    refused(&plain, column("a", DataType::Int64), ErrorKind::AlreadyExists);
    refused(&plain, column("a", DataType::Utf8), ErrorKind::SchemaMismatch);
    refused(&extended, column("c", DataType::Utf8), ErrorKind::InvalidInput);
    let required = Schema::new(vec![Field::new("b", DataType::Int64, false)]);
    refused(&plain, Arc::new(required), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_commits_columns_with_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("t.lance").to_str().unwrap().to_owned();
    create_cut(&uri, 0..6, 3).await;
    let plain = open(&uri).await;
    let extended = plain.with_columns(column("b", DataType::Int64)).unwrap();
    let plan = extended.plan_job(Work::Append, Division::Tasks(2)).unwrap();
    let plan = JobPlan::from_json(&plan.to_json().unwrap()).unwrap();
    let mut results = Vec::new();
    for number in 0..2 {
        // Whoever runs the task has the version as it is.
        let task = Task::from_json(&plan.task(number).unwrap().to_json().unwrap()).unwrap();
        let at = i64::try_from(number).unwrap();
        let written =
            task.write(Some(&plain), with_b(&[(10 + at, at)]), WriteOptions::default()).await.unwrap();
        results.push(TaskResult::from_json(&written.to_json().unwrap()).unwrap());
    }
    for _ in 0..2 {
        let commit = plan.commit(Some(&plain), results.clone(), Default::default(), transaction_options());
        let report = commit.await.unwrap();
        assert_eq!((report.num_rows, report.dataset.version()), (2, Version(2)));
        assert_eq!(report.dataset.count_rows(Some("b = a - 10")).await.unwrap(), 2);
    }
    assert_eq!(open(&uri).await.version(), Version(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn any_nan_is_the_key_of_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("table");
    let other_nan = f64::from_bits(f64::NAN.to_bits() ^ (1 << 63) ^ 5);
    let keyed = |keys: Vec<f64>, name: &str, values: Vec<i64>| {
        let columns: [(&str, ArrayRef); 2] =
            [("key", Arc::new(Float64Array::from(keys))), (name, Arc::new(Int64Array::from(values)))];
        reader(RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).unwrap())
    };
    let table = keyed(vec![f64::NAN, 1.0, -0.0, other_nan], "a", vec![0, 1, 2, 3]);
    let mut dataset = Dataset::write(table, uri.to_str().unwrap(), params(WriteMode::Create)).await.unwrap();
    dataset.merge_columns(keyed(vec![other_nan, 0.0], "b", vec![7, 8]), "key", "key").await.unwrap();
    let found: Vec<_> = shown(&dataset).await.into_iter().map(|[a, b, ..]| (a, b)).collect();
    assert_eq!(found, [(Some(0), Some(7)), (Some(1), None), (Some(2), Some(8)), (Some(3), Some(7))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn null_structs_without_members_are_refused() {
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let structs = |members: Vec<Arc<Field>>| DataType::Struct(members.into());
    let nothing = || structs(Vec::new());
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let directory = tempfile::tempdir().unwrap();
        let uri = directory.path().join("table");
        let old = StructArray::from(vec![(
            field("i", DataType::Int64),
            Arc::new(Int64Array::from(vec![1, 2])) as _,
        )]);
        let rows =
            RecordBatch::try_from_iter_with_nullable([("x", Arc::new(old) as ArrayRef, false)]).unwrap();
        let create = CreateOptions { file_version: Some(version), ..CreateOptions::default() };
        let options = WriteOptions { create, max_rows_per_file: 1, ..params(WriteMode::Create) };
        let mut dataset = Dataset::write(reader(rows), uri.to_str().unwrap(), options).await.unwrap();
        let member =
            |inner: Arc<Field>| Arc::new(Schema::new(vec![Field::new("x", structs(vec![inner]), false)]));
        let refused = [column("e", nothing()), member(field("e", nothing()))];
        for columns in refused {
            let error = dataset.add_columns(NewColumns::Null(Arc::clone(&columns)), None).await.unwrap_err();
            assert!(error.to_string().starts_with("field `"), "{version}: {error}");
            let kept = dataset.with_columns(columns).unwrap_err();
            assert_eq!((error.kind(), dataset.version()), (kept.kind(), Version(1)), "{version}");
        }
        let accepted =
            [member(field("j", DataType::Int64)), column("n", DataType::Null), column("t", DataType::Utf8)];
        for columns in accepted {
            dataset.add_columns(NewColumns::Null(columns), None).await.unwrap();
        }
        dataset.compact(&CompactionOptions::default()).await.unwrap();
        assert_eq!((dataset.manifest().fragments.len(), dataset.count_rows(None).await.unwrap()), (1, 2));
    }
}
