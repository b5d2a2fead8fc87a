//! What happens when somebody else commits first (table format 8.2).

use pennon_core::transaction::{Append, Operation, Overwrite, Restore, Transaction};
use pennon_core::{ErrorKind, Result, Version};
use pennon_table::{CommitOptions, ConflictRetries, Dataset, TransactionOptions, WriteMode};

use crate::support::*;

fn commit_params(max_retries: u32) -> TransactionOptions {
    let commit = CommitOptions { max_retries, ..commit_options() };
    TransactionOptions { commit, ..TransactionOptions::default() }
}

fn transaction(read_version: u64, uuid: &str, operation: Operation) -> Transaction {
    Transaction {
        read_version: Version(read_version),
        uuid: format!("{uuid:0>8}-0000-0000-0000-000000000000"),
        tag: String::new(),
        properties: Default::default(),
        operation,
    }
}

async fn overwrite(uri: &str, read_version: u64, uuid: &str, retries: u32) -> Result<Dataset> {
    let written = Dataset::write_new_fragments(uri, rows([99]), &params(WriteMode::Overwrite)).await.unwrap();
    let operation = Operation::Overwrite(Overwrite {
        fragments: written.fragments,
        schema: written.schema,
        config_upserts: None,
        initial_bases: Vec::new(),
    });
    Dataset::commit(uri, transaction(read_version, uuid, operation), commit_params(retries)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_are_compatible_with_appends_and_deletes() {
    let (_directory, uris) = uris("append-append");
    for uri in &uris {
        let mut stale = create_cut(uri, 0..4, 2).await;
        append(uri, 10..12).await.unwrap();
        open(uri).await.delete("a = 0", ConflictRetries::default()).await.unwrap();
        stale.insert(rows([20]), params(WriteMode::Append)).await.unwrap();
        assert_eq!(stale.version().0, 4);
        assert_eq!(values(&stale).await, [1, 2, 3, 10, 11, 20]);
        // The transaction keeps what it read, the ids come from the version below.
        let mine = stale.read_transaction(Version(4)).await.unwrap().unwrap();
        assert_eq!(mine.read_version.0, 1);
        assert_eq!(by_id(&stale).await.get(&6), Some(&20));
        stale.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_of_other_rows_are_merged() {
    let (_directory, uris) = uris("delete-delete");
    for uri in &uris {
        let base = create(uri, 0..10).await;
        let (mut first, mut second) = (base.clone(), base.clone());
        first.delete("a = 1", ConflictRetries::default()).await.unwrap();
        second.delete("a = 2", ConflictRetries::at_most(0)).await.unwrap();
        assert_eq!((second.version().0, values(&second).await), (3, vec![0, 3, 4, 5, 6, 7, 8, 9]));
        let mine = second.read_transaction(Version(3)).await.unwrap().unwrap();
        assert_eq!(mine.read_version.0, 2);
        second.validate().await.unwrap();
        // Both want the last rows: the fragment is dropped once.
        let (mut first, mut second) = (second.clone(), second.clone());
        first.delete("a < 6", ConflictRetries::default()).await.unwrap();
        second.delete("a >= 6", ConflictRetries::at_most(0)).await.unwrap();
        assert_eq!((second.count_rows(None).await.unwrap(), second.manifest().fragments.len()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_of_the_same_rows_are_done_again() {
    let (_directory, uris) = uris("delete-same");
    for uri in &uris {
        let base = create(uri, 0..10).await;
        let (mut first, mut second, mut third) = (base.clone(), base.clone(), base.clone());
        first.delete("a < 3", ConflictRetries::default()).await.unwrap();
        let none = ConflictRetries::at_most(0);
        let error = second.delete("a < 5", none).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(
            error.to_string().starts_with("Too many concurrent writers. Attempted 0 retries."),
            "{error}"
        );
        assert_eq!(second.version().0, 1);
        let result = third.delete("a < 5", ConflictRetries::default()).await.unwrap();
        assert_eq!((result.num_deleted_rows, third.version().0), (2, 3));
        assert_eq!(values(&third).await, [5, 6, 7, 8, 9]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overwrites_exclude_what_read_before() {
    let (_directory, uris) = uris("overwrite");
    for uri in &uris {
        let base = create(uri, 0..4).await;
        overwrite(uri, 1, "1", 20).await.unwrap();
        let mut stale = base.clone();
        let error = stale.insert(rows([5]), params(WriteMode::Append)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict { retryable: false }, "{error}");
        let error = base.clone().delete("a = 1", ConflictRetries::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict { retryable: false }, "{error}");
        // Two overwrites: retryable.
        let error = overwrite(uri, 1, "2", 20).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        // The same one again: done.
        assert_eq!(overwrite(uri, 1, "1", 20).await.unwrap().version().0, 2);
        append(uri, 1..2).await.unwrap();
        let error = overwrite(uri, 2, "3", 0).await.unwrap_err();
        assert!(error.to_string().starts_with("Commit conflict for version 3: "), "{error}");
        assert_eq!(overwrite(uri, 2, "4", 20).await.unwrap().version().0, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_go_on_top_of_everything() {
    let (_directory, uris) = uris("restore-conflict");
    for uri in &uris {
        create(uri, 0..4).await;
        append(uri, 4..6).await.unwrap();
        overwrite(uri, 2, "1", 20).await.unwrap();
        let operation = Operation::Restore(Restore { version: Version(1) });
        let dataset = Dataset::commit(uri, transaction(2, "5", operation), commit_params(20)).await.unwrap();
        assert_eq!((dataset.version().0, values(&dataset).await), (4, vec![0, 1, 2, 3]));
        let operation = Operation::Restore(Restore { version: Version(77) });
        let error =
            Dataset::commit(uri, transaction(4, "6", operation), commit_params(20)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_need_a_table_and_a_version() {
    let (_directory, [uri, _]) = uris("raw");
    let append = || Operation::Append(Append { fragments: Vec::new() });
    let error = Dataset::commit(&uri, transaction(1, "1", append()), commit_params(20)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("was not found"), "{error}");
    create(&uri, 0..2).await;
    let error = Dataset::commit(&uri, transaction(9, "1", append()), commit_params(20)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("was not found"), "{error}");
    let error = Dataset::commit(&uri, transaction(1, "1", Operation::Unknown(200)), commit_params(20)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
    let dataset = Dataset::commit(&uri, transaction(1, "1", append()), commit_params(0)).await.unwrap();
    assert_eq!(dataset.version().0, 2);
}
