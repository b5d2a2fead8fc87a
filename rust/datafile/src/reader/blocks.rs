//! Checking all blocks of a file, and what lies in them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::file::PageMetadata;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::{Ahead, FileReader};
use crate::block_check::BlockCheck;
use crate::checked_source::{CheckedSource, read_table};
use crate::container::checksums::Checksums;
use crate::container::{ColumnMap, End};
use crate::source::{ByteSource, VerifyReads};

/// A source that checks what is read. The lookup buffers are checked now, if they were read.
pub(super) fn checked(
    source: Arc<dyn ByteSource>,
    checksums: &Checksums,
    end: &End,
) -> Result<Arc<dyn ByteSource>> {
    let table = match end.slice(&checksums.table_range()) {
        Ok(table) => Bytes::copy_from_slice(table),
        Err(_) => read_table(source.as_ref(), checksums)?,
    };
    if let Ok(bytes) = end.slice(&checksums.second())
        && let Some(damaged) = checksums.damaged_blocks(&checksums.second(), bytes, &table)?.first()
    {
        return Err(Error::corrupt(damaged.to_string()));
    }
    Ok(Arc::new(CheckedSource::new(source, checksums.clone(), table)))
}

/// A source that checks what is read of a file with a seal.
pub(super) fn sealed(source: &Arc<dyn ByteSource>) -> Result<Option<Arc<dyn ByteSource>>> {
    source.seal()?.map(|seal| seal.checked(Arc::clone(source))).transpose()
}

/// Bytes of memory that the checksums of blocks take.
pub(super) fn table_bytes(checksums: &Checksums) -> usize {
    let table = checksums.table_range();
    usize::try_from(table.end - table.start).unwrap_or(usize::MAX)
}

impl FileReader {
    /// Opens a file to look at its checksums, whatever its source says of reads. Errors: as [`Self::open`].
    pub fn open_to_verify(source: Arc<dyn ByteSource>) -> Result<Self> {
        Self::open_with(source, Ahead::Metadata, VerifyReads::Metadata)
    }

    /// Where the bytes of the file come from, with the checks of its reads.
    pub fn source(&self) -> &Arc<dyn ByteSource> {
        &self.source
    }

    /// Whether the file has checksums, and they are looked at.
    pub fn has_checksums(&self) -> bool {
        self.metadata.checksums.is_some()
    }

    /// The check of all blocks of the file before its metadata; `None` without checksums.
    ///
    /// Errors: `Store`, and `Corrupt` for a file that is cut short.
    pub fn block_check(&self) -> Result<Option<BlockCheck>> {
        let check = |checksums: &Checksums| {
            let table = read_table(self.unchecked.as_ref(), checksums)?;
            Ok(BlockCheck::new(Arc::clone(&self.unchecked), checksums.clone(), table))
        };
        self.metadata.checksums.as_ref().map(check).transpose().map_err(|e| self.within(e))
    }

    /// Columns, and pages of them, that have some of their bytes in a range of the file.
    pub fn pages_in(&self, range: &Range<u64>) -> Vec<(u32, usize)> {
        let columns = (0..).zip(&self.metadata.columns);
        let pages = columns.flat_map(|(column, of_column)| {
            of_column.pages.iter().enumerate().map(move |(page, metadata)| (column, page, metadata))
        });
        let has_some = |buffer: &Range<u64>| buffer.start < range.end && range.start < buffer.end;
        let found = pages.filter(|(_, _, page)| page.buffers.iter().any(has_some));
        found.map(|(column, page, _)| (column, page)).collect()
    }

    /// The name of the field that has a column, with those of the structs around it; `None` for no such column.
    pub fn column_name(&self, column: u32) -> Option<String> {
        let mut path = Vec::new();
        name_of(&self.metadata.schema.fields, column, &self.column_map(), &mut path).then(|| path.join("."))
    }

    /// The rows of a page; `None` where its positions are not those of rows: of items of lists in files of version 2.0.
    pub fn rows_of_page(&self, column: u32, page: usize) -> Option<Range<u64>> {
        let pages = &self.metadata.columns.get(usize::try_from(column).ok()?)?.pages;
        let count =
            |pages: &[PageMetadata]| pages.iter().fold(0, |sum: u64, p| sum.saturating_add(p.num_rows));
        let per_row = count(pages).checked_div(self.metadata.num_rows)?;
        if per_row == 0 || per_row.checked_mul(self.metadata.num_rows) != Some(count(pages)) {
            return None;
        }
        let start = count(pages.get(..page)?);
        let end = start.saturating_add(pages.get(page)?.num_rows);
        Some(start / per_row..end.div_ceil(per_row))
    }
}

/// Looks for the field of a column; `path` is that of the field then.
fn name_of(fields: &[Field], column: u32, map: &ColumnMap, path: &mut Vec<String>) -> bool {
    for field in fields {
        path.push(field.name.clone());
        if map.column(field.id) == Some(column) || name_of(&field.children, column, map, path) {
            return true;
        }
        path.pop();
    }
    false
}
