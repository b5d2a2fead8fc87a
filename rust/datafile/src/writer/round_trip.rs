//! What the writer writes, the reader reads.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of rows, all small"
)]

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field as ArrowField};
use proptest::prelude::*;

use super::tests::{Random, check, write};
use super::*;
use crate::{FileReader, MemorySource};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn random_nesting(
        seed in any::<u64>(),
        lens in prop::collection::vec(0usize..400, 1..4),
        small_pages in any::<bool>(),
        old in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let data_type = random.data_type(3);
        let field = ArrowField::new("a", data_type, random.below(3) > 0);
        let arrays: Vec<ArrayRef> = lens.iter().map(|&len| random.array(&field, len)).collect();
        let options = WriteOptions {
            version: if old { FileVersion::V2_1 } else { FileVersion::V2_2 },
            max_page_bytes: if small_pages { 1000 } else { 8 << 20 },
        };
        check(&field, &arrays, options, &mut random);
    }
}

#[test]
fn long_runs_of_null_lists() {
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let mut lists = builder::ListBuilder::new(builder::Int16Builder::new());
        for row in 0..60_000i32 {
            if matches!(row, 2 | 3 | 40_000 | 41_000 | 45_000..46_000) {
                lists.values().append_value((row % 1000) as i16);
            }
            lists.append(row % 7 > 0);
        }
        let array: ArrayRef = Arc::new(lists.finish());
        let field = ArrowField::new("a", array.data_type().clone(), true);
        let options = WriteOptions { version, ..WriteOptions::default() };
        check(&field, &[array], options, &mut Random(5));
    }
}

#[test]
fn one_row_with_more_empty_lists_than_a_chunk_can_hold() {
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let inner = builder::ListBuilder::new(builder::Int16Builder::new());
        let mut lists = builder::ListBuilder::new(inner);
        for row in 0..3i16 {
            for _ in 0..100_000 {
                lists.values().append(true);
            }
            lists.values().values().append_value(row);
            lists.values().append(true);
            lists.append(true);
        }
        let array: ArrayRef = Arc::new(lists.finish());
        let field = ArrowField::new("a", array.data_type().clone(), true);
        let options = WriteOptions { version, ..WriteOptions::default() };
        check(&field, &[array], options, &mut Random(5));
    }
}
/// Arrow refuses a null list in a struct that cannot be null, though something around both is null.
#[test]
fn required_lists_in_required_structs_in_null_structs() {
    let item = Arc::new(ArrowField::new("item", DataType::Utf8, true));
    let list = Arc::new(ArrowField::new("list", DataType::List(item), false));
    let inner = Arc::new(ArrowField::new("inner", DataType::Struct(vec![list].into()), false));
    let field = ArrowField::new("a", DataType::Struct(vec![inner].into()), true);
    let null = new_null_array(field.data_type(), 3);
    let mut random = Random(5);
    let filled = random.array(&field, 40);
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let options = WriteOptions { version, ..WriteOptions::default() };
        check(&field, &[null.clone(), filled.clone()], options, &mut random);
        check(&field, std::slice::from_ref(&null), options, &mut random);
    }
}

/// The structs take their nulls from their first member, which has no level for the lists' nulls.
#[test]
fn required_lists_in_required_structs_in_null_fixed_size_lists() {
    let item = Arc::new(ArrowField::new("item", DataType::Boolean, true));
    let members =
        vec![ArrowField::new("x", DataType::Int16, false), ArrowField::new("y", DataType::List(item), false)];
    let item = Arc::new(ArrowField::new("item", DataType::Struct(members.into()), false));
    let field = ArrowField::new("l", DataType::FixedSizeList(item, 3), true);
    let mut random = Random(5);
    let arrays = [random.array(&field, 4), new_null_array(field.data_type(), 3), random.array(&field, 40)];
    let options = WriteOptions { version: FileVersion::V2_2, max_page_bytes: 60 };
    check(&field, &arrays, options, &mut random);
}

/// Numbers and strings that suit each encoding: small ranges, runs, few distinct ones, text, noise.
fn values(kind: usize, shape: usize, len: usize, random: &mut Random) -> ArrayRef {
    let few: Vec<u64> =
        (0..20).map(|_| (random.below(1 << 31) as u64) << 30 ^ random.below(1 << 31) as u64).collect();
    let mut run = (0u64, 0usize);
    let mut number = |random: &mut Random, at: usize| -> u64 {
        match shape {
            0 => random.below(100) as u64,
            1 => {
                if run.1 == 0 {
                    run = (random.below(1 << 30) as u64, 1 + random.below(600));
                }
                run.1 -= 1;
                run.0
            }
            2 => few[random.below(few.len())],
            3 => at as u64,
            _ => (random.below(1 << 31) as u64) << 33 ^ random.below(1 << 31) as u64,
        }
    };
    let one_in = 1 + random.below(5);
    let values: Vec<Option<u64>> = (0..len)
        .map(|at| {
            let n = number(random, at);
            (one_in == 1 || random.below(one_in) > 0).then_some(n)
        })
        .collect();
    let text = |n: &Option<u64>| n.map(|n| format!("https://example.org/{}/page-{n}", n % 7));
    let each = values.iter();
    match kind {
        0 => Arc::new(each.map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
        1 => Arc::new(each.map(|n| n.map(|n| n as u16)).collect::<UInt16Array>()),
        2 => Arc::new(each.map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
        3 => Arc::new(each.map(|n| n.map(|n| n as i64)).collect::<Int64Array>()),
        4 => Arc::new(each.map(|n| n.map(|n| n as f64 / 3.0)).collect::<Float64Array>()),
        5 => Arc::new(each.map(|n| n.map(|n| i128::from(n) * 7)).collect::<Decimal128Array>()),
        6 => Arc::new(each.map(text).collect::<StringArray>()),
        7 => Arc::new(each.map(|n| Some(text(n)?.repeat(12))).collect::<LargeStringArray>()),
        _ => Arc::new(each.map(|n| Some(text(n)?.into_bytes())).collect::<BinaryArray>()),
    }
}

const OPTIONS: [&[(&str, &str)]; 9] = [
    &[],
    &[("compression", "zstd")],
    &[("compression", "lz4"), ("bss", "on")],
    &[("compression", "none")],
    &[("compression", "fsst")],
    &[("rle-threshold", "1"), ("dict-size-ratio", "1"), ("dict-divisor", "1")],
    &[("dict-values-compression", "zstd")],
    &[("structural-encoding", "fullzip"), ("compression", "zstd")],
    &[("structural-encoding", "miniblock")],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_kind_of_value_with_every_option(
        seed in any::<u64>(),
        (kind, shape, option) in (0usize..9, 0usize..5, 0..OPTIONS.len()),
        lens in prop::collection::vec(0usize..3000, 1..3),
        small_pages in any::<bool>(),
        old in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let arrays: Vec<ArrayRef> = lens.iter().map(|&len| values(kind, shape, len, &mut random)).collect();
        let metadata = OPTIONS[option].iter().map(|(k, v)| (format!("lance-encoding:{k}"), (*v).to_owned()));
        let field = ArrowField::new("a", arrays[0].data_type().clone(), true).with_metadata(metadata.collect());
        let options = WriteOptions {
            version: if old { FileVersion::V2_1 } else { FileVersion::V2_2 },
            max_page_bytes: if small_pages { 5000 } else { 8 << 20 },
        };
        check(&field, &arrays, options, &mut random);
    }
}

fn flagged(data_type: DataType, nullable: bool, flag: &str) -> ArrowField {
    let metadata = [(format!("lance-encoding:{flag}"), "true".to_owned())];
    ArrowField::new("item", data_type, nullable).with_metadata(metadata.into())
}

/// Packed structs, blobs and fixed-size lists of structs, as far as a version supports them.
fn special(kind: usize, version: FileVersion, random: &mut Random) -> Option<ArrowField> {
    let member = |name: &str, data_type| ArrowField::new(name, data_type, false);
    let structs = |members: Vec<ArrowField>| DataType::Struct(members.into());
    // Structs cannot be null in file version 2.0.
    let nullable = version != FileVersion::V2_0 && random.below(3) > 0;
    let mut members = vec![member("i", DataType::Int32), member("d", DataType::Float64)];
    if version == FileVersion::V2_2 {
        let item = ArrowField::new("item", DataType::Int16, true);
        members.push(member("l", DataType::FixedSizeList(item.into(), 3)));
    }
    let fixed = flagged(structs(members.clone()), nullable, "packed");
    members.insert(1, member("t", DataType::Utf8));
    members.push(member("b", DataType::LargeBinary));
    let text = flagged(structs(members), nullable, "packed");
    let blob = flagged(DataType::LargeBinary, true, "blob");
    let tuple = |random: &mut Random| {
        let item = |random: &mut Random| ArrowField::new("x", random.data_type(2), random.below(3) > 0);
        structs(vec![item(random), item(random).with_name("y")])
    };
    let newest = version == FileVersion::V2_2;
    Some(match kind {
        0 => fixed,
        1 => ArrowField::new("a", DataType::List(fixed.into()), true),
        2 if newest => text,
        3 if newest => ArrowField::new("a", DataType::LargeList(text.into()), true),
        4 => blob,
        5 => ArrowField::new("a", structs(vec![member("i", DataType::Int32), blob]), nullable),
        6 if version == FileVersion::V2_0 => ArrowField::new("a", DataType::List(blob.into()), true),
        7 | 8 if newest => {
            let item = ArrowField::new("item", tuple(random), nullable);
            let list = ArrowField::new("l", DataType::FixedSizeList(item.into(), 3), random.below(3) > 0);
            if kind == 7 { list } else { ArrowField::new("a", structs(vec![list]), nullable) }
        }
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn packed_structs_blobs_and_fixed_size_lists_of_structs(
        seed in any::<u64>(),
        (kind, version) in (0usize..9, 0usize..3),
        lens in prop::collection::vec(0usize..300, 1..4),
        small_pages in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let version = [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2][version];
        if let Some(field) = special(kind, version, &mut random) {
            let arrays: Vec<ArrayRef> = lens.iter().map(|&len| random.array(&field, len)).collect();
            let max_page_bytes = if small_pages { 700 } else { 8 << 20 };
            check(&field, &arrays, WriteOptions { version, max_page_bytes }, &mut random);
        }
    }
}

/// Pages encoded on all cores are as those of one core: the same bytes each time, and they read back.
#[test]
fn large_files_are_the_same_every_time() {
    let mut random = Random(9);
    let columns: Vec<(String, ArrayRef)> =
        (0..4).map(|shape| (format!("c{shape}"), values(3 + shape, shape, 300_000, &mut random))).collect();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let options = WriteOptions { max_page_bytes: 1 << 20, ..WriteOptions::default() };
    let parts: Vec<RecordBatch> = (0..30).map(|i| batch.slice(i * 10_000, 10_000)).collect();
    let (_, first) = write(&parts, options).unwrap();
    assert_eq!(write(&parts, options).unwrap().1, first);
    let all = 0..300_000;
    let reader = FileReader::open(Arc::new(MemorySource::new("a.lance", first))).unwrap();
    let fields = &reader.metadata().schema.fields;
    let found = reader.read(fields, &reader.column_map(), &all.clone().into()).unwrap();
    for (found, expected) in found.iter().zip(batch.columns()) {
        assert_eq!(found, expected);
    }
}

#[test]
fn many_columns_gather_no_more_than_a_file_may() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let columns = (0..130).map(|number| (format!("c{number}"), Arc::clone(&column)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), schema, WriteOptions::default()).unwrap();
    for _ in 0..3 {
        writer.write(&batch).unwrap();
        let gathered: usize = writer.columns.iter().flatten().map(ColumnWriter::pending_bytes).sum();
        assert!(gathered <= GATHERED, "{gathered} bytes");
    }
    let (finished, bytes) = writer.finish().unwrap();
    let reader = FileReader::open(Arc::new(MemorySource::new("wide", bytes))).unwrap();
    let fields: Vec<Field> = reader.metadata().schema.fields.iter().step_by(43).cloned().collect();
    let read = reader.read(&fields, &reader.column_map(), &(0..finished.rows).into()).unwrap();
    assert_eq!(read.len(), 4);
    let expected = arrow_select::concat::concat(&[&column, &column, &column]).unwrap();
    assert!(read.iter().all(|array| array.as_ref() == expected.as_ref()));
}
