//! Applying what pylance committed gives the manifest that pylance wrote.

mod bad_input;
mod history;
mod indices;
mod stable_row_ids;

use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::*;
use crate::bitmaps::encode_bitmap;
use crate::manifest::{
    BasePath, DataFile, DeletionFile, DeletionFileType, Flags, Fragment, LineageSource, ManifestFile,
};
use crate::rows::{RowIdSequence, VersionSequence};
use crate::schema::{Metadata, Schema};
use crate::transaction::{Append, DataOverlay, Delete, Overwrite, Update, UpdateMemWalState, UpdateMode};
use crate::wire::index_section;
use crate::wire::tests::golden;
use crate::{ErrorKind, FieldId, FragmentId, Version};

fn read(name: &str) -> (Manifest, Vec<IndexMetadata>, Transaction) {
    let file = ManifestFile::decode(golden(&format!("{name}.manifest"))).unwrap();
    let indices = file.indices().unwrap().map_or(Vec::new(), |bytes| index_section::decode(bytes).unwrap());
    let transaction = Transaction::decode(file.transaction().unwrap().unwrap()).unwrap();
    (file.manifest, indices, transaction)
}

static NO_VERSIONS: BTreeMap<Uuid, IndexedVersion> = BTreeMap::new();
static NO_INLINE_LINEAGE: BTreeMap<FragmentId, Fragment> = BTreeMap::new();

fn context() -> ApplyContext<'static> {
    ApplyContext {
        timestamp: Timestamp { seconds: 5, nanos: 6 },
        taken: Version(0),
        transaction_file: "1-x.txn".to_owned(),
        restored: None,
        indexed: &NO_VERSIONS,
        fragment_reuse: None,
        writer: WriterVersion { library: "pennon".to_owned(), ..WriterVersion::default() },
        enable_stable_row_ids: true,
        file_version: None,
        inline_lineage: &NO_INLINE_LINEAGE,
        writes_version_column: false,
    }
}

fn transaction(operation: Operation) -> Transaction {
    Transaction {
        read_version: Version(1),
        uuid: "u".to_owned(),
        tag: String::new(),
        properties: Metadata::new(),
        operation,
    }
}

/// Applies the transaction that made version `name` to version `before` and compares.
fn assert_like_reference(before: Option<&str>, name: &str, restored: Option<&str>) {
    let (mut expected, expected_indices, transaction) = read(name);
    let before = before.map(read);
    let restored = restored.map(|name| {
        let (manifest, indices, _) = read(name);
        (manifest, indices)
    });
    let context = ApplyContext {
        timestamp: expected.timestamp,
        transaction_file: expected.transaction_file.clone(),
        writer: expected.writer.clone().unwrap(),
        restored: restored.as_ref(),
        ..context()
    };
    let indices = before.as_ref().map_or(Vec::new(), |b| b.1.clone());
    let (found, found_indices) =
        apply(before.as_ref().map(|b| &b.0), &indices, &transaction, &context).unwrap();
    expected.index_section = None;
    expected.transaction_section = None;
    assert_eq!(found, expected, "{name}");
    assert_eq!(found_indices, expected_indices, "{name}");
    assert_eq!(found.encode(), expected.encode(), "{name}");
}

#[test]
fn versions_of_the_reference() {
    assert_like_reference(None, "stable-1-create", None);
    assert_like_reference(None, "empty-stable", None);
    assert_like_reference(Some("stable-1-create"), "stable-2-append", None);
    assert_like_reference(Some("stable-2-append"), "stable-3-delete", None);
    assert_like_reference(Some("stable-3-delete"), "stable-4-delete-fragment", None);
    assert_like_reference(Some("stable-6-index"), "stable-7-delete-with-index", None);
    assert_like_reference(Some("stable-7-delete-with-index"), "stable-8-append-with-index", None);
    assert_like_reference(Some("stable-config"), "stable-overwrite", None);
    assert_like_reference(Some("stable-overwrite"), "stable-restore", Some("stable-3-delete"));
}

#[test]
fn a_table_without_stable_row_ids() {
    let (mut expected, _, transaction) = read("nested-2.1");
    // The reference leaves the schema's metadata out of the transaction.
    expected.schema = Arc::new(Schema { metadata: Metadata::new(), ..expected.schema.as_ref().clone() });
    let context = ApplyContext {
        enable_stable_row_ids: false,
        timestamp: expected.timestamp,
        transaction_file: expected.transaction_file.clone(),
        writer: expected.writer.clone().unwrap(),
        ..context()
    };
    let (found, _) = apply(None, &[], &transaction, &context).unwrap();
    assert_eq!(found, Manifest { index_section: None, transaction_section: None, ..expected });

    let with_ids =
        Fragment { row_ids: Some(LineageSource::Inline(Bytes::new())), ..Fragment::new(Vec::new(), 3) };
    let append = self::transaction(Operation::Append(Append { fragments: vec![with_ids] }));
    assert_eq!(apply(Some(&found), &[], &append, &context).unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn append(fragments: Vec<Fragment>) -> Transaction {
    transaction(Operation::Append(Append { fragments }))
}

#[test]
fn untouched_fragments_are_shared_and_new_ones_are_encoded_once() {
    let (current, ..) = read("stable-1-create");
    let (next, _) =
        apply(Some(&current), &[], &append(vec![Fragment::new(Vec::new(), 3)]), &context()).unwrap();
    for id in current.fragments.ids() {
        assert!(Arc::ptr_eq(current.fragment(id).unwrap(), next.fragment(id).unwrap()));
    }
    assert!(next.fragments.get(2).unwrap().encoded.is_some());
    assert_eq!((next.max_fragment_id, next.next_row_id), (Some(2), 13));
    assert_eq!(next.writer.unwrap().library, "pennon");
    assert_eq!(next.timestamp, Timestamp { seconds: 5, nanos: 6 });
}

/// A version in which the lineage of the first fragment is in data columns, and the fragment with it inline.
fn column_backed() -> (Manifest, Fragment) {
    let (mut current, ..) = read("stable-1-create");
    let inline = current.fragments.get(0).unwrap().edit();
    let column = Some(LineageSource::Column);
    let to_column = |f: &Fragment| {
        let (row_ids, created_at, last_updated_at) = (column.clone(), column.clone(), column.clone());
        Ok::<_, Error>(Fragment { row_ids, created_at, last_updated_at, ..f.edit() })
    };
    current.fragments.replace(inline.id, to_column).unwrap();
    (current, inline)
}

/// Offsets of a fragment that an update changes.
fn offsets(fragment: &Fragment, rows: &[u32]) -> BTreeMap<u64, Bytes> {
    BTreeMap::from([(fragment.id.0.into(), encode_bitmap(&rows.iter().collect()).into())])
}

#[test]
fn column_backed_versions_after_a_change_in_place_are_inline() {
    let (current, inline) = column_backed();
    let changed = current.fragments.get(0).unwrap().edit();
    let update = Update {
        updated_fragments: vec![changed.clone()],
        updated_offset_bitmaps: offsets(&changed, &[1]),
        mode: UpdateMode::RewriteColumns,
        ..bad_input::update()
    };
    let operation = Operation::Update(update);
    let needed = needed_lineage_columns(&current, &operation, false).unwrap();
    assert_eq!(needed, BTreeMap::from([(changed.id, Sequences::LastUpdated)]));
    let inline_lineage = BTreeMap::from([(inline.id, inline.clone())]);
    let read = ApplyContext { inline_lineage: &inline_lineage, ..context() };
    let (next, _) = apply(Some(&current), &[], &transaction(operation.clone()), &read).unwrap();
    let found = &next.fragments.get(0).unwrap();
    assert_eq!((&found.row_ids, &found.created_at), (&changed.row_ids, &changed.created_at));
    let before = inline.last_updated_at_sequence().unwrap().unwrap();
    let after = found.last_updated_at_sequence().unwrap().unwrap();
    let expected = |at| if at == 1 { Some(next.version) } else { before.get(at) };
    assert!((0..inline.physical_rows).all(|at| after.get(at) == expected(at)));
    let error = apply(Some(&current), &[], &transaction(operation), &context()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_version_column_counts_if_it_was_written_for_this_version() {
    let (current, inline) = column_backed();
    let mut changed = current.fragments.get(0).unwrap().edit();
    let update = |changed: &Fragment, rows: &[u32]| {
        Operation::Update(Update {
            updated_fragments: vec![changed.clone()],
            updated_offset_bitmaps: offsets(changed, rows),
            mode: UpdateMode::RewriteColumns,
            ..bad_input::update()
        })
    };
    let with_column = ApplyContext { writes_version_column: true, ..context() };
    // Without such a column in a file they are those of before.
    assert_eq!(needed_lineage_columns(&current, &update(&changed, &[1]), true).unwrap().len(), 1);
    changed.files.push(DataFile {
        fields: [FieldId::ROW_LAST_UPDATED_AT].into(),
        column_indices: [0].into(),
        ..changed.files[0].clone()
    });
    let operation = update(&changed, &[1]);
    assert_eq!(needed_lineage_columns(&current, &operation, true).unwrap(), BTreeMap::new());
    let (next, _) = apply(Some(&current), &[], &transaction(operation.clone()), &with_column).unwrap();
    assert_eq!(next.fragments.get(0).unwrap().last_updated_at, Some(LineageSource::Column));
    assert_eq!(next.fragments.get(0).unwrap().files, changed.files);
    // For another version they do not count.
    assert_eq!(needed_lineage_columns(&current, &operation, false).unwrap().len(), 1);
    let inline_lineage = BTreeMap::from([(inline.id, inline.clone())]);
    let read = ApplyContext { inline_lineage: &inline_lineage, ..context() };
    let (next, _) = apply(Some(&current), &[], &transaction(operation), &read).unwrap();
    assert_eq!(
        next.fragments.get(0).unwrap().last_updated_at_sequence().unwrap().unwrap().get(1),
        Some(next.version)
    );
    // If all rows changed, the versions of before are not needed.
    let rows: Vec<u32> = (0..u32::try_from(inline.physical_rows).unwrap()).collect();
    let all = update(&current.fragments.get(0).unwrap().edit(), &rows);
    assert_eq!(needed_lineage_columns(&current, &all, false).unwrap(), BTreeMap::new());
    let (next, _) = apply(Some(&current), &[], &transaction(all), &context()).unwrap();
    let versions = next.fragments.get(0).unwrap().last_updated_at_sequence().unwrap().unwrap();
    assert_eq!(versions, VersionSequence::constant(inline.physical_rows, next.version));
}

#[test]
fn column_backed_versions_of_moved_rows_are_found() {
    let (current, inline) = column_backed();
    let id = inline.row_id_sequence().unwrap().unwrap().get(2).unwrap();
    let moved = Fragment {
        row_ids: Some(LineageSource::Inline(RowIdSequence::from_slice(&[id.0]).encode())),
        ..Fragment::new(Vec::new(), 1)
    };
    let operation = Operation::Update(Update { new_fragments: vec![moved], ..bad_input::update() });
    let needed = needed_lineage_columns(&current, &operation, false).unwrap();
    assert_eq!(needed, BTreeMap::from([(inline.id, Sequences::All)]));
    let inline_lineage = BTreeMap::from([(inline.id, inline.clone())]);
    let read = ApplyContext { inline_lineage: &inline_lineage, ..context() };
    let (next, _) = apply(Some(&current), &[], &transaction(operation.clone()), &read).unwrap();
    let found = next.fragments.decode_all().next_back().unwrap();
    let created = inline.created_at_sequence().unwrap().unwrap().get(2);
    assert_eq!(found.created_at_sequence().unwrap().unwrap().get(0), created);
    assert_eq!(found.last_updated_at_sequence().unwrap().unwrap().get(0), Some(next.version));
    let error = apply(Some(&current), &[], &transaction(operation), &context()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn existing_row_ids_come_first() {
    let (current, ..) = read("stable-1-create");
    let existing = |ids: &[u64], rows| Fragment {
        row_ids: Some(LineageSource::Inline(RowIdSequence::from_slice(ids).encode())),
        ..Fragment::new(Vec::new(), rows)
    };
    let fragments = vec![existing(&[3, 4], 4), existing(&[], 2), existing(&[7, 8], 2)];
    let (next, _) = apply(Some(&current), &[], &append(fragments), &context()).unwrap();
    let ids = |at: usize| -> Vec<u64> {
        next.fragments.get(at).unwrap().row_id_sequence().unwrap().unwrap().iter().collect()
    };
    assert_eq!((ids(2), ids(3), ids(4)), (vec![3, 4, 10, 11], vec![12, 13], vec![7, 8]));
    assert_eq!(next.next_row_id, 14);
    let versions = next.fragments.get(2).unwrap().created_at_sequence().unwrap().unwrap();
    assert_eq!(versions, VersionSequence::constant(4, Version(2)));

    let error = apply(Some(&current), &[], &append(vec![existing(&[1, 2, 3], 2)]), &context()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().starts_with("fragment 2: 3 row ids"), "{error}");
}

#[test]
fn reserved_fragment_ids_are_kept_and_sorted() {
    let (current, ..) = read("stable-1-create");
    let reserved = Fragment { id: FragmentId(9), ..Fragment::new(Vec::new(), 1) };
    let fragments = vec![reserved.clone(), Fragment::new(Vec::new(), 1)];
    let (next, _) = apply(Some(&current), &[], &append(fragments), &context()).unwrap();
    assert_eq!(next.fragments.decode_all().map(|f| f.id.0).collect::<Vec<_>>(), [0, 1, 9, 10]);
    assert_eq!(next.max_fragment_id, Some(10));
    let same = append(vec![Fragment { id: FragmentId(1), ..reserved }]);
    assert_eq!(apply(Some(&current), &[], &same, &context()).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn counters_do_not_wrap() {
    let (current, ..) = read("stable-1-create");
    let append = append(vec![Fragment::new(Vec::new(), 1)]);
    let full = Manifest { max_fragment_id: Some(u32::MAX), ..current.clone() };
    assert_eq!(apply(Some(&full), &[], &append, &context()).unwrap_err().kind(), ErrorKind::Unsupported);
    let full = Manifest { next_row_id: u64::MAX, ..current };
    assert_eq!(apply(Some(&full), &[], &append, &context()).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn files_without_a_field_are_dropped() {
    let (current, ..) = read("stable-1-create");
    let file = current.fragments.get(0).unwrap().files[0].clone();
    let dead = DataFile { fields: [FieldId::TOMBSTONE; 2].into(), ..file.clone() };
    let (next, _) =
        apply(Some(&current), &[], &append(vec![Fragment::new(vec![dead, file.clone()], 1)]), &context())
            .unwrap();
    assert_eq!(next.fragments.get(2).unwrap().files, [file]);
}

fn deletion(rows: u64) -> Option<DeletionFile> {
    Some(DeletionFile {
        file_type: DeletionFileType::Bitmap,
        read_version: Version(2),
        id: 1,
        num_deleted_rows: rows,
        base_id: None,
    })
}

fn delete(updated_fragments: Vec<Fragment>, deleted: &[u32]) -> Transaction {
    let deleted_fragment_ids = deleted.iter().copied().map(FragmentId).collect();
    transaction(Operation::Delete(Delete {
        updated_fragments,
        deleted_fragment_ids,
        predicate: "p".to_owned(),
    }))
}

#[test]
fn a_delete_changes_deletion_files_only() {
    let (current, ..) = read("stable-2-append");
    let stale =
        Fragment { files: Vec::new(), deletion: deletion(2), ..current.fragments.get(0).unwrap().edit() };
    let (next, _) = apply(Some(&current), &[], &delete(vec![stale], &[2]), &context()).unwrap();
    assert_eq!(next.fragments.len(), 2);
    assert_eq!(next.fragments.get(0).unwrap().files, current.fragments.get(0).unwrap().files);
    assert_eq!(next.fragments.get(0).unwrap().deletion, deletion(2));
    assert!(next.reader_flags.contains(Flags::DELETION_FILES));
    assert_eq!((next.max_fragment_id, next.next_row_id), (Some(2), 14));
}

#[test]
fn deletes_that_do_not_fit() {
    let (current, ..) = read("stable-2-append");
    let edit = |rows| Fragment { deletion: deletion(rows), ..current.fragments.get(0).unwrap().edit() };
    let kind = |t: Transaction| apply(Some(&current), &[], &t, &context()).unwrap_err().kind();
    assert_eq!(kind(delete(Vec::new(), &[7])), ErrorKind::Conflict { retryable: true });
    assert_eq!(kind(delete(vec![edit(1)], &[0])), ErrorKind::InvalidInput);
    assert_eq!(kind(delete(vec![edit(1), edit(2)], &[])), ErrorKind::InvalidInput);
    assert_eq!(kind(delete(vec![edit(6)], &[])), ErrorKind::InvalidInput);
}

#[test]
fn flags_follow_the_content_and_sticky_ones_stay() {
    let (current, ..) = read("stable-3-delete");
    let sticky = Flags::STICKY.with(Flags::OLD_FORMAT);
    let current = Manifest {
        reader_flags: current.reader_flags.with(sticky),
        writer_flags: current.writer_flags.with(sticky),
        config: Metadata::from([("k".to_owned(), "v".to_owned())]),
        base_paths: vec![BasePath { id: 0, name: None, is_dataset_root: true, path: "p".to_owned() }],
        ..current
    };
    let context = ApplyContext { transaction_file: String::new(), ..context() };
    let (next, _) = apply(Some(&current), &[], &delete(Vec::new(), &[0, 1]), &context).unwrap();
    let both = Flags::STICKY.with(Flags::STABLE_ROW_IDS).with(Flags::BASE_PATHS);
    assert_eq!(next.reader_flags, both);
    assert_eq!(next.writer_flags, both.with(Flags::CONFIG).with(Flags::TRANSACTION_FILE_DISABLED));
}

#[test]
fn a_file_of_another_version_sets_the_mixed_flag() {
    let (current, ..) = read("stable-1-create");
    let file = DataFile { version: FileVersion::V2_1, ..current.fragments.get(0).unwrap().files[0].clone() };
    let fragment = append(vec![Fragment::new(vec![file], 1)]);
    let (next, _) = apply(Some(&current), &[], &fragment, &context()).unwrap();
    assert_eq!(next.file_version, FileVersion::V2_2);
    assert!(next.reader_flags.contains(Flags::MIXED_FILE_VERSIONS));
    assert!(next.writer_flags.contains(Flags::MIXED_FILE_VERSIONS));
}

#[test]
fn a_fragment_without_row_ids_is_an_error() {
    let (mut current, ..) = read("stable-1-create");
    let without = |fragment: Arc<Fragment>| Arc::new(Fragment { row_ids: None, ..fragment.edit() });
    current.fragments = current.fragments.decode_all().map(without).collect();
    let error = apply(Some(&current), &[], &append(Vec::new()), &context()).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("fragment 0"), "{error}");
}

#[test]
fn what_is_not_applied_is_named() {
    let (current, ..) = read("stable-1-create");
    for operation in [
        Operation::DataOverlay(DataOverlay { groups: Vec::new() }),
        Operation::UpdateMemWalState(UpdateMemWalState { compacted_sstables: Vec::new() }),
        Operation::Unknown(126),
    ] {
        let name = operation.name();
        let error = apply(Some(&current), &[], &transaction(operation), &context()).unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(name), "{error}");
    }
    assert_eq!(apply(None, &[], &append(Vec::new()), &context()).unwrap_err().kind(), ErrorKind::NotFound);
}

fn overwrite(config_upserts: Option<Metadata>, initial_bases: Vec<BasePath>) -> Transaction {
    let schema = Schema::default();
    transaction(Operation::Overwrite(Overwrite {
        fragments: Vec::new(),
        schema,
        config_upserts,
        initial_bases,
    }))
}

#[test]
fn an_overwrite_keeps_config_and_counters() {
    let (current, indices, _) = read("stable-8-append-with-index");
    let current = Manifest { config: Metadata::from([("a".to_owned(), "1".to_owned())]), ..current };
    let upserts = Metadata::from([("b".to_owned(), "2".to_owned())]);
    let context =
        ApplyContext { file_version: Some(FileVersion::V2_1), enable_stable_row_ids: false, ..context() };
    let (next, kept) =
        apply(Some(&current), &indices, &overwrite(Some(upserts), Vec::new()), &context).unwrap();
    assert_eq!(kept, []);
    assert_eq!(next.config.len(), 2);
    assert_eq!((next.max_fragment_id, next.next_row_id), (current.max_fragment_id, current.next_row_id));
    assert!(next.has_stable_row_ids());
    assert_eq!(next.file_version, FileVersion::V2_1);
    let base = BasePath { id: 1, name: None, is_dataset_root: true, path: "p".to_owned() };
    let error = apply(Some(&current), &[], &overwrite(None, vec![base]), &context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// An entry like the golden one, with these values.
fn index(name: &str, version: u64, fragments: &[u32], vector: bool) -> IndexMetadata {
    use prost::Message;
    let (_, mut indices, _) = read("stable-6-index");
    let golden = indices.remove(0);
    let mut wire = crate::wire::table::IndexMetadata::decode(golden.encoded).unwrap();
    let number = u8::try_from(version * 10).unwrap() + u8::from(vector);
    wire.uuid.as_mut().unwrap().uuid = Bytes::copy_from_slice(Uuid::from_bytes([number; 16]).as_bytes());
    wire.name = name.to_owned();
    wire.dataset_version = version;
    if vector {
        wire.index_details.as_mut().unwrap().type_url = "/lance.index.pb.VectorIndexDetails".to_owned();
    }
    let entry = IndexMetadata::decode(wire.encode_to_vec().into()).unwrap();
    entry.with_fragments(fragments.iter().copied().collect::<RoaringBitmap>()).unwrap()
}

#[test]
fn indices_after_a_delete() {
    let (current, ..) = read("stable-2-append");
    let (scalar, vector) = (false, true);
    let kept = |entries: &[IndexMetadata]| -> Vec<(String, u64)> {
        let (_, kept) = apply(Some(&current), entries, &delete(Vec::new(), &[2]), &context()).unwrap();
        kept.into_iter().map(|i| (i.name, i.dataset_version.0)).collect()
    };
    let pair = |name: &str, version| (name.to_owned(), version);
    // Fragment 2 is removed.
    assert_eq!(kept(&[index("a", 1, &[2], scalar)]), [pair("a", 1)]);
    assert_eq!(kept(&[index("a", 1, &[2], vector)]), [pair("a", 1)]);
    assert_eq!(kept(&[index("never trained", 1, &[], vector)]), [pair("never trained", 1)]);
    assert_eq!(kept(&[index("a", 1, &[2], vector), index("a", 2, &[0], vector)]), [pair("a", 2)]);
    assert_eq!(kept(&[index("a", 3, &[2], vector), index("a", 2, &[], vector)]), [pair("a", 2)]);
    assert_eq!(kept(&[index("a", 1, &[1, 2], vector)]), [pair("a", 1)]);
    assert_eq!(kept(&[index("a", 1, &[2], scalar), index("a", 2, &[0], scalar)]), [pair("a", 2)]);
    assert_eq!(kept(&[index("a", 3, &[2], scalar), index("a", 2, &[], scalar)]), [pair("a", 2)]);
    assert_eq!(kept(&[index("__lance_frag_reuse", 1, &[2], scalar)]), [pair("__lance_frag_reuse", 1)]);
    let gone = IndexMetadata { fields: vec![FieldId(77)], ..index("a", 1, &[0], scalar) };
    assert_eq!(kept(&[gone]), []);
    let unknown = IndexMetadata { fragments: None, ..index("a", 1, &[2], vector) };
    assert_eq!(kept(&[unknown]), [pair("a", 1)]);
}
