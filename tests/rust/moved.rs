//! Rewrites that race deletes: what was deleted stays deleted, what was moved is found.

use pennon_core::manifest::Fragment;
use pennon_core::transaction::{Delete, Operation, Restore, Rewrite, RewriteGroup, Transaction};
use pennon_core::{ErrorKind, FragmentId, Result, Version};
use pennon_table::{ConflictRetries, Dataset, UpdateOptions, WriteMode, WriteOptions};

use crate::support::*;

fn once() -> ConflictRetries {
    ConflictRetries::at_most(0)
}

async fn table(uri: &str, stable: bool) -> Dataset {
    let params = WriteOptions { max_rows_per_file: 5, create: layout(stable), ..params(WriteMode::Create) };
    Dataset::write(rows(0..20), uri, params).await.unwrap()
}

/// The rewrite of some fragments of a version, not committed yet.
async fn rewrite(dataset: &Dataset, ids: &[u32]) -> Transaction {
    let ids: Vec<FragmentId> = ids.iter().copied().map(FragmentId).collect();
    let params = WriteOptions { max_rows_per_file: 7, ..params(WriteMode::Append) };
    let new_fragments = dataset.rewrite_fragments(&ids, &params).await.unwrap().fragments;
    let old = |id: &FragmentId| -> Fragment { dataset.manifest().fragment(*id).unwrap().as_ref().clone() };
    let groups = vec![RewriteGroup { old_fragments: ids.iter().map(old).collect(), new_fragments }];
    Transaction {
        read_version: dataset.version(),
        uuid: uuid::Uuid::new_v4().to_string(),
        tag: String::new(),
        properties: Default::default(),
        operation: Operation::Rewrite(Rewrite { groups, rewritten_indices: Vec::new() }),
    }
}

async fn commit(uri: &str, transaction: Transaction) -> Result<Dataset> {
    let params = transaction_options();
    Dataset::commit(uri, transaction, params).await
}

async fn all(dataset: &Dataset) -> Vec<i64> {
    if dataset.manifest().has_stable_row_ids() {
        let rows = by_id(dataset).await;
        assert!(rows.iter().all(|(id, value)| i64::try_from(*id) == Ok(*value)), "{rows:?}");
    }
    dataset.validate().await.unwrap();
    let mut found = Vec::new();
    for value in 0..30 {
        found
            .extend((dataset.count_rows(Some(&format!("a = {value}"))).await.unwrap() == 1).then_some(value));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrite_after_deletes_of_its_rows() {
    for stable in [true, false] {
        let (_directory, uris) = uris(&format!("rewrite-delete-{stable}"));
        for uri in &uris {
            let mut first = table(uri, stable).await;
            first.delete("a in (1, 6)", once()).await.unwrap();
            let rewrite = rewrite(&first, &[0, 1, 2]).await;
            // Rows of every fragment, and one fragment as a whole.
            first.delete("a in (2, 13)", once()).await.unwrap();
            first.delete("a >= 5 and a < 10", once()).await.unwrap();
            let done = commit(uri, rewrite).await.unwrap();
            assert_eq!(all(&done).await, [0, 3, 4, 10, 11, 12, 14, 15, 16, 17, 18, 19]);
            assert_eq!(done.manifest().fragments.len(), 3);
            // A further one and a restore find a table like any other.
            let older = commit(uri, self::rewrite(&done, &[3, 4]).await).await.unwrap();
            assert_eq!(all(&older).await.len(), 12);
            let restore = Operation::Restore(Restore { version: Version(1) });
            let restore = Transaction { operation: restore, ..self::rewrite(&older, &[]).await };
            assert_eq!(all(&commit(uri, restore).await.unwrap()).await.len(), 20);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_after_rewrites_of_their_rows() {
    for stable in [true, false] {
        let (_directory, uris) = uris(&format!("delete-rewrite-{stable}"));
        for uri in &uris {
            let mut first = table(uri, stable).await;
            first.delete("a in (1, 6)", once()).await.unwrap();
            let (mut stale, mut same, mut last_row) = (first.clone(), first.clone(), first.clone());
            let second = commit(uri, rewrite(&first, &[0, 1, 2]).await).await.unwrap();
            // Twice: what was moved moves again, with another fragment and without a row that is gone.
            let mut other = second.clone();
            other.delete("a = 7", once()).await.unwrap();
            let ids: Vec<u32> = other.manifest().fragments.decode_all().map(|f| f.id.0).collect();
            commit(uri, rewrite(&other, &ids).await).await.unwrap();
            let gone = same.delete("a in (3, 7)", once()).await.unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::Conflict { retryable: true });
            stale.delete("a in (0, 8, 12, 19)", once()).await.unwrap();
            let left = [2, 3, 4, 5, 9, 10, 11, 13, 14, 15, 16, 17, 18];
            assert_eq!(all(&stale).await, left);
            // All rows of a fragment, which is one no more.
            last_row.delete("a >= 14 and a < 19", once()).await.unwrap();
            assert_eq!(all(&last_row).await, left[..8]);
        }
    }
}

/// A row was updated and then moved: a delete that was decided before may not hit the row as it is now.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_after_rewrites_of_rows_that_were_updated() {
    let (_directory, uris) = uris("delete-update-rewrite");
    for uri in &uris {
        let mut first = table(uri, true).await;
        let (mut stale, mut newest, mut update) = (first.clone(), first.clone(), first.clone());
        let new_name = [("name".to_owned(), "'new'".to_owned())];
        first.update(&new_name, Some("a in (3, 12)"), UpdateOptions::default()).await.unwrap();
        let ids: Vec<u32> = first.manifest().fragments.decode_all().map(|f| f.id.0).collect();
        commit(uri, rewrite(&first, &ids).await).await.unwrap();
        let error = stale.delete("name = 'n3' or a = 1", once()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict { retryable: true });
        // Decided again it is about the other row only.
        let deleted = newest.delete("name = 'n3' or a = 1", ConflictRetries::default()).await.unwrap();
        assert_eq!(deleted.num_deleted_rows, 1);
        let older_name = [("name".to_owned(), "name || '+'".to_owned())];
        update.update(&older_name, Some("a = 12"), UpdateOptions::default()).await.unwrap();
        assert_eq!(update.count_rows(Some("a = 12 and name = 'new+'")).await.unwrap(), 1);
        assert_eq!(all(&update).await.len(), 19);
    }
}

/// A delete that was made elsewhere does not say which rows it is about: it must be done again.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_that_do_not_know_their_rows() {
    let (_directory, uris) = uris("raw-delete");
    for uri in &uris {
        let mut first = table(uri, true).await;
        first.delete("a = 1", once()).await.unwrap();
        let deleted = first.read_transaction(Version(2)).await.unwrap().unwrap();
        let rewrite = rewrite(&first, &[0, 1]).await;
        commit(uri, rewrite).await.unwrap();
        let raw = |operation| Transaction {
            read_version: Version(2),
            uuid: uuid::Uuid::new_v4().to_string(),
            operation,
            ..deleted.clone()
        };
        let fragment = Delete {
            updated_fragments: Vec::new(),
            deleted_fragment_ids: vec![FragmentId(1)],
            predicate: "p".to_owned(),
        };
        for operation in [deleted.operation.clone(), Operation::Delete(fragment)] {
            let error = commit(uri, raw(operation)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict { retryable: true }, "{error}");
        }
        assert_eq!(all(&open(uri).await).await.len(), 19);
    }
}

/// A rewrite that loses several races refers to the files of its last attempt; those of the others are gone.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_leave_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let uri = directory.path().join("table").to_str().unwrap().to_owned();
    let first = table(&uri, true).await;
    let deletes = (0..6).map(|n| {
        let mut stale = first.clone();
        tokio::spawn(async move { stale.delete(&format!("a = {}", n * 3), once()).await })
    });
    let deletes: Vec<_> = deletes.collect();
    let moved = commit(&uri, rewrite(&first, &[0, 1, 2]).await).await;
    let mut failed = usize::from(moved.is_err());
    for delete in deletes {
        failed += usize::from(delete.await.unwrap().is_err());
    }
    assert_eq!(failed, 0);
    let newest = open(&uri).await;
    assert_eq!(all(&newest).await, [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 18, 19]);
    let transactions = files(directory.path()).into_iter().filter(|path| path.ends_with(".txn"));
    assert_eq!(transactions.count(), usize::try_from(newest.version().0).unwrap());
}
