//! Files of version 2.0: what is written reads back, damage is an error, reads request only what they need.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of rows, all small"
)]

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_cast::cast;
use arrow_schema::{DataType, Field as ArrowField, Fields, Schema as ArrowSchema, TimeUnit};
use arrow_select::concat::concat;
use bytes::Bytes;
use pennon_core::file::{ArrayEncoding, ColumnMetadata, CompressionScheme, FileVersion, Footer, PageLayout};
use pennon_core::rows::RowRanges;
use pennon_core::schema::Schema;
use pennon_core::{ErrorKind, FieldId, Result};
use proptest::prelude::*;

use crate::writer::tests::{self, Random, plain, read, write};
use crate::{ByteSource, FileReader, FileWriter, MemorySource, WriteOptions};

fn options(max_page_bytes: usize) -> WriteOptions {
    WriteOptions { version: FileVersion::V2_0, max_page_bytes }
}

fn batch(field: &ArrowField, array: &ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field.clone()])), vec![array.clone()]).unwrap()
}

fn open(bytes: Vec<u8>) -> FileReader {
    FileReader::open(Arc::new(MemorySource::new("a.lance", bytes))).unwrap()
}

/// Writes the arrays, reads everything and some ranges, and returns the reader.
fn check(field: &ArrowField, arrays: &[ArrayRef], max_page_bytes: usize, random: &mut Random) -> FileReader {
    let reader = tests::check(field, arrays, options(max_page_bytes), random);
    assert_eq!(reader.metadata().version, FileVersion::V2_0);
    reader
}

/// The same values with no null struct anywhere.
fn without_null_structs(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Struct(members) => {
            let children = array.as_struct().columns().iter().map(without_null_structs).collect();
            Arc::new(StructArray::try_new_with_length(members.clone(), children, None, array.len()).unwrap())
        }
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let items = without_null_structs(list.values());
            let nulls = list.nulls().cloned();
            Arc::new(ListArray::new(Arc::clone(item), list.offsets().clone(), items, nulls))
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let items = without_null_structs(list.values());
            let nulls = list.nulls().cloned();
            Arc::new(LargeListArray::new(Arc::clone(item), list.offsets().clone(), items, nulls))
        }
        _ => array.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn random_nesting(
        seed in any::<u64>(),
        lens in prop::collection::vec(0usize..300, 1..4),
        page_bytes in prop_oneof![Just(1), Just(700), Just(8 << 20)],
    ) {
        let mut random = Random(seed);
        let field = ArrowField::new("a", random.data_type(3), random.below(3) > 0);
        let arrays: Vec<ArrayRef> =
            lens.iter().map(|&len| without_null_structs(&random.array(&field, len))).collect();
        check(&field, &arrays, page_bytes, &mut random);
    }
}

#[test]
fn every_leaf_type() {
    let mut random = Random(3);
    let integers: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..700).map(|i| if i % 7 == 3 { None } else { Some(i64::from(i * 37 % 100)) }),
    ));
    let item = |t: DataType| Arc::new(ArrowField::new("item", t, true));
    let temporal = [
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        DataType::Duration(TimeUnit::Millisecond),
    ];
    let others = [
        DataType::Int8,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float64,
        DataType::Boolean,
        DataType::Decimal128(20, 2),
        DataType::Decimal256(50, 0),
        DataType::Utf8,
        DataType::LargeUtf8,
    ];
    for data_type in temporal.iter().chain(&others) {
        let width = data_type.primitive_width();
        let array = match data_type {
            t if temporal.contains(t) && width == Some(4) => {
                cast(&cast(&integers, &DataType::Int32).unwrap(), t).unwrap()
            }
            t => cast(&integers, t).unwrap(),
        };
        for nullable in [true, false] {
            let array = if nullable { array.clone() } else { array.slice(4, 6) };
            let field = ArrowField::new("a", data_type.clone(), nullable);
            check(&field, &[array.clone(), array.slice(1, 5)], 512, &mut random);
        }
        let field = ArrowField::new("a", data_type.clone(), true);
        check(&field, &[new_null_array(data_type, 300)], 512, &mut random);
    }
    let binary = cast(&cast(&integers, &DataType::Utf8).unwrap(), &DataType::Binary).unwrap();
    check(&ArrowField::new("a", DataType::Binary, true), &[binary], 512, &mut random);
    check(&ArrowField::new("a", DataType::Null, true), &[new_null_array(&DataType::Null, 9)], 1, &mut random);
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        (0..90u8).map(|i| (i % 3 > 0).then_some([i; 5])),
        5,
    );
    check(
        &ArrowField::new("a", DataType::FixedSizeBinary(5), true),
        &[Arc::new(fixed.unwrap())],
        99,
        &mut random,
    );
    // Lists of one length, of lists, of bits; null outside, inside, both.
    for inner in [DataType::Int16, DataType::Boolean] {
        let items = cast(&integers, &inner).unwrap();
        let pairs: ArrayRef = Arc::new(FixedSizeListArray::new(
            item(inner),
            2,
            items.slice(0, 600),
            Some((0..300).map(|i| i % 5 > 0).collect::<Vec<bool>>().into()),
        ));
        let field = ArrowField::new("a", pairs.data_type().clone(), true);
        check(&field, &[pairs.slice(3, 100), pairs.clone()], 77, &mut random);
        let nested = FixedSizeListArray::new(item(pairs.data_type().clone()), 3, pairs, None);
        let nested: ArrayRef = Arc::new(nested);
        let field = ArrowField::new("a", nested.data_type().clone(), true);
        check(&field, &[nested.slice(1, 50), nested], 77, &mut random);
    }
}

fn encodings(reader: &FileReader) -> Vec<ArrayEncoding> {
    let pages = reader.metadata().columns.iter().flat_map(|column| &column.pages);
    pages
        .map(|page| match &page.layout {
            PageLayout::Array(array) => array.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn text_with_few_distinct_values_gets_a_dictionary() {
    let field = ArrowField::new("a", DataType::Utf8, true);
    let text = |rows: usize, distinct: usize| -> ArrayRef {
        let value = |i: usize| (!i.is_multiple_of(5)).then(|| format!("value {}", i % distinct));
        Arc::new((0..rows).map(value).collect::<StringArray>())
    };
    let mut random = Random(8);
    for (array, items) in [
        (text(100, 7), Some(7)),
        (text(1000, 99), Some(99)),
        (text(1000, 101), None),
        (text(99, 3), None),
        (new_null_array(&DataType::Utf8, 100), Some(1)),
        (new_null_array(&DataType::Utf8, 99), None),
    ] {
        let reader = check(&field, std::slice::from_ref(&array), 8 << 20, &mut random);
        let found = match encodings(&reader).as_slice() {
            [ArrayEncoding::Dictionary { num_items, .. }] => Some(*num_items),
            [ArrayEncoding::Binary(_)] => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, items, "{} rows", array.len());
    }
}

#[test]
fn strings_are_compressed_as_the_field_asks() {
    let text: ArrayRef =
        Arc::new((0..3000).map(|i| (i % 9 > 0).then(|| format!("some text {i}"))).collect::<StringArray>());
    for (name, scheme) in [
        ("zstd", Some(CompressionScheme::Zstd)),
        ("lz4", Some(CompressionScheme::Lz4)),
        ("none", None),
        ("fsst", None),
    ] {
        let metadata = HashMap::from([("lance-encoding:compression".to_owned(), name.to_owned())]);
        let field = ArrowField::new("a", DataType::Utf8, true).with_metadata(metadata);
        let reader = check(&field, std::slice::from_ref(&text), 20_000, &mut Random(4));
        for encoding in encodings(&reader) {
            let ArrayEncoding::Binary(binary) = encoding else { panic!("{encoding:?}") };
            assert_eq!((binary.bytes.compression, binary.indices.compression), (scheme, None));
        }
    }
}

#[test]
fn dictionaries_whose_null_overflows_their_keys_take_more_pages() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let values = |from: usize| -> ArrayRef {
        Arc::new((0..128).map(|i| Some(format!("{}", from + i))).collect::<StringArray>())
    };
    let keys = |null: bool| {
        (0..128).map(|i| (!null || i != 3).then_some(i as i8)).collect::<PrimitiveArray<types::Int8Type>>()
    };
    let array = |from, null| -> ArrayRef { Arc::new(DictionaryArray::new(keys(null), values(from))) };
    let field = ArrowField::new("a", data_type.clone(), true);
    let reader = check(&field, &[array(0, false)], 8 << 20, &mut Random(1));
    assert_eq!(reader.metadata().columns[0].pages.len(), 1);
    // Item 3 is not used, which leaves room for the null.
    let reader = check(&field, &[array(0, true)], 8 << 20, &mut Random(1));
    assert_eq!(reader.metadata().columns[0].pages.len(), 1);
    // All items are used, and a row is null.
    let parts = [array(0, false), array(0, true)];
    let (_, bytes) = write(&parts.each_ref().map(|part| batch(&field, part)), options(8 << 20)).unwrap();
    let reader = open(bytes);
    assert!(reader.metadata().columns[0].pages.len() > 1);
    let expected = parts.map(plain);
    let expected = concat(&[expected[0].as_ref(), expected[1].as_ref()]).unwrap();
    assert_eq!(&plain(read(&reader, &RowRanges::from(0..256))), &expected);
    let second = read(&reader, &RowRanges::from(128..256));
    assert_eq!(second.as_any_dictionary().values().null_count(), 0, "null rows, but no null item");
    let batches = [batch(&field, &array(0, false)), batch(&field, &array(1, false))];
    let error = write(&batches, options(8 << 20)).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unsupported && error.to_string().contains("field `a`: 129"),
        "{error}"
    );
}

#[test]
fn structs_have_one_page_and_no_nulls() {
    let members = Fields::from(vec![ArrowField::new("x", DataType::Int8, true)]);
    let values: ArrayRef = Arc::new(Int8Array::from_iter_values(0..100));
    let full: ArrayRef = Arc::new(StructArray::new(members.clone(), vec![values.clone()], None));
    let field = ArrowField::new("s", full.data_type().clone(), true);
    let reader = check(&field, &[full.clone(), full.clone()], 16, &mut Random(2));
    let pages: Vec<usize> = reader.metadata().columns.iter().map(|c| c.pages.len()).collect();
    assert_eq!(pages, [1, 13]);

    let nulls = (0..100).map(|i| i != 50).collect::<Vec<bool>>();
    let broken: ArrayRef = Arc::new(StructArray::new(members, vec![values], Some(nulls.into())));
    let error = write(&[batch(&field, &broken)], options(16)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("field `s`: 1 null structs"), "{error}");

    let empty = DataType::Struct(Fields::empty());
    let array: ArrayRef = Arc::new(StructArray::new_empty_fields(5, None));
    check(&ArrowField::new("e", empty, true), &[array], 16, &mut Random(2));
}

#[test]
fn what_version_2_0_cannot_hold_is_refused_by_path() {
    let member = ArrowField::new("x", DataType::Int32, true);
    let inner = DataType::Struct(vec![member].into());
    let entries = Fields::from(vec![
        ArrowField::new("key", DataType::Utf8, false),
        ArrowField::new("value", DataType::Int32, true),
    ]);
    let entries = Arc::new(ArrowField::new("entries", DataType::Struct(entries), false));
    for (field, why) in [
        (ArrowField::new("m", DataType::Map(entries, false), true), "maps need file version 2.2"),
        (
            ArrowField::new(
                "f",
                DataType::FixedSizeList(ArrowField::new("item", inner, true).into(), 2),
                true,
            ),
            "fixed-size lists of structs",
        ),
        (ArrowField::new("z", DataType::FixedSizeBinary(0), true), "values of no bytes"),
    ] {
        let path = format!("field `{}`", field.name());
        let schema = Schema::from_arrow(&ArrowSchema::new(vec![field])).unwrap();
        let error = FileWriter::try_new(Vec::new(), schema, options(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(why) && error.to_string().contains(&path), "{error}");
    }
}

/// A struct of a list of strings, a list of structs, a fixed-size list, few distinct words.
fn mixed(rows: usize) -> Vec<RecordBatch> {
    let mut random = Random(12);
    let item = |t: DataType| Arc::new(ArrowField::new("item", t, true));
    let members: Fields =
        vec![ArrowField::new("x", DataType::Int16, true), ArrowField::new("y", DataType::Utf8, true)].into();
    let fields: Vec<ArrowField> = [
        ("i", DataType::Int32),
        ("l", DataType::List(item(DataType::Utf8))),
        ("s", DataType::List(item(DataType::Struct(members)))),
        ("f", DataType::FixedSizeList(item(DataType::Int16), 3)),
        ("d", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))),
        ("b", DataType::Boolean),
    ]
    .into_iter()
    .map(|(name, data_type)| ArrowField::new(name, data_type, true))
    .chain([ArrowField::new("z", DataType::Utf8, true)
        .with_metadata(HashMap::from([("lance-encoding:compression".to_owned(), "zstd".to_owned())]))])
    .collect();
    let mut arrays: Vec<ArrayRef> =
        fields.iter().map(|field| without_null_structs(&random.array(field, rows))).collect();
    let words = (0..rows).map(|i| (i % 4 > 0).then(|| "word ".repeat(i % 3 + 2)));
    *arrays.last_mut().unwrap() = Arc::new(words.collect::<StringArray>());
    vec![RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).unwrap()]
}

#[test]
fn fields_below_and_above_have_columns() {
    let (finished, bytes) = write(&mixed(20), options(8 << 20)).unwrap();
    let expected: Vec<i32> = (0..11).collect();
    assert_eq!(finished.column_indices, expected);
    assert_eq!(finished.fields, expected.into_iter().map(FieldId).collect::<Vec<_>>());
    let reader = open(bytes);
    assert_eq!(reader.metadata().columns.len(), 11);
    // Part of a struct in a list.
    let mut field = reader.metadata().schema.fields[2].clone();
    field.children[0].children.remove(0);
    let all = 0..reader.metadata().num_rows;
    let full = read_one(&reader, "s", &all).unwrap();
    let part = reader.read(&[field], &reader.column_map(), &RowRanges::from(all.clone())).unwrap().remove(0);
    assert_eq!(part.as_list::<i32>().offsets(), full.as_list::<i32>().offsets());
    let (part, full) = (part.as_list::<i32>().values().clone(), full.as_list::<i32>().values().clone());
    assert_eq!(part.as_struct().column(0), full.as_struct().column(1));
}

fn read_one(reader: &FileReader, name: &str, rows: &Range<u64>) -> Result<ArrayRef> {
    let field = reader.metadata().schema.field(name).unwrap().clone();
    Ok(reader.read(&[field], &reader.column_map(), &RowRanges::from(rows.clone()))?.remove(0))
}

#[test]
fn a_file_without_rows() {
    let empty = mixed(5).remove(0).slice(0, 0);
    let (finished, bytes) = write(&[empty], options(100)).unwrap();
    assert_eq!(finished.rows, 0);
    let reader = open(bytes);
    for field in &reader.metadata().schema.fields {
        let array = read_one(&reader, &field.name, &(0..0)).unwrap();
        assert_eq!((array.len(), array.data_type()), (0, &field.data_type()));
    }
}

/// Opens and reads whatever can be read: no panic, and no array of another shape than requested.
fn read_damaged(bytes: Vec<u8>) {
    let Ok(reader) = FileReader::open(Arc::new(MemorySource::new("damaged.lance", bytes))) else { return };
    let end = reader.metadata().num_rows.min(1000);
    for field in reader.metadata().schema.fields.clone() {
        for rows in [0..end, end / 3..end / 2] {
            match reader.read(
                std::slice::from_ref(&field),
                &reader.column_map(),
                &RowRanges::from(rows.clone()),
            ) {
                Ok(arrays) => {
                    assert_eq!(arrays[0].len() as u64, rows.end - rows.start);
                    assert_eq!(arrays[0].data_type(), &field.data_type());
                    arrays[0].to_data().validate_full().unwrap();
                }
                Err(error) => assert!(error.to_string().contains("damaged.lance"), "{error}"),
            }
        }
    }
}

#[test]
fn damage_anywhere_is_an_error_or_other_values() {
    let (_, bytes) = write(&mixed(110), options(8 << 20)).unwrap();
    for cut in 0..bytes.len() {
        let cut = FileReader::open(Arc::new(MemorySource::new("cut.lance", bytes[..cut].to_vec())));
        assert!(cut.is_err());
    }
    for at in 0..bytes.len() {
        // The metadata is at the end of the file, and gets more than one change.
        let changes: &[u8] = if bytes.len() - at < 3000 { &[1, 0x80, 0xff] } else { &[0xff] };
        for change in changes {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            read_damaged(changed);
        }
    }
}

/// Except for one file: "none" as a compressor is left out.
#[test]
fn column_metadata_of_the_reference_encodes_to_the_same_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/datafile");
    let mut columns = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with("-2.0.lance") || name.starts_with("none") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let footer = Footer::decode(&bytes).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        for column in 0..footer.num_columns as usize {
            let entry = footer.column_table as usize + column * 16;
            let block = &bytes[number(entry)..number(entry) + number(entry + 8)];
            let decoded = ColumnMetadata::decode(block, FileVersion::V2_0).unwrap();
            assert_eq!(decoded.encode().unwrap(), block, "{name} column {column}");
            columns += 1;
        }
    }
    assert!(columns > 100, "{columns}");
}

/// Counts the bytes that are read.
#[derive(Debug)]
struct Counting(MemorySource, Mutex<Vec<u64>>);

impl ByteSource for Counting {
    fn size(&self) -> Result<u64> {
        self.0.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.1.lock().unwrap().push(ranges.iter().map(|r| r.end - r.start).sum());
        self.0.read(ranges)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_local(&self) -> bool {
        false
    }
}

#[test]
fn a_row_costs_its_bytes() {
    let rows = 40_000;
    let item = Arc::new(ArrowField::new("item", DataType::Utf8, true));
    let mut lists = builder::ListBuilder::new(builder::StringBuilder::new()).with_field(item);
    for row in 0..rows {
        lists.values().append_value(format!("item {row:05}"));
        lists.append(true);
    }
    let batch = RecordBatch::try_from_iter([
        ("i", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef),
        ("b", Arc::new((0..rows).map(|i| Some(i % 3 == 0)).collect::<BooleanArray>()) as ArrayRef),
        ("s", Arc::new((0..rows).map(|i| Some(format!("row {i:05}"))).collect::<StringArray>()) as ArrayRef),
        ("l", Arc::new(lists.finish()) as ArrayRef),
    ]);
    let (_, bytes) = write(&[batch.unwrap()], options(8 << 20)).unwrap();
    let source = Arc::new(Counting(MemorySource::new("a.lance", bytes), Mutex::default()));
    let reader = FileReader::open(source.clone()).unwrap();
    // The end before the row and the end of the row, then its bytes.
    for (name, costs) in [("i", vec![8]), ("b", vec![1]), ("s", vec![16, 9]), ("l", vec![16, 16, 10])] {
        source.1.lock().unwrap().clear();
        read_one(&reader, name, &(20_001..20_002)).unwrap();
        assert_eq!(*source.1.lock().unwrap(), costs, "{name}");
    }
}
