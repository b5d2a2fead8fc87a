//! The layout byte by byte, and files that break its rules. What the reference reads from its files is compared in
//! `reader/tests.rs`.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use pennon_core::ErrorKind;
use pennon_core::file::FileVersion;
use pennon_core::rows::RowRanges;

use crate::{ColumnMap, FileReader, MemorySource};

/// Written by pylance 14.0.2: `{"id": [1, 2, None, 4, 5], "s": ["a", "bc", None, "", "def"]}` in groups of two rows.
const GOLDEN: &[u8] = include_bytes!("../../../../tests/golden/datafile/legacy_rows-0.1.lance");

fn open(bytes: Vec<u8>) -> pennon_core::Result<FileReader> {
    FileReader::open(Arc::new(MemorySource::new("x.lance", bytes)))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Sets the number of 8 bytes at a position.
fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The position of the page table: the last eight bytes of a batch and of the statistics have other values.
fn page_table(bytes: &[u8]) -> usize {
    let first = (0..bytes.len() - 96).find(|&at| {
        // Pages of two, two and one numbers, the first of them at 0.
        number(bytes, at) == 0
            && [(8, 2), (24, 2), (40, 1), (56, 2), (72, 2), (88, 1)]
                .into_iter()
                .all(|(offset, length)| number(bytes, at + offset) == length)
    });
    first.unwrap()
}

fn ids(reader: &FileReader, rows: impl Into<RowRanges>) -> pennon_core::Result<Vec<i64>> {
    let fields = &reader.metadata().schema.fields[..1];
    let arrays = reader.read(fields, &ColumnMap::default(), &rows.into())?;
    Ok(arrays[0].as_primitive::<Int64Type>().values().to_vec())
}

fn texts(reader: &FileReader, rows: impl Into<RowRanges>) -> pennon_core::Result<Vec<Option<String>>> {
    let fields = &reader.metadata().schema.fields[1..2];
    let arrays = reader.read(fields, &ColumnMap::default(), &rows.into())?;
    Ok(arrays[0].as_string::<i32>().iter().map(|s| s.map(str::to_owned)).collect())
}

#[test]
fn rows_of_several_batches() {
    let reader = open(GOLDEN.to_vec()).unwrap();
    let metadata = reader.metadata();
    assert_eq!((metadata.version, metadata.num_rows), (FileVersion::Legacy, 5));
    assert!(metadata.columns.is_empty() && metadata.global_buffers.is_empty());
    assert_eq!(ids(&reader, 0..5).unwrap(), [1, 2, 0, 4, 5]);
    assert_eq!(ids(&reader, [1..3, 4..5]).unwrap(), [2, 0, 5]);
    assert_eq!(ids(&reader, RowRanges::new()).unwrap(), Vec::<i64>::new());
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(texts(&reader, 0..5).unwrap(), [text("a"), text("bc"), None, None, text("def")]);
    assert_eq!(texts(&reader, [1..2, 3..5]).unwrap(), [text("bc"), None, text("def")]);
    let fields = &reader.metadata().schema.fields;
    assert_eq!(reader.bytes_in_memory(&[&fields[0]], &ColumnMap::default(), &(0..5).into()).unwrap(), 40);
    assert!(reader.bytes_in_memory(&[&fields[1]], &ColumnMap::default(), &(0..5).into()).unwrap() > 6);
    let error = reader.read_u64_column(0, &RowRanges::from(0..1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_field_that_may_not_be_null_has_empty_text() {
    let reader = open(GOLDEN.to_vec()).unwrap();
    let mut field = reader.metadata().schema.fields[1].clone();
    field.nullable = false;
    let arrays = reader.read(&[field], &ColumnMap::default(), &RowRanges::from(1..4)).unwrap();
    assert_eq!(arrays[0].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("bc"), Some(""), Some("")]);
}

#[test]
fn a_field_of_another_type_or_of_another_file_is_an_error() {
    let reader = open(GOLDEN.to_vec()).unwrap();
    let fields = &reader.metadata().schema.fields;
    let read = |field| reader.read(&[field], &ColumnMap::default(), &RowRanges::from(0..1)).unwrap_err();
    let mut other = fields[0].clone();
    other.logical_type = fields[1].logical_type.clone();
    let error = read(other);
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("it has type string, the pages in the file int64"), "{error}");
    let mut unknown = fields[0].clone();
    unknown.id = pennon_core::FieldId(7);
    let error = read(unknown);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("x.lance"), "{error}");
}

/// Minor version 1 counts the rows of the page table from field 0.
#[test]
fn a_page_table_that_begins_with_field_0() {
    let mut bytes = GOLDEN.to_vec();
    let minor = bytes.len() - 6;
    bytes[minor] = 1;
    // The fields are 0 and 1: nothing changes.
    assert_eq!(ids(&open(bytes).unwrap(), 0..5).unwrap(), [1, 2, 0, 4, 5]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/old/lance-0.7.5-merged/data");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert_eq!(bytes[bytes.len() - 8..], *b"\0\0\x01\0LANC");
        let reader = open(bytes).unwrap();
        let fields = &reader.metadata().schema.fields;
        let ids: Vec<i32> = fields.iter().map(|field| field.id.0).collect();
        let arrays = reader.read(fields, &ColumnMap::default(), &RowRanges::from([0..1, 3..5])).unwrap();
        if ids == [2, 3] {
            let texts: Vec<_> = arrays[0].as_string::<i32>().iter().flatten().collect();
            assert_eq!(texts, ["v1", "v4", "v5"]);
            assert_eq!(*arrays[1].as_primitive::<Float64Type>().values(), [1.5, 4.5, 5.5]);
        } else {
            assert_eq!(ids, [0, 1]);
            assert_eq!(*arrays[0].as_primitive::<Int64Type>().values(), [1, 4, 5]);
        }
        found += 1;
    }
    assert_eq!(found, 2);
}

#[test]
fn what_breaks_a_rule_is_an_error() {
    let table = page_table(GOLDEN);
    let end = GOLDEN.len();
    let metadata = usize::try_from(number(GOLDEN, end - 16)).unwrap();
    let size = end as u64;
    type FileChange = (&'static str, Box<dyn Fn(&mut Vec<u8>)>);
    let opening: Vec<FileChange> = vec![
        ("metadata at 999999", Box::new(move |b| put(b, end - 16, 999_999))),
        ("metadata at 18446744073709551615", Box::new(move |b| put(b, end - 16, u64::MAX))),
        ("metadata of", Box::new(move |b| b[metadata + 1] = 0xff)),
        ("file metadata", Box::new(move |b| b[metadata + 4] = 0xff)),
    ];
    for (text, change) in opening {
        let mut bytes = GOLDEN.to_vec();
        change(&mut bytes);
        let error = open(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}: {error}");
        assert!(error.to_string().contains(text) && error.to_string().contains("x.lance"), "{text}: {error}");
    }
    let reading: Vec<FileChange> = vec![
        ("the file has", Box::new(move |b| put(b, table, size))),
        ("the file has", Box::new(move |b| put(b, table, u64::MAX))),
        ("a page of 1 values", Box::new(move |b| put(b, table + 8, 1))),
        ("a page of 0 values", Box::new(move |b| put(b, table + 24, 0))),
    ];
    for (text, change) in reading {
        let mut bytes = GOLDEN.to_vec();
        change(&mut bytes);
        let error = ids(&open(bytes).unwrap(), 0..5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}: {error}");
        assert!(error.to_string().contains(text), "{text}: {error}");
    }
    let positions = usize::try_from(number(GOLDEN, table + 48)).unwrap();
    let texts_of: Vec<FileChange> = vec![
        ("a value from position", Box::new(move |b| put(b, positions + 8, 3))),
        ("the file has", Box::new(move |b| put(b, positions + 16, size + 1))),
        ("the file has", Box::new(move |b| put(b, table + 48, size - 8))),
    ];
    for (text, change) in texts_of {
        let mut bytes = GOLDEN.to_vec();
        change(&mut bytes);
        let error = texts(&open(bytes).unwrap(), 0..5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}: {error}");
        assert!(error.to_string().contains(text), "{text}: {error}");
    }
}

/// Every cut is an error, every flipped bit an error or other rows of the same number.
#[test]
fn damage_anywhere_is_an_error_or_other_values() {
    for cut in 0..GOLDEN.len() {
        assert!(open(GOLDEN[..cut].to_vec()).is_err(), "{cut}");
    }
    for bit in 0..GOLDEN.len() * 8 {
        let mut bytes = GOLDEN.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(reader) = open(bytes) else { continue };
        let rows = reader.metadata().num_rows.min(1000);
        for field in &reader.metadata().schema.fields {
            let field = std::slice::from_ref(field);
            if let Ok(arrays) = reader.read(field, &ColumnMap::default(), &RowRanges::from(0..rows)) {
                assert_eq!(arrays[0].len() as u64, rows, "bit {bit}");
                arrays[0].to_data().validate_full().unwrap();
            }
        }
    }
}
