//! Rows in the order of their values, from one end, as long as they are wanted.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::Bound;

use super::page::{BTreePage, PageRun};
use super::search::BTreeIndex;
use crate::files::PageCache;
use crate::values::{Value, value_at};

/// Pages that are read at once, at most: the first alone, then twice as many each time.
const AT_ONCE: usize = 64;

/// Takes rows that have one value, and whether it is another one than that of the rows before. Says whether to continue.
pub type RowSink<'a> = &'a mut dyn FnMut(&PageRun, bool) -> Result<bool>;

impl BTreeIndex {
    /// Gives the rows of each value that is not null, from the smallest on or from the largest on. Says whether these were
    /// all.
    ///
    /// Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file; those of `give`.
    pub fn walk(&self, descending: bool, cache: &dyn PageCache, give: RowSink<'_>) -> Result<bool> {
        let mut last: Option<Bound> = None;
        self.each_page(self.with_values(), descending, cache, &mut |page| {
            let values = page.values().as_ref();
            let (mut at, end) = (values.null_count(), values.len());
            let mut runs: Vec<Range<usize>> = Vec::new();
            while at < end {
                let value = value_at(values, at);
                let is_same = |other: &usize| value_at(values, *other) == value;
                let run = at..(at + 1..end).take_while(is_same).last().map_or(at + 1, |last| last + 1);
                at = run.end;
                runs.push(run);
            }
            if descending {
                runs.reverse();
            }
            for run in runs {
                let value = value_at(values, run.start).map(Value::to_bound);
                let compared = last.as_ref().zip(value.as_ref()).and_then(|(a, b)| a.compare(b));
                let is_new = compared != Some(Ordering::Equal);
                last = value;
                if !give(&PageRun::new(Arc::clone(page), run), is_new)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Gives the rows of nulls, as [`Self::walk`] gives those of values. Errors: those of [`Self::walk`].
    pub fn walk_nulls(&self, cache: &dyn PageCache, give: RowSink<'_>) -> Result<bool> {
        let mut is_new = true;
        self.each_page(self.with_nulls(), false, cache, &mut |page| {
            let nulls = 0..page.values().null_count();
            give(&PageRun::new(Arc::clone(page), nulls), std::mem::take(&mut is_new))
        })
    }

    fn each_page(
        &self,
        mut pages: Vec<usize>,
        descending: bool,
        cache: &dyn PageCache,
        look: &mut dyn FnMut(&Arc<BTreePage>) -> Result<bool>,
    ) -> Result<bool> {
        if descending {
            pages.reverse();
        }
        let (mut rest, mut at_once) = (pages.as_slice(), 1);
        while !rest.is_empty() {
            let (wanted, others) = rest.split_at(at_once.min(rest.len()));
            let mut ascending = wanted.to_vec();
            ascending.sort_unstable();
            let found = self.pages(&ascending, cache)?;
            for page in wanted {
                let page = found.get(page).ok_or_else(|| Error::internal("a page was not read"))?;
                if !look(page)? {
                    return Ok(false);
                }
            }
            (rest, at_once) = (others, AT_ONCE.min(at_once * 2));
        }
        Ok(true)
    }
}
