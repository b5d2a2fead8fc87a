//! Indices over single values, of any kind: the one place that knows them all.

use std::sync::Arc;

use arrow_schema::DataType;
use pennon_core::{Error, Result};

use crate::answer::{Answer, Precision};
use crate::bitmap::BitmapIndex;
use crate::btree::BTreeIndex;
use crate::files::{IndexFiles, PageCache};
use crate::kind::IndexKind;
use crate::label_list::LabelListIndex;
use crate::ngram::{NGramIndex, tokens_of};
use crate::value_test::ValueTest;
use crate::zones::{BloomFilterIndex, ZoneMapIndex};

/// An index over single values that was opened.
#[derive(Debug)]
pub enum ScalarIndex {
    /// Sorted pages.
    BTree(BTreeIndex),
    /// A set of rows for each value.
    Bitmap(BitmapIndex),
    /// A set of rows for each item of lists.
    LabelList(LabelListIndex),
    /// Bounds of runs of rows.
    ZoneMap(ZoneMapIndex),
    /// A filter for each run of rows.
    BloomFilter(BloomFilterIndex),
    /// A set of rows for each three letters of texts.
    NGram(NGramIndex),
}

impl ScalarIndex {
    /// Opens an index of a kind over values of a type. Errors: `Unsupported` for kinds that are not read; those of the kind.
    pub fn open(kind: IndexKind, files: Arc<dyn IndexFiles>, data_type: &DataType) -> Result<Self> {
        Ok(match kind {
            IndexKind::BTree => Self::BTree(BTreeIndex::open(files)?),
            IndexKind::Bitmap => Self::Bitmap(BitmapIndex::open(files.as_ref())?),
            IndexKind::LabelList => Self::LabelList(LabelListIndex::open(files.as_ref())?),
            IndexKind::ZoneMap => Self::ZoneMap(ZoneMapIndex::open(files.as_ref())?),
            IndexKind::BloomFilter => Self::BloomFilter(BloomFilterIndex::open(files.as_ref(), data_type)?),
            IndexKind::NGram => Self::NGram(NGramIndex::open(files.as_ref())?),
            other => return Err(Error::unsupported(format!("an index of the kind {}", other.name()))),
        })
    }

    /// How precisely an index of a kind answers a test, at best; `None` if it cannot. Reads nothing.
    pub fn precision(kind: IndexKind, test: &ValueTest) -> Option<Precision> {
        let contains = matches!(test, ValueTest::Contains(_));
        match kind {
            IndexKind::BTree | IndexKind::Bitmap => {
                (!test.is_of_items() && !contains).then_some(Precision::Exact)
            }
            IndexKind::LabelList => test.is_of_items().then_some(Precision::Exact),
            IndexKind::ZoneMap | IndexKind::BloomFilter => match test {
                ValueTest::IsNull | ValueTest::NotNull => Some(Precision::Exact),
                ValueTest::Eq(_) | ValueTest::OneOf(_) => Some(Precision::Candidates),
                ValueTest::IsNan
                | ValueTest::NotNan
                | ValueTest::Less(_)
                | ValueTest::LessEq(_)
                | ValueTest::Greater(_)
                | ValueTest::GreaterEq(_)
                | ValueTest::Prefix(_) => (kind == IndexKind::ZoneMap).then_some(Precision::Candidates),
                // Nearly every zone has other values.
                ValueTest::NotEq(_)
                | ValueTest::NoneOf(_)
                | ValueTest::Contains(_)
                | ValueTest::HasAny(_)
                | ValueTest::HasAll(_)
                | ValueTest::HasNone(_)
                | ValueTest::LacksOne(_) => None,
            },
            IndexKind::NGram => match test {
                ValueTest::Contains(bytes) => (!tokens_of(bytes).is_empty()).then_some(Precision::Candidates),
                _ => None,
            },
            _ => None,
        }
    }

    /// The rows for which tests hold, all of them; `None` if the index cannot say. Several tests must be
    /// [combinable](ValueTest::is_combinable).
    ///
    /// Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn search(&self, tests: &[&ValueTest], cache: &dyn PageCache) -> Result<Option<Answer>> {
        match self {
            Self::BTree(index) => index.search(tests, cache),
            Self::Bitmap(index) => index.search(tests),
            Self::LabelList(index) => match tests {
                [test] => index.search(test),
                _ => Ok(None),
            },
            Self::ZoneMap(index) => Ok(index.search(tests)),
            Self::BloomFilter(index) => index.search(tests),
            Self::NGram(index) => match tests {
                [test] => index.search(test),
                _ => Ok(None),
            },
        }
    }

    /// The number of rows for which tests hold, all of them, of an index that must have so many rows in all. `None` for
    /// kinds that do not count, and if it has another number; bitmaps do not say how many they have, `are_all` that it
    /// is known.
    ///
    /// Errors: those of [`Self::search`].
    pub fn count(
        &self,
        tests: &[&ValueTest],
        rows: u64,
        are_all: bool,
        cache: &dyn PageCache,
    ) -> Result<Option<u64>> {
        match self {
            Self::BTree(index) if index.num_rows()? == rows => index.count(tests, cache),
            Self::Bitmap(index) if are_all => Ok(index.search(tests)?.map(|answer| {
                let found = answer.rows.len();
                if answer.is_complement { rows.saturating_sub(found) } else { found }
            })),
            _ => Ok(None),
        }
    }

    /// Type of the values, of kinds that have them.
    pub fn value_type(&self) -> Option<&DataType> {
        match self {
            Self::BTree(index) => Some(index.data_type()),
            Self::Bitmap(index) => Some(index.data_type()),
            _ => None,
        }
    }

    /// Whether it consists of zones that say which rows are null, so that others can take them over.
    pub fn has_whole_zones(&self) -> bool {
        match self {
            Self::ZoneMap(index) => index.has_nulls(),
            Self::BloomFilter(index) => index.has_nulls(),
            _ => false,
        }
    }

    /// So many rows, or more, for which tests hold, all of them, as far as that is known without reading.
    pub fn rows_at_least(&self, tests: &[&ValueTest]) -> u64 {
        match self {
            Self::BTree(index) => index.rows_at_least(tests),
            _ => 0,
        }
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::BTree(index) => index.memory_bytes(),
            Self::Bitmap(index) => index.memory_bytes(),
            Self::LabelList(index) => index.memory_bytes(),
            Self::ZoneMap(index) => index.memory_bytes(),
            Self::BloomFilter(index) => index.memory_bytes(),
            Self::NGram(index) => index.memory_bytes(),
        }
    }
}
