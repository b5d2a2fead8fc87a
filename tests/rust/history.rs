//! Versions, time travel, tags, restore.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pennon_core::manifest::Timestamp;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::transaction::MapUpdate;
use pennon_core::{ErrorKind, Version};
use pennon_table::runtime::env;
use pennon_table::{
    ConflictRetries, Dataset, FeedOptions, FeedPoint, OpenOptions, RefOrder, Store, VersionRef, WriteMode,
};

use crate::processes::Patient;
use crate::support::*;

fn at(version: VersionRef) -> OpenOptions {
    OpenOptions { version: Some(version), ..options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_by_number_and_time() {
    let (_directory, uris) = uris("versions");
    for uri in &uris {
        create(uri, 0..3).await;
        append(uri, 3..5).await.unwrap();
        let mut newest = open(uri).await;
        newest.delete("a = 0", ConflictRetries::default()).await.unwrap();
        let versions = newest.versions().await.unwrap();
        assert_eq!(versions.iter().map(|v| v.version.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(versions.is_sorted_by_key(|v| v.timestamp));
        let number = |index: usize, key: &str| versions[index].metadata[key].parse::<u64>().unwrap();
        assert_eq!([number(0, "total_rows"), number(1, "total_rows"), number(2, "total_rows")], [3, 5, 4]);
        assert_eq!([number(1, "total_fragments"), number(1, "total_data_files")], [2, 2]);
        assert_eq!([number(2, "total_deletion_files"), number(2, "total_deletion_file_rows")], [1, 1]);
        assert_eq!(number(2, "total_data_file_rows"), 5);
        assert!(number(0, "total_files_size") > 0);
        assert_eq!(newest.version_info(), versions[2]);

        let second = newest.checkout(VersionRef::Number(2)).await.unwrap();
        assert_eq!(values(&second).await, [0, 1, 2, 3, 4]);
        let main = VersionRef::Branch(None, Some(Box::new(VersionRef::Number(1))));
        assert_eq!(second.checkout(main).await.unwrap().version().0, 1);
        for version in [1, 2, 3] {
            assert_eq!(
                Dataset::open(uri, at(VersionRef::Number(version))).await.unwrap().version().0,
                version
            );
            let asof = Some(versions[usize::try_from(version).unwrap() - 1].timestamp);
            let found = Dataset::open(uri, OpenOptions { asof, ..options() }).await.unwrap();
            assert_eq!(found.version().0, version);
        }
        let asof = Some(Timestamp { seconds: 946_684_800, nanos: 0 });
        let error = Dataset::open(uri, OpenOptions { asof, ..options() }).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "2000-01-01 00:00:00 is earlier than the first version of this dataset"
        );
        for missing in [0, 4, 1 << 63, u64::MAX] {
            let error = newest.checkout(VersionRef::Number(missing)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            // Those from 2^63 on are of no history.
            let begin = if missing < 1 << 63 {
                format!("There is no version {missing} of ")
            } else {
                "Dataset at path ".into()
            };
            assert!(error.to_string().starts_with(&begin), "{error}");
        }
    }
}

#[tokio::test]
async fn versions_by_time_where_clocks_differ() {
    let (directory, [uri, _]) = uris("clocks");
    let process = Arc::new(Patient::default());
    let _entered = env::enter(Arc::<Patient>::clone(&process));
    let mut dataset = create(&uri, 0..3).await;
    let mut seconds = vec![0];
    for version in 1..120 {
        // One writer of three is late, by up to four versions.
        let second = version * 10 - if version % 3 == 0 { version % 40 } else { 0 };
        process.seconds.store(second, Ordering::Relaxed);
        let entries = [("by".to_owned(), Some(version.to_string()))].into();
        dataset.update_config(MapUpdate { entries, replace: false }).await.unwrap();
        seconds.push(second);
    }
    let mut versions: BTreeMap<u64, i64> = (1..).zip(seconds).collect();
    for gone in [vec![], vec![1, 30, 59, 60, 61, 118]] {
        for version in gone {
            let name = naming::manifest_name(Version(version), NamingScheme::V2);
            std::fs::remove_file(directory.path().join("table/_versions").join(name)).unwrap();
            versions.remove(&version);
        }
        for second in -1..1_200 {
            let asof = Some(Timestamp { seconds: 1_700_000_000 + second, nanos: 0 });
            let found = Dataset::open(&uri, OpenOptions { asof, ..options() }).await;
            let newest = versions.iter().rev().find(|(_, made)| **made <= second);
            assert_eq!(
                found.ok().map(|found| found.version().0),
                newest.map(|(version, _)| *version),
                "{second}"
            );
        }
    }
    // Few of many manifests are read: one takes two requests.
    for version in 120..500 {
        process.seconds.store(version * 10, Ordering::Relaxed);
        let entries = [("by".to_owned(), Some(version.to_string()))].into();
        dataset.update_config(MapUpdate { entries, replace: false }).await.unwrap();
    }
    let asof = Some(Timestamp { seconds: 1_700_000_000 + 100, nanos: 0 });
    let found = Dataset::open(&uri, OpenOptions { asof, ..options() }).await.unwrap();
    let counters = found.session().metrics().counters();
    assert!(counters.read_requests < 300, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_keeps_counters() {
    let (_directory, uris) = uris("restore");
    for uri in &uris {
        create(uri, 0..3).await;
        append(uri, 3..5).await.unwrap();
        let mut first = Dataset::open(uri, at(VersionRef::Number(1))).await.unwrap();
        first.restore().await.unwrap();
        assert_eq!((first.version().0, values(&first).await), (3, vec![0, 1, 2]));
        let dataset = append(uri, [9]).await.unwrap();
        assert_eq!(by_id(&dataset).await.into_iter().collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 2), (5, 9)]);
        assert_eq!(dataset.manifest().fragments.decode_all().next_back().unwrap().id.0, 2);
        dataset.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_name_versions() {
    let (_directory, uris) = uris("tags");
    for uri in &uris {
        create(uri, 0..3).await;
        let dataset = append(uri, 3..5).await.unwrap();
        let tags = dataset.tags();
        assert!(tags.list().await.unwrap().is_empty());
        tags.create("first", Some(VersionRef::Number(1))).await.unwrap();
        tags.create("second", None).await.unwrap();
        tags.create("again", Some(VersionRef::Tag("first".into()))).await.unwrap();
        let expected = [("second", 2), ("again", 1), ("first", 1)];
        let ordered = tags.list_ordered(RefOrder::Desc).await.unwrap();
        assert_eq!(ordered.iter().map(|(n, t)| (n.as_str(), t.version.0)).collect::<Vec<_>>(), expected);
        assert_eq!(
            values(&Dataset::open(uri, at(VersionRef::Tag("first".into()))).await.unwrap()).await,
            [0, 1, 2]
        );

        let before = tags.list().await.unwrap()["first"].clone();
        assert!(
            before.manifest_size > 0 && before.created_at == before.updated_at && before.branch.is_none()
        );
        tags.replace_metadata("first", [("k".to_owned(), "v".to_owned())].into()).await.unwrap();
        tags.update("first", Some(VersionRef::Number(2))).await.unwrap();
        let after = tags.list().await.unwrap()["first"].clone();
        assert_eq!(
            (after.version.0, after.created_at, after.metadata["k"].as_str()),
            (2, before.created_at, "v")
        );
        assert!(after.updated_at > before.updated_at);
        assert_eq!(tags.get_version("first").await.unwrap(), Version(2));

        let text = |result: Result<(), pennon_core::Error>| result.unwrap_err().to_string();
        assert_eq!(text(tags.create("first", None).await), "Ref conflict error: tag first already exists");
        assert_eq!(
            text(tags.create("x", Some(VersionRef::Number(7))).await),
            "Version not found error: version main:7 does not exist"
        );
        for name in ["", "a b", ".a", "a.", "a..b", "a.lock", "a/b", "../x"] {
            let error = tags.create(name, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with("Ref is invalid: "), "{error}");
        }
        let missing = "Ref not found error: tag no does not exist";
        assert_eq!(text(tags.update("no", None).await), missing);
        assert_eq!(text(tags.delete("no").await), missing);
        assert_eq!(text(tags.replace_metadata("no", Default::default()).await), missing);
        assert_eq!(tags.get_version("no").await.unwrap_err().to_string(), missing);
        let error = Dataset::open(uri, at(VersionRef::Tag("no".into()))).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::NotFound, missing));
        tags.delete("first").await.unwrap();
        assert_eq!(text(tags.delete("first").await), "Ref not found error: tag first does not exist");

        let store = Store::open(uri, &Default::default()).unwrap();
        let old = br#"{"version": 1, "manifest_size": 7}"#;
        store.put("_refs/tags/old.json", old.as_slice().into(), Default::default()).await.unwrap();
        assert_eq!(tags.list().await.unwrap()["old"].manifest_size, 7);
        for bad in [&b""[..], b"{}", br#"{"version": 1, "createdAt": "yesterday"}"#] {
            store.put("_refs/tags/old.json", bad.to_vec().into(), Default::default()).await.unwrap();
            let error = tags.get_version("old").await.unwrap_err();
            assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("old.json"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hint_is_only_a_hint() {
    let (directory, [uri, _]) = uris("hint");
    create(&uri, 0..1).await;
    for value in 1..6 {
        append(&uri, [value]).await.unwrap();
    }
    let versions = directory.path().join("table/_versions");
    let hint = versions.join("latest_version_hint.json");
    assert_eq!(std::fs::read_to_string(&hint).unwrap(), r#"{"version":6}"#);
    for text in [
        "",
        "garbage",
        r#"{"version":2}"#,
        r#"{"version":99}"#,
        r#"{"version":-1}"#,
        r#"{"version":18446744073709551615}"#,
    ] {
        std::fs::write(&hint, text).unwrap();
        let mut stale = Dataset::open(&uri, at(VersionRef::Number(3))).await.unwrap();
        assert_eq!(open(&uri).await.version().0, 6, "{text}");
        stale.checkout_latest().await.unwrap();
        assert_eq!(stale.version().0, 6, "{text}");
    }
    std::fs::remove_file(&hint).unwrap();
    // A hole above the version that the hint names, as cleanup leaves it.
    let newest = open(&uri).await;
    std::fs::write(&hint, r#"{"version":2}"#).unwrap();
    std::fs::remove_file(versions.join(format!("{:020}.manifest", u64::MAX - 3))).unwrap();
    std::fs::write(versions.join(".tmp_x.manifest_1"), "x").unwrap();
    std::fs::write(versions.join("d9223372036854775809.manifest"), "x").unwrap();
    assert_eq!(open(&uri).await.version(), newest.version());
    assert_eq!(append(&uri, [7]).await.unwrap().version().0, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_history_is_found_by_its_hint() {
    let (directory, [uri, _]) = uris("long");
    create(&uri, 0..1).await;
    let mut dataset = open(&uri).await;
    for _ in 0..1200 {
        dataset.delete("false", ConflictRetries::default()).await.unwrap();
    }
    assert_eq!(open(&uri).await.version().0, 1201);
    let hint = directory.path().join("table/_versions/latest_version_hint.json");
    for text in ["", r#"{"version":1190}"#, r#"{"version":5000}"#] {
        std::fs::write(&hint, text).unwrap();
        assert_eq!(open(&uri).await.version().0, 1201, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_tables_are_gone() {
    let (_directory, uris) = uris("drop");
    for uri in &uris {
        create(uri, 0..3).await;
        Dataset::drop_table(uri, &Default::default(), false).await.unwrap();
        let error = Dataset::drop_table(uri, &Default::default(), false).await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::NotFound && error.to_string().starts_with("Not found: "),
            "{error}"
        );
        Dataset::drop_table(uri, &Default::default(), true).await.unwrap();
        let error = Dataset::open(uri, options()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("Dataset at path "), "{error}");
        assert_eq!(create(uri, 0..1).await.version().0, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_from_before_a_branch_was_never_cleaned_up() {
    let (_directory, uris) = uris("before-branch");
    for uri in &uris {
        create(uri, 0..3).await;
        let main = append(uri, 3..5).await.unwrap();
        let mut branch = main.create_branch("x/tree/y", None).await.unwrap();
        branch.insert(rows(5..6), params(WriteMode::Append)).await.unwrap();
        let begin = |version| FeedPoint::Version(VersionRef::Number(version));
        let expected = "There is no version 1 of branch x/tree/y: it begins at version 2 of main, where earlier versions are";
        let feed = branch.changes(begin(1), None, &FeedOptions::default()).await;
        let checkout = branch.checkout(VersionRef::Number(1)).await;
        let named = VersionRef::Branch(Some("x/tree/y".into()), Some(Box::new(VersionRef::Number(1))));
        let opened = Dataset::open(uri, at(named)).await;
        for error in [feed.map(drop).unwrap_err(), checkout.unwrap_err(), opened.unwrap_err()] {
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::NotFound, expected));
        }
        branch.changes(begin(2), None, &FeedOptions::default()).await.unwrap();

        let child = branch.create_branch("child", None).await.unwrap();
        let error = child.checkout(VersionRef::Number(2)).await.unwrap_err();
        assert!(error.to_string().contains("begins at version 3 of x/tree/y"), "{error}");
        let error = main.checkout(VersionRef::Number(9)).await.unwrap_err();
        assert!(error.to_string().starts_with("There is no version 9 of "), "{error}");
    }
}
