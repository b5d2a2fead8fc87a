//! What pylance 14 wrote decodes to the right values and encodes to the same bytes.

use bytes::Bytes;

use super::{golden, goldens, part};
use crate::file::FileVersion;
use crate::manifest::{DeletionFileType, Flags, Fragment, LineageSource, Manifest, ManifestFile, Tail};
use crate::schema::LogicalType;
use crate::transaction::{Operation, Transaction, UpdateMode};
use crate::wire::index_section;
use crate::{ErrorKind, FieldId, FragmentId, Version, checksum};

fn to_usize(position: u64) -> usize {
    usize::try_from(position).unwrap()
}

fn manifest_file(name: &str) -> ManifestFile {
    ManifestFile::decode(golden(name)).unwrap()
}

#[test]
fn manifests_encode_to_the_same_bytes() {
    for (name, file) in goldens(".manifest") {
        let range = Tail::locate(&file, file.len() as u64).unwrap();
        let message = part(&file, &range);
        let mut manifest = Manifest::decode(message.clone()).unwrap();
        assert_eq!(Bytes::from(manifest.encode()), message, "{name} with kept fragments");
        manifest.fragments = manifest.fragments.decode_all().map(|fragment| fragment.edit().into()).collect();
        assert_eq!(Bytes::from(manifest.encode()), message, "{name} with fragments encoded again");
    }
}

#[test]
fn manifest_files_are_laid_out_like_the_references() {
    for (name, file) in goldens(".manifest") {
        let mut decoded = ManifestFile::decode(file.clone()).unwrap();
        let indices = decoded.indices().unwrap();
        let transaction = decoded.transaction().unwrap().expect("the reference always has one");
        let repeated = crate::manifest::write_manifest_file(
            &mut decoded.manifest,
            indices.as_deref(),
            Some(&transaction),
        );
        // Except for the checksum, and the length of what has it.
        let mut repeated = repeated.unwrap();
        let footer = repeated.len() - 16;
        let message = Tail::locate(&repeated, repeated.len() as u64).unwrap();
        assert!(checksum::check(&name, &repeated[to_usize(message.start)..footer]).unwrap());
        repeated.drain(footer - checksum::LENGTH..footer);
        let length = u32::try_from(footer - checksum::LENGTH - to_usize(message.start)).unwrap();
        let prefix = to_usize(message.start) - 4;
        repeated[prefix..prefix + 4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Bytes::from(repeated), file, "{name}");
    }
}

#[test]
fn transactions_encode_to_the_same_bytes() {
    for (name, file) in goldens(".txn") {
        let transaction = Transaction::decode(file.clone()).unwrap();
        assert_ne!(transaction.operation.name(), "Unknown", "{name}");
        assert_eq!(Bytes::from(transaction.encode()), file, "{name}: {transaction:#?}");
    }
}

#[test]
fn a_created_table() {
    let file = manifest_file("stable-1-create.manifest");
    let manifest = &file.manifest;
    assert_eq!(manifest.version, Version(1));
    assert_eq!(manifest.reader_flags, Flags::STABLE_ROW_IDS);
    assert_eq!(manifest.writer_flags, Flags::STABLE_ROW_IDS);
    assert_eq!(manifest.max_fragment_id, Some(1));
    assert_eq!(manifest.next_row_id, 10);
    assert_eq!(manifest.file_version, FileVersion::V2_2);
    assert_eq!(manifest.index_section, None);
    assert_eq!(manifest.transaction_section, Some(0));
    assert!(manifest.transaction_file.starts_with("0-") && manifest.transaction_file.ends_with(".txn"));
    assert_eq!(manifest.writer.as_ref().unwrap().library, "lance");
    let names: Vec<&str> = manifest.schema.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["id", "name"]);
    assert_eq!(manifest.schema.fields[1].logical_type, LogicalType::Utf8);

    let fragment = manifest.fragment(FragmentId(1)).unwrap();
    assert_eq!((fragment.physical_rows, fragment.live_rows()), (5, 5));
    assert_eq!(
        fragment.row_ids,
        Some(LineageSource::Inline(Bytes::from_static(b"\x0a\x06\x0a\x04\x08\x05\x10\x0a")))
    );
    assert_eq!(*fragment.files[0].fields, [FieldId(0), FieldId(1)]);
    assert_eq!(fragment.files[0].column_of(FieldId(1)), Some(1));
}

#[test]
fn deletions_and_indices() {
    let manifest = manifest_file("stable-3-delete.manifest").manifest;
    assert!(manifest.reader_flags.contains(Flags::DELETION_FILES));
    let deletion = manifest.fragments.get(0).unwrap().deletion.as_ref().unwrap();
    assert_eq!((deletion.file_type, deletion.num_deleted_rows), (DeletionFileType::Arrow, 2));
    assert_eq!(deletion.read_version, Version(2));
    assert_eq!(deletion.file_name(FragmentId(0)), format!("0-2-{}.arrow", deletion.id));

    let file = manifest_file("stable-6-index.manifest");
    assert_eq!(file.manifest.index_section, Some(0));
    let section = file.indices().unwrap().unwrap();
    let indices = index_section::decode(section.clone()).unwrap();
    assert_eq!(index_section::encode(&indices), section);
    assert_eq!(indices.len(), 1);
    assert_eq!((indices[0].name.as_str(), &indices[0].fields[..]), ("id_idx", &[FieldId(0)][..]));
    assert_eq!(indices[0].details_type().as_deref(), Some("lance.table.BTreeIndexDetails"));
    assert!(!indices[0].is_system());
    let bitmap = indices[0].fragments.clone().unwrap();
    let repeated = indices[0].with_fragments(bitmap).unwrap();
    assert_eq!(repeated, indices[0]);
}

#[test]
fn a_nested_schema_keeps_ids_types_and_metadata() {
    let manifest = manifest_file("nested-2.1.manifest").manifest;
    assert_eq!(manifest.file_version, FileVersion::V2_1);
    assert_eq!(manifest.schema.metadata.get("m").map(String::as_str), Some("1"));
    let seen: Vec<(i32, &str, String)> = manifest
        .schema
        .depth_first()
        .map(|f| (f.id.0, f.name.as_str(), f.logical_type.to_string()))
        .collect();
    let expected = [
        (0, "a", "struct"),
        (1, "x", "list"),
        (2, "item", "int32"),
        (3, "y", "dict:string:int32:false"),
        (4, "t", "timestamp:us:UTC"),
        (5, "v", "fixed_size_list:float:4"),
    ];
    assert_eq!(seen, expected.map(|(id, name, ty)| (id, name, ty.to_owned())));
    assert_eq!(manifest.schema.fields[1].metadata.get("k").map(String::as_str), Some("v"));
}

#[test]
fn a_clone_refers_to_its_source() {
    let manifest = manifest_file("clone.manifest").manifest;
    assert!(manifest.reader_flags.contains(Flags::BASE_PATHS));
    assert_eq!((manifest.base_paths[0].id, manifest.base_paths[0].is_dataset_root), (0, true));
    assert!(manifest.fragments.decode_all().all(|f| f.files[0].base_id == Some(0)));
    assert!(manifest.fragments.decode_all().filter_map(|f| f.deletion.clone()).all(|d| d.base_id == Some(0)));
}

#[test]
fn operations_of_the_reference() {
    let operation = |name: &str| Transaction::decode(golden(name)).unwrap().operation;
    match operation("append.txn") {
        Operation::Append(op) => {
            assert_eq!((op.fragments[0].id, op.fragments[0].physical_rows), (FragmentId(0), 4));
        }
        other => panic!("{other:?}"),
    }
    match operation("delete.txn") {
        Operation::Delete(op) => {
            assert_eq!(op.predicate, "id in (1,2,7)");
            assert_eq!(op.updated_fragments.iter().map(|f| f.deleted_rows()).collect::<Vec<_>>(), [2, 1]);
            assert_eq!(op.deleted_fragment_ids, []);
        }
        other => panic!("{other:?}"),
    }
    match operation("update.txn") {
        Operation::Update(op) => {
            assert_eq!((op.mode, op.new_fragments.len()), (UpdateMode::RewriteRows, 1));
            assert_eq!(op.fields_for_preserving_fragment_bitmap, [FieldId(1)]);
        }
        other => panic!("{other:?}"),
    }
    match operation("rewrite.txn") {
        Operation::Rewrite(op) => {
            assert_eq!(op.groups.len(), 1);
            assert!(op.groups[0].old_fragments.len() > 1);
        }
        other => panic!("{other:?}"),
    }
    match operation("update_config.txn") {
        Operation::UpdateConfig(op) => assert!(op.touches_config_key("a") && !op.touches_schema()),
        other => panic!("{other:?}"),
    }
    match operation("restore.txn") {
        Operation::Restore(op) => assert_eq!(op.version, Version(3)),
        other => panic!("{other:?}"),
    }
    match operation("clone.txn") {
        Operation::Clone(op) => assert!(op.is_shallow),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_operations_keep_their_number() {
    let mut bytes = golden("restore.txn").to_vec();
    let at = bytes.windows(2).rposition(|w| w == [0xd2, 0x06]).unwrap();
    // Field 106 becomes field 126.
    bytes[at..at + 2].copy_from_slice(&[0xf2, 0x07]);
    let transaction = Transaction::decode(bytes.into()).unwrap();
    assert_eq!(transaction.operation, Operation::Unknown(126));
}

#[test]
fn unknown_fragment_fields_survive() {
    let manifest = manifest_file("stable-1-create.manifest").manifest;
    let mut bytes = manifest.fragments.get(0).unwrap().encode().to_vec();
    // Field 60, a number this release has not heard of.
    bytes.extend([0xe0, 0x03, 0x07]);
    let fragment = Fragment::decode(bytes.clone().into()).unwrap();
    assert_eq!(fragment.encode(), bytes);
}

#[test]
fn lineage_in_external_files_is_refused() {
    for tag in [6_u8, 8, 10] {
        let error = Fragment::decode(vec![0x20, 1, tag << 3 | 2, 0].into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}
