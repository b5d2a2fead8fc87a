//! Bitmap indices: the set of rows of each value.
//!
//! | file | columns |
//! |---|---|
//! | `bitmap_page_lookup.lance` | `keys`: a row for each value, null among them; `bitmaps` binary: a [`RowSet`] |
//!
//! Keys are written in their order, null first, and read in any.

use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use arrow_select::take::take;
use pennon_core::file::FileVersion;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};
use pennon_datafile::{Ahead, ColumnMap, FileReader};

use crate::answer::Answer;
use crate::files::{AHEAD, IndexFiles, SetsWriter, WrittenFile, column};
use crate::intervals::{Interval, Passing, passing_all};
use crate::row_set::RowSet;
use crate::sort::SortedRun;
use crate::value_test::ValueTest;
use crate::values::{Value, compare_at, first_in, value_at};

pub(crate) const FILE: &str = "bitmap_page_lookup.lance";
/// Statistics in the metadata of the schema, as the reference writes them.
const STATISTICS: &str = "lance:index_stats";

/// A bitmap index that was opened: its keys are in memory, their sets are read when they are needed.
#[derive(Debug)]
pub struct BitmapIndex {
    reader: FileReader,
    bitmaps: Field,
    columns: ColumnMap,
    /// In their order, null first.
    keys: ArrayRef,
    /// The row of the file of each key; `None` if keys are stored in their order.
    rows: Option<Vec<u64>>,
    name: String,
}

impl BitmapIndex {
    /// Reads the keys. Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn open(files: &dyn IndexFiles) -> Result<Self> {
        let source = files.open(FILE)?;
        let name = source.name().to_owned();
        let reader = FileReader::open_ahead(source, Ahead::Held(AHEAD))?;
        let fields = column(&reader, "keys").and_then(|keys| Ok((keys, column(&reader, "bitmaps")?)));
        let (keys, bitmaps) = fields.map_err(|e| e.in_file(&name))?;
        let columns = reader.column_map();
        let all = RowRanges::from(0..reader.metadata().num_rows);
        let read = reader.read(std::slice::from_ref(&keys), &columns, &all)?;
        let keys = read.into_iter().next().ok_or_else(|| Error::internal("keys were not read"))?;
        let is_sorted = (1..keys.len())
            .all(|at| compare_at((keys.as_ref(), at - 1), (keys.as_ref(), at)) == std::cmp::Ordering::Less);
        if is_sorted {
            return Ok(Self { reader, bitmaps, columns, keys, rows: None, name });
        }
        let row_numbers: UInt64Array = (0..keys.len() as u64).collect();
        let sorted = SortedRun::sort(&keys, &row_numbers)?;
        let keys = Arc::clone(sorted.values());
        if let Some(at) = (1..keys.len())
            .find(|at| compare_at((keys.as_ref(), at - 1), (keys.as_ref(), *at)) != std::cmp::Ordering::Less)
        {
            return Err(Error::corrupt(format!("the key of row {} is there twice", sorted.rows().value(at)))
                .in_file(&name));
        }
        let rows = Some(sorted.rows().values().to_vec());
        Ok(Self { reader, bitmaps, columns, keys, rows, name })
    }

    /// How many values there are, null among them.
    pub fn num_keys(&self) -> usize {
        self.keys.len()
    }

    /// Type of the values.
    pub fn data_type(&self) -> &DataType {
        self.keys.data_type()
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        let rows = self.rows.as_ref().map_or(0, |rows| 8 * rows.len());
        self.keys.get_array_memory_size() + self.reader.memory_size() + rows
    }

    /// The rows for which tests hold, all of them; `None` for tests of lists and of parts of texts.
    ///
    /// Errors: `Store`, and `Corrupt` with the name of the file.
    pub fn search(&self, tests: &[&ValueTest]) -> Result<Option<Answer>> {
        let Some(passing) = passing_all(tests) else { return Ok(None) };
        Ok(Some(match passing {
            Passing::Nulls => Answer::exact(self.union_of(0..self.nulls())?),
            Passing::Inside(intervals) => Answer::exact(self.inside(&intervals, false)?),
            Passing::Outside(intervals) => Answer::exact_except(self.inside(&intervals, true)?),
        }))
    }

    /// Every key with its rows, in the order of keys, some at a time. Errors: those of [`Self::search`].
    pub fn scan(&self, give: &mut dyn FnMut(&ArrayRef, Vec<RowSet>) -> Result<()>) -> Result<()> {
        const AT_ONCE: usize = 4096;
        for start in (0..self.keys.len()).step_by(AT_ONCE) {
            let len = AT_ONCE.min(self.keys.len() - start);
            let sets = self.sets((start..start + len).collect())?;
            give(&self.keys.slice(start, len), sets)?;
        }
        Ok(())
    }

    /// The rows of keys in some intervals and, if wanted, of null.
    fn inside(&self, intervals: &[Interval], nulls: bool) -> Result<RowSet> {
        let mut at: Vec<usize> = if nulls { (0..self.nulls()).collect() } else { Vec::new() };
        for interval in intervals {
            let start = self.first(|key| !interval.is_above(key));
            at.extend(start..self.first(|key| interval.is_below(key)).max(start));
        }
        self.union_of(at)
    }

    fn nulls(&self) -> usize {
        self.keys.null_count()
    }

    /// The first key that is not null for which a condition holds that holds for all behind it.
    fn first(&self, passes: impl Fn(&Value<'_>) -> bool) -> usize {
        let keys = self.keys.as_ref();
        first_in(self.nulls()..keys.len(), |at| value_at(keys, at).is_some_and(|key| passes(&key)))
    }

    fn union_of(&self, keys: impl IntoIterator<Item = usize>) -> Result<RowSet> {
        Ok(self.sets(keys.into_iter().collect())?.into_iter().fold(RowSet::new(), RowSet::union))
    }

    /// The sets of some keys, in their order.
    pub(crate) fn sets(&self, keys: Vec<usize>) -> Result<Vec<RowSet>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let row = |key: &usize| match &self.rows {
            None => Ok(*key as u64),
            Some(rows) => rows.get(*key).copied().ok_or_else(|| Error::internal("a key without a row")),
        };
        let wanted = keys.iter().map(row).collect::<Result<Vec<u64>>>()?;
        let rows: RowRanges = wanted.iter().map(|row| *row..*row + 1).collect();
        let read = self.reader.read(std::slice::from_ref(&self.bitmaps), &self.columns, &rows)?;
        let bitmaps = read.first().and_then(|array| array.as_binary_opt::<i32>());
        let bitmaps = bitmaps.ok_or_else(|| self.corrupt("`bitmaps` is not binary"))?;
        let rows = rows.ranked();
        let set = |row: u64| {
            let at = rows.position(row).and_then(|at| usize::try_from(at).ok());
            let at =
                at.filter(|at| *at < bitmaps.len()).ok_or_else(|| Error::internal("a set was not read"))?;
            if bitmaps.is_null(at) {
                return Ok(RowSet::new());
            }
            RowSet::decode(bitmaps.value(at)).map_err(|e| e.at(format!("row {row}")).in_file(&self.name))
        };
        wanted.into_iter().map(set).collect()
    }

    pub(crate) fn reader(&self) -> &FileReader {
        &self.reader
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The position of a key; `None` is null.
    pub(crate) fn position(&self, key: Option<&Value<'_>>) -> Option<usize> {
        match key {
            None => (self.nulls() > 0).then_some(0),
            Some(key) => {
                let at = self.first(|other| other.compare(key).is_ge());
                let found = value_at(self.keys.as_ref(), at)?;
                found.compare(key).is_eq().then_some(at)
            }
        }
    }

    fn corrupt(&self, message: &str) -> Error {
        Error::corrupt(message).in_file(&self.name)
    }
}

/// Writes the file of a bitmap index.
pub struct BitmapWriter<W> {
    sets: SetsWriter<W>,
    /// The rows of the last value, which may go on.
    open: Option<(ArrayRef, Vec<u64>)>,
    /// Keys that are not written yet, in pieces.
    keys: Vec<ArrayRef>,
    num_keys: u64,
}

impl<W: Write> BitmapWriter<W> {
    /// A writer of values of a type. Errors: those of [`pennon_datafile::FileWriter::try_new`].
    pub fn try_new(sink: W, data_type: &DataType, version: FileVersion) -> Result<Self> {
        let schema = ArrowSchema::new(vec![
            ArrowField::new("keys", data_type.clone(), true),
            ArrowField::new("bitmaps", DataType::Binary, true),
        ]);
        let sets = SetsWriter::try_new(sink, schema, version)?;
        Ok(Self { sets, open: None, keys: Vec::new(), num_keys: 0 })
    }

    /// Appends values that are not below those before, each with its row.
    pub fn write(&mut self, run: &SortedRun) -> Result<()> {
        let (values, rows) = (run.values(), run.rows().values());
        // The first of each value that does not go on behind the run.
        let mut firsts = Vec::new();
        let mut start = 0;
        while start < values.len() {
            let end = end_of_equal(values.as_ref(), start);
            let of_key = rows.get(start..end).unwrap_or_default();
            match &mut self.open {
                Some((key, rows)) if compare_at((key.as_ref(), 0), (values.as_ref(), start)).is_eq() => {
                    rows.extend_from_slice(of_key);
                }
                _ => {
                    self.close()?;
                    if end == values.len() {
                        self.push_keys(values, &mut firsts)?;
                        self.open = Some((taken(values, &[start as u64])?, of_key.to_vec()));
                    } else {
                        firsts.push(start as u64);
                        self.push_set(of_key)?;
                    }
                }
            }
            if self.sets.is_full() {
                self.push_keys(values, &mut firsts)?;
                self.flush()?;
            }
            start = end;
        }
        self.push_keys(values, &mut firsts)
    }

    /// Appends a value, which is above those before, with its rows.
    pub fn write_key(&mut self, key: ArrayRef, rows: &RowSet) -> Result<()> {
        self.sets.push(rows.encode()?);
        self.num_keys += 1;
        self.keys.push(key);
        if self.sets.is_full() { self.flush() } else { Ok(()) }
    }

    /// Appends the set of rows of a value.
    fn push_set(&mut self, rows: &[u64]) -> Result<()> {
        match rows {
            [row] => self.sets.push(RowSet::encode_one(*row)),
            rows => self.sets.push(RowSet::of(rows.to_vec()).encode()?),
        }
        self.num_keys += 1;
        Ok(())
    }

    /// Appends values of which the sets were appended, and forgets where they are.
    fn push_keys(&mut self, values: &ArrayRef, firsts: &mut Vec<u64>) -> Result<()> {
        if !firsts.is_empty() {
            self.keys.push(taken(values, firsts)?);
            firsts.clear();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Some((key, rows)) = self.open.take() {
            self.push_set(&rows)?;
            self.keys.push(key);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<&dyn Array> = self.keys.iter().map(AsRef::as_ref).collect();
        let keys = arrow_select::concat::concat(&keys);
        self.sets.flush(keys.map_err(|e| Error::internal(format!("keys of an index: {e}")))?)?;
        self.keys.clear();
        Ok(())
    }

    /// Sets a key of the schema's metadata.
    pub(crate) fn add_metadata(&mut self, key: &str, value: String) {
        self.sets.file.add_schema_metadata(key.to_owned(), value);
    }

    /// Stores bytes next to the rows; gives their index among the global buffers.
    pub(crate) fn add_buffer(&mut self, bytes: &[u8]) -> Result<u32> {
        self.sets.file.add_global_buffer(bytes)
    }

    /// Writes what is left. The sink is flushed, not synced.
    pub fn finish(mut self) -> Result<WrittenFile<W>> {
        self.close()?;
        self.flush()?;
        let statistics = format!("{{\"num_bitmaps\":{}}}", self.num_keys);
        self.sets.file.add_schema_metadata(STATISTICS.to_owned(), statistics);
        self.sets.finish(FILE)
    }
}

/// Where the values end that are equal to one, in sorted values.
fn end_of_equal(values: &dyn Array, start: usize) -> usize {
    let is_equal = |at: usize| compare_at((values, start), (values, at)).is_eq();
    // By steps that double, then by halves: there may be few or many.
    let mut step = 1;
    while start + step < values.len() && is_equal(start + step) {
        step *= 2;
    }
    first_in(start + step / 2 + 1..values.len().min(start + step), |at| !is_equal(at))
}

fn taken(values: &ArrayRef, at: &[u64]) -> Result<ArrayRef> {
    take(values.as_ref(), &UInt64Array::from(at.to_vec()), None)
        .map_err(|e| Error::internal(format!("keys of an index: {e}")))
}
