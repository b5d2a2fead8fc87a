//! Each kind of damage in a version gives its finding and no other, from values alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::naming::NamingScheme;
use pennon_core::manifest::{
    BasePath, CarriedFields, DataFile, DeletionFile, DeletionFileType, Flags, Fragment, LineageSource,
    Manifest, Timestamp,
};
use pennon_core::rows::RowIdSequence;
use pennon_core::schema::{Metadata, Schema};
use pennon_core::{Error, FieldId, FragmentId, Version};

use super::judge::{self, DataFileFact, FileFact, FragmentFacts, Ids};
use super::report::{Finding, FindingKind};
use crate::inventory::Damaged;
use crate::versions::Located;

const ROWS: u64 = 10;

fn fragment(id: u32) -> Fragment {
    let file = DataFile {
        path: format!("{id}.lance"),
        fields: Arc::new([FieldId(0)]),
        column_indices: Arc::new([0]),
        version: FileVersion::STABLE,
        size: Some(100),
        base_id: None,
    };
    let ids = RowIdSequence::from_range(u64::from(id) * ROWS..u64::from(id + 1) * ROWS);
    Fragment {
        id: FragmentId(id),
        row_ids: Some(LineageSource::Inline(ids.encode())),
        ..Fragment::new(vec![file], ROWS)
    }
}

fn table() -> Manifest {
    let schema =
        arrow_schema::Schema::new(vec![arrow_schema::Field::new("a", arrow_schema::DataType::Int64, true)]);
    Manifest {
        version: Version(3),
        schema: Arc::new(Schema::from_arrow(&schema).unwrap()),
        fragments: vec![Arc::new(fragment(0)), Arc::new(fragment(1))].into(),
        timestamp: Timestamp::default(),
        reader_flags: Flags::STABLE_ROW_IDS,
        writer_flags: Flags::STABLE_ROW_IDS,
        max_fragment_id: Some(1),
        transaction_file: String::new(),
        writer: None,
        next_row_id: 2 * ROWS,
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

fn facts(fragment: &Fragment) -> FragmentFacts {
    let open = DataFileFact::Open { rows: ROWS, columns: 1, version: FileVersion::STABLE };
    FragmentFacts {
        files: vec![("data".to_owned(), open)],
        deletion_file: None,
        deletions: Some(Ok(DeletionVector::empty())),
        lineage: Some(fragment.row_id_sequence()),
    }
}

fn kinds(findings: &[Finding]) -> Vec<FindingKind> {
    findings.iter().map(|finding| finding.kind).collect()
}

/// All findings of a version, its facts changed first.
fn judge(table: &Manifest, change: impl Fn(usize, &mut FragmentFacts)) -> Vec<FindingKind> {
    let mut findings = judge::version(table, &[]);
    let mut ids = Ids::default();
    for (at, fragment) in table.fragments.decode_all().enumerate() {
        let mut facts = facts(&fragment);
        change(at, &mut facts);
        findings.extend(judge::fragment(table, &fragment, &facts, &mut ids));
    }
    kinds(&findings)
}

#[test]
fn a_sound_version_has_no_finding() {
    assert_eq!(judge(&table(), |_, _| {}), []);
}

#[test]
fn each_damage_of_a_manifest_has_its_finding() {
    let changed = |at: usize, change: fn(&mut Fragment)| {
        let mut table = table();
        let mut fragments: Vec<_> = table.fragments.decode_all().collect();
        change(Arc::make_mut(&mut fragments[at]));
        table.fragments = fragments.into();
        judge(&table, |_, _| {})
    };
    let of_table = |change: fn(&mut Manifest)| {
        let mut table = table();
        change(&mut table);
        judge(&table, |_, _| {})
    };
    let deletion = DeletionFile {
        file_type: DeletionFileType::Arrow,
        read_version: Version(1),
        id: 1,
        num_deleted_rows: 1,
        base_id: None,
    };
    assert_eq!(of_table(|t| t.max_fragment_id = None), [FindingKind::FragmentIds]);
    assert_eq!(
        of_table(|t| t.fragments = t.fragments.decode_all().rev().collect()),
        [FindingKind::FragmentIds]
    );
    assert_eq!(of_table(|t| t.next_row_id = 15), [FindingKind::RowIdCounter]);
    assert_eq!(of_table(|t| drop(t.config.insert("a".into(), "b".into()))), [FindingKind::Flags]);
    assert_eq!(of_table(|t| t.writer_flags = Flags::default()), [FindingKind::Flags]);
    assert_eq!(
        of_table(|t| t.reader_flags = t.reader_flags.with(Flags::DELETION_FILES)),
        [FindingKind::Flags]
    );
    let base = BasePath { id: 1, name: None, is_dataset_root: true, path: "/elsewhere".to_owned() };
    let mut based = table();
    based.base_paths.push(base);
    assert_eq!(judge(&based, |_, _| {}), [FindingKind::Flags]);
    let mut deleted = table();
    let with_deletions = Fragment { deletion: Some(deletion), ..fragment(0) };
    deleted.fragments = vec![Arc::new(with_deletions), Arc::new(fragment(1))].into();
    assert_eq!(judge(&deleted, |_, _| {}), [FindingKind::Flags]);
    assert_eq!(changed(1, |f| f.row_ids = None), [FindingKind::Lineage]);
    assert_eq!(changed(1, |f| f.row_ids = fragment(0).row_ids), [FindingKind::DuplicateRowId]);
    let short = |f: &mut Fragment| {
        f.row_ids = Some(LineageSource::Inline(RowIdSequence::from_range(0..3).encode()));
    };
    assert_eq!(changed(0, short), [FindingKind::Lineage]);
    assert_eq!(changed(0, |f| f.files[0].fields = Arc::new([FieldId(9)])), [FindingKind::WrongColumns]);
    assert_eq!(changed(0, |f| f.files[0].column_indices = Arc::new([1])), [FindingKind::WrongColumns]);
    assert_eq!(changed(0, |f| f.files[0].column_indices = Arc::new([0, 1])), [FindingKind::WrongColumns; 2]);
    assert_eq!(changed(0, |f| f.files.push(f.files[0].clone())), [FindingKind::WrongColumns]);
}

#[test]
fn each_damage_of_a_file_has_its_finding() {
    let of = |change: fn(&mut FragmentFacts)| {
        judge(&table(), |at, facts| {
            if at == 1 {
                change(facts)
            }
        })
    };
    assert_eq!(
        of(|f| f.files[0].1 = DataFileFact::Broken(Error::corrupt("garbage"))),
        [FindingKind::DamagedFile]
    );
    assert_eq!(of(|f| f.files[0].1 = DataFileFact::Absent), []);
    let open = |rows, columns, version| {
        judge(&table(), |at, facts| {
            if at == 0 {
                facts.files[0].1 = DataFileFact::Open { rows, columns, version };
            }
        })
    };
    assert_eq!(open(ROWS - 1, 1, FileVersion::STABLE), [FindingKind::WrongDataFile]);
    assert_eq!(open(ROWS, 1, FileVersion::V2_0), [FindingKind::WrongDataFile]);
    assert_eq!(open(ROWS, 0, FileVersion::STABLE), [FindingKind::WrongColumns]);
    assert_eq!(of(|f| f.deletions = Some(Err(Error::corrupt("garbage")))), [FindingKind::WrongDeletions]);
    assert_eq!(of(|f| f.deletions = Some(Ok((0..10).collect()))), [FindingKind::WrongDeletions]);
    assert_eq!(of(|f| f.deletions = None), []);
    assert_eq!(of(|f| f.lineage = Some(Err(Error::corrupt("garbage")))), [FindingKind::Lineage]);
}

#[test]
fn files_tags_and_manifests() {
    let file = |stated, found| FileFact { path: "/t/data/x".to_owned(), version: Version(2), stated, found };
    assert_eq!(kinds(&judge::files(&[file(Some(1), Some(1)), file(None, Some(7))])), []);
    assert_eq!(kinds(&judge::files(&[file(Some(1), Some(2))])), [FindingKind::WrongSize]);
    assert_eq!(kinds(&judge::files(&[file(None, None), file(Some(0), None)])), [FindingKind::MissingFile; 2]);
    let present = BTreeSet::from([Version(1), Version(3)]);
    let tags = [("one".to_owned(), Version(1)), ("two".to_owned(), Version(2))];
    assert_eq!(kinds(&judge::tags(&tags, &present)), [FindingKind::DanglingTag]);
    let at = |version, scheme| Located { version: Version(version), scheme };
    let (old, new) = (at(1, NamingScheme::V1), at(2, NamingScheme::V2));
    assert_eq!(kinds(&judge::manifests("/t/_versions", &[old], &[])), []);
    let mixed = judge::manifests("/t/_versions", &[old, new], &[]);
    assert_eq!(kinds(&mixed), [FindingKind::MixedNaming]);
    assert!(mixed[0].message.contains("1.manifest") && mixed[0].message.contains("18446744073709551613"));
    let damaged = |torn| Damaged {
        path: "/t/_versions/2.manifest".to_owned(),
        version: Version(2),
        torn,
        error: Error::corrupt("/t/_versions/2.manifest: garbage"),
    };
    let found = judge::manifests("/t/_versions", &[old], &[damaged(true), damaged(false)]);
    assert_eq!(kinds(&found), [FindingKind::TornManifest, FindingKind::DamagedManifest]);
    assert_eq!(found[0].to_string(), "/t/_versions/2.manifest: version 2: garbage");
}
