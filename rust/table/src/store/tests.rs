use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use pennon_core::ErrorKind;

use super::address::{Address, parse};
use super::*;

fn local(directory: &Path) -> Arc<Store> {
    Store::open(directory.to_str().unwrap(), &StorageOptions::new()).unwrap()
}

fn memory(name: &str) -> Arc<Store> {
    Store::open(&format!("memory://{name}"), &StorageOptions::new()).unwrap()
}

fn both(name: &str) -> (tempfile::TempDir, Vec<Arc<Store>>) {
    let directory = tempfile::tempdir().unwrap();
    let stores = vec![local(&directory.path().join("a/table")), memory(&format!("store-{name}/table"))];
    (directory, stores)
}

#[test]
fn addresses() {
    let path = |uri| match parse(uri).unwrap() {
        Address::Local(path) => path.to_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(path("/a/b/"), "/a/b");
    assert_eq!(path("file:///a/b%20c"), "/a/b c");
    assert_eq!(path("file-object-store:///a/b"), "/a/b");
    assert_eq!(path("FILE:///a/b"), "/a/b");
    assert_eq!(path("file:/a/b%20c"), "/a/b c");
    assert_eq!(path("~/t"), std::env::home_dir().unwrap().join("t").to_str().unwrap());
    assert_eq!(path("x"), std::env::current_dir().unwrap().join("x").to_str().unwrap());
    assert_eq!(parse("memory://m/").unwrap(), Address::Memory("m".into()));
    assert!(matches!(parse("s3://bucket/x").unwrap(), Address::Remote(_)));
    for local in ["a:b", "C:\\x", "./s3:b", "s3//b", "file", "s4:b"] {
        assert!(matches!(parse(local), Ok(Address::Local(_))), "{local}");
    }
    for bad in ["zzz://a", "", "file://host/a", "s3:b/x", "S3:/b", "gs:b", "memory:x", "file:x", "hdfs:/x"] {
        assert_eq!(parse(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
    }
    assert_eq!(path("/a#b?c"), "/a#b?c");
    assert_eq!(path("file:///a%23b%3Fc"), "/a#b?c");
    for (bad, found) in [
        ("file:///a#b", "found \"#\", expected none: in a name it is written %23"),
        ("file:/a#b", "found \"#\""),
        ("s3://bucket/a#b", "found \"#\""),
        ("gs://bucket/#", "found \"#\""),
        ("file:///per%FFcent", "not UTF-8"),
    ] {
        let error = parse(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        assert!(error.to_string().contains(found), "{error}");
    }
    let error = parse("s3:user:secret@bucket/x").unwrap_err().to_string();
    assert!(error.contains("s3://***@bucket/x") && !error.contains("secret"), "{error}");
}

#[tokio::test]
async fn files_are_put_found_and_removed() {
    let (_directory, stores) = both("basic");
    for store in stores {
        assert!(store.list("d").await.unwrap().is_empty());
        assert_eq!(store.get("d/x").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!store.exists("d/x").await.unwrap());
        for durability in [Durability::Full, Durability::Os] {
            store.put("d/x", Bytes::from_static(b"old"), durability).await.unwrap();
            store.put("d/x", Bytes::from_static(b"0123456789"), durability).await.unwrap();
        }
        store
            .put_new(vec![("d/y".into(), Bytes::new()), ("e/z".into(), Bytes::new())], Durability::Full)
            .await
            .unwrap();
        let names: BTreeSet<String> = store.list("d").await.unwrap().into_iter().collect();
        assert_eq!(names, BTreeSet::from(["x".to_owned(), "y".to_owned()]));
        assert_eq!(store.get("d/x").await.unwrap(), "0123456789");
        assert_eq!(store.get_range("d/x", 2..5).await.unwrap(), "234");
        assert_eq!(store.get_range("d/x", 8..12).await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(store.get_tail("d/x", 3).await.unwrap(), (Bytes::from_static(b"789"), 10));
        assert_eq!(store.get_tail("d/x", 30).await.unwrap().0, "0123456789");
        assert_eq!(store.get_tail("d/y", 30).await.unwrap(), (Bytes::new(), 0));
        assert_eq!(store.info("d/x").await.unwrap().unwrap().size, 10);
        let after_x = |name: &str| (name > "x").then(|| name.to_owned());
        let (first, _) = store.list_first("d", after_x, Some("y")).await.unwrap();
        assert_eq!(first.as_deref(), Some("y"));
        store.delete("d/x").await.unwrap();
        store.delete("d/x").await.unwrap();
        assert!(!store.exists("d/x").await.unwrap());
        assert!(store.delete_all().await.unwrap());
        assert!(!store.delete_all().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_puts_wins() {
    let (_directory, stores) = both("race");
    for store in stores {
        for round in 0..20 {
            let path = format!("_versions/{round}.manifest");
            let puts = (0..8).map(|writer| {
                let (store, path) = (Arc::clone(&store), path.clone());
                runtime::spawn(async move {
                    let won =
                        store.put_if_absent(&path, vec![writer; 1000].into(), Durability::Os).await.unwrap();
                    won.then_some(writer)
                })
            });
            let won: Vec<u8> =
                futures::future::join_all(puts).await.into_iter().filter_map(|put| put.unwrap()).collect();
            assert_eq!(won.len(), 1);
            assert_eq!(store.get(&path).await.unwrap(), vec![won[0]; 1000]);
        }
        assert_eq!(store.list("_versions").await.unwrap().len(), 20, "temporary files are gone");
    }
}

#[tokio::test]
async fn sources_read_ranges() {
    let (_directory, stores) = both("source");
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    for store in stores {
        store.put("data/x", bytes.clone().into(), Durability::Os).await.unwrap();
        let source = store.source("data/x", None);
        assert!(source.name().ends_with("/data/x"));
        assert_eq!(source.size().unwrap(), 400_000);
        let ranges = [0..4, 8..12, 8..16, 4..8, 390_000..400_000, 5..5];
        let parts = source.read(&ranges).unwrap();
        for (range, part) in ranges.iter().zip(parts) {
            assert_eq!(
                part,
                bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
            );
        }
        for beyond in [399_999..400_001, 400_000..9_000_000_000_000, 1 << 40..1 << 41] {
            assert_eq!(source.read(&[beyond]).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(store.source("data/y", None).read(&[0..1]).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn sinks_complete_or_vanish() {
    let (_directory, stores) = both("sink");
    for store in stores {
        let mut sink = store.sink("data/kept", Durability::Os).unwrap();
        for _ in 0..40 {
            sink.write_all(&vec![7; 1 << 20]).unwrap();
        }
        sink.finish(Durability::Full).unwrap();
        assert_eq!(store.info("data/kept").await.unwrap().unwrap().size, 40 << 20);
        let mut sink = store.sink("data/dropped", Durability::Os).unwrap();
        sink.write_all(&vec![7; 20 << 20]).unwrap();
        drop(sink);
        assert_eq!(store.list("data").await.unwrap(), ["kept"]);
    }
}

#[tokio::test]
async fn open_files_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let store = local(directory.path());
    for number in 0..1000_u32 {
        fs::write(directory.path().join(number.to_string()), number.to_le_bytes()).unwrap();
    }
    let sources: Vec<_> = (0..1000).map(|number| store.source(&number.to_string(), Some(4))).collect();
    for _ in 0..2 {
        for (number, source) in (0..).zip(&sources) {
            assert_eq!(source.read(&[0..4]).unwrap()[0], u32::to_le_bytes(number).as_slice());
        }
    }
    let open = fs::read_dir("/proc/self/fd").map_or(0, |fds| {
        fds.filter(|fd| {
            let target = fd.as_ref().ok().and_then(|fd| fs::read_link(fd.path()).ok());
            target.is_some_and(|target| target.starts_with(directory.path()))
        })
        .count()
    });
    assert!(open <= 256, "{open} files of the table are open");
}
