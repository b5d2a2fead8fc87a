//! Manifests and transactions that are not what they should be: typed errors that name the file, no other version in
//! their place, the table as before.

use pennon_core::ErrorKind;
use pennon_table::{ConflictRetries, Dataset, Durability, Store, VersionRef, WriteMode};

use crate::support::*;

const SECOND: &str = "_versions/18446744073709551613.manifest";

#[tokio::test(flavor = "multi_thread")]
async fn broken_manifests() {
    let (_directory, uris) = uris("manifest");
    for uri in &uris {
        let first = create(uri, 0..3).await;
        append(uri, 3..5).await.unwrap();
        let store = Store::open(uri, &Default::default()).unwrap();
        let good = store.get(SECOND).await.unwrap();
        let mut broken: Vec<Vec<u8>> = vec![Vec::new(), b"LANC".to_vec(), vec![0; good.len()]];
        broken.extend([1, 5, 17, 100, good.len() - 20].map(|cut| good[..good.len() - cut].to_vec()));
        broken.extend([1, 17, 100].map(|cut| good[cut..].to_vec()));
        for bytes in broken {
            // On the local disk a manifest without its end is what a crash leaves: `crashes` has those.
            let torn = bytes.len() < 20 || !bytes.ends_with(b"LANC");
            if torn && !uri.starts_with("memory") {
                continue;
            }
            store.put(SECOND, bytes.into(), Durability::Os).await.unwrap();
            let error = Dataset::open(uri, options()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains(SECOND), "{error}");
            let error = append(uri, [1]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            first.clone().insert(rows([1]), params(WriteMode::Append)).await.unwrap_err();
        }
        assert_eq!(first.checkout(VersionRef::Number(1)).await.unwrap().version().0, 1);
        store.put(SECOND, good, Durability::Os).await.unwrap();
        assert_eq!(values(&open(uri).await).await, [0, 1, 2, 3, 4]);
        // A manifest under the name of another version.
        let third = "_versions/18446744073709551612.manifest";
        store.put(third, store.get(SECOND).await.unwrap(), Durability::Os).await.unwrap();
        let error = Dataset::open(uri, options()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(third), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_manifest_is_passed_over() {
    for torn in [0, 1, 19, 200] {
        let (_directory, [uri, _]) = uris("torn");
        let mut first = create(&uri, 0..3).await;
        let mut second = append(&uri, 3..5).await.unwrap();
        let store = Store::open(&uri, &Default::default()).unwrap();
        let manifest = store.get(SECOND).await.unwrap();
        store.put(SECOND, manifest.slice(..torn), Durability::Os).await.unwrap();
        let opened = open(&uri).await;
        let corruption = opened.corruption().unwrap();
        assert!(
            corruption.contains(SECOND)
                && corruption.ends_with("opened version 1, the newest one that is whole"),
            "{corruption}"
        );
        assert_eq!((opened.version().0, values(&opened).await.len()), (1, 3));
        assert_eq!(opened.versions().await.unwrap().len(), 1);
        let error = opened.checkout(VersionRef::Number(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        // Its number is not given out again, and a handle at the version before can continue.
        assert_eq!(append(&uri, [5]).await.unwrap().version().0, 3);
        first.delete("a = 0", ConflictRetries::default()).await.unwrap();
        assert_eq!(first.version().0, 4);
        // Whoever read the version that is gone must not.
        let error = second.delete("a = 1", ConflictRetries::default()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("is torn"), "{error}");
        let newest = open(&uri).await;
        assert!(newest.corruption().is_none());
        assert_eq!(values(&newest).await, [1, 2, 5]);
        newest.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_manifest_with_a_damaged_magic_is_an_error() {
    let (_directory, [uri, _]) = uris("magic");
    create(&uri, 0..3).await;
    append(&uri, 3..5).await.unwrap();
    let store = Store::open(&uri, &Default::default()).unwrap();
    let manifest = store.get(SECOND).await.unwrap();
    for back in 1..=4 {
        let mut bytes = manifest.to_vec();
        let at = bytes.len() - back;
        bytes[at] ^= 1;
        store.put(SECOND, bytes.into(), Durability::Os).await.unwrap();
        let error = Dataset::open(&uri, options()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(SECOND), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flipped_byte_is_an_error_or_harmless() {
    let (_directory, [_, uri]) = uris("flip");
    create(&uri, 0..3).await;
    let store = Store::open(&uri, &Default::default()).unwrap();
    let path = "_versions/18446744073709551614.manifest";
    let good = store.get(path).await.unwrap();
    for at in 0..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 0xff;
        store.put(path, bytes.into(), Durability::Os).await.unwrap();
        // Whatever it is, it is not a panic.
        if let Ok(dataset) = Dataset::open(&uri, options()).await {
            let _ = dataset.read_transaction(1.into()).await;
            let _ = dataset.validate().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_transactions_conflict_or_fail() {
    let (_directory, uris) = uris("transaction");
    for uri in &uris {
        let first = create(uri, 0..3).await;
        let second = append(uri, 3..5).await.unwrap();
        let store = Store::open(uri, &Default::default()).unwrap();
        let good = store.get(SECOND).await.unwrap();
        let mut bytes = good.to_vec();
        // The inline transaction is the first piece: length, then the message.
        bytes[4..24].fill(0xff);
        store.put(SECOND, bytes.into(), Durability::Os).await.unwrap();
        let error = second
            .checkout(VersionRef::Number(2))
            .await
            .unwrap()
            .read_transaction(2.into())
            .await
            .unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(SECOND), "{error}");
        let error = first.clone().delete("a = 1", ConflictRetries::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        // On top of it everything works: only later transactions matter.
        assert_eq!(append(uri, [9]).await.unwrap().version().0, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_data_files() {
    let (_directory, uris) = uris("data");
    for uri in &uris {
        let dataset = create(uri, 0..300).await;
        let path = format!("data/{}", dataset.manifest().fragments.get(0).unwrap().files[0].path);
        let store = Store::open(uri, &Default::default()).unwrap();
        let good = store.get(&path).await.unwrap();
        for bytes in
            [Vec::new(), good[..good.len() / 2].to_vec(), vec![0xaa; good.len()], good[10..].to_vec()]
        {
            store.put(&path, bytes.into(), Durability::Os).await.unwrap();
            let dataset = open(uri).await;
            let scan = dataset.scan(&Default::default()).unwrap();
            let error = futures::TryStreamExt::try_collect::<Vec<_>>(scan.stream()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains(&path), "{error}");
        }
        store.delete(&path).await.unwrap();
        let error = open(uri).await.validate().await.unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&path), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_lead_nowhere() {
    for (uri, kind) in [
        ("/no/such/place", ErrorKind::NotFound),
        ("memory://never-written", ErrorKind::NotFound),
        ("zzz://a/b", ErrorKind::InvalidInput),
        ("", ErrorKind::InvalidInput),
    ] {
        let error = Dataset::open(uri, options()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{uri}: {error}");
    }
}
