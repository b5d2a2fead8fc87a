//! Delete, truncate and the distributed delete.

use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::schema::Metadata;
use pennon_core::transaction::Operation;
use pennon_core::{ErrorKind, FragmentId};
use pennon_table::{ConflictRetries, Store};

use crate::support::*;

fn options() -> ConflictRetries {
    ConflictRetries::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_whole_fragments_go() {
    let (_directory, uris) = uris("delete");
    for uri in &uris {
        let mut dataset = create_cut(uri, 0..12, 4).await;
        assert_eq!(dataset.delete("a = 1 or a >= 8", options()).await.unwrap().num_deleted_rows, 5);
        assert_eq!(values(&dataset).await, [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(dataset.manifest().fragments.len(), 2);
        // Deleting again counts only what was there.
        assert_eq!(dataset.delete("a < 3", options()).await.unwrap().num_deleted_rows, 2);
        assert_eq!(
            by_id(&dataset).await.into_iter().collect::<Vec<_>>(),
            [(3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]
        );
        assert_eq!(dataset.manifest().fragments.get(0).unwrap().deleted_rows(), 3);
        open(uri).await.validate().await.unwrap();
        assert_eq!(dataset.delete("a = 3", options()).await.unwrap().num_deleted_rows, 1);
        assert_eq!(dataset.manifest().fragments.len(), 1);
        let transaction = dataset.read_transaction(dataset.version()).await.unwrap().unwrap();
        let Operation::Delete(delete) = transaction.operation else { panic!("not a delete") };
        assert_eq!((delete.predicate.as_str(), delete.deleted_fragment_ids), ("a = 3", vec![FragmentId(0)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_match_and_literals_make_versions() {
    let (_directory, uris) = uris("literals");
    for uri in &uris {
        let mut dataset = create_cut(uri, 0..6, 2).await;
        for (predicate, deleted, left) in [("a > 99", 0, 6), ("false", 0, 6), ("true", 6, 0), ("true", 0, 0)]
        {
            let version = dataset.version();
            let result = dataset.delete(predicate, options()).await.unwrap();
            assert_eq!(
                (result.num_deleted_rows, dataset.version()),
                (deleted, version.next()),
                "{predicate}"
            );
            assert_eq!(open(uri).await.count_rows(None).await.unwrap(), left);
        }
        append(uri, 0..2).await.unwrap();
        let mut dataset = open(uri).await;
        dataset.truncate().await.unwrap();
        assert_eq!((dataset.count_rows(None).await.unwrap(), dataset.schema().fields.len()), (0, 2));
        dataset.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_predicates_change_nothing() {
    let (directory, [uri, _]) = uris("predicates");
    let mut dataset = create(&uri, 0..3).await;
    let before = files(directory.path());
    for predicate in ["zzz = 1", "a ==== 2", "a + 2", ""] {
        let error = dataset.delete(predicate, options()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{predicate}: {error}");
    }
    assert_eq!((files(directory.path()), dataset.version().0), (before, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_find_rows_and_one_commits() {
    let (_directory, uris) = uris("distributed");
    for uri in &uris {
        let mut base = create_cut(uri, 0..12, 4).await;
        let mut matched = RowsByFragment::new();
        for fragment in 0..3 {
            let slices = Some(vec![FragmentId(fragment).into()]);
            matched.extend(base.matching_rows("a % 3 = 0", slices).await.unwrap());
        }
        assert_eq!(matched.values().map(DeletionVector::len).sum::<u64>(), 4);
        // Another row of the same fragment goes in between.
        let mut other = open(uri).await;
        other.delete("a = 1", options()).await.unwrap();
        let uuid = Some("cccccccc-2222-3333-4444-555555555555".to_owned());
        let mut done = base.clone();
        let result =
            done.commit_delete(matched.clone(), "a % 3 = 0", uuid.clone(), Metadata::new()).await.unwrap();
        assert_eq!((done.version().0, result), (3, 4));
        assert_eq!(values(&done).await, [2, 4, 5, 7, 8, 10, 11]);
        let mut repeated = base.clone();
        let result =
            repeated.commit_delete(matched.clone(), "a % 3 = 0", uuid, Metadata::new()).await.unwrap();
        assert_eq!((repeated.version().0, result), (3, 4));
        // The same rows from a stale version: they are gone, so find them again.
        let error =
            base.commit_delete(matched.clone(), "a % 3 = 0", None, Metadata::new()).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        open(uri).await.validate().await.unwrap();

        let mut wrong = matched.clone();
        wrong.insert(FragmentId(1), [4_u32].into_iter().collect());
        assert_eq!(
            base.commit_delete(wrong, "x", None, Metadata::new()).await.unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let mut wrong = matched;
        wrong.insert(FragmentId(77), [0_u32].into_iter().collect());
        assert_eq!(
            base.commit_delete(wrong, "x", None, Metadata::new()).await.unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_deletion_files_are_errors() {
    let (_directory, uris) = uris("broken");
    for uri in &uris {
        let mut dataset = create(uri, 0..8000).await;
        for (predicate, suffix) in [("a < 10", ".arrow"), ("a < 6000", ".bin")] {
            dataset.delete(predicate, options()).await.unwrap();
            let store = Store::open(uri, &Default::default()).unwrap();
            let name = dataset
                .manifest()
                .fragments
                .get(0)
                .unwrap()
                .deletion
                .as_ref()
                .unwrap()
                .file_name(FragmentId(0));
            assert!(name.ends_with(suffix), "{name}");
            let path = format!("_deletions/{name}");
            let good = store.get(&path).await.unwrap();
            let mut broken =
                vec![bytes::Bytes::new(), good.slice(..good.len() / 2), vec![0x55; good.len()].into()];
            broken.push([&good[..4], &good].concat().into());
            for bytes in broken {
                store.put(&path, bytes, pennon_table::Durability::Os).await.unwrap();
                let dataset = open(uri).await;
                let scan = dataset.scan(&Default::default()).unwrap();
                let error = futures::TryStreamExt::try_collect::<Vec<_>>(scan.stream()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains(&name), "{error}");
            }
            store.delete(&path).await.unwrap();
            let error = open(uri).await.validate().await.unwrap_err();
            assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&name), "{error}");
            store.put(&path, good, pennon_table::Durability::Os).await.unwrap();
        }
        open(uri).await.validate().await.unwrap();
    }
}
