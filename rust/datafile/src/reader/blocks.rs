//! Checking all blocks of a file, and what lies in them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::{Error, Result};

use super::{Ahead, FileReader};
use crate::checked_source::{CheckedSource, read_table};
use crate::container::checksums::Checksums;
use crate::container::{DamagedBlock, End};
use crate::source::{ByteSource, VerifyReads};

/// Bytes that are read at once.
const BYTES: u64 = 4 << 20;

/// A source that checks what is read. The lookup buffers are checked now, if they were read, and what else was read stays
/// in memory if it is `held`.
pub(super) fn checked(
    source: &Arc<dyn ByteSource>,
    checksums: &Checksums,
    end: &End,
    held: bool,
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
    let source = match held {
        true => Arc::new(end.held_over(source)) as Arc<dyn ByteSource>,
        false => Arc::clone(source),
    };
    Ok(Arc::new(CheckedSource::new(source, checksums.clone(), table)))
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

    /// Runs of blocks of the file that are not as they were written; none in a file without checksums. Reads all of it,
    /// some MiB at a time.
    ///
    /// Errors: `Store`, and `Corrupt` for a file that is cut short.
    pub fn damaged_blocks(&self) -> Result<Vec<DamagedBlock>> {
        let Some(checksums) = &self.metadata.checksums else { return Ok(Vec::new()) };
        let find = || {
            let table = read_table(self.unchecked.as_ref(), checksums)?;
            let mut damaged = Vec::new();
            for range in checksums.ranges(BYTES) {
                let bytes = self.unchecked.read(std::slice::from_ref(&range))?.pop().unwrap_or_default();
                for block in checksums.damaged_blocks(&range, &bytes, &table)? {
                    DamagedBlock::push(&mut damaged, block);
                }
            }
            Ok(damaged)
        };
        find().map_err(|e| self.within(e))
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
}
