//! Searching: the bounds say which pages may have a value, and those are read with one call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};
use pennon_datafile::container::TAIL;
use pennon_datafile::statistics::Bound;
use pennon_datafile::{ByteSource, ColumnMap, FileReader};

use super::lookup::Lookup;
use super::page::{BTreePage, PageRun};
use super::{DATA_FILE, LOOKUP_FILE};
use crate::answer::Answer;
use crate::files::{self, IndexFiles, PageCache, open_both};
use crate::intervals::{Interval, Passing, passing_all};
use crate::row_set::RowSet;
use crate::value_test::ValueTest;

/// Reads that each thread has at least, since it takes a moment to start.
const LEAST_PARTS: usize = 64;

/// A B-tree index that was opened.
#[derive(Debug)]
pub struct BTreeIndex {
    pub(super) lookup: Lookup,
    pages: Arc<dyn ByteSource>,
    data: OnceLock<Data>,
}

/// The file with the pages.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) reader: FileReader,
    values: Field,
    ids: Field,
    columns: ColumnMap,
}

impl Data {
    /// All rows, some pages at a time.
    fn parts(&self) -> impl Iterator<Item = RowRanges> {
        const ROWS: u64 = 256 << 10;
        RowRanges::from(0..self.reader.metadata().num_rows).split_by(ROWS)
    }
}

impl BTreeIndex {
    /// Reads the bounds of all pages. Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn open(files: Arc<dyn IndexFiles>) -> Result<Self> {
        let [lookup, pages] = open_both(files.as_ref(), [(LOOKUP_FILE, u64::MAX), (DATA_FILE, TAIL)])?;
        Ok(Self { lookup: Lookup::read(lookup)?, pages, data: OnceLock::new() })
    }

    /// Type of the values.
    pub fn data_type(&self) -> &DataType {
        self.lookup.data_type()
    }

    /// How many pages there are.
    pub fn num_pages(&self) -> usize {
        self.lookup.pages()
    }

    /// Rows of each page but the last.
    pub fn page_rows(&self) -> u64 {
        self.lookup.page_rows
    }

    /// How many rows there are. Errors: those of opening the file with the pages.
    pub fn num_rows(&self) -> Result<u64> {
        Ok(self.data()?.reader.metadata().num_rows)
    }

    /// The smallest and the largest value that is not null; `None` if there is none.
    pub fn bounds(&self, cache: &dyn PageCache) -> Result<Option<(Bound, Bound)>> {
        let Some(max) = self.lookup.max() else { return Ok(None) };
        let with_value = (0..self.lookup.pages()).find(|page| self.lookup.bounds(*page).1.is_some());
        let Some(page) = with_value else { return Ok(None) };
        let min = match self.lookup.bounds(page).0 {
            Some(min) => min.to_bound(),
            // Nulls come first: the page has the smallest value behind them.
            None => {
                let page = self.pages(&[page], cache)?.remove(&page);
                let page = page.ok_or_else(|| Error::internal("a page was not read"))?;
                let values = page.values();
                match crate::values::value_at(values.as_ref(), values.null_count()) {
                    Some(min) => min.to_bound(),
                    None => return Err(self.corrupt("its pages are not as its bounds say")),
                }
            }
        };
        Ok(Some((min, max.to_bound())))
    }

    /// The pages that have values which are not null.
    pub(super) fn with_values(&self) -> Vec<usize> {
        (0..self.lookup.pages()).filter(|page| self.lookup.bounds(*page).1.is_some()).collect()
    }

    /// The pages that have nulls.
    pub(super) fn with_nulls(&self) -> Vec<usize> {
        (0..self.lookup.pages()).filter(|page| self.lookup.null_count(*page) > 0).collect()
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.lookup.memory_bytes() + self.data.get().map_or(0, |data| data.reader.memory_size())
    }

    /// The rows for which tests hold, all of them; `None` for tests of lists and of parts of texts.
    ///
    /// Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn search(&self, tests: &[&ValueTest], cache: &dyn PageCache) -> Result<Option<Answer>> {
        let Some(passing) = passing_all(tests) else { return Ok(None) };
        Ok(Some(match passing {
            Passing::Nulls => Answer::exact(RowSet::of(self.rows_of(&[], true, cache)?)),
            Passing::Inside(intervals) => Answer::exact(RowSet::of(self.rows_of(&intervals, false, cache)?)),
            Passing::Outside(intervals) => {
                Answer::exact_except(RowSet::of(self.rows_of(&intervals, true, cache)?))
            }
        }))
    }

    /// The number of rows for which tests hold, all of them; `None` as for [`Self::search`]. Of pages of which all rows pass
    /// nothing is read. Errors: those of [`Self::search`].
    pub fn count(&self, tests: &[&ValueTest], cache: &dyn PageCache) -> Result<Option<u64>> {
        Ok(match passing_all(tests) {
            None => None,
            Some(Passing::Nulls) => Some(self.null_count()),
            Some(Passing::Inside(intervals)) => Some(self.count_inside(&intervals, cache)?),
            Some(Passing::Outside(intervals)) => {
                let others = self.null_count() + self.count_inside(&intervals, cache)?;
                Some(self.num_rows()?.saturating_sub(others))
            }
        })
    }

    fn count_inside(&self, intervals: &[Interval], cache: &dyn PageCache) -> Result<u64> {
        let (partial, entire) = self.pages_of(intervals);
        let all = self.num_rows()?;
        let rows_of = |page: &usize| {
            let rows = self.lookup.rows_of(*page, all);
            rows.end - rows.start
        };
        let mut count: u64 = entire.iter().map(rows_of).sum();
        let wanted: Vec<usize> = partial.keys().copied().collect();
        for (page, intervals) in self.pages(&wanted, cache)?.values().zip(partial.values()) {
            count += intervals.iter().map(|interval| page.inside(interval).len() as u64).sum::<u64>();
        }
        Ok(count)
    }

    /// As [`Self::search`], with the values of the rows: pieces of pages, in no order. `None` also if the rows are all but
    /// those of intervals, or if the pages take more than so many bytes. Errors: those of [`Self::search`].
    pub fn search_values(
        &self,
        tests: &[&ValueTest],
        most_bytes: u64,
        cache: &dyn PageCache,
    ) -> Result<Option<Vec<PageRun>>> {
        let (intervals, nulls) = match passing_all(tests) {
            Some(Passing::Inside(intervals)) => (intervals, false),
            Some(Passing::Nulls) => (Vec::new(), true),
            Some(Passing::Outside(_)) | None => return Ok(None),
        };
        let mut wanted: BTreeMap<usize, Vec<&Interval>> = BTreeMap::new();
        for (interval, pages) in self.lookup.pages_of(&intervals) {
            pages.for_each(|page| wanted.entry(page).or_default().push(interval));
        }
        if nulls {
            self.with_nulls().into_iter().for_each(|page| _ = wanted.entry(page).or_default());
        }
        if wanted.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let data = self.data()?;
        let all = data.reader.metadata().num_rows;
        let rows: RowRanges = wanted.keys().map(|page| self.lookup.rows_of(*page, all)).collect();
        let bytes = data.reader.bytes_in_memory(&[&data.values, &data.ids], &data.columns, &rows)?;
        if bytes > most_bytes {
            return Ok(None);
        }
        let pages: Vec<usize> = wanted.keys().copied().collect();
        let pages = self.pages(&pages, cache)?;
        let mut found = Vec::new();
        for (page, intervals) in pages.values().zip(wanted.values()) {
            let runs = intervals.iter().map(|interval| page.positions(interval));
            let runs = runs.chain(nulls.then(|| 0..page.values().null_count()));
            found.extend(runs.filter(|run| !run.is_empty()).map(|run| PageRun::new(Arc::clone(page), run)));
        }
        Ok(Some(found))
    }

    /// So many rows, or more, for which tests hold, all of them: those of pages whose bounds say so. Reads nothing.
    pub fn rows_at_least(&self, tests: &[&ValueTest]) -> u64 {
        // Those outside of intervals are found by the pages inside, however many rows there are.
        let Some(Passing::Inside(intervals)) = passing_all(tests) else { return 0 };
        // All pages of an interval but the first and the last lie inside.
        let inside = self.lookup.pages_of(&intervals).map(|(_, pages)| pages.len().saturating_sub(2));
        let pages: usize = inside.sum();
        u64::try_from(pages).unwrap_or(u64::MAX).saturating_mul(self.lookup.page_rows)
    }

    /// How many rows are null.
    fn null_count(&self) -> u64 {
        self.lookup.null_counts().iter().map(|count| u64::from(*count)).sum()
    }

    /// Reads all pages into a cache. Errors: those of [`Self::search`].
    pub fn prewarm(&self, cache: &dyn PageCache) -> Result<()> {
        // So many at a time that the memory stays bounded, whatever the cache keeps.
        const AT_ONCE: usize = 256;
        let all: Vec<usize> = (0..self.lookup.pages()).collect();
        all.chunks(AT_ONCE).try_for_each(|pages| self.pages(pages, cache).map(drop))
    }

    /// All values and their rows, in order, some pages at a time. Errors: those of [`Self::search`].
    pub fn scan(&self, give: &mut dyn FnMut(ArrayRef, UInt64Array) -> Result<()>) -> Result<()> {
        let data = self.data()?;
        for rows in data.parts() {
            let (values, ids) = self.read(data, &rows)?;
            give(values, ids)?;
        }
        Ok(())
    }

    /// The rows of all values in their order, some pages at a time, as long as they are wanted. Says whether these were all.
    pub(super) fn scan_rows(&self, give: &mut dyn FnMut(UInt64Array) -> Result<bool>) -> Result<bool> {
        let data = self.data()?;
        for rows in data.parts() {
            if !give(self.rows(data, &rows)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows in some intervals and, if wanted, the rows of nulls.
    fn rows_of(&self, intervals: &[Interval], nulls: bool, cache: &dyn PageCache) -> Result<Vec<u64>> {
        // Pages of which all rows are wanted are read without their values.
        let (mut partial, entire) = self.pages_of(intervals);
        if nulls {
            self.with_nulls().into_iter().for_each(|page| _ = partial.entry(page).or_default());
        }
        let mut found = Vec::new();
        let wanted: Vec<usize> = partial.keys().copied().collect();
        let pages = self.pages(&wanted, cache)?;
        for (page, intervals) in pages.values().zip(partial.values()) {
            if nulls {
                found.extend_from_slice(page.nulls());
            }
            intervals.iter().for_each(|interval| found.extend_from_slice(page.inside(interval)));
        }
        self.all_of(entire, cache, &mut found)?;
        Ok(found)
    }

    /// The pages of which some rows may be in intervals, with these; and those of which all rows are, ascending.
    fn pages_of<'i>(&self, intervals: &'i [Interval]) -> (BTreeMap<usize, Vec<&'i Interval>>, Vec<usize>) {
        let mut partial: BTreeMap<usize, Vec<&Interval>> = BTreeMap::new();
        let mut entire = Vec::new();
        for (interval, pages) in self.lookup.pages_of(intervals) {
            for page in pages {
                if self.lookup.is_inside(page, interval) {
                    entire.push(page);
                } else {
                    partial.entry(page).or_default().push(interval);
                }
            }
        }
        entire.sort_unstable();
        entire.dedup();
        (partial, entire)
    }

    /// Adds all rows of some pages, which ascend.
    fn all_of(&self, mut pages: Vec<usize>, cache: &dyn PageCache, found: &mut Vec<u64>) -> Result<()> {
        pages.retain(|page| match number(*page).and_then(|page| cache.get(page)) {
            Some(page) => {
                found.extend_from_slice(page.all());
                false
            }
            None => true,
        });
        if pages.is_empty() {
            return Ok(());
        }
        let data = self.data()?;
        let all = data.reader.metadata().num_rows;
        let rows: RowRanges = pages.iter().map(|page| self.lookup.rows_of(*page, all)).collect();
        found.extend_from_slice(self.rows(data, &rows)?.values());
        Ok(())
    }

    /// The pages that are wanted, which ascend; those that the cache lacks are read, all with one call where calls cost,
    /// else by several threads if they are many.
    pub(super) fn pages(
        &self,
        wanted: &[usize],
        cache: &dyn PageCache,
    ) -> Result<BTreeMap<usize, Arc<BTreePage>>> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for page in wanted {
            match number(*page).and_then(|number| cache.get(number)) {
                Some(content) => drop(found.insert(*page, content)),
                None => missing.push(*page),
            }
        }
        // A page that is read by itself has memory of its own, and need not be copied.
        let at_once = if self.pages.is_local() { 1 } else { usize::MAX };
        let parts: Vec<&[usize]> = missing.chunks(at_once).collect();
        let (next, read) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(missing.len())));
        let work = || {
            while let Some(pages) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let done = self.read_pages(pages, &mut |page, content| {
                    if let Some(number) = number(page) {
                        cache.put(number, &content);
                    }
                    read.lock().unwrap_or_else(PoisonError::into_inner).push((page, content));
                });
                // Nobody reads another part after an error.
                done.inspect_err(|_| next.store(parts.len(), Ordering::Relaxed))?;
            }
            Ok(())
        };
        cache.on_threads(parts.len() / LEAST_PARTS, &work)?;
        found.extend(read.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(found)
    }

    /// Reads some pages, which ascend, with one call.
    fn read_pages(&self, pages: &[usize], give: &mut dyn FnMut(usize, Arc<BTreePage>)) -> Result<()> {
        let data = self.data()?;
        let all = data.reader.metadata().num_rows;
        let rows: RowRanges = pages.iter().map(|page| self.lookup.rows_of(*page, all)).collect();
        let (values, ids) = self.read(data, &rows)?;
        let mut start = 0;
        for &page in pages {
            let rows = self.lookup.rows_of(page, all);
            let len = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
            let content = if len == values.len() && !has_room(&values) {
                BTreePage::new(Arc::clone(&values), ids.clone())
            } else {
                let (values, ids) = (values.slice(start, len), ids.slice(start, len));
                BTreePage::new(copy(&values)?, UInt64Array::from(ids.values().to_vec()))
            };
            if content.bounds() != self.lookup.bounds(page) {
                return Err(self.corrupt(&format!("page {page} is not as its bounds say")));
            }
            give(page, Arc::new(content));
            start += len;
        }
        Ok(())
    }

    fn read(&self, data: &Data, rows: &RowRanges) -> Result<(ArrayRef, UInt64Array)> {
        let arrays = data.reader.read(&[data.values.clone(), data.ids.clone()], &data.columns, rows)?;
        let [values, ids] = <[ArrayRef; 2]>::try_from(arrays)
            .map_err(|arrays| Error::internal(format!("{} columns of pages", arrays.len())))?;
        let ids = self.ids(&ids)?;
        Ok((values, ids))
    }

    /// As [`Self::read`], without the values.
    fn rows(&self, data: &Data, rows: &RowRanges) -> Result<UInt64Array> {
        let arrays = data.reader.read(std::slice::from_ref(&data.ids), &data.columns, rows)?;
        let ids = arrays.first().ok_or_else(|| Error::internal("a column of pages was not read"))?;
        self.ids(ids)
    }

    fn ids(&self, array: &ArrayRef) -> Result<UInt64Array> {
        let ids = array.as_primitive_opt::<UInt64Type>().filter(|ids| ids.null_count() == 0);
        ids.cloned().ok_or_else(|| self.corrupt("its rows are not uint64 without nulls"))
    }

    pub(super) fn data(&self) -> Result<&Data> {
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        let reader = FileReader::open(Arc::clone(&self.pages))?;
        let column = |name| files::column(&reader, name).map_err(|e| e.in_file(self.pages.name()));
        let (values, ids) = (column("values")?, column("ids")?);
        let of_lookup = self.lookup.data_type();
        if values.data_type() != *of_lookup {
            let found = values.data_type();
            return Err(self.corrupt(&format!("its values are {found}, those of {LOOKUP_FILE} {of_lookup}")));
        }
        let rows = reader.metadata().num_rows;
        let pages = rows.div_ceil(self.lookup.page_rows);
        if usize::try_from(pages) != Ok(self.lookup.pages()) {
            let expected = self.lookup.pages();
            return Err(
                self.corrupt(&format!("its {rows} rows are {pages} pages, {LOOKUP_FILE} has {expected}"))
            );
        }
        let columns = reader.column_map();
        reader.forget_ahead();
        Ok(self.data.get_or_init(|| Data { reader, values, ids, columns }))
    }

    fn corrupt(&self, message: &str) -> Error {
        Error::corrupt(message).in_file(self.pages.name())
    }
}

/// Whether an array holds more than double the memory that its values take.
fn has_room(values: &ArrayRef) -> bool {
    let data = values.to_data();
    data.get_slice_memory_size().is_ok_and(|used| data.get_buffer_memory_size() > 2 * used)
}

/// The values in memory of their own: a page in a cache must not keep all that was read with it.
fn copy(values: &ArrayRef) -> Result<ArrayRef> {
    // Of an array alone none is made.
    concat(&[values.as_ref(), values.slice(0, 0).as_ref()])
        .map_err(|e| Error::internal(format!("a page of an index: {e}")))
}

fn number(page: usize) -> Option<u32> {
    u32::try_from(page).ok()
}
