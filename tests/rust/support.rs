//! Tables of one or two columns, and what is in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::{FutureExt, TryStreamExt};
use pennon_core::{Result, RowAddress};
use pennon_table::ops::index::{IndexKind, IndexParameters, NewIndex};
use pennon_table::scan::ScanOptions;
use pennon_table::{
    BatchReader, CommitOptions, CreateOptions, Dataset, Durability, FindRows, MergeClauses, OpenOptions,
    TransactionOptions, WhenMatched, WriteMode, WriteOptions,
};

/// Rows `a` with names `n<a>`.
pub fn batch(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: Vec<i64> = values.into_iter().collect();
    let names: StringArray = values.iter().map(|v| Some(format!("n{v}"))).collect();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("a", Arc::new(Int64Array::from(values))), ("name", Arc::new(names))];
    let fields: Vec<Field> =
        columns.iter().map(|(n, c)| Field::new(*n, c.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, c)| c).collect())
        .unwrap()
}

pub fn reader(batch: RecordBatch) -> BatchReader {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

pub fn rows(values: impl IntoIterator<Item = i64>) -> BatchReader {
    reader(batch(values))
}

/// One int64 column of another name or type than [`rows`] has.
pub fn other(name: &str, data_type: DataType) -> BatchReader {
    let schema = Arc::new(Schema::new(vec![Field::new(name, data_type, true)]));
    reader(RecordBatch::new_empty(schema))
}

/// Finds these rows, whatever the version.
pub fn found(rows: &[RowAddress]) -> Box<FindRows> {
    let rows = rows.to_vec();
    Box::new(move |_| std::future::ready(Ok(rows.clone())).boxed())
}

/// Commits that are not synced.
pub fn commit_options() -> CommitOptions {
    CommitOptions { durability: Durability::Os, ..CommitOptions::default() }
}

/// A layout with or without stable row ids.
pub fn layout(enable_stable_row_ids: bool) -> CreateOptions {
    CreateOptions { enable_stable_row_ids, ..CreateOptions::default() }
}

/// How a transaction is committed.
pub fn transaction_options() -> TransactionOptions {
    TransactionOptions { commit: commit_options(), ..TransactionOptions::default() }
}

pub fn params(mode: WriteMode) -> WriteOptions {
    WriteOptions { mode, commit: commit_options(), ..WriteOptions::default() }
}

pub fn options() -> OpenOptions {
    OpenOptions { commit: commit_options(), ..OpenOptions::default() }
}

pub async fn create(uri: &str, values: impl IntoIterator<Item = i64>) -> Dataset {
    Dataset::write(rows(values), uri, params(WriteMode::Create)).await.unwrap()
}

/// A table of fragments of that many rows.
pub async fn create_cut(uri: &str, values: impl IntoIterator<Item = i64>, rows_per_file: u64) -> Dataset {
    let params = WriteOptions { max_rows_per_file: rows_per_file, ..params(WriteMode::Create) };
    Dataset::write(rows(values), uri, params).await.unwrap()
}

pub async fn append(uri: &str, values: impl IntoIterator<Item = i64>) -> Result<Dataset> {
    Dataset::write(rows(values), uri, params(WriteMode::Append)).await
}

pub async fn open(uri: &str) -> Dataset {
    Dataset::open(uri, options()).await.unwrap()
}

/// A merge that updates the rows with these keys and inserts the others.
pub fn upsert(on: &[&str]) -> MergeClauses {
    MergeClauses {
        on: on.iter().map(|key| (*key).to_owned()).collect(),
        when_matched: WhenMatched::UpdateAll,
        insert: true,
        ..MergeClauses::default()
    }
}

/// A B-tree over a column, still to be built.
pub fn btree(column: &str) -> NewIndex {
    NewIndex {
        column: column.to_owned(),
        kind: IndexKind::BTree,
        name: None,
        replace: false,
        train: true,
        uuid: None,
        parameters: IndexParameters::default(),
    }
}

/// `a` by stable row id.
pub async fn by_id(dataset: &Dataset) -> BTreeMap<u64, i64> {
    let scan = dataset.scan(&ScanOptions { with_row_id: true, ..ScanOptions::default() }).unwrap();
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
    let mut found = BTreeMap::new();
    for batch in batches {
        let ids = batch.column_by_name("_rowid").unwrap().as_primitive::<UInt64Type>();
        let values = batch.column_by_name("a").unwrap().as_primitive::<Int64Type>();
        for (id, value) in ids.values().iter().zip(values.values()) {
            assert!(found.insert(*id, *value).is_none(), "row id {id} twice");
        }
    }
    found
}

/// `a` in ascending order.
pub async fn values(dataset: &Dataset) -> Vec<i64> {
    let mut values: Vec<i64> = by_id(dataset).await.into_values().collect();
    values.sort_unstable();
    values
}

/// A local directory and a memory table, removed at the end.
pub fn uris(name: &str) -> (tempfile::TempDir, [String; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let local = directory.path().join("table").to_str().unwrap().to_owned();
    (directory, [local, format!("memory://integration-{name}/table")])
}

/// Paths of all files below a directory, relative to it.
pub fn files(root: &std::path::Path) -> Vec<String> {
    fn walk(at: &std::path::Path, root: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}
