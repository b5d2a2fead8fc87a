//! Scalar indices in memory: the search of B-tree pages, compared with that of a sorted list of the same values; and sets of
//! rows, compared with words that have a bit for each row. One thread.
//!
//! `cargo bench --profile dist -p pennon-index --bench indices`, or with a part of a claim to measure only those. The sides
//! take turns, times are medians.

mod measure;
mod memory_files;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, UInt64Array};
use arrow_schema::DataType;
use measure::compare;
use memory_files::MemoryFiles;
use pennon_core::file::FileVersion;
use pennon_datafile::statistics::Bound;
use pennon_index::{
    Answer, BTreeIndex, BTreePage, BTreeWriter, DEFAULT_PAGE_ROWS, PageCache, RowSet, SortedRun, ValueTest,
};

/// Values of an index, each in one row: a power of two.
const ROWS: u32 = 1 << 21;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    println!("{:<44}{:>12}{:>12}{:>8}  rate", "claim", "pennon", "plain", "ratio");
    btree()?;
    row_sets()
}

#[derive(Default)]
struct Cache(Mutex<HashMap<u32, Arc<BTreePage>>>);

impl PageCache for Cache {
    fn get(&self, page: u32) -> Option<Arc<BTreePage>> {
        self.0.lock().ok()?.get(&page).cloned()
    }

    fn put(&self, page: u32, content: &Arc<BTreePage>) {
        if let Ok(mut pages) = self.0.lock() {
            pages.insert(page, Arc::clone(content));
        }
    }
}

/// The row of each value, in no order: an odd number and a power of two have no common divisor.
fn row_of(value: u32) -> u64 {
    u64::from(value.wrapping_mul(0x9e37_79b1) % ROWS)
}

fn btree() -> Done {
    let mut writer =
        BTreeWriter::try_new(Vec::new(), &DataType::Int64, FileVersion::STABLE, DEFAULT_PAGE_ROWS)?;
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(i64::from)));
    let rows = UInt64Array::from_iter_values((0..ROWS).map(row_of));
    writer.write(&SortedRun::sort(&values, &rows)?)?;
    let index = BTreeIndex::open(MemoryFiles::of(writer.finish(Vec::new())?))?;
    let cache = Cache::default();
    index.prewarm(&cache)?;
    let pairs: Vec<(i64, u64)> = (0..ROWS).map(|value| (i64::from(value), row_of(value))).collect();
    let search = |tests: &[&ValueTest]| -> Option<Answer> { index.search(tests, &cache).ok().flatten() };

    let mut key = 0;
    let next = move || {
        key = (key + 1_234_567) % ROWS;
        i64::from(key)
    };
    let (mut ours, mut plain) = (next, next);
    let by_index = || search(&[&ValueTest::Eq(Bound::Int(ours().into()))]);
    let by_list = || {
        let key = plain();
        pairs.binary_search_by_key(&key, |(value, _)| *value).ok().and_then(|at| pairs.get(at))
    };
    let found =
        search(&[&ValueTest::Eq(Bound::Int(7))]).and_then(|answer| Some(answer.rows.iter()?.collect()));
    if found != Some(vec![row_of(7)]) {
        return Err("the B-tree finds another row than the list".into());
    }
    compare("B-tree, one key of 2 M in 64 bits", 1, "G keys/s", by_index, by_list);

    let (start, end) = (i64::from(ROWS) / 2, i64::from(ROWS) / 2 + i64::from(ROWS) / 100);
    let (from, to) =
        (ValueTest::GreaterEq(Bound::Int(start.into())), ValueTest::Less(Bound::Int(end.into())));
    let sorted_rows = || {
        let [start, end] = [start, end].map(|bound| pairs.partition_point(|(value, _)| *value < bound));
        let mut rows: Vec<u64> = pairs.get(start..end).into_iter().flatten().map(|(_, row)| *row).collect();
        rows.sort_unstable();
        rows
    };
    let found = search(&[&from, &to]).and_then(|answer| Some(answer.rows.iter()?.collect::<Vec<_>>()));
    if found != Some(sorted_rows()) {
        return Err("the B-tree finds other rows than the list".into());
    }
    let rows = usize::try_from(ROWS / 100)?;
    compare("B-tree, 1 % of 2 M keys by a range", rows, "G rows/s", || search(&[&from, &to]), sorted_rows);
    Ok(())
}

/// Rows of one fragment, one in so many, and as words.
fn set(one_in: u64) -> (RowSet, Vec<u64>) {
    let rows: Vec<u64> =
        (0..u64::from(ROWS)).filter(|row| ((row * 2_654_435_761) >> 7) % one_in == 0).collect();
    let words = words_of(rows.clone());
    (RowSet::of(rows), words)
}

/// A bit for each row.
fn words_of(rows: Vec<u64>) -> Vec<u64> {
    let mut words = vec![0_u64; usize::try_from(ROWS / 64 + 1).unwrap_or(0)];
    for row in rows {
        if let Some(word) = usize::try_from(row / 64).ok().and_then(|at| words.get_mut(at)) {
            *word |= 1 << (row % 64);
        }
    }
    words
}

fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

fn row_sets() -> Done {
    let rows = usize::try_from(ROWS)?;
    for (claim, a, b) in [("1 % and 50 % of 2 M rows", 100, 2), ("1 % and 1 % of 2 M rows", 100, 101)] {
        let ((left, left_words), (right, right_words)) = (set(a), set(b));
        let plain = || -> Vec<u64> { left_words.iter().zip(&right_words).map(|(a, b)| a & b).collect() };
        let both: Vec<u64> = left.intersection(&right).iter().ok_or("a set of all")?.collect();
        if words_of(both) != plain() {
            return Err("the sets have other rows in common than the words".into());
        }
        compare(&format!("in both sets, {claim}"), rows, "G rows/s", || left.intersection(&right), plain);
    }
    for (share, one_in) in [("1 %", 100), ("50 %", 2)] {
        let (found, words) = set(one_in);
        let number = || count(&words);
        let row_numbers: Vec<u64> = found.iter().ok_or("a set of all")?.collect();
        if found.len() != number() || words_of(row_numbers.clone()) != words {
            return Err("the set has other rows than the words".into());
        }
        let rows = row_numbers.len();
        let bits = || words_of(row_numbers.clone());
        let of_numbers = || RowSet::of(row_numbers.clone());
        compare(&format!("a set of {share} of 2 M rows"), rows, "G rows/s", of_numbers, bits);
        compare(&format!("how many a set of {share} has"), rows, "G rows/s", || found.len(), number);
    }
    Ok(())
}
