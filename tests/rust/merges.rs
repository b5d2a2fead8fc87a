//! Merges: keys of two merges at a time, small memory, row ids as keys, failures that leave nothing.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pennon_core::transaction::{KeySet, Operation};
use pennon_core::{ErrorKind, Result};
use pennon_table::ops::index::{IndexKind, IndexParameters, NewIndex};
use pennon_table::{
    BatchReader, ConflictRetries, Dataset, MergeClauses, MergeOptions, MergeResult, WhenMatched,
    WhenUnmatchedTarget,
};

use crate::support::*;

/// Rows `a` with one name.
fn named(values: impl IntoIterator<Item = i64>, name: &str) -> BatchReader {
    let values: Vec<i64> = values.into_iter().collect();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|_| name)));
    let columns: [(&str, ArrayRef); 2] = [("a", Arc::new(Int64Array::from(values))), ("name", names)];
    reader(RecordBatch::try_from_iter(columns).unwrap())
}

async fn merge(dataset: &mut Dataset, source: BatchReader, clauses: &MergeClauses) -> Result<MergeResult> {
    dataset.merge_insert(source, clauses, &MergeOptions::default()).await
}

fn counts(result: MergeResult) -> (u64, u64, u64) {
    (result.num_inserted_rows, result.num_updated_rows, result.num_deleted_rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_keep_their_ids_and_come_in_their_order() {
    let (_directory, uris) = uris("merge");
    for uri in &uris {
        let mut dataset = create_cut(uri, 0..10, 4).await;
        let result = merge(&mut dataset, named([9, 42, 1, 41, 5], "new"), &upsert(&["a"])).await.unwrap();
        assert_eq!(counts(result), (2, 3, 0));
        let found = by_id(&dataset).await;
        let expected = (0..10).chain([42, 41]).enumerate();
        assert_eq!(found, expected.map(|(id, a)| (u64::try_from(id).unwrap(), a)).collect());
        let fragment = dataset.manifest().fragments.decode_all().next_back().unwrap();
        let ids = fragment.row_id_sequence().unwrap().unwrap();
        assert_eq!(ids.iter().collect::<Vec<_>>(), [1, 5, 9, 10, 11]);
        let created = fragment.created_at_sequence().unwrap().unwrap();
        assert_eq!((0..5).map(|at| created.get(at).unwrap().0).collect::<Vec<_>>(), [1, 1, 1, 2, 2]);
        let transaction = dataset.read_transaction(dataset.version()).await.unwrap().unwrap();
        let Operation::Update(update) = transaction.operation else { panic!("not an update") };
        let Some(KeySet::Exact(keys)) = update.inserted_rows.unwrap().keys else { panic!("no keys") };
        assert_eq!(keys.len(), 2);
        open(uri).await.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_merges_of_one_key_insert_it_once() {
    const WRITERS: i64 = 5;
    let (_directory, uris) = uris("merge-race");
    for uri in &uris {
        create(uri, 0..3).await;
        let writers = (0..WRITERS).map(|writer| {
            let uri = uri.clone();
            tokio::spawn(async move {
                let options =
                    MergeOptions { retries: ConflictRetries::at_most(100), ..MergeOptions::default() };
                let mut sum = (0, 0);
                for round in 0..6 {
                    // All writers upsert the key of the round, each one of its own too.
                    let keys = [100 + round, 1000 + 10 * round + writer];
                    let mut dataset = open(&uri).await;
                    let source = named(keys, &format!("w{writer}"));
                    let result = dataset.merge_insert(source, &upsert(&["a"]), &options).await.unwrap();
                    sum = (sum.0 + result.num_inserted_rows, sum.1 + result.num_updated_rows);
                }
                sum
            })
        });
        let mut sum = (0, 0);
        for writer in futures::future::join_all(writers).await {
            let (inserted, updated) = writer.unwrap();
            sum = (sum.0 + inserted, sum.1 + updated);
        }
        let dataset = open(uri).await;
        let mut expected: Vec<i64> = (0..3).chain(100..106).collect();
        expected.extend((0..6).flat_map(|round| (0..WRITERS).map(move |w| 1000 + 10 * round + w)));
        assert_eq!(values(&dataset).await, expected);
        assert_eq!(sum, (6 + 6 * 5, 6 * 4));
        dataset.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_merge_is_joined_again() {
    let (directory, [uri, _]) = uris("merge-stale");
    let stale = create(&uri, 0..6).await;
    let mut other = open(&uri).await;
    merge(&mut other, named([50], "first"), &upsert(&["a"])).await.unwrap();
    other.delete("a = 2", ConflictRetries::default()).await.unwrap();
    // The key is there now, the other row is not any more.
    let mut dataset = stale.clone();
    let result = merge(&mut dataset, named([50, 2], "second"), &upsert(&["a"])).await.unwrap();
    assert_eq!(counts(result), (1, 1, 0));
    assert_eq!((values(&dataset).await, dataset.version().0), (vec![0, 1, 2, 3, 4, 5, 50], 4));
    // An append may bring the same key.
    let mut stale = dataset.clone();
    append(&uri, [60]).await.unwrap();
    assert_eq!(counts(merge(&mut stale, named([60], "third"), &upsert(&["a"])).await.unwrap()), (0, 1, 0));
    // Without retries it is a conflict that leaves nothing.
    let mut stale = open(&uri).await;
    append(&uri, [70]).await.unwrap();
    let before = files(directory.path());
    let options = MergeOptions { retries: ConflictRetries::at_most(0), ..MergeOptions::default() };
    let error = stale.merge_insert(named([70], "fourth"), &upsert(&["a"]), &options).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(files(directory.path()), before);
    open(&uri).await.validate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hardly_any_memory() {
    let (_directory, [uri, _]) = uris("merge-spill");
    for limit in [0, 20_000] {
        let uri = format!("{uri}{limit}");
        let mut dataset = create_cut(&uri, 0..3000, 1000).await;
        let options = MergeOptions { memory_limit: limit, ..MergeOptions::default() };
        let clauses = MergeClauses {
            when_matched: WhenMatched::UpdateIf("source.a % 2 = 0 AND target.name LIKE 'n%'".to_owned()),
            when_unmatched_target: WhenUnmatchedTarget::DeleteIf("a < 100".to_owned()),
            ..upsert(&["a"])
        };
        // From the last to the first, half of them in the table.
        let source = || named((1500..4500).rev(), "merged");
        let text = dataset.analyze_merge_insert(source(), &clauses, &options).await.unwrap();
        assert!(text.contains("spilled=true") && text.contains("num_updated_rows=750"), "{text}");
        let result = dataset.merge_insert(source(), &clauses, &options).await.unwrap();
        assert_eq!(counts(result), (1500, 750, 100));
        assert_eq!(values(&dataset).await, (100..4500).collect::<Vec<_>>());
        assert_eq!(dataset.count_rows(Some("name = 'merged'")).await.unwrap(), 2250);
        let unchanged = dataset.count_rows(Some("name = 'merged' AND a < 3000 AND a % 2 = 1")).await.unwrap();
        assert_eq!(unchanged, 0);
        dataset.validate().await.unwrap();
        // Ids of rows that were there are as they were.
        let found = by_id(&dataset).await;
        assert!(found.iter().filter(|(_, a)| **a < 3000).all(|(id, a)| i64::try_from(*id).unwrap() == *a));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_ids_are_keys() {
    let (_directory, uris) = uris("merge-ids");
    for uri in &uris {
        let mut dataset = create_cut(uri, 10..20, 4).await;
        dataset.delete("a = 13", ConflictRetries::default()).await.unwrap();
        let by_row_id = |ids: Vec<Option<u64>>| {
            let names = StringArray::from_iter_values(ids.iter().map(|_| "given"));
            let columns: [(&str, ArrayRef); 2] =
                [("_rowid", Arc::new(UInt64Array::from(ids))), ("name", Arc::new(names))];
            reader(RecordBatch::try_from_iter(columns).unwrap())
        };
        let update = MergeClauses { on: vec!["_rowid".to_owned()], insert: false, ..upsert(&["a"]) };
        // Ids of deleted rows and ids that never were match nothing.
        let source = by_row_id(vec![Some(8), Some(3), Some(0), Some(77), None]);
        assert_eq!(counts(merge(&mut dataset, source, &update).await.unwrap()), (0, 2, 0));
        assert_eq!(dataset.count_rows(Some("name = 'given' AND a IN (10, 18)")).await.unwrap(), 2);
        let condition = WhenMatched::UpdateIf("target.a > 15 AND source._rowid < 9".to_owned());
        let conditional = MergeClauses { when_matched: condition, ..update.clone() };
        let source = by_row_id((0..10).map(Some).collect());
        assert_eq!(counts(merge(&mut dataset, source, &conditional).await.unwrap()), (0, 3, 0));
        let insert = MergeClauses { insert: true, ..update.clone() };
        let error = merge(&mut dataset, by_row_id(vec![Some(3), Some(77)]), &insert).await.unwrap_err();
        assert!(
            error.to_string().contains("2 row ids") && error.to_string().contains("first is 3"),
            "{error}"
        );
        let result = merge(&mut dataset, by_row_id(vec![None, Some(1)]), &insert).await.unwrap();
        assert_eq!(counts(result), (1, 1, 0));
        let error = merge(&mut dataset, by_row_id(vec![Some(1), Some(1)]), &update).await.unwrap_err();
        assert!(error.to_string().contains("(_rowid = 1)"), "{error}");
        dataset.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_leave_nothing() {
    let (directory, [uri, _]) = uris("merge-failures");
    let mut dataset = create(&uri, 0..4).await;
    let before = files(directory.path());
    let failing = || -> BatchReader {
        let batches = [Ok(batch(0..2)), Err(ArrowError::ComputeError("torn".to_owned()))];
        Box::new(RecordBatchIterator::new(batches, batch(0..1).schema()))
    };
    let fail = MergeClauses { when_matched: WhenMatched::Fail, ..upsert(&["a"]) };
    let nothing = MergeClauses { on: vec!["a".to_owned()], ..MergeClauses::default() };
    let unknown = MergeClauses { on: vec!["zz".to_owned()], ..upsert(&["a"]) };
    let both = MergeClauses { on: vec!["a".to_owned(), "_rowid".to_owned()], ..upsert(&["a"]) };
    let cases = [
        (failing(), upsert(&["a"]), "torn"),
        (rows([1, 1]), upsert(&["a"]), "Ambiguous merge inserts are prohibited"),
        (rows([9, 3]), fail, "found matching row with key values: a = 3"),
        (rows([1]), nothing, "not configured to change"),
        (rows([1]), unknown, "key column 'zz' does not exist"),
        (rows([1]), both, "_rowid is a key of its own"),
    ];
    for (source, clauses, text) in cases {
        let error = merge(&mut dataset, source, &clauses).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!((files(directory.path()), dataset.version().0), (before.clone(), 1));
    }
    let error = merge(&mut dataset, other("a", DataType::Utf8), &upsert(&["a"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_where_none_may_be() {
    let (directory, [uri, _]) = uris("merge-nulls");
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
    ]));
    let strict = RecordBatch::try_new(Arc::clone(&schema), batch(0..4).columns().to_vec()).unwrap();
    let mut dataset =
        Dataset::write(reader(strict), &uri, params(pennon_table::WriteMode::Create)).await.unwrap();
    let before = files(directory.path());
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 9]));
    let source = RecordBatch::try_from_iter([("a", keys), ("name", names)]).unwrap();
    let error = merge(&mut dataset, reader(source.clone()), &upsert(&["a"])).await.unwrap_err();
    assert!(error.kind() == ErrorKind::SchemaMismatch && error.to_string().contains("name"), "{error}");
    let error =
        merge(&mut dataset, reader(source.project(&[0]).unwrap()), &upsert(&["a"])).await.unwrap_err();
    assert!(error.to_string().contains("non-nullable and not provided"), "{error}");
    assert_eq!((files(directory.path()), dataset.version().0), (before, 1));
    // Where it is not written it does not matter.
    let update = MergeClauses { insert: false, ..upsert(&["a"]) };
    assert_eq!(counts(merge(&mut dataset, reader(source), &update).await.unwrap()), (0, 1, 0));
}

/// Reads of a merge with an index over its key, and without.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_found_by_an_index() {
    // In memory requests count as those of an object store do: an index pays for fewer keys.
    let (_directory, [uri, _]) = uris("merge-index");
    let mut dataset = create_cut(&uri, 0..40_000, 10_000).await;
    let index = NewIndex {
        column: "a".to_owned(),
        kind: IndexKind::BTree,
        name: None,
        replace: true,
        train: true,
        uuid: None,
        parameters: IndexParameters::default(),
    };
    dataset.create_index(index).await.unwrap();
    append(&uri, 40_000..40_100).await.unwrap();
    let mut counted = Vec::new();
    for use_index in [true, false] {
        let mut dataset = open(&uri).await;
        let options = MergeOptions { use_index, ..MergeOptions::default() };
        let plan = dataset.explain_merge_insert(&upsert(&["a"]), None, &options).await.unwrap();
        let indices =
            "rows found by indices: a_idx (BTree), for 4 of 5 fragments, if the source has at most 40 rows";
        assert_eq!(plan.contains(indices), use_index, "{plan}");
        let decoded = |dataset: &Dataset| dataset.session().metrics().counters().rows_decoded;
        let before = decoded(&dataset);
        let source = named([5, 12_345, 39_999, 40_050, 50_000], "new");
        let text = dataset.analyze_merge_insert(source, &upsert(&["a"]), &options).await.unwrap();
        assert_eq!(text.contains("rows found by indices"), use_index, "{text}");
        assert!(text.contains("num_inserted_rows=1, num_updated_rows=4, num_deleted_rows=0"), "{text}");
        counted.push(decoded(&dataset) - before);
        if use_index {
            continue;
        }
        let many = named(0..100, "many");
        let text =
            dataset.analyze_merge_insert(many, &upsert(&["a"]), &MergeOptions::default()).await.unwrap();
        assert!(!text.contains("rows found by indices") && text.contains("num_updated_rows=100"), "{text}");
        let source = named([5, 12_345, 39_999, 40_050, 50_000], "new");
        assert_eq!(counts(merge(&mut dataset, source, &upsert(&["a"])).await.unwrap()), (1, 4, 0));
        assert_eq!(dataset.count_rows(Some("name = 'new'")).await.unwrap(), 5);
        dataset.validate().await.unwrap();
    }
    // Three rows, and the fragment that the index does not cover.
    assert!(counted[0] <= 103 && counted[1] >= 30_000, "{counted:?}");
}
