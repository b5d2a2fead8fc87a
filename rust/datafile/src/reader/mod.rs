//! Reading rows of a data file as Arrow arrays.
//!
//! A read is: fields -> leaf columns -> the pages of their rows -> two passes of requests over all of them (a third
//! one if there are blobs) -> values and levels, page by page into one set of buffers per column -> arrays, leaf by leaf
//! into the nesting.

mod blocks;
mod column;
mod dense;
mod dictionary;
mod nest;
mod page_size;
mod stored;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{ColumnMetadata, FileVersion};
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use crate::array_encoding::decode as array_encoding;
use crate::container::{ColumnMap, FileMetadata, PageRows, rows_by_page, starts};
use crate::layout::{self, NullRead, Prepared};
use crate::legacy;
use crate::repdef::assemble::PathLayer;
use crate::source::{ByteSource, Fetch, HeldSource, MemorySource, VerifyReads};
use crate::statistics::{ColumnStatistics, Statistics};
use column::{ColumnRead, LeafColumn};
use dense::Dense;
use nest::Leaves;
use page_size::{buffers, estimate, page_bytes};

/// A data file of version 0.1, 2.0, 2.1 or 2.2, open for reading.
///
/// Cheap to share: reads are independent, and page metadata that a read decodes (positions of chunks, dictionary)
/// is kept for the next read.
///
/// ```no_run
/// # fn main() -> pennon_core::Result<()> {
/// use std::sync::Arc;
/// use pennon_core::rows::RowRanges;
/// use pennon_datafile::{FileReader, MemorySource};
///
/// let bytes = std::fs::read("part.lance").unwrap();
/// let reader = FileReader::open(Arc::new(MemorySource::new("part.lance", bytes)))?;
/// let fields = &reader.metadata().schema.fields;
/// let arrays = reader.read(fields, &reader.column_map(), &RowRanges::from([0..100, 5_000..5_001]))?;
/// assert_eq!(arrays.len(), fields.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileReader {
    source: Arc<dyn ByteSource>,
    /// The source without checks of what is read.
    unchecked: Arc<dyn ByteSource>,
    metadata: FileMetadata,
    columns: Vec<ColumnState>,
    /// Used instead of `columns` in a file of version 2.0.
    arrays: Option<array_encoding::ColumnPages>,
    statistics: Statistics,
    /// Where lookup buffers begin that were read with the metadata, and their bytes.
    lookups: Option<(u64, Bytes)>,
    memory: AtomicUsize,
}

/// What is read with the metadata of a file, for the reads of rows that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing.
    Metadata,
    /// So many bytes of the end of the file, until [`FileReader::forget_ahead`] is called.
    Held(u64),
    /// The file, as long as the reader lives.
    Kept,
}

/// What a read is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Values,
    /// Which rows are null.
    Nulls,
}

/// What is known of a column's pages.
#[derive(Debug)]
struct ColumnState {
    /// First row of each page, and the number of rows.
    starts: Vec<u64>,
    pages: Vec<OnceLock<Arc<Prepared>>>,
}

impl FileReader {
    /// Opens a file: reads its metadata. Errors: as [`FileMetadata::read`].
    pub fn open(source: Arc<dyn ByteSource>) -> Result<Self> {
        Self::open_ahead(source, Ahead::Metadata)
    }

    /// As [`Self::open`], reading some of the values with the metadata: [`Self::read`] does not request them again.
    pub fn open_ahead(source: Arc<dyn ByteSource>, ahead: Ahead) -> Result<Self> {
        let verify_reads = source.verify_reads();
        Self::open_with(source, ahead, verify_reads)
    }

    fn open_with(source: Arc<dyn ByteSource>, ahead: Ahead, verify_reads: VerifyReads) -> Result<Self> {
        let bytes = match ahead {
            Ahead::Metadata => 0,
            Ahead::Held(bytes) => bytes,
            Ahead::Kept => u64::MAX,
        };
        let (metadata, end) = FileMetadata::read_with_end(source.as_ref(), bytes, verify_reads)?;
        if metadata.checksums.is_none()
            && verify_reads == VerifyReads::Pages
            && let Some(sealed) = blocks::sealed(&source)?
        {
            return Self::open_with(sealed, ahead, VerifyReads::Metadata);
        }
        let kept = end.whole_file().filter(|_| ahead == Ahead::Kept || end.is_of_small_file()).cloned();
        let unchecked = match &kept {
            Some(bytes) => Arc::new(MemorySource::new(source.name(), bytes.clone())),
            None => source,
        };
        let checked = metadata.checksums.as_ref().filter(|_| verify_reads == VerifyReads::Pages);
        let source = match bytes > 0 && kept.is_none() {
            true => Arc::new(end.held_over(&unchecked)),
            false => Arc::clone(&unchecked),
        };
        let source = match checked {
            Some(checksums) => blocks::checked(source, checksums, &end),
            None => Ok(source),
        };
        let source = source.map_err(|e| e.in_data_file(unchecked.name()))?;
        let columns = metadata.columns.iter().map(ColumnState::new).collect::<Result<Vec<_>>>();
        let columns = columns.map_err(|e| e.in_data_file(source.name()))?;
        let arrays = (metadata.version == FileVersion::V2_0)
            .then(|| array_encoding::ColumnPages::new(&metadata))
            .transpose()
            .map_err(|e| e.in_data_file(source.name()))?;
        let pages: usize = columns.iter().map(|c| c.pages.len()).sum();
        let in_tail = Statistics::in_tail(&metadata, &end);
        let lookups = if kept.is_none() { end.lookups(&metadata.columns) } else { None };
        let lookups =
            lookups.filter(|(start, _)| checked.is_none_or(|checked| checked.second().start == *start));
        let held = [&kept, &in_tail, &lookups.as_ref().map(|(_, bytes)| bytes.clone())];
        let held = held.into_iter().flatten().map(Bytes::len).sum::<usize>();
        let held = held + checked.map_or(0, blocks::table_bytes);
        let held = held + metadata.legacy.as_ref().map_or(0, |pages| pages.memory_size());
        let memory = AtomicUsize::new(held + pages * 512 + metadata.columns.len() * 128 + 1024);
        let statistics = Statistics::new(metadata.columns.len(), in_tail);
        Ok(Self { source, metadata, unchecked, columns, arrays, statistics, lookups, memory })
    }

    /// The metadata of the file.
    pub fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    /// Bytes of memory the reader holds, about; grows as pages are read for the first time.
    pub fn memory_size(&self) -> usize {
        let arrays = self.arrays.as_ref().map_or(0, array_encoding::ColumnPages::memory_size);
        self.memory.load(Ordering::Relaxed) + arrays
    }

    /// Bounds and null counts of a column, of a file that has them. Read at the first call.
    ///
    /// Errors: `Corrupt`, naming the file, if the statistics were changed after they were written.
    pub fn statistics(&self, column: u32) -> Result<Option<Arc<ColumnStatistics>>> {
        let found = self.statistics.column(self.source.as_ref(), &self.metadata, column);
        let (found, taken) = found.map_err(|e| self.within(e))?;
        self.memory.fetch_add(taken, Ordering::Relaxed);
        Ok(found)
    }

    /// The columns of the fields of the file's own schema.
    pub fn column_map(&self) -> ColumnMap {
        ColumnMap::of_schema(&self.metadata.schema, self.metadata.version)
    }

    /// Reads rows: one array per field, the ranges one after another.
    ///
    /// Fields may be pruned (a struct with some of its members). In a file of version 0.1 fields are found by id, without
    /// `columns`.
    ///
    /// Errors: `InvalidInput` for rows beyond the last one, for fields without column, and
    /// for more text than an array can hold; `Unsupported` and `Corrupt` name file, field, column and page.
    pub fn read(&self, fields: &[Field], columns: &ColumnMap, rows: &RowRanges) -> Result<Vec<ArrayRef>> {
        self.check_rows(rows)?;
        self.check_descriptions(fields, columns)?;
        let source = self.source.as_ref();
        if let Some(pages) = &self.metadata.legacy {
            return legacy::read(source, &self.metadata, pages, fields, rows).map_err(|e| self.within(e));
        }
        if let Some(arrays) = &self.arrays {
            return array_encoding::read(source, &self.metadata, arrays, fields, columns, rows)
                .map_err(|e| self.within(e));
        }
        let mut leaves = Vec::with_capacity(fields.len());
        for field in fields {
            leaves.push(self.leaves_of(field, columns)?);
        }
        let Some(dense) = Dense::around(rows) else {
            return self.read_fields(fields, leaves, rows, Wanted::Values);
        };
        // Every field by its cheaper method, all fields of a method in one read.
        let narrow: Vec<bool> = leaves.iter().map(|l| self.row_bytes(l) <= dense::MAX_ROW_BYTES).collect();
        let mut parts: [(Vec<Field>, Vec<Vec<LeafColumn>>); 2] = Default::default();
        for ((field, leaves), &narrow) in fields.iter().zip(leaves).zip(&narrow) {
            let [wide_part, narrow_part] = &mut parts;
            let (part_fields, part_leaves) = if narrow { narrow_part } else { wide_part };
            part_fields.push(field.clone());
            part_leaves.push(leaves);
        }
        let [(wide_fields, wide_leaves), (narrow_fields, narrow_leaves)] = parts;
        let mut wide_arrays = self.read_fields(&wide_fields, wide_leaves, rows, Wanted::Values)?.into_iter();
        let mut narrow_arrays =
            self.read_fields(&narrow_fields, narrow_leaves, &dense.rows, Wanted::Values)?.into_iter();
        let next = |narrow: bool| match narrow {
            true => narrow_arrays.next().map(|array| dense.keep(&array)),
            false => wide_arrays.next().map(Ok),
        };
        narrow
            .into_iter()
            .map(next)
            .map(|a| a.ok_or_else(|| Error::internal("a field was not read"))?)
            .collect()
    }

    /// The bytes of a global buffer; 0 is the schema. Errors: `Corrupt`, naming the file, if there is no such buffer.
    pub fn global_buffer(&self, index: u32) -> Result<Bytes> {
        let buffers = &self.metadata.global_buffers;
        let range = usize::try_from(index).ok().and_then(|index| buffers.get(index)).cloned();
        let range = range.ok_or_else(|| {
            let count = buffers.len();
            self.within(Error::corrupt(format!("there is no global buffer {index}, the file has {count}")))
        })?;
        Ok(self.source.read(&[range])?.into_iter().next().unwrap_or_default())
    }

    /// Lets go of what was read [`Ahead::Held`], and of what the source has in memory.
    pub fn forget_ahead(&self) {
        self.source.forget();
    }

    /// As [`Self::read`] of one field, for callers that ask which rows are null: values may be others, or empty. Where
    /// the layout of pages tells, as that of large values does, the values are not read.
    pub fn read_nulls(&self, field: &Field, columns: &ColumnMap, rows: &RowRanges) -> Result<ArrayRef> {
        let fields = std::slice::from_ref(field);
        let mut arrays = if self.arrays.is_some() || self.metadata.legacy.is_some() {
            self.read(fields, columns, rows)?
        } else {
            self.check_rows(rows)?;
            self.check_descriptions(fields, columns)?;
            self.read_fields(fields, vec![self.leaves_of(field, columns)?], rows, Wanted::Nulls)?
        };
        arrays.pop().ok_or_else(|| Error::internal("a field was not read"))
    }

    /// Bytes that rows take in memory in these fields, about, by what their pages are declared to have. Compressed values
    /// that fill a page alone may take more.
    ///
    /// Errors: `InvalidInput` for a field without column.
    pub fn bytes_in_memory(&self, fields: &[&Field], columns: &ColumnMap, rows: &RowRanges) -> Result<u64> {
        let mut bytes = 0_u64;
        for field in fields {
            if self.metadata.legacy.is_some() {
                bytes = bytes.saturating_add(legacy::bytes_in_memory(&self.metadata, field, rows.count()));
                continue;
            }
            for leaf in self.leaves_of(field, columns)? {
                if let Some(width) = leaf.data_type.primitive_width() {
                    bytes = bytes.saturating_add(rows.count().saturating_mul(width as u64));
                }
                let index = usize::try_from(leaf.column).unwrap_or(usize::MAX);
                if let (Some(state), Some(column)) =
                    (self.columns.get(index), self.metadata.columns.get(index))
                    && leaf.data_type.primitive_width().is_none()
                {
                    let positions = rows.scaled(leaf.per_row());
                    for PageRows { page, rows } in
                        rows_by_page(&state.starts, positions.as_ref().unwrap_or(rows))
                    {
                        let page = column.pages.get(page);
                        let of_page = page.map_or(0, |page| estimate(page, &leaf.data_type, rows.count()));
                        bytes = bytes.saturating_add(of_page);
                    }
                }
            }
        }
        Ok(bytes)
    }

    fn leaves_of(&self, field: &Field, columns: &ColumnMap) -> Result<Vec<LeafColumn>> {
        let mut leaves = Vec::new();
        let mut collector = nest::Collector { file: &self.metadata.schema, columns, out: &mut leaves };
        collector.collect(field, "", &mut Vec::new()).map_err(|e| self.within(e))?;
        Ok(leaves)
    }

    /// Bytes of a row in the file, about, in these columns.
    fn row_bytes(&self, leaves: &[LeafColumn]) -> u64 {
        let column = |leaf: &LeafColumn| {
            let column = usize::try_from(leaf.column).ok().and_then(|at| self.metadata.columns.get(at));
            column.map_or(0, |column| column.pages.iter().map(page_bytes).fold(0, u64::saturating_add))
        };
        leaves.iter().map(column).fold(0, u64::saturating_add) / self.metadata.num_rows.max(1)
    }

    /// Reads rows that were checked; the leaves are those of each field.
    fn read_fields(
        &self,
        fields: &[Field],
        leaves: Vec<Vec<LeafColumn>>,
        rows: &RowRanges,
        wanted: Wanted,
    ) -> Result<Vec<ArrayRef>> {
        let leaves: Vec<LeafColumn> = leaves.into_iter().flatten().collect();
        let read = self.read_leaves(&leaves, rows, wanted)?;
        let mut read = Leaves::new(leaves, read);
        fields
            .iter()
            .map(|field| {
                nest::build(field, &mut read)
                    .map_err(|e| self.within(e.at(format_args!("field `{}`", field.name))))
            })
            .collect()
    }

    /// Reads rows of a column that has no field, such as column-backed row ids (table format 4.7).
    ///
    /// Errors: as [`Self::read`]; `Corrupt` also for a null.
    pub fn read_u64_column(&self, column: u32, rows: &RowRanges) -> Result<Vec<u64>> {
        if self.metadata.legacy.is_some() {
            let found = format!("{}: a file of version 0.1 has no columns without fields", self.location());
            return Err(Error::corrupt(found));
        }
        let array = if let Some(arrays) = &self.arrays {
            self.check_rows(rows)?;
            let source = self.source.as_ref();
            let read =
                array_encoding::read_column(source, &self.metadata, arrays, column, DataType::UInt64, rows);
            Some(read.map_err(|e| self.within(e))?)
        } else {
            let leaf = LeafColumn {
                path: format!("column {column}"),
                column,
                data_type: DataType::UInt64,
                layers: vec![PathLayer::Item],
                repeated: Vec::new(),
                members: Vec::new(),
            };
            let read = self.read_leaves(std::slice::from_ref(&leaf), rows, Wanted::Values)?;
            read.into_iter().next().map(|leaf| leaf.array)
        };
        match array.as_ref().and_then(|a| a.as_any().downcast_ref::<UInt64Array>()) {
            Some(array) if array.null_count() == 0 => Ok(array.values().to_vec()),
            Some(_) => Err(Error::corrupt(format!("{}: column {column} has a null", self.location()))),
            None => Err(Error::internal("unsigned integers were read as another type")),
        }
    }

    fn within(&self, error: Error) -> Error {
        error.in_data_file(self.source.name())
    }

    fn location(&self) -> String {
        format!("data file {}", self.source.name())
    }

    fn check_rows(&self, rows: &RowRanges) -> Result<usize> {
        let (end, found) = (rows.span().end, self.metadata.num_rows);
        if end > found {
            return Err(Error::invalid_input(format!(
                "{}: rows up to {end} asked for, the file has {found}",
                self.location()
            )));
        }
        let total = rows.count();
        // Many of Arrow's offsets, and parts of its C interface, have 32 bits.
        i32::try_from(total).ok().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
            Error::invalid_input(format!("{}: {total} rows at once; read smaller ranges", self.location()))
        })
    }

    /// Errors: `Unsupported` for descriptions of values that are not stored as blobs.
    fn check_descriptions(&self, fields: &[Field], columns: &ColumnMap) -> Result<()> {
        for field in fields {
            let column = columns.column(field.id).and_then(|at| usize::try_from(at).ok());
            let column = column.and_then(|at| self.metadata.columns.get(at));
            if field.describes_legacy_blob() && !column.is_some_and(ColumnMetadata::holds_blobs) {
                return Err(self.within(Error::unsupported(format!(
                    "field `{}` has no descriptions: its values are not stored as blobs, read their bytes \
                     (blob_handling=\"all_binary\")",
                    field.name
                ))));
            }
            self.check_descriptions(&field.children, columns)?;
        }
        Ok(())
    }

    fn read_leaves(
        &self,
        leaves: &[LeafColumn],
        rows: &RowRanges,
        wanted: Wanted,
    ) -> Result<Vec<column::LeafArray>> {
        let source = self.source.as_ref();
        let total = self.check_rows(rows)?;
        let mut first = Fetch::default();
        let mut columns = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let location = || format!("{}: field `{}` (column {})", self.location(), leaf.path, leaf.column);
            columns.push(self.begin(leaf, rows, total, wanted, &mut first).at(location)?);
        }
        let lookups = self.lookups.as_ref().map(|part| HeldSource::new(source, part.clone()));
        let first_source = lookups.as_ref().map_or(source, |held| held as &dyn ByteSource);
        let held = match wanted {
            Wanted::Values if !source.is_local() => {
                self.hold_pages(first_source, leaves, rows, &first).map_err(|e| self.within(e))?
            }
            Wanted::Values | Wanted::Nulls => None,
        };
        let first_source = held.as_ref().map_or(first_source, |held| held as &dyn ByteSource);
        let bytes = first.run(first_source).map_err(|e| self.within(e))?;
        let source = held.as_ref().map_or(source, |held| held as &dyn ByteSource);
        let mut second = Fetch::default();
        for column in &mut columns {
            column.advance(&bytes, &mut second).map_err(|e| self.within(e))?;
            self.keep(column);
        }
        let mut bytes = second.begin(source, self.metadata.size).map_err(|e| self.within(e))?;
        let mut third = Fetch::default();
        for column in &mut columns {
            column.blobs(&mut bytes, self.metadata.size, &mut third).map_err(|e| self.within(e))?;
        }
        // Overlapping blobs would make memory larger than the file.
        let (total, _) = third.extent();
        if total > self.metadata.size {
            let size = self.metadata.size;
            let found = format!("{total} bytes of blobs in a file of {size} bytes");
            return Err(self.within(Error::corrupt(found)));
        }
        let blobs = third.run(source).map_err(|e| self.within(e))?;
        let finish = |column: ColumnRead<'_>| column.finish(&mut bytes, &blobs, self.metadata.size);
        columns.into_iter().map(finish).map(|column| column.map_err(|e| self.within(e))).collect()
    }

    /// For a store where a request takes long: the pages that are small, or of which much is wanted, read with what the
    /// first pass wants of the others; `None` if the first pass has nothing to read.
    fn hold_pages<'a>(
        &self,
        source: &'a dyn ByteSource,
        leaves: &[LeafColumn],
        rows: &RowRanges,
        first: &Fetch,
    ) -> Result<Option<HeldSource<'a>>> {
        let part = self.lookups.as_ref().map(|(start, bytes)| *start..*start + bytes.len() as u64);
        let is_read = |range: &Range<u64>| {
            range.is_empty()
                || part.as_ref().is_some_and(|part| part.start <= range.start && range.end <= part.end)
        };
        if first.ranges().iter().all(is_read) {
            return Ok(None);
        }
        let mut ranges = first.ranges().to_vec();
        for leaf in leaves {
            let index = usize::try_from(leaf.column).unwrap_or(usize::MAX);
            let (Some(state), Some(column)) = (self.columns.get(index), self.metadata.columns.get(index))
            else {
                continue;
            };
            let positions = rows.scaled(leaf.per_row());
            for PageRows { page, rows } in rows_by_page(&state.starts, positions.as_ref().unwrap_or(rows)) {
                let Some(metadata) = column.pages.get(page) else { continue };
                if page_bytes(metadata) <= SMALL_PAGE || rows.count() >= metadata.num_rows / MUCH {
                    ranges.extend_from_slice(buffers(metadata));
                }
            }
        }
        ranges.retain(|range| !is_read(range));
        HeldSource::fetch(source, ranges).map(Some)
    }

    /// Finds the pages of the rows and requests what must be known first.
    fn begin<'a>(
        &'a self,
        leaf: &'a LeafColumn,
        rows: &RowRanges,
        total: usize,
        wanted: Wanted,
        fetch: &mut Fetch,
    ) -> Result<ColumnRead<'a>> {
        let index = usize::try_from(leaf.column).unwrap_or(usize::MAX);
        let (Some(state), Some(column)) = (self.columns.get(index), self.metadata.columns.get(index)) else {
            return Err(Error::corrupt(format!("the file has {} columns", self.columns.len())));
        };
        let found = state.starts.last().copied().unwrap_or_default();
        let per_row = leaf.per_row();
        if Some(found) != self.metadata.num_rows.checked_mul(per_row) {
            return Err(Error::corrupt(format!(
                "pages of {found} rows, the file has {} with {per_row} positions each",
                self.metadata.num_rows
            )));
        }
        let total = i32::try_from(total as u64 * per_row).ok().and_then(|n| usize::try_from(n).ok());
        let total = total.ok_or_else(|| {
            Error::invalid_input(format!("{per_row} items in each row; read smaller ranges of rows"))
        })?;
        let mut read = ColumnRead::new(leaf, total)?;
        let positions = if per_row == 1 { None } else { rows.scaled(per_row) };
        let rows = positions.as_ref().unwrap_or(rows);
        for PageRows { page, rows } in rows_by_page(&state.starts, rows) {
            let metadata = column.pages.get(page).ok_or_else(|| Error::internal("a page is missing"))?;
            if wanted == Wanted::Nulls
                && !read.keys_only()
                && let Some(nulls) = NullRead::begin(metadata, &rows, fetch).at(|| format!("page {page}"))?
            {
                read.push_nulls(page, metadata, rows, nulls);
                continue;
            }
            let prepared = state.pages.get(page).and_then(OnceLock::get).filter(|p| read.fits(p)).cloned();
            let first = layout::first(metadata, prepared, &rows, fetch).at(|| format!("page {page}"))?;
            read.push(page, metadata, rows, first);
        }
        Ok(read)
    }

    /// Keeps the metadata of pages.
    fn keep(&self, column: &ColumnRead<'_>) {
        let Some(state) = usize::try_from(column.column()).ok().and_then(|c| self.columns.get(c)) else {
            return;
        };
        for (page, prepared) in column.prepared() {
            if let Some(cell) = state.pages.get(page)
                && cell.set(Arc::clone(prepared)).is_ok()
            {
                self.memory.fetch_add(prepared.memory_size(), Ordering::Relaxed);
            }
        }
    }
}

/// Pages of so many bytes are read whole from a store where a request takes long: less than what it sends meanwhile.
const SMALL_PAGE: u64 = 512 << 10;
/// One in so many rows of a page, and it is read whole from such a store.
const MUCH: u64 = 4;

impl ColumnState {
    fn new(column: &ColumnMetadata) -> Result<Self> {
        let pages = column.pages.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { starts: starts(column.pages.iter().map(|page| page.num_rows))?, pages })
    }
}
