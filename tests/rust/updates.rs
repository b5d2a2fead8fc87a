//! Updates: rows with new values under their old ids.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::TryStreamExt;
use pennon_core::transaction::{Operation, Update, UpdateMode};
use pennon_core::{ErrorKind, FieldId, FragmentId};
use pennon_table::scan::{Projection, ScanOptions};
use pennon_table::{ConflictRetries, Dataset, UpdateOptions};

use crate::support::*;

const ID: &str = "_rowid";
const CREATED: &str = "_row_created_at_version";
const UPDATED: &str = "_row_last_updated_at_version";

fn options() -> UpdateOptions {
    UpdateOptions { mode: Some(UpdateMode::RewriteRows), ..UpdateOptions::default() }
}

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(column, sql)| (column.to_string(), sql.to_string())).collect()
}

/// `_rowid`, created-at and last-updated-at of all rows, in the order of the table.
async fn lineage(dataset: &Dataset) -> Vec<[u64; 3]> {
    let columns = [ID, CREATED, UPDATED].map(str::to_owned).to_vec();
    let options = ScanOptions { columns: Some(Projection::Names(columns)), ..ScanOptions::default() };
    let batches: Vec<_> = dataset.scan(&options).unwrap().stream().try_collect().await.unwrap();
    let mut found = Vec::new();
    for batch in batches {
        let column = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
        let (ids, created, updated) = (column(0), column(1), column(2));
        found.extend((0..ids.len()).map(|row| [ids[row], created[row], updated[row]]));
    }
    found
}

async fn last_update(dataset: &Dataset) -> Update {
    let transaction = dataset.read_transaction(dataset.version()).await.unwrap().unwrap();
    match transaction.operation {
        Operation::Update(update) => update,
        other => panic!("not an update: {}", other.name()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_keep_their_ids_and_come_in_their_order() {
    let (_directory, uris) = uris("update");
    for uri in &uris {
        let mut dataset = create_cut(uri, 0..12, 4).await;
        let result =
            dataset.update(&set(&[("a", "a + 100")]), Some("a % 2 = 0 or a >= 8"), options()).await.unwrap();
        assert_eq!((result.num_rows_updated, dataset.version().0), (8, 2));
        // Again, so that rows come from several fragments.
        let result = dataset.update(&set(&[("a", "a + 1")]), Some("a in (1, 102, 3, 108)"), options()).await;
        assert_eq!(result.unwrap().num_rows_updated, 4);
        let expected = [100, 2, 103, 4, 104, 5, 106, 7, 109, 109, 110, 111];
        assert_eq!(by_id(&dataset).await.into_values().collect::<Vec<_>>(), expected);
        let update = last_update(&dataset).await;
        assert_eq!(
            (update.mode, update.removed_fragment_ids),
            (UpdateMode::RewriteRows, vec![FragmentId(0)])
        );
        assert_eq!(update.fields_for_preserving_fragment_bitmap, [FieldId(0)]);
        let lineage = lineage(&dataset).await;
        assert_eq!(&lineage[lineage.len() - 4..], [[1, 1, 3], [2, 1, 3], [3, 1, 3], [8, 1, 3]]);
        assert_eq!(lineage.iter().filter(|[_, created, updated]| (*created, *updated) == (1, 2)).count(), 6);
        open(uri).await.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_see_the_old_row() {
    let (_directory, [uri, _]) = uris("swap");
    let mut dataset = create(&uri, 0..4).await;
    let assignments = set(&[("a", "character_length(name) + _rowid"), ("name", "a")]);
    dataset.update(&assignments, None, options()).await.unwrap();
    assert_eq!(by_id(&dataset).await.into_values().collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(dataset.count_rows(Some("name = '3' and a = 5")).await.unwrap(), 1);
    // All fragments of before are gone, no deletion file was needed.
    let update = last_update(&dataset).await;
    assert_eq!((update.removed_fragment_ids, update.updated_fragments), (vec![FragmentId(0)], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_matches() {
    let (_directory, uris) = uris("nothing");
    for uri in &uris {
        let mut dataset = create(uri, 0..4).await;
        for predicate in ["false", "a > 99", "name is null"] {
            let before = dataset.version();
            let result = dataset.update(&set(&[("a", "1")]), Some(predicate), options()).await.unwrap();
            assert_eq!((result.num_rows_updated, dataset.version()), (0, before.next()));
            assert_eq!(last_update(&dataset).await.new_fragments, []);
        }
        assert_eq!(values(&dataset).await, [0, 1, 2, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_changes_nothing() {
    let (directory, [uri, _]) = uris("wrong-updates");
    let mut dataset = create_cut(&uri, 0..20_000, 5_000).await;
    let before = files(directory.path());
    let cases = [
        (vec![], None, "No updates provided"),
        (set(&[("zzz", "1")]), None, "Column 'zzz' does not exist in dataset schema"),
        (set(&[("A", "1")]), None, "Did you mean a?"),
        (set(&[("a", "1 +")]), None, "Error parsing statement"),
        (set(&[("a", "b")]), None, "column a: No field named b."),
        (set(&[("a", "'x'")]), None, "Cannot cast string 'x'"),
        (set(&[("a", "name")]), None, "Cannot cast string 'n0'"),
        (set(&[("a", "1 / (a - 17000)")]), None, "Divide by zero"),
        (set(&[("a", "1"), ("a", "2")]), None, "assigned twice"),
        (set(&[("a", "1")]), Some("b = 1"), "No field named b."),
        (set(&[("a", "1")]), Some("a + 1"), "does not return a boolean"),
    ];
    for (assignments, predicate, message) in cases {
        let error = dataset.update(&assignments, predicate, options()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains(message), "{error}");
    }
    assert_eq!((files(directory.path()), dataset.version().0), (before, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_updates_of_other_rows_go_on_and_of_the_same_rows_are_done_again() {
    let (directory, [uri, _]) = uris("stale-updates");
    let base = create_cut(&uri, 0..12, 6).await;
    let mut other = open(&uri).await;
    other.update(&set(&[("a", "a + 10")]), Some("a = 1"), options()).await.unwrap();
    other.delete("a = 2", ConflictRetries::default()).await.unwrap();
    let before = files(directory.path());
    // Other rows of the same fragment, from the first version: carried over.
    let mut stale = base.clone();
    let none = UpdateOptions { retries: ConflictRetries::at_most(0), ..options() };
    stale.update(&set(&[("a", "a + 100")]), Some("a = 3"), none).await.unwrap();
    assert_eq!(stale.version().0, 4);
    assert_eq!(values(&stale).await, [0, 4, 5, 6, 7, 8, 9, 10, 11, 11, 103]);
    // A manifest, a transaction, a data file and the deletion file of the merged rows.
    assert_eq!(files(directory.path()).len(), before.len() + 4);
    // The same row: refused without tries, and nothing is left behind; else it is done on what the row became.
    let before = files(directory.path());
    let mut stale = base.clone();
    let error = stale.update(&set(&[("a", "a + 100")]), Some("a = 1"), none).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().starts_with("Too many concurrent writers."), "{error}");
    assert_eq!((files(directory.path()), stale.version().0), (before, 1));
    let result = stale.update(&set(&[("a", "a + 100")]), Some("a < 3 or a = 11"), options()).await.unwrap();
    // Rows 0, 1 (which is 11 by now) and 11; row 2 is deleted.
    assert_eq!((result.num_rows_updated, stale.version().0), (3, 5));
    assert_eq!(
        by_id(&stale).await.into_values().collect::<Vec<_>>(),
        [100, 111, 103, 4, 5, 6, 7, 8, 9, 10, 111]
    );
    open(&uri).await.validate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_by_address() {
    let (_directory, [uri, _]) = uris("at");
    let mut dataset = create_cut(&uri, 0..8, 4).await;
    dataset.delete("a = 5", ConflictRetries::default()).await.unwrap();
    let address = |fragment, offset| pennon_core::RowAddress::new(FragmentId(fragment), offset);
    let rows = [address(1, 1), address(0, 3), address(1, 0), address(0, 3)];
    let result = dataset.update_found(&*found(&rows), &set(&[("a", "-a")]), options()).await.unwrap();
    assert_eq!((result.num_rows_updated, values(&dataset).await), (2, vec![-4, -3, 0, 1, 2, 6, 7]));
    for wrong in [address(0, 4), address(7, 0)] {
        let error =
            dataset.update_found(&*found(&[wrong]), &set(&[("a", "1")]), options()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_rewritten() {
    let (directory, uris) = uris("columns-rewritten");
    for uri in &uris {
        let mut dataset = create_cut(uri, 0..12, 4).await;
        dataset.delete("a in (1, 9)", ConflictRetries::default()).await.unwrap();
        let columns = UpdateOptions { mode: Some(UpdateMode::RewriteColumns), ..UpdateOptions::default() };
        let result =
            dataset.update(&set(&[("a", "a + 100")]), Some("a % 2 = 1 and a < 8"), columns).await.unwrap();
        assert_eq!((result.num_rows_updated, dataset.version().0), (3, 3));
        let expected = [0, 2, 103, 4, 105, 6, 107, 8, 10, 11];
        assert_eq!(by_id(&dataset).await.into_values().collect::<Vec<_>>(), expected);
        let update = last_update(&dataset).await;
        assert_eq!((update.mode, update.new_fragments.len()), (UpdateMode::RewriteColumns, 0));
        assert_eq!(update.fields_modified, [FieldId(0)]);
        let touched: Vec<_> = update.updated_fragments.iter().map(|f| (f.id.0, f.files.len())).collect();
        assert_eq!(touched, [(0, 2), (1, 2)]);
        assert_eq!(update.updated_fragments[0].files[0].fields[0], FieldId::TOMBSTONE);
        let moved: Vec<_> =
            lineage(&dataset).await.into_iter().filter(|[.., updated]| *updated == 3).collect();
        assert_eq!(moved, [[3, 1, 3], [5, 1, 3], [7, 1, 3]]);
        open(uri).await.validate().await.unwrap();
    }
    // An expression that fails in the second fragment leaves no file of the first.
    let before = files(directory.path());
    let mut dataset = open(&uris[0]).await;
    let columns = UpdateOptions { mode: Some(UpdateMode::RewriteColumns), ..UpdateOptions::default() };
    let error = dataset.update(&set(&[("a", "1 / (a - 6)")]), None, columns).await.unwrap_err();
    assert!(error.to_string().contains("Divide by zero"), "{error}");
    assert_eq!(files(directory.path()), before);
}
