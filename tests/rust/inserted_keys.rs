//! Merges that insert keys while others write: what has none of these keys is no conflict.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt16Array,
};
use pennon_core::transaction::{KeyFilter, KeySet, Operation, key_hash};
use pennon_table::ops::compact::CompactionOptions;
use pennon_table::{ConflictRetries, Dataset, MergeOptions, UpdateOptions, WriteMode};

use crate::support::*;

/// As many keys make a filter.
const MANY: i64 = 50_000;

/// Joined once.
fn once() -> MergeOptions {
    MergeOptions { retries: ConflictRetries::at_most(0), ..MergeOptions::default() }
}

/// The keys that the last merge named.
async fn named(dataset: &Dataset) -> KeyFilter {
    let transaction = dataset.read_transaction(dataset.version()).await.unwrap().unwrap();
    let Operation::Update(update) = transaction.operation else { panic!("not an update") };
    update.inserted_rows.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_wrote_with_other_keys_is_no_conflict() {
    let (_directory, uris) = uris("keys-others");
    for uri in &uris {
        for new in [10_i64, MANY] {
            let uri = format!("{uri}-{new}");
            create_cut(&uri, 0..100, 30).await;
            let mut merging = open(&uri).await;
            // A filter of many takes some of these keys for its own.
            append(&uri, 1_000_000..1_000_000 + 4 * MANY).await.unwrap();
            let mut other = open(&uri).await;
            let moved = [("name".to_owned(), "'moved'".to_owned())];
            other.update(&moved, Some("a > 90 AND a < 95"), UpdateOptions::default()).await.unwrap();
            other.delete("a = 1000000", ConflictRetries::default()).await.unwrap();
            let clauses = upsert(&["a"]);
            other.merge_insert(rows([-1, 2]), &clauses, &MergeOptions::default()).await.unwrap();
            other.compact(&CompactionOptions::default()).await.unwrap();
            let done = merging.merge_insert(rows((80..85).chain(200..200 + new)), &clauses, &once()).await;
            let done = done.unwrap();
            assert_eq!((done.num_updated_rows, done.num_inserted_rows), (5, u64::try_from(new).unwrap()));
            let (keys, others) = (named(&merging).await, 1_000_000..1_000_000 + 4 * MANY);
            let taken = others.filter(|key| keys.may_contain(key_hash(&[&key.to_le_bytes()]))).count();
            assert_eq!(matches!(keys.keys, Some(KeySet::Exact(_))), new == 10);
            assert_eq!(taken > 0, new == MANY, "{taken} of the other keys are in the filter");
            let mut expected: Vec<i64> = (-1..100).chain(200..200 + new).collect();
            expected.extend(1_000_001..1_000_000 + 4 * MANY);
            assert_eq!(values(&merging).await, expected);
            assert_eq!(merging.count_rows(Some("name = 'moved'")).await.unwrap(), 4);
            merging.validate().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_shared_key_among_many_is_found() {
    let (directory, uris) = uris("keys-shared");
    for uri in &uris {
        for new in [10_i64, MANY] {
            let uri = format!("{uri}-{new}");
            create(&uri, 0..100).await;
            let (clauses, last) = (upsert(&["a"]), 199 + new);
            for by in ["append", "update"] {
                let mut merging = open(&uri).await;
                if by == "append" {
                    // More than one thread reads at a time.
                    append(&uri, (1_000_000..2_200_000).chain([last])).await.unwrap();
                } else {
                    let assignments = [("a".to_owned(), last.to_string())];
                    let mut other = open(&uri).await;
                    other.update(&assignments, Some("a = 7"), UpdateOptions::default()).await.unwrap();
                }
                let before = files(directory.path());
                let failed = merging.merge_insert(rows(200..=last), &clauses, &once()).await.unwrap_err();
                assert!(failed.is_retryable(), "{failed}");
                assert!(failed.to_string().contains("may have inserted the same keys"), "{failed}");
                assert_eq!(files(directory.path()), before);
                // Joined again it updates the row.
                let done = merging.merge_insert(rows([last, -1]), &clauses, &MergeOptions::default()).await;
                let done = done.unwrap();
                assert_eq!((done.num_updated_rows, done.num_inserted_rows), (1, 1));
                merging.delete(&format!("a = {last} OR a = -1"), ConflictRetries::default()).await.unwrap();
                merging.validate().await.unwrap();
            }
        }
    }
}

/// Rows of a key of each kind: `i` of 32 bits, `t`, `f`, `d` as `t` with a dictionary, `u` as `i` without a sign.
fn keyed(keys: &[(Option<i32>, &str, f64)]) -> RecordBatch {
    let texts: DictionaryArray<Int8Type> = keys.iter().map(|key| Some(key.1)).collect();
    let unsigned = keys.iter().map(|key| key.0.and_then(|key| key.try_into().ok()));
    let columns: [(&str, ArrayRef); 5] = [
        ("i", Arc::new(keys.iter().map(|key| key.0).collect::<Int32Array>())),
        ("t", Arc::new(keys.iter().map(|key| Some(key.1)).collect::<StringArray>())),
        ("f", Arc::new(keys.iter().map(|key| Some(key.2)).collect::<Float64Array>())),
        ("d", Arc::new(texts)),
        ("u", Arc::new(unsigned.collect::<UInt16Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_all_kinds_are_compared() {
    let (_directory, [_, uri]) = uris("keys-kinds");
    let old = [(Some(1), "a", 0.5)];
    let others = [(Some(2), "b", -0.0), (None, "c", 1.5)];
    // On which columns, the new row, and whether one of the others has its key.
    let cases: [(&[&str], _, bool); 13] = [
        (&["i"], (Some(2), "x", 9.0), true),
        (&["i"], (Some(3), "b", -0.0), false),
        (&["t"], (Some(9), "c", 9.0), true),
        (&["t"], (Some(2), "bb", -0.0), false),
        (&["f"], (Some(9), "x", 1.5), true),
        (&["f"], (Some(2), "b", 2.0), false),
        // Which of the zeros it is does not matter to all who decide.
        (&["f"], (Some(2), "b", 0.0), true),
        (&["d"], (Some(9), "c", 9.0), true),
        (&["d"], (Some(2), "bb", -0.0), false),
        (&["u", "d"], (Some(2), "b", 9.0), true),
        (&["i", "t"], (Some(2), "b", 9.0), true),
        (&["i", "t"], (Some(2), "c", 1.5), false),
        // Null equals nothing.
        (&["i", "t"], (None, "c", 1.5), false),
    ];
    for (number, (on, new, is_shared)) in cases.into_iter().enumerate() {
        let uri = format!("{uri}-{number}");
        let mut merging = Dataset::write(reader(keyed(&old)), &uri, params(WriteMode::Create)).await.unwrap();
        Dataset::write(reader(keyed(&others)), &uri, params(WriteMode::Append)).await.unwrap();
        let result = merging.merge_insert(reader(keyed(&[new])), &upsert(on), &once()).await;
        match result {
            Ok(_) => assert!(!is_shared, "{on:?} {new:?}"),
            Err(error) => {
                assert!(is_shared && error.to_string().contains("same keys"), "{on:?} {new:?}: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_the_key_column_have_no_key() {
    let (_directory, uris) = uris("keys-missing");
    for uri in &uris {
        create(uri, 0..3).await;
        let mut merging = open(uri).await;
        let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let names = RecordBatch::try_from_iter([("name", names)]).unwrap();
        Dataset::write(reader(names), uri, params(WriteMode::Append)).await.unwrap();
        let done = merging.merge_insert(rows([10]), &upsert(&["a"]), &once()).await.unwrap();
        assert_eq!((done.num_inserted_rows, merging.count_rows(None).await.unwrap()), (1, 6));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_column_any_more_may_be_anywhere() {
    let (_directory, uris) = uris("keys-dropped");
    for uri in &uris {
        create(uri, 0..3).await;
        let mut merging = open(uri).await;
        append(uri, [10]).await.unwrap();
        let mut other = open(uri).await;
        other.drop_columns(&["a".to_owned()]).await.unwrap();
        let failed = merging.merge_insert(rows([11]), &upsert(&["a"]), &once()).await.unwrap_err();
        assert!(failed.is_retryable() && failed.to_string().contains("same keys"), "{failed}");
    }
}
