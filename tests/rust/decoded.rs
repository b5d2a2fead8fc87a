//! What operations cost on a table of many fragments, in fragments of the manifest that are decoded: what they look at
//! and change, never all.
//!
//! The count is that of a process, so the test runs itself again in a process of its own.

use std::process::Command;

use futures::TryStreamExt;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Metadata;
use pennon_core::wire::decoded_fragments;
use pennon_core::{FragmentId, RowAddress, Version};
use pennon_table::compact::CompactionOptions;
use pennon_table::scan::{ScanOptions, TakeOptions, TakeRows};
use pennon_table::{ConflictRetries, Dataset, FeedOptions, FeedPoint, UpdateOptions, VersionRef};

use crate::support::{append, create, found, options};

const FRAGMENTS: u32 = 10_000;
const ALONE: &str = "PENNON_TEST_DECODED_FRAGMENTS";

#[test]
fn operations_decode_what_they_change() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "decoded::counted", "--nocapture"]).env(ALONE, "1");
    let done = alone.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn counted() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let uri = "memory://decoded-fragments/table";
    let mut table = create(uri, 0..8).await;
    // As many fragments as wanted of one file: what they hold does not matter here.
    let first = table.manifest().fragment(FragmentId(0)).unwrap();
    let more = Fragment { row_ids: None, created_at: None, last_updated_at: None, ..first.edit() };
    let more = vec![Fragment { id: FragmentId(0), ..more }; usize::try_from(FRAGMENTS).unwrap() - 1];
    table.commit_append(more, None, Metadata::new()).await.unwrap();
    let mut before = decoded_fragments();
    let mut check = |operation: &str, at_most: u64| {
        let decoded = decoded_fragments() - before;
        assert!(decoded <= at_most, "{operation} decoded {decoded} fragments, expected at most {at_most}");
        before = decoded_fragments();
    };

    let mut table = Dataset::open(uri, options()).await.unwrap();
    assert_eq!(table.manifest().fragments.len(), usize::try_from(FRAGMENTS).unwrap());
    assert_eq!(table.count_rows(None).await.unwrap(), 8 * u64::from(FRAGMENTS));
    check("open and count", 0);

    let at = TakeRows::Positions(vec![3, 40_000, 79_999]);
    assert_eq!(table.take(at, &TakeOptions::default()).await.unwrap().num_rows(), 3);
    check("take by position", 3);

    let limited = ScanOptions { limit: Some(1), offset: Some(50_000), ..ScanOptions::default() };
    let scan = table.scan(&limited).unwrap();
    let batches: Vec<_> = scan.stream().try_collect().await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    check("limit 1", 1);

    append(uri, 8..10).await.unwrap();
    check("append", 1);

    table.checkout_latest().await.unwrap();
    let row = |fragment| RowAddress::new(FragmentId(fragment), 2);
    table.delete_found(&*found(&[row(5_000)]), "", ConflictRetries::default()).await.unwrap();
    check("delete of a row", 3);

    let options = UpdateOptions::default();
    table
        .update_found(&*found(&[row(7_000)]), &[("name".to_owned(), "'new'".to_owned())], options)
        .await
        .unwrap();
    check("update of a row", 5);

    let begin = FeedPoint::Version(VersionRef::Number(table.version().0 - 1));
    let feed = table.changes(begin, None, &FeedOptions::default()).await.unwrap();
    let batches: Vec<_> = feed.stream().try_collect().await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    check("changes of the newest version", 5);

    assert_eq!(table.fragments_since(Version(table.version().0 - 2)), [FragmentId(FRAGMENTS + 1)]);
    assert_eq!(table.fragments_since(Version(0)).len(), table.manifest().fragments.len());
    assert_eq!(table.fragments_since(table.version()), []);
    check("fragments since two versions before", 0);

    assert_eq!(table.versions().await.unwrap().len(), 5);
    check("versions", 0);

    let tasks = table.plan_compaction(&CompactionOptions::default()).await.unwrap();
    assert_eq!(tasks.len(), 1);
    check("the plan of a compaction", 0);
}
