//! Broken bytes give typed errors, never a panic.

use bytes::Bytes;
use prost::Message;

use super::{golden, goldens};
use crate::file::{ColumnMetadata, FileDescriptor, FileVersion, Footer};
use crate::manifest::{IndexMetadata, Manifest, ManifestFile};
use crate::transaction::Transaction;
use crate::wire::{file, index_section, table};
use crate::{Error, ErrorKind, Result};

fn assert_typed<T>(result: Result<T>) {
    if let Err(error) = result {
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error:?}");
        assert!(!error.to_string().is_empty());
    }
}

/// Everything a reader does with a manifest file.
fn read_all(bytes: Bytes) -> Result<()> {
    let file = ManifestFile::decode(bytes)?;
    if let Some(section) = file.indices()? {
        index_section::decode(section)?;
    }
    if let Some(transaction) = file.transaction()? {
        Transaction::decode(transaction)?;
    }
    Ok(())
}

#[test]
fn manifest_files_cut_anywhere() {
    for (name, file) in goldens(".manifest") {
        for length in 0..file.len() {
            let error = read_all(file.slice(..length)).expect_err(&name);
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
                "{name} {length}: {error:?}"
            );
        }
    }
}

#[test]
fn manifest_files_with_a_flipped_byte() {
    for (_, file) in goldens(".manifest") {
        for at in 0..file.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = file.to_vec();
                bytes[at] ^= flip;
                assert_typed(read_all(bytes.into()));
            }
        }
    }
}

#[test]
fn transactions_cut_or_flipped_anywhere() {
    for (_, file) in goldens(".txn") {
        for at in 0..file.len() {
            assert_typed(Transaction::decode(file.slice(..at)));
            let mut bytes = file.to_vec();
            bytes[at] ^= 0x80;
            assert_typed(Transaction::decode(bytes.into()));
        }
    }
    assert_eq!(Transaction::decode(Bytes::new()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn the_footer_says_where() {
    let file = golden("stable-1-create.manifest");
    let mut bytes = file.to_vec();
    let footer = bytes.len() - 16;
    bytes[footer] ^= 1;
    let error = ManifestFile::decode(bytes.into()).unwrap_err();
    assert!(error.to_string().contains("offset "), "{error}");
    let mut bytes = file.to_vec();
    bytes[footer + 12] = b'X';
    assert!(ManifestFile::decode(bytes.into()).unwrap_err().to_string().contains("LANC"));
    let mut bytes = file.to_vec();
    bytes[footer + 8] = 3;
    assert_eq!(ManifestFile::decode(bytes.into()).unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A manifest with one change, decoded.
fn changed(change: impl FnOnce(&mut table::Manifest)) -> Error {
    let manifest = ManifestFile::decode(golden("stable-3-delete.manifest")).unwrap().manifest;
    let mut wire = table::Manifest::decode(Bytes::from(manifest.encode())).unwrap();
    change(&mut wire);
    Manifest::decode(wire.encode_to_vec().into()).unwrap_err()
}

fn edit_fragment(manifest: &mut table::Manifest, change: impl FnOnce(&mut table::DataFragment)) {
    let mut fragment = table::DataFragment::decode(manifest.fragments[0].clone()).unwrap();
    change(&mut fragment);
    manifest.fragments[0] = fragment.encode_to_vec().into();
}

fn with_fragment(change: impl FnOnce(&mut table::DataFragment)) -> Error {
    changed(|manifest| edit_fragment(manifest, change))
}

fn base_path(path: &str) -> table::BasePath {
    table::BasePath { path: path.to_owned(), ..Default::default() }
}

/// A data file of that path below a base path that is registered.
fn with_file_of_base(path: &str) -> Error {
    changed(|m| {
        m.base_paths = vec![base_path("/base")];
        edit_fragment(m, |f| {
            f.files[0].path = path.to_owned();
            f.files[0].base_id = Some(0);
        });
    })
}

#[test]
fn manifests_that_break_a_rule() {
    let cases: Vec<(Error, ErrorKind, &str)> = vec![
        (changed(|m| m.fragment_tree = Some(Bytes::new())), ErrorKind::Unsupported, "field 22"),
        (changed(|m| m.version = 0), ErrorKind::Corrupt, "version is 0"),
        (changed(|m| m.fragments.swap(0, 1)), ErrorKind::Corrupt, "ascending"),
        (changed(|m| m.fragments[1] = m.fragments[0].clone()), ErrorKind::Corrupt, "ascending"),
        (changed(|m| m.transaction_file = "../x.txn".into()), ErrorKind::Corrupt, "../x.txn"),
        (changed(|m| m.transaction_file = "..".into()), ErrorKind::Corrupt, "\"..\""),
        (changed(|m| m.fields[1].id = 0), ErrorKind::Corrupt, "id 0 is taken"),
        (changed(|m| m.fields[0].parent_id = 9), ErrorKind::Corrupt, "its parent 9"),
        (changed(|m| m.fields[0].parent_id = 1), ErrorKind::Corrupt, "its parent 1"),
        (changed(|m| m.fields[0].logical_type = "int65".into()), ErrorKind::Unsupported, "int65"),
        (
            changed(|m| {
                m.fields[0].metadata.insert("k".into(), Bytes::from_static(b"\xff"));
            }),
            ErrorKind::Corrupt,
            "UTF-8",
        ),
        (changed(|m| m.timestamp.as_mut().unwrap().nanos = -1), ErrorKind::Corrupt, "nanoseconds"),
        (changed(|m| m.data_format.as_mut().unwrap().version = "9".into()), ErrorKind::Unsupported, "\"9\""),
        (
            changed(|m| m.data_format.as_mut().unwrap().file_format = "x".into()),
            ErrorKind::Unsupported,
            "\"x\"",
        ),
        (changed(|m| m.base_paths = vec![base_path("/a"), base_path("/b")]), ErrorKind::Corrupt, "taken"),
        (changed(|m| m.base_paths = vec![base_path("")]), ErrorKind::Corrupt, "base path \"\""),
        (changed(|m| m.base_paths = vec![base_path("/a\0")]), ErrorKind::Corrupt, "base path \"/a\\0\""),
        (with_fragment(|f| f.files[0].path = "../../etc/x".into()), ErrorKind::Corrupt, "../../etc/x"),
        (with_fragment(|f| f.files[0].path = "/etc/x".into()), ErrorKind::Corrupt, "/etc/x"),
        (with_fragment(|f| f.files[0].path = "a/../../x".into()), ErrorKind::Corrupt, "a/../../x"),
        (with_fragment(|f| f.files[0].path = "s3://x/y".into()), ErrorKind::Corrupt, "s3://x/y"),
        (with_fragment(|f| f.files[0].path = String::new()), ErrorKind::Corrupt, "\"\""),
        (with_fragment(|f| f.files[0].path = ".".into()), ErrorKind::Corrupt, "\".\""),
        (with_fragment(|f| f.files[0].path = "..\\x".into()), ErrorKind::Corrupt, "not inside"),
        (with_fragment(|f| f.files[0].path = "a\0".into()), ErrorKind::Corrupt, "not inside"),
        // Below a base path, too.
        (with_file_of_base("../x"), ErrorKind::Corrupt, "../x"),
        (with_file_of_base("/etc/x"), ErrorKind::Corrupt, "/etc/x"),
        (with_file_of_base(""), ErrorKind::Corrupt, "\"\""),
        (with_fragment(|f| f.files[0].base_id = Some(3)), ErrorKind::Corrupt, "base path 3"),
        (
            with_fragment(|f| f.deletion_file.as_mut().unwrap().base_id = Some(0)),
            ErrorKind::Corrupt,
            "base path 0",
        ),
        (with_fragment(|f| f.files[0].column_indices.truncate(1)), ErrorKind::Corrupt, "1 column indices"),
        (with_fragment(|f| f.files[0].file_major_version = 7), ErrorKind::Unsupported, "7.2"),
        (with_fragment(|f| f.id = 1 << 32), ErrorKind::Corrupt, "4294967296"),
        (with_fragment(|f| f.physical_rows = 1), ErrorKind::Corrupt, "2 deleted rows of 1"),
        (with_fragment(|f| f.physical_rows = 1 << 33), ErrorKind::Corrupt, "physical rows"),
        (
            with_fragment(|f| f.deletion_file.as_mut().unwrap().file_type = 5),
            ErrorKind::Unsupported,
            "type 5",
        ),
    ];
    for (error, kind, text) in cases {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error} should say {text:?}");
        assert!(error.to_string().starts_with("manifest of version "), "{error}");
    }
}

#[test]
fn index_entries_that_break_a_rule() {
    let file = ManifestFile::decode(golden("stable-6-index.manifest")).unwrap();
    let entry = index_section::decode(file.indices().unwrap().unwrap()).unwrap().remove(0);
    let wire = table::IndexMetadata::decode(entry.encoded).unwrap();
    let no_uuid = table::IndexMetadata { uuid: None, ..wire.clone() };
    let bitmap = table::IndexMetadata { fragment_bitmap: Bytes::from_static(b"nonsense"), ..wire };
    for (broken, text) in [(no_uuid, "uuid"), (bitmap, "bitmap")] {
        let error = IndexMetadata::decode(broken.encode_to_vec().into()).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_deep_schema_is_refused() {
    let field = |id: i32| file::Field {
        id,
        parent_id: id - 1,
        name: "f".into(),
        logical_type: "struct".into(),
        ..file::Field::default()
    };
    let schema = file::Schema { fields: (0..100_000).map(field).collect(), ..file::Schema::default() };
    let bytes = file::FileDescriptor { schema: Some(schema), length: 0 }.encode_to_vec();
    let error = FileDescriptor::decode(&bytes).unwrap_err();
    assert!(error.to_string().contains("deeper"), "{error}");
    assert_eq!(FileDescriptor::decode(&[]).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn footers() {
    let footer = Footer {
        column_metadata: 64,
        column_table: 100,
        global_buffer_table: 116,
        num_global_buffers: 1,
        num_columns: 1,
        version: FileVersion::V2_0,
    };
    let bytes = footer.encode();
    assert_eq!(&bytes[32..], b"\x00\x00\x03\x00LANC");
    assert_eq!(Footer::decode(&bytes).unwrap(), footer);
    let mut longer = vec![7; 100];
    longer.extend(bytes);
    assert_eq!(Footer::decode(&longer).unwrap(), footer);
    for length in 0..40 {
        assert_eq!(Footer::decode(&bytes[..length]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    for (major, minor) in [(0_u16, 4_u16), (1, 0), (2, 4), (0, 2)] {
        let mut bytes = bytes;
        bytes[32..34].copy_from_slice(&major.to_le_bytes());
        bytes[34..36].copy_from_slice(&minor.to_le_bytes());
        assert_eq!(Footer::decode(&bytes).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let none = Footer { num_global_buffers: 0, ..footer };
    assert_eq!(Footer::decode(&none.encode()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn column_metadata_of_random_bytes() {
    for length in 0..64_u8 {
        let bytes: Vec<u8> =
            (0..length).map(|i| i.wrapping_mul(37).wrapping_add(length.wrapping_mul(11))).collect();
        for version in [FileVersion::V2_1, FileVersion::V2_2] {
            assert_typed(ColumnMetadata::decode(&bytes, version));
        }
    }
}
