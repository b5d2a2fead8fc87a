//! The plan, from values alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::file::FileVersion;
use pennon_core::manifest::{CarriedFields, DataFile, Flags, Fragment, Manifest, Timestamp};
use pennon_core::schema::{Metadata, Schema};
use pennon_core::{FieldId, FragmentId, Version};

use super::plan::{CleanupPlan, Policy, Reason, UNVERIFIED_AGE};
use crate::store::ListedFile;

fn name(number: u64) -> String {
    format!("{:024b}{:026x}.lance", number, number)
}

fn file(path: String, modified: i64) -> ListedFile {
    ListedFile { path, size: 10, modified: Timestamp { seconds: modified, nanos: 0 } }
}

fn version(version: u64, files: &[u64], base_id: Option<u32>) -> Manifest {
    let fragment = |number: &u64| {
        let file = DataFile {
            path: name(*number),
            fields: Arc::new([FieldId(0)]),
            column_indices: Arc::new([0]),
            version: FileVersion::STABLE,
            size: None,
            base_id,
        };
        Arc::new(Fragment { id: FragmentId(u32::try_from(*number).unwrap()), ..Fragment::new(vec![file], 1) })
    };
    Manifest {
        version: Version(version),
        schema: Arc::new(Schema::default()),
        fragments: files.iter().map(fragment).collect(),
        timestamp: Timestamp { seconds: i64::try_from(version).unwrap() * 100, nanos: 0 },
        reader_flags: Flags::default(),
        writer_flags: Flags::default(),
        max_fragment_id: None,
        transaction_file: String::new(),
        writer: None,
        next_row_id: 0,
        file_version: FileVersion::STABLE,
        config: Metadata::new(),
        table_metadata: Metadata::new(),
        base_paths: Vec::new(),
        branch: None,
        index_section: None,
        transaction_section: None,
        carried: CarriedFields::default(),
    }
}

const NOW: i64 = 10_000_000;

fn plan(policy: Policy, delete_unverified: bool) -> CleanupPlan {
    let tags = BTreeMap::from([(Version(2), vec!["gold".to_owned()])]);
    let branches = BTreeMap::from([(Version(3), "dev".to_owned())]);
    let now = Timestamp { seconds: NOW, nanos: 0 };
    let mut plan = CleanupPlan::new(policy, now, delete_unverified, Version(6), tags, branches);
    for (number, files) in
        [(1, [1, 9]), (2, [2, 9]), (3, [3, 9]), (4, [4, 9]), (5, [5, 9]), (6, [6, 9]), (7, [7, 9])]
    {
        plan.version(&Arc::new(version(number, &files, None)), &[]);
    }
    plan.keep("branch dev, version 4".to_owned(), &Arc::new(version(4, &[4], Some(0))), &[]);
    plan
}

fn reason(plan: &CleanupPlan, path: String) -> Reason {
    plan.disposition(file(path, NOW - 10)).reason
}

#[test]
fn versions_and_their_files() {
    let plan = plan(Policy::default(), false);
    let expected = [
        (1, Reason::OldVersion, Reason::OldFile),
        (2, Reason::TaggedVersion, Reason::Referenced),
        (3, Reason::BranchedVersion, Reason::Referenced),
        // A branch still has the file.
        (4, Reason::OldVersion, Reason::Referenced),
        (5, Reason::OldVersion, Reason::OldFile),
        (6, Reason::CurrentVersion, Reason::Referenced),
        (7, Reason::LaterVersion, Reason::Referenced),
    ];
    for (number, manifest, data) in expected {
        assert_eq!(reason(&plan, format!("_versions/{number}.manifest")), manifest, "{number}");
        assert_eq!(reason(&plan, format!("data/{}", name(number))), data, "{number}");
    }
    assert_eq!(reason(&plan, format!("data/{}", name(9))), Reason::Referenced);
    assert_eq!(reason(&plan, "_versions/8.manifest".to_owned()), Reason::LaterVersion);
    assert_eq!(plan.old_versions().map(|v| v.0).collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(plan.blocking_tags().get("gold"), Some(&Version(2)));
}

#[test]
fn every_condition_must_hold() {
    let policy = Policy {
        before: Some(Timestamp { seconds: 500, nanos: 1 }),
        below: Some(Version(5)),
        listed: Some([4, 5, 6].map(Version).into()),
    };
    assert_eq!(plan(policy, false).old_versions().map(|v| v.0).collect::<Vec<_>>(), [4]);
    let by_time = Policy { before: Some(Timestamp { seconds: 400, nanos: 0 }), ..Policy::default() };
    let plan = plan(by_time, false);
    assert_eq!(plan.old_versions().map(|v| v.0).collect::<Vec<_>>(), [1]);
    assert_eq!(reason(&plan, "_versions/5.manifest".to_owned()), Reason::RetainedVersion);
}

#[test]
fn files_that_no_version_mentions() {
    let uuid = "d53689f7-1b93-47ff-af8b-a0c13f8bdce1";
    let week = i64::try_from(UNVERIFIED_AGE.as_secs()).unwrap();
    let (lazy, eager) = (plan(Policy::default(), false), plan(Policy::default(), true));
    for path in [
        format!("data/{}", name(77)),
        "_deletions/0-1-33.arrow".to_owned(),
        format!("_transactions/1-{uuid}.txn"),
        format!("_indices/{uuid}/page_data.lance"),
        "_versions/.tmp_5.manifest".to_owned(),
        format!("_versions/5.manifest-{uuid}"),
    ] {
        assert_eq!(lazy.disposition(file(path.clone(), NOW - week + 1)).reason, Reason::Unverified, "{path}");
        assert_eq!(lazy.disposition(file(path.clone(), NOW - week)).reason, Reason::Orphan, "{path}");
        assert_eq!(eager.disposition(file(path.clone(), NOW)).reason, Reason::Orphan, "{path}");
    }
    for (path, expected) in [
        ("data/mine.lance".to_owned(), Reason::Foreign),
        ("data/notes.txt".to_owned(), Reason::Foreign),
        (format!("data/part/{}", name(1)), Reason::Foreign),
        (format!("_versions/9.manifest-{uuid}"), Reason::Staged),
        ("_versions/d9223372036854775813.manifest".to_owned(), Reason::DetachedVersion),
        ("_versions/latest_version_hint.json".to_owned(), Reason::Hint),
    ] {
        assert_eq!(eager.disposition(file(path.clone(), 0)).reason, expected, "{path}");
    }
}
