//! Indices over single values, of any kind: the one place that knows them all.

use std::sync::Arc;

use pennon_core::{Error, Result};

use crate::answer::{Answer, Precision};
use crate::bitmap::BitmapIndex;
use crate::btree::BTreeIndex;
use crate::files::{IndexFiles, PageCache};
use crate::kind::IndexKind;
use crate::label_list::LabelListIndex;
use crate::value_test::ValueTest;

/// An index over single values that was opened.
#[derive(Debug)]
pub enum ScalarIndex {
    /// Sorted pages.
    BTree(BTreeIndex),
    /// A set of rows for each value.
    Bitmap(BitmapIndex),
    /// A set of rows for each item of lists.
    LabelList(LabelListIndex),
}

impl ScalarIndex {
    /// Opens an index of a kind. Errors: `Unsupported` for kinds that are not read; those of the kind.
    pub fn open(kind: IndexKind, files: Arc<dyn IndexFiles>) -> Result<Self> {
        Ok(match kind {
            IndexKind::BTree => Self::BTree(BTreeIndex::open(files)?),
            IndexKind::Bitmap => Self::Bitmap(BitmapIndex::open(files.as_ref())?),
            IndexKind::LabelList => Self::LabelList(LabelListIndex::open(files.as_ref())?),
            other => return Err(Error::unsupported(format!("an index of the kind {}", other.name()))),
        })
    }

    /// How precisely an index of a kind answers a test; `None` if it cannot. Reads nothing.
    pub fn precision(kind: IndexKind, test: &ValueTest) -> Option<Precision> {
        let of_list = matches!(
            test,
            ValueTest::HasAny(_) | ValueTest::HasAll(_) | ValueTest::HasNone(_) | ValueTest::LacksOne(_)
        );
        match kind {
            IndexKind::BTree | IndexKind::Bitmap => (!of_list).then_some(Precision::Exact),
            IndexKind::LabelList => of_list.then_some(Precision::Exact),
            _ => None,
        }
    }

    /// The rows for which tests hold, all of them; `None` if the index cannot say. Several tests must be
    /// [of intervals](ValueTest::is_of_intervals).
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
        }
    }

    /// So many rows, or more, for which tests hold, all of them, as far as that is known without reading.
    pub fn rows_at_least(&self, tests: &[&ValueTest]) -> u64 {
        match self {
            Self::BTree(index) => index.rows_at_least(tests),
            Self::Bitmap(_) | Self::LabelList(_) => 0,
        }
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::BTree(index) => index.memory_bytes(),
            Self::Bitmap(index) => index.memory_bytes(),
            Self::LabelList(index) => index.memory_bytes(),
        }
    }
}
