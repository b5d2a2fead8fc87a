use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray, UInt64Array};
use pennon_core::file::FileVersion;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::Bound;
use pennon_datafile::{ByteSource, MemorySource};
use proptest::prelude::*;

use super::*;
use crate::answer::Answer;
use crate::values::{Value, value_at};
use crate::{
    BitmapIndex, BitmapWriter, IndexFiles, NoPageCache, PageCache, SortedRun, ValueTest, merge_runs,
};

#[derive(Debug, Default)]
struct Files(HashMap<&'static str, Vec<u8>>);

impl IndexFiles for Files {
    fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
        let bytes = self.0.get(name).ok_or_else(|| Error::not_found(name))?;
        Ok(Arc::new(MemorySource::new(name, bytes.clone())))
    }
}

#[derive(Default)]
struct Cache(Mutex<HashMap<u32, Arc<BTreePage>>>);

impl PageCache for Cache {
    fn get(&self, page: u32) -> Option<Arc<BTreePage>> {
        self.0.lock().unwrap().get(&page).cloned()
    }

    fn put(&self, page: u32, content: &Arc<BTreePage>) {
        self.0.lock().unwrap().insert(page, Arc::clone(content));
    }
}

fn sorted(values: &ArrayRef, parts: usize) -> Vec<SortedRun> {
    let rows: UInt64Array = (0..values.len() as u64).map(|row| row * 3).collect();
    let len = values.len().div_ceil(parts.max(1)).max(1);
    let starts = (0..values.len()).step_by(len);
    let part = |start: usize| {
        let len = len.min(values.len() - start);
        SortedRun::sort(&values.slice(start, len), &rows.slice(start, len)).unwrap()
    };
    starts.map(part).collect()
}

fn btree(values: &ArrayRef, page_rows: u32, parts: usize) -> Files {
    let mut writer =
        BTreeWriter::try_new(Vec::new(), values.data_type(), FileVersion::V2_1, page_rows).unwrap();
    merge_runs(&sorted(values, parts), 7, &mut |run| writer.write(&run)).unwrap();
    let files = writer.finish(Vec::new()).unwrap();
    Files(files.into_iter().map(|file| (file.name, file.sink)).collect())
}

fn bitmap(values: &ArrayRef) -> Files {
    let mut writer = BitmapWriter::try_new(Vec::new(), values.data_type(), FileVersion::V2_1).unwrap();
    merge_runs(&sorted(values, 3), 7, &mut |run| writer.write(&run)).unwrap();
    let file = writer.finish().unwrap();
    Files(HashMap::from([(file.name, file.sink)]))
}

/// The rows for which a test holds, one by one.
fn expected(values: &ArrayRef, test: &ValueTest) -> BTreeSet<u64> {
    let passes = |value: Option<Value<'_>>| {
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
            _ => unreachable!(),
        }
    };
    let rows = 0..values.len();
    rows.filter(|row| passes(value_at(values.as_ref(), *row))).map(|row| row as u64 * 3).collect()
}

fn rows_of(answer: &Answer, all: usize) -> BTreeSet<u64> {
    let rows = (0..all as u64).map(|row| row * 3);
    rows.filter(|row| answer.rows.contains(*row) != answer.is_complement).collect()
}

fn check(values: &ArrayRef, tests: &[ValueTest]) {
    for (page_rows, parts) in [(1, 1), (2, 2), (3, 5), (4096, 2)] {
        let index = BTreeIndex::open(Arc::new(btree(values, page_rows, parts))).unwrap();
        let cache = Cache::default();
        for test in tests.iter().chain(tests) {
            let found = index.search(&[test], &cache).unwrap().unwrap();
            assert_eq!(
                rows_of(&found, values.len()),
                expected(values, test),
                "{test:?}, pages of {page_rows}"
            );
            check_values(values, &index, &[test], &cache);
            check_count(&index, &[test]);
        }
    }
    let index = BitmapIndex::open(&bitmap(values)).unwrap();
    for test in tests {
        let found = index.search(&[test]).unwrap().unwrap();
        assert_eq!(rows_of(&found, values.len()), expected(values, test), "{test:?} of a bitmap");
    }
}

/// The rows that a search finds come with their values, each once; of all but those of intervals none do.
fn check_values(values: &ArrayRef, index: &BTreeIndex, tests: &[&ValueTest], cache: &dyn PageCache) {
    let answer = index.search(tests, cache).unwrap().unwrap();
    let Some(runs) = index.search_values(tests, u64::MAX, cache).unwrap() else {
        assert!(answer.is_complement, "{tests:?}");
        return;
    };
    let mut rows = Vec::new();
    for run in &runs {
        for (at, row) in (run.start()..).zip(run.rows()) {
            let own = value_at(values.as_ref(), usize::try_from(row / 3).unwrap());
            assert_eq!(value_at(run.values().as_ref(), at), own, "{tests:?}, row {row}");
            rows.push(*row);
        }
    }
    let expected = rows_of(&answer, values.len());
    assert_eq!(rows.len(), expected.len(), "{tests:?}");
    assert_eq!(rows.into_iter().collect::<BTreeSet<u64>>(), expected, "{tests:?}");
    let few = index.search_values(tests, 1, cache).unwrap();
    assert!(few.is_none_or(|runs| runs.is_empty()), "{tests:?}");
}

/// A search that only counts counts what a search finds.
fn check_count(index: &BTreeIndex, tests: &[&ValueTest]) {
    let answer = index.search(tests, &NoPageCache).unwrap().unwrap();
    let all = index.num_rows().unwrap();
    let expected = if answer.is_complement { all - answer.rows.len() } else { answer.rows.len() };
    assert_eq!(index.count(tests, &NoPageCache).unwrap(), Some(expected), "{tests:?}");
}

/// Two tests at once find what both find.
fn check_pairs(values: &ArrayRef, tests: &[ValueTest]) {
    let index = BTreeIndex::open(Arc::new(btree(values, 3, 2))).unwrap();
    let bitmap = BitmapIndex::open(&bitmap(values)).unwrap();
    let tests: Vec<&ValueTest> = tests.iter().filter(|test| test.is_combinable()).collect();
    for a in &tests {
        for b in &tests {
            let both = &expected(values, a) & &expected(values, b);
            let found = index.search(&[a, b], &NoPageCache).unwrap().unwrap();
            assert_eq!(rows_of(&found, values.len()), both, "{a:?} and {b:?}");
            check_values(values, &index, &[a, b], &NoPageCache);
            check_count(&index, &[a, b]);
            let found = bitmap.search(&[a, b]).unwrap().unwrap();
            assert_eq!(rows_of(&found, values.len()), both, "{a:?} and {b:?} of a bitmap");
        }
    }
}

fn tests_of(bounds: Vec<Bound>) -> Vec<ValueTest> {
    let mut tests = vec![ValueTest::IsNull, ValueTest::NotNull];
    for bound in &bounds {
        let of = [ValueTest::Eq, ValueTest::NotEq, ValueTest::Less, ValueTest::LessEq, ValueTest::Greater];
        tests.extend(
            of.into_iter().chain([ValueTest::GreaterEq as fn(Bound) -> ValueTest]).map(|t| t(bound.clone())),
        );
    }
    let mut list = bounds;
    list.sort_by(|a, b| a.compare(b).unwrap());
    tests.extend([ValueTest::OneOf(list.clone()), ValueTest::NoneOf(list)]);
    tests
}

/// An index whose rows moved has the files of one that is written with the new rows, and answers as it does; if a row
/// is gone there is none.
fn check_moved(values: &ArrayRef) {
    for (page_rows, parts) in [(1, 1), (3, 2), (100, 1)] {
        let files = btree(values, page_rows, parts);
        let index = BTreeIndex::open(Arc::new(files)).unwrap();
        let moved = |now: &dyn Fn(u64) -> Option<u64>, version| {
            let written = index.write_moved(version, now, |_| Ok(Vec::new())).unwrap()?;
            let names = written.each_ref().map(|file| file.name);
            assert_eq!(names, ["page_data.lance", "page_lookup.lance"]);
            let files = Files(written.into_iter().map(|file| (file.name, file.sink)).collect());
            Some(BTreeIndex::open(Arc::new(files)).unwrap())
        };
        let back = |row: u64| Some(1_000_000 - row);
        let found = moved(&back, FileVersion::V2_1).unwrap();
        assert_eq!((found.num_pages(), found.page_rows()), (index.num_pages(), index.page_rows()));
        let all = |index: &BTreeIndex| {
            let mut all = Vec::new();
            index
                .scan(&mut |values, rows| {
                    all.extend(
                        rows.values()
                            .iter()
                            .enumerate()
                            .map(|(at, row)| (value_at(values.as_ref(), at).map(Value::to_bound), *row)),
                    );
                    Ok(())
                })
                .unwrap();
            all
        };
        let expected: Vec<_> = all(&index).into_iter().map(|(value, row)| (value, 1_000_000 - row)).collect();
        assert_eq!(all(&found), expected);
        assert_eq!(found.bounds(&NoPageCache).unwrap(), index.bounds(&NoPageCache).unwrap());
        let is_there = |test: &ValueTest| found.search(&[test], &NoPageCache).unwrap().unwrap();
        let nulls = expected.iter().filter(|(value, _)| value.is_none()).map(|(_, row)| *row);
        assert_eq!(is_there(&ValueTest::IsNull).rows, nulls.collect());
        assert!(moved(&back, FileVersion::V2_2).is_none());
        let last = 3 * (values.len() as u64).saturating_sub(1);
        assert_eq!(
            moved(&|row| (row != last).then_some(row), FileVersion::V2_1).is_none(),
            !values.is_empty()
        );
    }
}

proptest! {
    #[test]
    fn values_stay_where_rows_move(values in proptest::collection::vec(proptest::option::weighted(0.8, "[ab]{0,3}"), 0..30)) {
        check_moved(&(Arc::new(StringArray::from(values)) as ArrayRef));
    }

    #[test]
    fn integers_are_found_as_by_looking_at_each(
        values in proptest::collection::vec(proptest::option::weighted(0.8, -4..5_i64), 0..40),
        bounds in proptest::collection::vec(-5..6_i64, 1..4),
    ) {
        let array: ArrayRef = Arc::new(Int64Array::from(values));
        let tests = tests_of(bounds.into_iter().map(|b| Bound::Int(b.into())).collect());
        check(&array, &tests);
        check_pairs(&array, &tests);
    }

    #[test]
    fn floats_are_found_as_by_looking_at_each(
        values in proptest::collection::vec(proptest::option::weighted(0.8, 0..7_usize), 0..30),
        bounds in proptest::collection::vec(0..5_usize, 1..4),
    ) {
        let of = [-0.0, 0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
        let array: ArrayRef = Arc::new(values.into_iter().map(|v| v.map(|at| of[at])).collect::<Float64Array>());
        let mut tests = tests_of(bounds.into_iter().map(|at| Bound::Float(of[at])).collect());
        tests.extend([ValueTest::IsNan, ValueTest::NotNan]);
        check(&array, &tests);
        check_pairs(&array, &tests);
    }

    #[test]
    fn texts_are_found_as_by_looking_at_each(
        values in proptest::collection::vec(proptest::option::weighted(0.8, "[ab]{0,3}"), 0..30),
        bounds in proptest::collection::vec("[ab]{0,3}", 1..4),
    ) {
        let array: ArrayRef = Arc::new(StringArray::from(values));
        let mut tests = tests_of(bounds.iter().map(|b| Bound::Bytes(b.clone().into_bytes())).collect());
        tests.extend(bounds.into_iter().map(|b| ValueTest::Prefix(b.into_bytes())));
        check(&array, &tests);
        check_pairs(&array, &tests);
    }
}

#[test]
fn the_bounds_of_pages_are_their_first_and_last_values() {
    let values: ArrayRef =
        Arc::new(Int64Array::from(vec![Some(7), Some(3), None, Some(1), Some(2), Some(5), Some(4), Some(6)]));
    let values = values.slice(1, 7);
    let index = BTreeIndex::open(Arc::new(btree(&values, 3, 1))).unwrap();
    assert_eq!((index.num_pages(), index.num_rows().unwrap()), (3, 7));
    assert_eq!(index.bounds(&NoPageCache).unwrap(), Some((Bound::Int(1), Bound::Int(6))));
}

#[test]
fn damaged_files_are_an_error_or_give_rows() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400).map(|v| v * 37 % 101)));
    let good = btree(&values, 50, 2);
    let tests = tests_of(vec![Bound::Int(50)]);
    for name in [DATA_FILE, LOOKUP_FILE] {
        let len = good.0[name].len();
        for at in (0..len).step_by(7) {
            for change in [1_u8, 0x80] {
                let mut damaged = good.0[name].clone();
                damaged[at] ^= change;
                let mut files = Files(good.0.clone());
                files.0.insert(name, damaged);
                let Ok(index) = BTreeIndex::open(Arc::new(files)) else { continue };
                for test in &tests {
                    drop(index.search(&[test], &NoPageCache));
                    drop(index.search_values(&[test], u64::MAX, &NoPageCache));
                }
            }
        }
        for end in (0..len).step_by(11) {
            let mut files = Files(good.0.clone());
            files.0.insert(name, good.0[name][..end].to_vec());
            let searched = BTreeIndex::open(Arc::new(files))
                .and_then(|index| index.search(&[&ValueTest::Eq(Bound::Int(50))], &NoPageCache));
            assert!(searched.is_err(), "{name} cut at {end} of {len}");
        }
    }
    let missing = Files(HashMap::from([(LOOKUP_FILE, good.0[LOOKUP_FILE].clone())]));
    let searched =
        BTreeIndex::open(Arc::new(missing)).and_then(|index| index.search(&[&tests[2]], &NoPageCache));
    assert!(searched.unwrap_err().is_not_found());
}

proptest! {
    /// Rows come in the order of their values from either end, those of one value together or marked as such, and no
    /// longer than they are wanted.
    #[test]
    fn walks_give_rows_in_order(
        values in prop::collection::vec(prop::option::weighted(0.8, 0_i64..9), 0..60),
        page_rows in 1_u32..9,
        descending: bool,
        wanted in 0_usize..70,
    ) {
        let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let index = BTreeIndex::open(Arc::new(btree(&array, page_rows, 2))).unwrap();
        let value = |row: u64| values[usize::try_from(row / 3).unwrap()];
        let (mut found, mut is_stopped, mut last) = (Vec::new(), false, None);
        let mut give = |run: &PageRun, is_new: bool| {
            let rows = run.rows();
            let of_page: &Int64Array = run.values().as_primitive();
            assert!((run.start()..).zip(rows).all(|(at, row)| value(*row) == Some(of_page.value(at))));
            assert!(!is_stopped && !rows.is_empty());
            assert!(rows.iter().all(|row| value(*row) == value(rows[0])));
            assert_eq!(is_new, last != Some(value(rows[0])));
            if is_new && found.len() >= wanted {
                is_stopped = true;
                return Ok(false);
            }
            last = Some(value(rows[0]));
            found.extend_from_slice(rows);
            Ok(true)
        };
        let are_all = index.walk(descending, &Cache::default(), &mut give).unwrap();
        prop_assert_eq!(are_all, !is_stopped);
        let mut ordered: Vec<i64> = values.iter().copied().flatten().collect();
        ordered.sort_unstable();
        if descending {
            ordered.reverse();
        }
        // Ties with the last that is wanted are given too.
        let count = match wanted.checked_sub(1).map(|last| ordered.get(last)) {
            None => 0,
            Some(None) => ordered.len(),
            Some(Some(last)) => ordered.iter().rposition(|value| value == last).unwrap() + 1,
        };
        let given: Vec<i64> = found.iter().map(|row| value(*row).unwrap()).collect();
        prop_assert_eq!(given, &ordered[..count]);
        let mut nulls = BTreeSet::new();
        index.walk_nulls(&NoPageCache, &mut |run, _| { nulls.extend(run.rows().to_vec()); Ok(true) }).unwrap();
        prop_assert_eq!(nulls, expected(&array, &ValueTest::IsNull));
    }

    /// What is known without reading is never more than there is, and for wide intervals of many pages not nothing.
    #[test]
    fn rows_at_least(
        values in prop::collection::vec(0_i64..50, 1..80),
        low in 0_i64..50,
        page_rows in 1_u32..5,
    ) {
        let array: ArrayRef = Arc::new(Int64Array::from(values));
        let index = BTreeIndex::open(Arc::new(btree(&array, page_rows, 1))).unwrap();
        let test = ValueTest::GreaterEq(Bound::Int(low.into()));
        let found = expected(&array, &test).len() as u64;
        let known = index.rows_at_least(&[&test]);
        prop_assert!(known <= found);
        prop_assert!(known + 3 * u64::from(page_rows) > found, "{known} of {found}");
        let list = vec![Bound::Int(low.into()), Bound::Int((low + 9).into())];
        for test in [ValueTest::NotNull, ValueTest::NoneOf(list)] {
            prop_assert_eq!(index.rows_at_least(&[&test]), 0);
        }
    }
}

#[test]
fn distinct_values_ascend() {
    let floats: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(0.0), None, Some(f64::NAN), Some(-0.0), Some(0.0)]));
    let (values, has_nan) = crate::distinct_values(&[Arc::clone(&floats), floats]);
    assert!(has_nan);
    let bits: Vec<u64> =
        values.iter().map(|v| if let Bound::Float(v) = v { v.to_bits() } else { 1 }).collect();
    assert_eq!(bits, [(-0.0_f64).to_bits(), 0.0_f64.to_bits()]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["b", "", "b"]));
    let bytes = |text: &str| Bound::Bytes(text.as_bytes().to_vec());
    assert_eq!(crate::distinct_values(&[texts]), (vec![bytes(""), bytes("b")], false));
}
