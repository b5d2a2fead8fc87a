//! Rows by id: the index is made once and carried on, filters on ids look at few fragments and find the same rows, and a
//! manifest that somebody holds is not read again.

use std::sync::Arc;

use pennon_core::RowId;
use pennon_table::scan::{ScanOptions, TakeOptions, TakeRows};
use pennon_table::{
    CacheSizes, ConflictRetries, ConnectOptions, Dataset, OpenOptions, Session, UpdateOptions, WriteMode,
    WriteOptions,
};
use proptest::prelude::*;

use crate::support::*;

/// How often an index was made, through this handle and those that share its session.
fn made(dataset: &Dataset) -> u64 {
    dataset.session().metrics().counters().row_id_indexes
}

async fn take(dataset: &Dataset, ids: &[u64]) -> usize {
    let rows = TakeRows::Ids(ids.iter().copied().map(RowId).collect());
    dataset.take(rows, &TakeOptions::default()).await.unwrap().num_rows()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_makes_one_index_however_small_its_session_is() {
    let (_directory, uris) = uris("index-once");
    for (uri, bytes) in uris.iter().flat_map(|uri| [(uri, 0), (uri, 2000), (uri, 256 << 20)]) {
        let uri = &format!("{uri}-{bytes}");
        create_cut(uri, 0..300, 1).await;
        let session = Session::new(CacheSizes { bytes });
        let connect = ConnectOptions { session: Some(session), ..ConnectOptions::default() };
        let mut dataset = Dataset::open(uri, OpenOptions { connect, ..options() }).await.unwrap();
        for _ in 0..3 {
            assert_eq!(take(&dataset, &[7, 250, 900]).await, 2);
        }
        assert_eq!(made(&dataset), 1, "{uri} {bytes}");
        let clone = dataset.clone();
        assert_eq!((take(&clone, &[299]).await, made(&dataset)), (1, 1));
        // Own commits and those of others carry it on, one index for each version that is asked.
        dataset.delete("_rowid = 7", ConflictRetries::default()).await.unwrap();
        append(uri, 300..302).await.unwrap();
        dataset.checkout_latest().await.unwrap();
        assert_eq!(take(&dataset, &[7, 250, 301]).await, 2);
        assert_eq!(take(&dataset, &[8, 250, 301]).await, 3);
        assert_eq!(made(&dataset), 2, "{uri} {bytes}");
        assert_eq!((take(&clone, &[7]).await, made(&dataset)), (1, 2), "the older version has its own still");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_a_handle_holds_is_not_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("table").to_str().unwrap().to_owned();
    create_cut(&uri, 0..2000, 1).await;
    let first = open(&uri).await;
    let second = open(&uri).await;
    assert!(!Arc::ptr_eq(first.session(), second.session()));
    assert!(Arc::ptr_eq(first.manifest(), second.manifest()));
    let second = append(&uri, 2000..2001).await.unwrap();
    assert!(Arc::ptr_eq(second.manifest(), open(&uri).await.manifest()));
    // Under the same name, but another table.
    std::fs::remove_dir_all(directory.path().join("table")).unwrap();
    create_cut(&uri, 0..2000, 1).await;
    append(&uri, 5000..5001).await.unwrap();
    let other = open(&uri).await;
    assert_eq!(other.version(), second.version());
    assert!(!Arc::ptr_eq(second.manifest(), other.manifest()));
    assert_eq!(values(&other).await.last(), Some(&5000));
}

/// A condition on ids or addresses.
fn condition() -> impl Strategy<Value = String> {
    let column = prop_oneof![Just("_rowid"), Just("_rowaddr")];
    let number = prop_oneof![
        4 => (0..90_i64).prop_map(|n| n.to_string()),
        2 => (0..30_i64, 0..6_i64).prop_map(|(fragment, offset)| ((fragment << 32) + offset).to_string()),
        1 => prop_oneof![Just("-1"), Just("NULL"), Just("18446744073709551615"), Just("18446744073709551616"),
            Just("9223372036854775808"), Just("1.5"), Just("'7'")].prop_map(str::to_owned),
    ];
    let operator = prop_oneof![Just("="), Just("<"), Just("<="), Just(">"), Just(">="), Just("!=")];
    let simple = prop_oneof![
        (column.clone(), operator, number.clone()).prop_map(|(c, op, v)| format!("{c} {op} {v}")),
        (column.clone(), proptest::collection::vec(number.clone(), 1..5), any::<bool>()).prop_map(
            |(c, list, not)| format!("{c} {}IN ({})", if not { "NOT " } else { "" }, list.join(", "))
        ),
        (column.clone(), number.clone(), number.clone())
            .prop_map(|(c, a, b)| format!("{c} BETWEEN {a} AND {b}")),
        column.prop_map(|c| format!("{c} IS NULL")),
        (0..90_i64).prop_map(|a| format!("a > {a}")),
    ];
    simple.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("NOT ({a})")),
        ]
    })
}

/// Rows with a filter: with the index and statistics, and by looking at all of them.
async fn both(
    dataset: &Dataset,
    filter: &str,
    include_deleted_rows: bool,
) -> [Result<Vec<String>, String>; 2] {
    let mut found = [Ok(Vec::new()), Ok(Vec::new())];
    for (found, ignore_statistics) in found.iter_mut().zip([false, true]) {
        let options = ScanOptions {
            filter: Some(filter.into()),
            with_row_id: true,
            with_row_address: true,
            include_deleted_rows,
            ignore_statistics,
            ..ScanOptions::default()
        };
        let scan = match dataset.scan(&options) {
            Ok(scan) => scan,
            Err(error) => {
                *found = Err(error.to_string());
                continue;
            }
        };
        let batches: Result<Vec<arrow_array::RecordBatch>, _> =
            futures::TryStreamExt::try_collect(scan.stream()).await;
        *found = batches.map_err(|e| e.to_string()).map(|batches| {
            batches.iter().flat_map(|b| (0..b.num_rows()).map(|at| format!("{:?}", b.slice(at, 1)))).collect()
        });
    }
    found
}

/// A table with rows that moved and rows that are gone.
async fn scattered(uri: &str, stable: bool) -> Dataset {
    let params = WriteOptions { max_rows_per_file: 5, create: layout(stable), ..params(WriteMode::Create) };
    let mut dataset = Dataset::write(rows(0..60), uri, params).await.unwrap();
    for filter in ["a % 7 = 0", "a % 11 = 3"] {
        let assignments = [("name".to_owned(), "'new'".to_owned())];
        dataset.update(&assignments, Some(filter), UpdateOptions::default()).await.unwrap();
    }
    dataset.delete("a % 5 = 1", ConflictRetries::default()).await.unwrap();
    dataset
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_on_ids_find_what_all_rows_say() {
    for stable in [true, false] {
        let dataset = scattered(&format!("memory://row-id-filters/{stable}"), stable).await;
        // With an index at hand it is used for tables of any size.
        if stable {
            take(&dataset, &[0]).await;
        }
        let handle = tokio::runtime::Handle::current();
        let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
        tokio::task::block_in_place(|| {
            proptest!(config, |(filter in condition(), deleted in any::<bool>())| {
                let [narrowed, all] = handle.block_on(both(&dataset, &filter, deleted));
                prop_assert_eq!(narrowed, all, "{}", filter);
            });
        });
        assert_eq!(made(&dataset), u64::from(stable));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_by_id_open_one_fragment() {
    let uri = "memory://row-id-deletes/table";
    let mut dataset = create_cut(uri, 0..2000, 1).await;
    let rows_decoded = |dataset: &Dataset| dataset.session().metrics().counters().rows_decoded;
    let before = rows_decoded(&dataset);
    for (filter, deleted) in
        [("_rowid = 70", 1), ("_rowid = 70", 0), ("_rowid IN (3, 90, 5000) AND a > 3", 1)]
    {
        let done = dataset.delete(filter, ConflictRetries::default()).await.unwrap();
        assert_eq!(done.num_deleted_rows, deleted, "{filter}");
    }
    assert!(rows_decoded(&dataset) - before <= 4, "only rows that the ids lead to");
    let options = ScanOptions { filter: Some("_rowid BETWEEN 100 AND 102".into()), ..ScanOptions::default() };
    let analysis = dataset.scan(&options).unwrap().analyze(false).await.unwrap();
    assert_eq!((analysis.fragments, analysis.rows), (3, 3));
    let options = ScanOptions { ignore_statistics: true, ..options };
    assert_eq!(dataset.scan(&options).unwrap().count().await.unwrap(), 3);
    let first = made(&dataset);
    assert!((1..=4).contains(&first), "{first}");
}
