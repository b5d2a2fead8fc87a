//! Bloom filter indices: a filter of split blocks for the values of each zone.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray};
use arrow_schema::DataType;
use pennon_core::rows::RowRanges;
use pennon_core::transaction::BloomFilter;
use pennon_core::{Error, Result};

use super::hashed::{hash_of, is_hashed};
use super::stored::StoredZones;
use super::{BLOOM_FILE, BLOOM_PROBABILITY, BLOOM_ROWS, DEFAULT_PROBABILITY, DEFAULT_ZONE_ROWS};
use crate::answer::Answer;
use crate::files::IndexFiles;
use crate::value_test::ValueTest;

/// Bytes of filters that are kept in memory; those of a larger file are read for each search.
const KEPT: usize = 64 << 20;
/// Filters that are read at a time.
const READ: u64 = 512;

/// A Bloom filter index that was opened.
#[derive(Debug)]
pub struct BloomFilterIndex {
    pub(super) stored: StoredZones,
    data_type: DataType,
    zone_rows: u32,
    probability: f64,
    /// Of each zone, some at a time; none if they are read for each search.
    filters: Vec<BinaryArray>,
    /// Bytes of all filters.
    filter_bytes: usize,
}

impl BloomFilterIndex {
    /// Opens an index over values of a type, which its file does not say.
    ///
    /// Errors: `NotFound`, `Store`, `Corrupt` with the name of the file, `Unsupported` for values that are not hashed.
    pub fn open(files: &dyn IndexFiles, data_type: &DataType) -> Result<Self> {
        if !is_hashed(data_type) {
            return Err(Error::unsupported(format!("a Bloom filter index of values of type {data_type}")));
        }
        let stored = StoredZones::open(files, BLOOM_FILE)?;
        let zone_rows = stored.metadata(BLOOM_ROWS, DEFAULT_ZONE_ROWS)?;
        let probability = stored.metadata(BLOOM_PROBABILITY, DEFAULT_PROBABILITY)?;
        let (filters, filter_bytes) = (Vec::new(), 0);
        let mut index =
            Self { stored, data_type: data_type.clone(), zone_rows, probability, filters, filter_bytes };
        let (mut kept, mut bytes) = (Vec::new(), 0);
        index.each(&mut |filters| {
            bytes += filters.value_data().len();
            if bytes <= KEPT {
                kept.push(filters);
            }
            Ok(())
        })?;
        if bytes <= KEPT {
            index.filters = kept;
        }
        index.filter_bytes = bytes;
        Ok(index)
    }

    /// How many zones there are.
    pub fn num_zones(&self) -> usize {
        self.stored.zones.len()
    }

    /// Whether the file says which rows are null.
    pub fn has_nulls(&self) -> bool {
        self.stored.nulls.is_some()
    }

    /// Rows of a zone, at most.
    pub fn zone_rows(&self) -> u32 {
        self.zone_rows
    }

    /// The share of other values that a filter takes for its own.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The rows for which tests may hold, all of them; nulls exactly if the file says where they are. `None` for tests
    /// that do not name values.
    ///
    /// Errors: `Store`, and `Corrupt` with the name of the file.
    pub fn search(&self, tests: &[&ValueTest]) -> Result<Option<Answer>> {
        if let [test] = tests {
            // Whether a zone has nulls is only said for files that do not say which rows they are.
            let has_null = match self.stored.nulls {
                Some(_) => Vec::new(),
                None => self.has_null().map_err(|e| e.in_file(&self.stored.name))?,
            };
            let answer = self.stored.of_nulls(test, |at| has_null.get(at).is_none_or(|has_null| *has_null));
            if answer.is_some() {
                return Ok(answer);
            }
        }
        let hash = |value| hash_of(value, &self.data_type);
        let wanted = tests.iter().map(|test| match test {
            ValueTest::Eq(value) => Some(hash(value).into_iter().collect()),
            ValueTest::OneOf(values) => Some(values.iter().filter_map(hash).collect()),
            _ => None,
        });
        let Some(wanted) = wanted.collect::<Option<Vec<Vec<u64>>>>() else { return Ok(None) };
        let mut may_hold = Vec::with_capacity(self.num_zones());
        self.each(&mut |filters| {
            may_hold.extend(filters.iter().map(|filter| {
                let filter = filter.unwrap_or_default();
                wanted.iter().all(|hashes| hashes.iter().any(|hash| BloomFilter::may_have(filter, *hash)))
            }));
            Ok(())
        })?;
        Ok(Some(self.stored.candidates(|at| may_hold.get(at).is_none_or(|may_hold| *may_hold))))
    }

    fn has_null(&self) -> Result<Vec<bool>> {
        let column = self.stored.column("has_null", &self.stored.all())?;
        let column = column.as_boolean_opt().filter(|column| column.null_count() == 0);
        let column = column.ok_or_else(|| Error::corrupt("`has_null` is not boolean without nulls"))?;
        Ok(column.iter().map(|has_null| has_null.unwrap_or(true)).collect())
    }

    /// All filters, some at a time.
    fn each(&self, give: &mut dyn FnMut(BinaryArray) -> Result<()>) -> Result<()> {
        if !self.filters.is_empty() {
            return self.filters.iter().try_for_each(|filters| give(filters.clone()));
        }
        self.stored.all().split_by(READ).try_for_each(|zones: RowRanges| {
            let read = self.stored.column("bloom_filter_data", &zones).and_then(|array| binary(&array));
            give(read.map_err(|e| e.in_file(&self.stored.name))?)
        })
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        let filters = if self.filters.is_empty() { 0 } else { self.filter_bytes };
        self.stored.memory_bytes() + filters
    }
}

fn binary(array: &ArrayRef) -> Result<BinaryArray> {
    let found = array.as_binary_opt::<i32>().filter(|array| array.null_count() == 0);
    found.cloned().ok_or_else(|| {
        Error::corrupt(format!(
            "`bloom_filter_data` has the type {}, expected binary without nulls",
            array.data_type()
        ))
    })
}
