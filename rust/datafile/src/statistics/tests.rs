//! Statistics against a plain computation, through a whole file.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of a generator, all small"
)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field as ArrowField, Fields, Schema as ArrowSchema, TimeUnit};
use bytes::Bytes;
use half::f16;
use pennon_core::ErrorKind;
use pennon_core::file::FileVersion;
use proptest::prelude::*;

use super::*;
use crate::writer::tests::{Random, write};
use crate::{ByteSource, FileReader, MemorySource, WriteOptions};

const ROWS: usize = 3 * ZONE_ROWS + 100;

fn file(columns: Vec<(&str, ArrayRef)>, rows_per_batch: usize) -> Vec<u8> {
    file_of(FileVersion::STABLE, columns, rows_per_batch)
}

fn file_of(version: FileVersion, columns: Vec<(&str, ArrayRef)>, rows_per_batch: usize) -> Vec<u8> {
    let fields: Vec<ArrowField> =
        columns.iter().map(|(n, a)| ArrowField::new(*n, a.data_type().clone(), true)).collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    let arrays: Vec<ArrayRef> = columns.into_iter().map(|(_, a)| a).collect();
    let full = RecordBatch::try_new(schema, arrays).unwrap();
    let rows = full.num_rows();
    let batches: Vec<RecordBatch> =
        (0..rows).step_by(rows_per_batch).map(|at| full.slice(at, rows_per_batch.min(rows - at))).collect();
    write(&batches, WriteOptions { version, max_page_bytes: 50_000 }).unwrap().1
}

fn open(bytes: Vec<u8>) -> pennon_core::Result<FileReader> {
    FileReader::open(Arc::new(MemorySource::new("a.lance", bytes)))
}

/// Random bytes that nothing compresses, so that files are large enough for statistics.
fn ballast(random: &mut Random, rows: usize) -> ArrayRef {
    let values = (0..rows).map(|_| (random.below(1 << 30) as i64) << 32 | random.below(1 << 30) as i64);
    Arc::new(Int64Array::from_iter_values(values))
}

fn is_null(array: &ArrayRef, row: usize) -> bool {
    array.is_null(row)
}

/// Checks every zone against the values; `value` gives the bound of a row that is not null.
fn check(found: &ColumnStatistics, array: &ArrayRef, value: &dyn Fn(usize) -> Option<Bound>, exact: bool) {
    let zone_rows = found.zone_rows as usize;
    assert_eq!(found.zones.len(), array.len().div_ceil(zone_rows));
    for (at, zone) in found.zones.iter().enumerate() {
        let rows = at * zone_rows..((at + 1) * zone_rows).min(array.len());
        let nulls = rows.clone().filter(|&r| is_null(array, r)).count();
        assert_eq!(zone.nulls, nulls as u64);
        let all: Vec<Option<Bound>> = rows.filter(|&r| !is_null(array, r)).map(value).collect();
        assert_eq!(zone.has_nan, all.iter().any(Option::is_none));
        let values: Vec<Bound> = all.into_iter().flatten().collect();
        let Some(bounds) = &zone.bounds else {
            assert!(values.is_empty());
            continue;
        };
        let above = |a: &Bound, b: &Bound| a.compare(b).unwrap().is_gt();
        assert!(values.iter().all(|v| !above(&bounds.min, v)));
        if let Some(max) = &bounds.max {
            assert!(values.iter().all(|v| !above(v, max)));
        }
        if exact {
            let (mut low, mut high) = (values[0].clone(), values[0].clone());
            for v in &values {
                low = if above(&low, v) { v.clone() } else { low };
                high = if above(v, &high) { v.clone() } else { high };
            }
            let zero = |b: Bound, z: f64| if b == Bound::Float(0.0) { Bound::Float(z) } else { b };
            let expected = (zero(low, -0.0), zero(high, 0.0));
            let found = (bounds.min.clone(), bounds.max.clone().unwrap());
            assert!(expected.0.compare(&found.0).unwrap().is_eq(), "{expected:?} {found:?}");
            assert!(expected.1.compare(&found.1).unwrap().is_eq(), "{expected:?} {found:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn zones_say_what_a_plain_computation_says(
        seed in any::<u64>(),
        per_batch in 1000_usize..30_000,
        is_structural in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let spread = [1, 10, 1 << 20][random.below(3)];
        let null_in = [0, 2, 50, 20_000][random.below(4)];
        let mut ints = Vec::new();
        let mut floats = Vec::new();
        let mut texts = Vec::new();
        for row in 0..ROWS {
            let null = null_in > 0 && random.below(null_in) == 0;
            let v = random.below(spread) as i64 - spread as i64 / 2;
            ints.push((!null).then_some(if row == 5 { i64::MIN } else { v }));
            floats.push((!null).then_some(match random.below(30_000) {
                0 => f64::NAN,
                1 => -f64::NAN,
                2 => -0.0,
                3 => f64::NEG_INFINITY,
                _ => v as f64,
            }));
            texts.push((!null).then(|| match random.below(5000) {
                0 => String::new(),
                1 => "\u{10ffff}".repeat(30),
                2 => format!("{}{v}", "same".repeat(40)),
                _ => format!("t{v}"),
            }));
        }
        let (ints, floats, texts): (ArrayRef, ArrayRef, ArrayRef) = (
            Arc::new(Int64Array::from(ints)),
            Arc::new(Float64Array::from(floats)),
            Arc::new(StringArray::from(texts)),
        );
        // Files of version 2.0 cannot have null structs, and have a column for the struct itself.
        let version = if is_structural { FileVersion::STABLE } else { FileVersion::V2_0 };
        let outer: NullBuffer = (0..ROWS).map(|_| random.below(3) > 0 || !is_structural).collect();
        let member = Arc::new(ArrowField::new("m", DataType::Int64, true));
        let nested = StructArray::new(Fields::from(vec![member]), vec![Arc::clone(&ints)], Some(outer.clone()));
        let nested: ArrayRef = Arc::new(nested);
        let lists = (0..ROWS).map(|row| Some((0..row % 4).map(|item| Some(item as i64))));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let bytes = file_of(
            version,
            vec![
                ("i", Arc::clone(&ints)),
                ("f", Arc::clone(&floats)),
                ("t", Arc::clone(&texts)),
                ("n", nested),
                ("b", ballast(&mut random, ROWS)),
                ("l", lists),
            ],
            per_batch,
        );
        let reader = open(bytes).unwrap();
        let statistics = |column| reader.statistics(column).unwrap().unwrap();
        let int = |row: usize| Some(Bound::Int(ints.as_primitive::<Int64Type>().value(row).into()));
        check(&statistics(0), &ints, &int, true);
        let float = |row: usize| {
            let v = floats.as_primitive::<Float64Type>().value(row);
            (!v.is_nan()).then_some(Bound::Float(v))
        };
        check(&statistics(1), &floats, &float, true);
        let text = |row: usize| Some(Bound::Bytes(texts.as_string::<i32>().value(row).as_bytes().to_vec()));
        check(&statistics(2), &texts, &text, false);
        let inner = ints.as_primitive::<Int64Type>();
        let seen = NullBuffer::union(inner.nulls(), Some(&outer));
        let seen: ArrayRef = Arc::new(Int64Array::new(inner.values().clone(), seen));
        check(&statistics(if is_structural { 3 } else { 4 }), &seen, &int, true);
        // Items are not rows.
        for column in if is_structural { 5..6 } else { 6..8 } {
            assert!(reader.statistics(column).unwrap().is_none());
        }
    }
}

#[test]
fn bounds_of_each_type() {
    let rows = 40_000;
    let mut random = Random(3);
    let int = |v: i128| Bound::Int(v);
    let values_from = |n: i64| (0..rows).map(move |r| n + r % 7);
    let cases: Vec<(ArrayRef, Bound, Bound)> = vec![
        (Arc::new(Int8Array::from_iter_values(values_from(-3).map(|v| v as i8))), int(-3), int(3)),
        (Arc::new(UInt8Array::from_iter_values(values_from(249).map(|v| v as u8))), int(249), int(255)),
        (
            Arc::new(UInt64Array::from_iter_values(values_from(-7).map(|v| v as u64))),
            int((1 << 64) - 7),
            int((1 << 64) - 1),
        ),
        (Arc::new(Date32Array::from_iter_values(values_from(-3).map(|v| v as i32))), int(-3), int(3)),
        (
            Arc::new(TimestampNanosecondArray::from_iter_values(values_from(-9)).with_timezone("UTC")),
            int(-9),
            int(-3),
        ),
        (Arc::new(DurationSecondArray::from_iter_values(values_from(0))), int(0), int(6)),
        (
            Arc::new(
                Decimal128Array::from_iter_values(values_from(-3).map(|v| i128::from(v) << 90))
                    .with_precision_and_scale(38, 3)
                    .unwrap(),
            ),
            int(-3 << 90),
            int(3 << 90),
        ),
        (Arc::new(BooleanArray::from_iter((0..rows).map(|r| Some(r % 2 == 0)))), int(0), int(1)),
        (
            Arc::new(Float16Array::from_iter_values(values_from(1).map(|v| f16::from_f64(v as f64)))),
            Bound::Float(1.0),
            Bound::Float(7.0),
        ),
        (
            Arc::new(Float32Array::from_iter_values(values_from(1).map(|v| v as f32 / 8.0))),
            Bound::Float(0.125),
            Bound::Float(0.875),
        ),
        (
            Arc::new(FixedSizeBinaryArray::try_from_iter(values_from(1).map(|v| [v as u8, 7])).unwrap()),
            Bound::Bytes(vec![1, 7]),
            Bound::Bytes(vec![7, 7]),
        ),
        (
            Arc::new(LargeBinaryArray::from_iter_values(values_from(1).map(|v| vec![v as u8; 70]))),
            Bound::Bytes(vec![1; 64]),
            {
                let mut raised = vec![7; 64];
                raised[63] = 8;
                Bound::Bytes(raised)
            },
        ),
    ];
    let mut columns: Vec<(String, ArrayRef)> =
        cases.iter().enumerate().map(|(at, (a, ..))| (format!("c{at}"), Arc::clone(a))).collect();
    let none = columns.len();
    columns.push((
        "d256".into(),
        Arc::new(Decimal256Array::from(vec![Some(arrow_buffer::i256::ONE); rows as usize])),
    ));
    columns.push(("ballast".into(), ballast(&mut random, rows as usize)));
    let reader =
        open(file(columns.iter().map(|(n, a)| (n.as_str(), Arc::clone(a))).collect(), 9000)).unwrap();
    for (column, (array, min, max)) in cases.into_iter().enumerate() {
        let found = reader.statistics(column as u32).unwrap().unwrap();
        for zone in &found.zones {
            let bounds = Some(Bounds { min: min.clone(), max: Some(max.clone()) });
            assert_eq!(*zone, Zone { nulls: 0, has_nan: false, bounds }, "{}", array.data_type());
        }
    }
    assert!(reader.statistics(none as u32).unwrap().is_none());
    assert!(reader.statistics(1000).unwrap().is_none());
    assert_eq!(reader.metadata().columns.len(), none + 2);
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    assert!(Collector::new(&seconds).is_some() && Collector::new(&DataType::Null).is_none());
}

#[test]
fn values_that_have_no_bounds() {
    let rows = 20_000;
    let mut random = Random(9);
    let reader = open(file(
        vec![
            ("null", Arc::new(Int64Array::from(vec![None; rows]))),
            ("nan", Arc::new(Float32Array::from(vec![f32::NAN; rows]))),
            ("ff", Arc::new(BinaryArray::from_iter_values((0..rows).map(|_| vec![0xff; 65])))),
            (
                "zero",
                Arc::new(Float64Array::from_iter_values(
                    (0..rows).map(|r| if r % 2 == 0 { 0.0 } else { -0.0 }),
                )),
            ),
            ("ballast", ballast(&mut random, rows)),
        ],
        rows,
    ))
    .unwrap();
    let first = |column| reader.statistics(column).unwrap().unwrap().zones[0].clone();
    let zone_rows = reader.statistics(0).unwrap().unwrap().zone_rows;
    assert_eq!(first(0), Zone { nulls: zone_rows, has_nan: false, bounds: None });
    assert_eq!(first(1), Zone { nulls: 0, has_nan: true, bounds: None });
    assert_eq!(first(2).bounds, Some(Bounds { min: Bound::Bytes(vec![0xff; 64]), max: None }));
    let zero = first(3).bounds.unwrap();
    assert!(zero.min.compare(&Bound::Float(-0.0)).unwrap().is_eq());
    assert!(zero.max.unwrap().compare(&Bound::Float(0.0)).unwrap().is_eq());
}

#[test]
fn no_file_grows_by_more_than_a_hundredth() {
    let mut random = Random(4);
    let small = file(vec![("a", ballast(&mut random, 1000))], 100);
    assert_eq!(open(small).unwrap().metadata().global_buffers.len(), 1);
    // Wide bounds and few bytes: zones become larger until they are worth their size.
    let long = |n: usize| format!("{}{n}", "x".repeat(63));
    let texts = (0..100_000).map(|r| long(r % 3)).collect::<Vec<_>>();
    let keys = Int8Array::from_iter_values((0..100_000).map(|r| (r % 3) as i8));
    let dictionary = DictionaryArray::new(keys, Arc::new(StringArray::from(vec!["a", "b", "c"])));
    for columns in [
        vec![("a", ballast(&mut random, 100_000)), ("t", Arc::new(StringArray::from(texts)) as ArrayRef)],
        vec![
            ("d", Arc::new(dictionary) as ArrayRef),
            ("i", Arc::new(Int64Array::from_iter_values(0..100_000))),
        ],
    ] {
        let bytes = file(columns, 10_000);
        let reader = open(bytes.clone()).unwrap();
        if let [_, statistics] = reader.metadata().global_buffers.as_slice() {
            assert!((statistics.end - statistics.start) * 100 <= bytes.len() as u64);
            let found = reader.statistics(1).unwrap().unwrap();
            assert!(found.zone_rows >= ZONE_ROWS as u64 && found.zone_rows.is_multiple_of(ZONE_ROWS as u64));
        }
    }
}

#[test]
fn a_changed_buffer_is_an_error_or_ignored() {
    let mut random = Random(8);
    let rows = 20_000;
    let bytes = file(vec![("a", ballast(&mut random, rows)), ("b", ballast(&mut random, rows))], rows);
    let full = open(bytes.clone()).unwrap();
    let range = full.metadata().global_buffers[1].clone();
    let expected = full.statistics(0).unwrap();
    assert!(expected.is_some());
    let (start, end) = (range.start as usize, range.end as usize);
    for at in start..end {
        for flip in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            let reader = open(changed).unwrap();
            for column in 0..2 {
                match reader.statistics(column) {
                    // The magic, the version of the layout, or the other column.
                    Ok(None) => assert!(at < start + 12, "byte {}", at - start),
                    Ok(found) => assert_eq!(found, full.statistics(column).unwrap(), "byte {}", at - start),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt);
                        assert!(error.to_string().contains("a.lance"), "{error}");
                    }
                }
            }
        }
    }
    for len in 0..end - start {
        let cut = Bytes::copy_from_slice(&bytes[start..start + len]);
        let source = MemorySource::new("a.lance", cut);
        let mut metadata = full.metadata().clone();
        metadata.global_buffers[1] = 0..len as u64;
        let found = Statistics::new(2, None).column(&source, &metadata, 1);
        assert!(
            matches!(&found, Ok((None, 0))) == (len < HEADER) && (found.is_err() == (len >= HEADER)),
            "{len}"
        );
    }
}

/// A file that can be read once.
#[derive(Debug)]
struct Once(MemorySource, AtomicBool);

impl ByteSource for Once {
    fn size(&self) -> pennon_core::Result<u64> {
        self.0.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> pennon_core::Result<Vec<Bytes>> {
        assert!(!self.1.swap(true, Ordering::Relaxed), "{ranges:?}");
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
fn statistics_come_with_the_metadata() {
    let mut random = Random(8);
    let bytes = file(vec![("a", ballast(&mut random, 20_000))], 20_000);
    assert!(bytes.len() > 1 << 17);
    let expected = open(bytes.clone()).unwrap().statistics(0).unwrap();
    let source = Once(MemorySource::new("a.lance", bytes), AtomicBool::new(false));
    let reader = FileReader::open(Arc::new(source)).unwrap();
    assert!(expected.is_some() && reader.statistics(0).unwrap() == expected);
}

#[test]
fn statistics_of_another_file_are_ignored() {
    let mut random = Random(8);
    let bytes = file(vec![("a", ballast(&mut random, 20_000))], 20_000);
    let reader = open(bytes.clone()).unwrap();
    let source = MemorySource::new("a.lance", bytes);
    let mut metadata = reader.metadata().clone();
    metadata.num_rows += 1;
    assert!(Statistics::new(1, None).column(&source, &metadata, 0).unwrap().0.is_none());
}
