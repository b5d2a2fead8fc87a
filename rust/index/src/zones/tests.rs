use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    StringArray, UInt16Array, UInt64Array,
};
use pennon_core::file::FileVersion;
use pennon_core::transaction::BloomFilter;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::Bound;
use pennon_datafile::{ByteSource, MemorySource};
use proptest::prelude::*;

use super::hashed::hashes;
use super::*;
use crate::answer::{Answer, Precision};
use crate::values::{Value, value_at};
use crate::{IndexFiles, IndexKind, NoPageCache, ScalarIndex, ValueTest};

#[derive(Debug, Default, Clone)]
struct Files(HashMap<&'static str, Vec<u8>>);

impl IndexFiles for Files {
    fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
        let bytes = self.0.get(name).ok_or_else(|| Error::not_found(name))?;
        Ok(Arc::new(MemorySource::new(name, bytes.clone())))
    }
}

/// The address of a row: fragments of 13 rows, of which every third is not there.
fn address(row: usize) -> u64 {
    ((row / 9) as u64) << 32 | (row % 9 * 3 / 2) as u64
}

fn form(kind: IndexKind, values: &ArrayRef, zone_rows: u32) -> ZoneForm {
    ZoneForm::try_new(kind, values.data_type().clone(), zone_rows, 0.01).unwrap()
}

/// An index over values that come in parts of some rows, in their order or not.
fn written(kind: IndexKind, values: &ArrayRef, zone_rows: u32, part: usize, reversed: bool) -> Files {
    let form = form(kind, values, zone_rows);
    let mut writer = ZoneWriter::try_new(Vec::new(), form.clone(), FileVersion::V2_1).unwrap();
    let addresses: UInt64Array = (0..values.len()).map(|row| Some(address(row))).collect();
    let mut starts: Vec<usize> = (0..values.len()).step_by(part).collect();
    if reversed {
        starts.reverse();
    }
    for start in starts {
        let len = part.min(values.len() - start);
        let parts = form.gather(&values.slice(start, len), &addresses.slice(start, len)).unwrap();
        if !reversed {
            writer.close_before(address(start)).unwrap();
        }
        writer.add(parts);
    }
    let file = writer.finish().unwrap();
    Files(HashMap::from([(file.name, file.sink)]))
}

fn open(kind: IndexKind, values: &ArrayRef, files: Files) -> Result<ScalarIndex> {
    ScalarIndex::open(kind, Arc::new(files), values.data_type())
}

fn passes(value: Option<Value<'_>>, test: &ValueTest) -> bool {
    let Some(value) = value else { return *test == ValueTest::IsNull };
    let order = |bound: &Bound| value.compare(&bound.into());
    match test {
        ValueTest::IsNull => false,
        ValueTest::NotNull => true,
        ValueTest::IsNan => matches!(value, Value::Float(v) if v.is_nan()),
        ValueTest::NotNan => matches!(value, Value::Float(v) if !v.is_nan()),
        ValueTest::Eq(bound) => order(bound).is_eq(),
        ValueTest::NotEq(bound) => order(bound).is_ne(),
        ValueTest::Less(bound) => order(bound).is_lt(),
        ValueTest::LessEq(bound) => order(bound).is_le(),
        ValueTest::Greater(bound) => order(bound).is_gt(),
        ValueTest::GreaterEq(bound) => order(bound).is_ge(),
        ValueTest::OneOf(list) => list.iter().any(|bound| order(bound).is_eq()),
        ValueTest::NoneOf(list) => list.iter().all(|bound| order(bound).is_ne()),
        ValueTest::Prefix(prefix) => matches!(value, Value::Bytes(bytes) if bytes.starts_with(prefix)),
        other => unreachable!("{other:?}"),
    }
}

fn has(answer: &Answer, row: usize) -> bool {
    answer.rows.contains(address(row)) != answer.is_complement
}

/// Every row that passes is found, and of nulls no other one.
fn check(values: &ArrayRef, tests: &[ValueTest]) {
    for kind in [IndexKind::ZoneMap, IndexKind::BloomFilter] {
        if kind == IndexKind::BloomFilter && !is_hashed(values.data_type()) {
            continue;
        }
        for (zone_rows, part, reversed) in [(1, 4, false), (4, 3, false), (5, 7, true), (8192, 100, false)] {
            let index = open(kind, values, written(kind, values, zone_rows, part, reversed)).unwrap();
            for test in tests {
                let expected = ScalarIndex::precision(kind, test);
                let Some(answer) = index.search(&[test], &NoPageCache).unwrap() else {
                    assert_eq!(expected, None, "{test:?}");
                    continue;
                };
                for row in 0..values.len() {
                    let passes = passes(value_at(values.as_ref(), row), test);
                    assert!(has(&answer, row) || !passes, "{test:?} row {row} of zones of {zone_rows}");
                    if answer.precision == Precision::Exact {
                        assert_eq!(has(&answer, row), passes, "{test:?} row {row}");
                    }
                }
                if let Some(expected) = expected {
                    assert_eq!(answer.precision, expected, "{test:?}");
                }
            }
            check_pairs(&index, kind, values, tests);
        }
    }
}

fn check_pairs(index: &ScalarIndex, kind: IndexKind, values: &ArrayRef, tests: &[ValueTest]) {
    let of_intervals: Vec<&ValueTest> = tests
        .iter()
        .filter(|test| test.is_of_intervals() && ScalarIndex::precision(kind, test).is_some())
        .collect();
    for pair in of_intervals.windows(2) {
        let answer = index.search(pair, &NoPageCache).unwrap().unwrap();
        for row in 0..values.len() {
            let value = || value_at(values.as_ref(), row);
            assert!(has(&answer, row) || !pair.iter().all(|test| passes(value(), test)), "{pair:?}");
        }
    }
}

fn tests_of(bounds: Vec<Bound>) -> Vec<ValueTest> {
    let mut tests = vec![ValueTest::IsNull, ValueTest::NotNull, ValueTest::NotEq(bounds[0].clone())];
    for bound in &bounds {
        let of = [
            ValueTest::Eq,
            ValueTest::Less,
            ValueTest::LessEq,
            ValueTest::Greater,
            ValueTest::GreaterEq as fn(Bound) -> ValueTest,
        ];
        tests.extend(of.into_iter().map(|test| test(bound.clone())));
    }
    let mut list = bounds;
    list.sort_by(|a, b| a.compare(b).unwrap());
    tests.extend([ValueTest::OneOf(list.clone()), ValueTest::NoneOf(list)]);
    tests
}

proptest! {
    #[test]
    fn no_integer_is_missed(
        values in proptest::collection::vec(proptest::option::weighted(0.8, -4..5_i64), 0..40),
        bounds in proptest::collection::vec(-5..6_i64, 1..4),
    ) {
        let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        check(&array, &tests_of(bounds.iter().map(|b| Bound::Int((*b).into())).collect()));
        let narrow: ArrayRef =
            Arc::new(values.iter().map(|v| v.map(|v| i8::try_from(v).unwrap())).collect::<Int8Array>());
        check(&narrow, &tests_of(vec![Bound::Int(1000), Bound::Int(bounds[0].into())]));
    }

    #[test]
    fn no_float_is_missed(
        values in proptest::collection::vec(proptest::option::weighted(0.8, 0..7_usize), 0..30),
        bounds in proptest::collection::vec(0..5_usize, 1..4),
    ) {
        let of = [-0.0, 0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
        let array: ArrayRef =
            Arc::new(values.iter().map(|v| v.map(|at| of[at])).collect::<Float64Array>());
        let mut tests = tests_of(bounds.into_iter().map(|at| Bound::Float(of[at])).collect());
        tests.extend([ValueTest::IsNan, ValueTest::NotNan]);
        check(&array, &tests);
        #[expect(clippy::cast_possible_truncation, reason = "all of them are floats of 4 bytes")]
        let narrow = values.iter().map(|v| v.map(|at| of[at] as f32)).collect::<Float32Array>();
        tests.push(ValueTest::Eq(Bound::Float(0.1)));
        check(&(Arc::new(narrow) as ArrayRef), &tests);
    }

    #[test]
    fn no_text_is_missed(
        values in proptest::collection::vec(proptest::option::weighted(0.8, "[ab]{0,3}"), 0..30),
        bounds in proptest::collection::vec("[ab]{0,3}", 1..4),
    ) {
        let array: ArrayRef = Arc::new(StringArray::from(values));
        let mut tests = tests_of(bounds.iter().map(|b| Bound::Bytes(b.clone().into_bytes())).collect());
        tests.extend(bounds.into_iter().map(|b| ValueTest::Prefix(b.into_bytes())));
        check(&array, &tests);
    }

    /// The zones of some fragments, and new ones of the others.
    #[test]
    fn zones_are_copied(
        values in proptest::collection::vec(proptest::option::weighted(0.8, -4..5_i64), 1..60),
        kept in proptest::collection::btree_set(0..7_u32, 0..7),
        bloom: bool,
    ) {
        let kind = if bloom { IndexKind::BloomFilter } else { IndexKind::ZoneMap };
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        let before = open(kind, &values, written(kind, &values, 4, 100, false)).unwrap();
        let form = form(kind, &values, 4);
        let mut writer = ZoneWriter::try_new(Vec::new(), form.clone(), FileVersion::V2_0).unwrap();
        writer.copy(&before, |fragment| kept.contains(&fragment)).unwrap();
        let fragment = |row: usize| u32::try_from(row / 9).unwrap();
        let others: Vec<usize> = (0..values.len()).filter(|row| !kept.contains(&fragment(*row))).collect();
        let at: UInt64Array = others.iter().map(|row| Some(*row as u64)).collect();
        let taken = arrow_select::take::take(values.as_ref(), &at, None).unwrap();
        writer.add(form.gather(&taken, &others.iter().map(|row| Some(address(*row))).collect()).unwrap());
        let file = writer.finish().unwrap();
        let after = open(kind, &values, Files(HashMap::from([(file.name, file.sink)]))).unwrap();
        for test in tests_of(vec![Bound::Int(0), Bound::Int(3)]) {
            let found = |index: &ScalarIndex| {
                let answer = index.search(&[&test], &NoPageCache).unwrap()?;
                Some((0..values.len()).filter(|row| has(&answer, *row)).collect::<BTreeSet<_>>())
            };
            prop_assert_eq!(found(&before), found(&after), "{:?}", test);
        }
    }
}

/// Block and bits that the reference sets for values of several types.
#[test]
fn values_of_the_reference() {
    type Case = (ArrayRef, usize, [u32; 8]);
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let cases: [Case; 9] = [
        (Arc::new(Int64Array::from(vec![7])), 33, [4, 7, 27, 9, 1, 22, 9, 12]),
        (Arc::new(Int32Array::from(vec![7])), 735, [1, 21, 31, 1, 21, 0, 13, 12]),
        (Arc::new(Int8Array::from(vec![7])), 677, [13, 19, 5, 11, 29, 26, 15, 22]),
        (Arc::new(UInt16Array::from(vec![7])), 242, [25, 29, 3, 25, 27, 19, 23, 29]),
        (Arc::new(Float64Array::from(vec![1.5])), 295, [26, 18, 22, 0, 0, 7, 22, 27]),
        (Arc::new(Float64Array::from(vec![-0.0])), 253, [0, 16, 12, 17, 19, 1, 22, 3]),
        (Arc::new(Float32Array::from(vec![1.5])), 316, [18, 22, 21, 19, 16, 18, 11, 13]),
        (text(""), 957, [29, 0, 25, 28, 14, 22, 29, 30]),
        (text("abc"), 274, [13, 11, 23, 21, 6, 14, 29, 29]),
    ];
    for (values, block, bits) in cases {
        let mut filter = BloomFilter::default();
        let hash = hashes(&values).unwrap()[0].unwrap();
        filter.insert(hash);
        let mut expected = vec![0_u8; 32 * 1024];
        for (word, bit) in bits.into_iter().enumerate() {
            expected[block * 32 + word * 4 + usize::try_from(bit / 8).unwrap()] |= 1 << (bit % 8);
        }
        assert_eq!(filter.bitmap, expected, "{values:?}");
        let bound = value_at(values.as_ref(), 0).unwrap().to_bound();
        assert_eq!(hashed::hash_of(&bound, values.data_type()), Some(hash));
    }
}

#[test]
fn zones_without_bounds_may_have_any_value() {
    let values: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8, 2], [3, 4]].iter()).unwrap());
    let empty: ArrayRef = Arc::new(FixedSizeBinaryArray::new_null(2, 2));
    let form = form(IndexKind::ZoneMap, &values, 2);
    let mut writer = ZoneWriter::try_new(Vec::new(), form.clone(), FileVersion::V2_1).unwrap();
    for (fragment, values) in [&values, &empty].into_iter().enumerate() {
        let first = (fragment as u64) << 32;
        let mut parts = form.gather(values, &UInt64Array::from(vec![first, first + 1])).unwrap();
        for part in &mut parts {
            // As the reference leaves them.
            part.content = gather::PartContent::Bounds(gather::ValueBounds::default());
        }
        writer.add(parts);
    }
    let file = writer.finish().unwrap();
    let index = open(IndexKind::ZoneMap, &values, Files(HashMap::from([(file.name, file.sink)]))).unwrap();
    let test = ValueTest::Eq(Bound::Bytes(vec![9, 9]));
    let answer = index.search(&[&test], &NoPageCache).unwrap().unwrap();
    assert_eq!(answer.rows.iter().unwrap().collect::<Vec<_>>(), [0, 1]);
}

/// As the reference leaves them after values were replaced: nulls are those of zones then, and no zones are taken over.
#[test]
fn zones_of_replaced_values() {
    for kind in [IndexKind::ZoneMap, IndexKind::BloomFilter] {
        let before: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), Some(2), Some(3)]));
        let after: ArrayRef = Arc::new(Int64Array::from(vec![Some(4), Some(5), None, Some(6)]));
        let form = form(kind, &before, 4);
        let mut writer = ZoneWriter::try_new(Vec::new(), form.clone(), FileVersion::V2_1).unwrap();
        for values in [&before, &after] {
            writer.add(form.gather(values, &UInt64Array::from(vec![0, 1, 2, 3])).unwrap());
            writer.close_before(u64::MAX).unwrap();
        }
        let file = writer.finish().unwrap();
        let index = open(kind, &before, Files(HashMap::from([(file.name, file.sink)]))).unwrap();
        for test in [ValueTest::IsNull, ValueTest::NotNull, ValueTest::Eq(Bound::Int(5))] {
            let answer = index.search(&[&test], &NoPageCache).unwrap().unwrap();
            assert_eq!(answer.precision, Precision::Candidates);
            assert_eq!(answer.rows.iter().unwrap().collect::<Vec<_>>(), [0, 1, 2, 3]);
        }
        assert!(!index.has_whole_zones());
    }
}

#[test]
fn other_forms_are_refused() {
    let of =
        |kind, rows, probability| ZoneForm::try_new(kind, arrow_schema::DataType::Int64, rows, probability);
    assert!(of(IndexKind::ZoneMap, 0, 0.1).is_err());
    assert!(of(IndexKind::BloomFilter, 10, 1.0).is_err());
    assert!(of(IndexKind::BTree, 10, 0.1).is_err());
    let form = of(IndexKind::BloomFilter, 10, 0.1).unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    assert!(form.gather(&texts, &UInt64Array::from(vec![0])).is_err());
    assert!(form.gather(&texts, &UInt64Array::from(vec![0, 1])).is_err());
}

/// Damaged bytes are an error or give rows; what is said of places of zones and of nulls is checked.
#[test]
fn damaged_files() {
    let values: ArrayRef =
        Arc::new((0..300_i64).map(|v| (v % 7 != 0).then_some(v * 37 % 101)).collect::<Int64Array>());
    for kind in [IndexKind::ZoneMap, IndexKind::BloomFilter] {
        let good = written(kind, &values, 4, 50, false);
        let name = *good.0.keys().next().unwrap();
        let len = good.0[name].len();
        let tests = tests_of(vec![Bound::Int(50)]);
        for at in (0..len).step_by(3) {
            for change in [1_u8, 0x80] {
                let mut files = good.clone();
                files.0.get_mut(name).unwrap()[at] ^= change;
                let Ok(index) = open(kind, &values, files) else { continue };
                for test in &tests {
                    drop(index.search(&[test], &NoPageCache));
                }
            }
        }
        for end in (0..len).step_by(11) {
            let mut files = good.clone();
            files.0.get_mut(name).unwrap().truncate(end);
            assert!(open(kind, &values, files).is_err(), "{name} cut at {end} of {len}");
        }
        assert!(open(kind, &values, Files::default()).unwrap_err().is_not_found());
    }
}
