//! The pages of each column: the rows of each, and the decompressed buffers of the last page.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use pennon_core::file::{ArrayEncoding, ColumnMetadata, CompressionScheme, PageLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use crate::container::{FileMetadata, PageRows, rows_by_page, starts};
use crate::encodings::general::decode::decompress;

/// All columns of a file of version 2.0.
#[derive(Debug)]
pub(crate) struct ColumnPages(Vec<Pages>);

/// Pages of a column.
#[derive(Debug)]
pub(super) struct Pages {
    /// First row of each page, and the number of rows.
    starts: Vec<u64>,
    /// For lists: the first item of each page among all items, and the number of items.
    items: Vec<u64>,
    /// Decompressed buffers of the page that was read last, as (page, buffer, bytes). Scans return to a page
    /// with the next rows, and a compressed buffer must be read whole.
    decompressed: Mutex<Vec<(usize, u32, Bytes)>>,
}

/// A column of a read.
#[derive(Debug)]
pub(super) struct Column<'a> {
    /// Dotted path of the field, for errors.
    pub path: String,
    pub index: u32,
    pub metadata: &'a ColumnMetadata,
    pub pages: &'a Pages,
    pub file_size: u64,
}

/// A page of a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page<'a> {
    pub number: usize,
    pub metadata: &'a PageMetadata,
    pub encoding: &'a ArrayEncoding,
    pub pages: &'a Pages,
    pub file_size: u64,
    /// Values that each of its arrays has, at most: those of its rows.
    pub values: u64,
}

impl ColumnPages {
    /// Adds up the pages. Errors: `Corrupt` for more rows or items than can be counted.
    pub(crate) fn new(metadata: &FileMetadata) -> Result<Self> {
        metadata.columns.iter().map(Pages::new).collect::<Result<_>>().map(Self)
    }

    pub(super) fn get(&self, column: usize) -> Option<&Pages> {
        self.0.get(column)
    }

    /// Bytes of memory held, about.
    pub(crate) fn memory_size(&self) -> usize {
        self.0.iter().map(|pages| pages.lock().iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>()).sum()
    }
}

impl Pages {
    fn new(column: &ColumnMetadata) -> Result<Self> {
        let items = |page: &PageMetadata| match page.layout {
            PageLayout::Array(ArrayEncoding::List { num_items, .. }) => num_items,
            _ => 0,
        };
        Ok(Self {
            starts: starts(column.pages.iter().map(|page| page.num_rows))?,
            items: starts(column.pages.iter().map(items))?,
            decompressed: Mutex::default(),
        })
    }

    /// Rows of the column.
    pub(super) fn num_rows(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Items of all lists.
    pub(super) fn num_items(&self) -> u64 {
        self.items.last().copied().unwrap_or_default()
    }

    /// Items before a page.
    pub(super) fn first_item(&self, page: usize) -> u64 {
        self.items.get(page).copied().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(usize, u32, Bytes)>> {
        self.decompressed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer that was decompressed before.
    pub(super) fn decompressed(&self, page: usize, buffer: u32) -> Option<Bytes> {
        self.lock().iter().find(|(p, b, _)| (*p, *b) == (page, buffer)).map(|(_, _, bytes)| bytes.clone())
    }

    /// Decompresses a buffer to so many bytes at most, and keeps it until another page is decompressed.
    pub(super) fn decompress(
        &self,
        page: usize,
        buffer: u32,
        (scheme, most): (CompressionScheme, usize),
        bytes: &[u8],
    ) -> Result<Bytes> {
        let bytes = Bytes::from(decompress(scheme, bytes, most)?);
        let mut kept = self.lock();
        kept.retain(|(p, b, _)| *p == page && *b != buffer);
        kept.push((page, buffer, bytes.clone()));
        Ok(bytes)
    }
}

impl<'a> Column<'a> {
    /// The pages of these rows, and which rows of each page.
    pub(super) fn split(&self, rows: &RowRanges) -> Result<Vec<(Page<'a>, RowRanges)>> {
        let (end, found) = (rows.span().end, self.pages.num_rows());
        if end > found {
            return Err(Error::corrupt(format!("{self}: rows up to {end} needed, there are {found}")));
        }
        let page = |PageRows { page: number, rows }| {
            let metadata = self.metadata.pages.get(number);
            match metadata.map(|m| (m, &m.layout)) {
                Some((metadata, PageLayout::Array(encoding))) => {
                    let (pages, file_size, values) = (self.pages, self.file_size, metadata.num_rows);
                    Ok((Page { number, metadata, encoding, pages, file_size, values }, rows))
                }
                _ => Err(Error::internal(format!("{self}: page {number} is not of file version 2.0"))),
            }
        };
        rows_by_page(&self.pages.starts, rows).into_iter().map(page).collect()
    }

    /// Column and page, for errors.
    pub(super) fn location(&self, page: &Page<'_>) -> String {
        let at = page.metadata.buffers.first().map_or(String::new(), |b| format!(" at {}", b.start));
        format!("{self}: {} page {}{at}", page.encoding.name(), page.number)
    }
}

impl fmt::Display for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field `{}` (column {})", self.path, self.index)
    }
}
