//! Many writers of one table in one process.

use std::collections::BTreeSet;

use pennon_core::ErrorKind;
use pennon_table::{Dataset, DeleteOptions, WriteMode};

use crate::support::*;

const WRITERS: i64 = 6;
const ROUNDS: i64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_and_deletes_on_disjoint_rows() {
    let (_directory, uris) = uris("races");
    for uri in &uris {
        create(uri, 0..WRITERS * ROUNDS).await;
        let writers = (0..WRITERS).map(|writer| {
            let uri = uri.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let row = writer * ROUNDS + round;
                    let options = DeleteOptions { conflict_retries: 100, ..DeleteOptions::default() };
                    let mut dataset = open(&uri).await;
                    let result = dataset.delete(&format!("a = {row}"), options).await.unwrap();
                    assert_eq!(result.num_deleted_rows, 1);
                    append(&uri, [1000 + row]).await.unwrap();
                }
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.unwrap();
        }
        let dataset = open(uri).await;
        let commits = u64::try_from(WRITERS * ROUNDS * 2).unwrap();
        assert_eq!(dataset.version().0, 1 + commits);
        let rows = by_id(&dataset).await;
        let found: BTreeSet<i64> = rows.values().copied().collect();
        assert_eq!(found, (1000..1000 + WRITERS * ROUNDS).collect());
        assert_eq!(rows.len(), found.len());
        dataset.validate().await.unwrap();
        assert_eq!(dataset.versions().await.unwrap().len(), usize::try_from(1 + commits).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_creator_wins() {
    let (directory, uris) = uris("creators");
    for uri in &uris {
        let creators = (0..8).map(|writer| {
            let uri = uri.clone();
            tokio::spawn(async move { Dataset::write(rows([writer]), &uri, params(WriteMode::Create)).await })
        });
        let mut won = Vec::new();
        for creator in futures::future::join_all(creators).await {
            match creator.unwrap() {
                Ok(dataset) => won.push(values(&dataset).await),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        assert_eq!(won, [values(&open(uri).await).await]);
    }
    let data = files(directory.path()).into_iter().filter(|name| name.ends_with(".lance")).count();
    assert_eq!(data, 1, "the losers' files are gone");
}
