//! Reading the envelope: from the footer back to the tables, the schema and the columns.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{ColumnMetadata, FileDescriptor, FileVersion, Footer, LegacyFooter};
use pennon_core::schema::Schema;
use pennon_core::{Error, Result};

use super::checksums::Checksums;
use crate::encodings::le::to_usize;
use crate::legacy::{self, LegacyPages};
use crate::source::{ByteSource, EndSource, VerifyReads};

/// Bytes read from the end at once; small files and the metadata of most files fit.
pub const TAIL: u64 = 64 * 1024;

/// Rows of a file are addressed with 32 bits.
const MAX_ROWS: u64 = 1 << 32;

/// The metadata of a data file.
#[derive(Debug, Clone)]
pub struct FileMetadata {
    /// Version of the file.
    pub version: FileVersion,
    /// Schema of the file; inside a table the field ids are the table's.
    pub schema: Schema,
    /// Rows in the file.
    pub num_rows: u64,
    /// Columns in order; none of a file of version 0.1.
    pub columns: Vec<ColumnMetadata>,
    /// Byte ranges of the global buffers; the first is the descriptor, the others belong to the application.
    pub global_buffers: Vec<Range<u64>>,
    /// Size of the file in bytes.
    pub size: u64,
    /// Where its checksums are, if it has some.
    pub(crate) checksums: Option<Checksums>,
    /// The pages of a file of version 0.1.
    pub(crate) legacy: Option<Arc<LegacyPages>>,
}

impl FileMetadata {
    /// Reads the metadata, for most files with one request for the last 64 KiB.
    ///
    /// Checks the checksum of the metadata, of a file that has one, unless the source says otherwise.
    ///
    /// Errors: `Unsupported` for versions other than 0.1, 2.0, 2.1 and 2.2, `Corrupt` for a file that is cut short or
    /// garbled; both name the file (file format 1.1 to 1.5).
    pub fn read(source: &dyn ByteSource) -> Result<Self> {
        Self::read_with_end(source, 0, source.verify_reads()).map(|(metadata, _)| metadata)
    }

    /// The metadata and what was read for it: so many bytes at least, if the file has them.
    pub(crate) fn read_with_end(
        source: &dyn ByteSource,
        ahead: u64,
        verify_reads: VerifyReads,
    ) -> Result<(Self, End)> {
        read(source, ahead, verify_reads).map_err(|e| e.in_data_file(source.name()))
    }
}

fn read(source: &dyn ByteSource, ahead: u64, verify_reads: VerifyReads) -> Result<(FileMetadata, End)> {
    let size = source.size()?;
    let mut end = End { start: size.saturating_sub(ahead.max(TAIL)), size, bytes: Bytes::new() };
    end.bytes = fetch(source, end.start..size)?;
    let checksums = match verify_reads {
        VerifyReads::Off => None,
        VerifyReads::Metadata | VerifyReads::Pages => Checksums::find(&end.bytes, size)?,
    };
    if let Some(checksums) = &checksums {
        end.extend(source, checksums.metadata())?;
        checksums.check_metadata(end.slice(&(checksums.metadata()..size))?)?;
    }
    if let Some(footer) = LegacyFooter::decode(&end.bytes) {
        let metadata = legacy::open(source, &mut end, footer)?;
        return Ok((metadata, end));
    }
    let footer = Footer::decode(&end.bytes)?;
    if !matches!(footer.version, FileVersion::V2_0 | FileVersion::V2_1 | FileVersion::V2_2) {
        return Err(Error::unsupported(format!(
            "it has version {}; files of versions 0.1, 2.0, 2.1 and 2.2 can be read",
            footer.version
        )));
    }
    let tables = footer.column_table.min(footer.global_buffer_table).min(footer.column_metadata);
    end.extend(source, tables)?;
    let columns = end.table("column table", footer.column_table, footer.num_columns)?;
    let global_buffers =
        end.table("global buffer table", footer.global_buffer_table, footer.num_global_buffers)?;
    let descriptor = global_buffers.first().cloned().unwrap_or_default();
    let first_column = columns.iter().map(|c| c.start).min().unwrap_or(size);
    // The descriptor is right before the columns, except in files of other writers.
    let is_close = descriptor.start <= first_column && first_column - descriptor.start <= TAIL;
    end.extend(source, if is_close { descriptor.start } else { first_column })?;
    let position = descriptor.start;
    let descriptor = match end.slice(&descriptor) {
        Ok(bytes) => FileDescriptor::decode(bytes),
        Err(_) => FileDescriptor::decode(&fetch(source, descriptor)?),
    };
    let descriptor = descriptor.at(|| format!("global buffer 0 at {position}"))?;
    if descriptor.num_rows > MAX_ROWS {
        return Err(Error::corrupt(format!("{} rows, a file has at most {MAX_ROWS}", descriptor.num_rows)));
    }
    let columns = columns
        .iter()
        .enumerate()
        .map(|(i, range)| {
            column(&end, range, &footer).at(|| format!("column {i} (metadata at {})", range.start))
        })
        .collect::<Result<_>>()?;
    let metadata = FileMetadata {
        version: footer.version,
        schema: descriptor.schema,
        num_rows: descriptor.num_rows,
        columns,
        global_buffers,
        size,
        checksums,
        legacy: None,
    };
    Ok((metadata, end))
}

fn column(end: &End, range: &Range<u64>, footer: &Footer) -> Result<ColumnMetadata> {
    let column = ColumnMetadata::decode(end.slice(range)?, footer.version)?;
    for (i, page) in column.pages.iter().enumerate() {
        if let Some(buffer) = page.buffers.iter().find(|b| b.start > b.end || b.end > end.size) {
            return Err(Error::corrupt(format!(
                "page {i}: a buffer from {} to {}, the file has {} bytes",
                buffer.start, buffer.end, end.size
            )));
        }
    }
    Ok(column)
}

/// The part of the file from `start` to its end.
#[derive(Debug)]
pub(crate) struct End {
    start: u64,
    size: u64,
    bytes: Bytes,
}

impl End {
    /// All bytes of the file, if all were read.
    pub(crate) fn whole_file(&self) -> Option<&Bytes> {
        (self.start == 0).then_some(&self.bytes)
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the file is no larger than what is read of any.
    pub(crate) fn is_of_small_file(&self) -> bool {
        self.size <= TAIL
    }

    /// Where the lookup buffers of pages begin, and their bytes, if they lie behind all values.
    pub(crate) fn lookups(&self, columns: &[ColumnMetadata]) -> Option<(u64, Bytes)> {
        let pages = || columns.iter().flat_map(|column| &column.pages);
        let buffers = |is_lookup: bool| {
            pages().flat_map(move |page| {
                let of_page = page.buffers.iter().enumerate();
                of_page.filter(move |(i, _)| page.layout.is_lookup_buffer(*i) == is_lookup).map(|(_, b)| b)
            })
        };
        let first = buffers(false).map(|buffer| buffer.end).fold(self.start, u64::max);
        let found = || buffers(true).filter(|buffer| buffer.start >= first && buffer.start < buffer.end);
        let part = found().map(|buffer| buffer.start).min()?..found().map(|buffer| buffer.end).max()?;
        // A copy, since a part of the end would keep all of it.
        Some((part.start, Bytes::copy_from_slice(self.slice(&part).ok()?)))
    }

    /// A source with these bytes in memory.
    pub(crate) fn held_over(&self, source: &Arc<dyn ByteSource>) -> EndSource {
        EndSource::new(Arc::clone(source), self.start, self.bytes.clone())
    }

    /// Where it begins, and its bytes.
    pub(crate) fn into_parts(self) -> (u64, Bytes) {
        (self.start, self.bytes)
    }

    /// Makes sure that all bytes from `start` on are loaded.
    pub(crate) fn extend(&mut self, source: &dyn ByteSource, start: u64) -> Result<()> {
        if start < self.start {
            self.bytes = fetch(source, start..self.size)?;
            self.start = start;
        }
        Ok(())
    }

    /// Errors: `Corrupt` when the range is not in this part of the file.
    pub(crate) fn slice(&self, range: &Range<u64>) -> Result<&[u8]> {
        let error = || {
            Error::corrupt(format!(
                "bytes {} to {} needed, the file has {}",
                range.start, range.end, self.size
            ))
        };
        let start = to_usize(range.start.checked_sub(self.start).ok_or_else(error)?)?;
        let end = to_usize(range.end.checked_sub(self.start).ok_or_else(error)?)?;
        self.bytes.get(start..end).ok_or_else(error)
    }

    /// A table of positions and sizes.
    fn table(&self, what: &str, position: u64, entries: u32) -> Result<Vec<Range<u64>>> {
        let end = position.saturating_add(u64::from(entries) * 16);
        let bytes =
            self.slice(&(position..end)).at(|| format!("{what} of {entries} entries at {position}"))?;
        bytes
            .as_chunks::<16>()
            .0
            .iter()
            .map(|entry| {
                let entry = u128::from_le_bytes(*entry);
                let (start, size) = (low_half(entry), low_half(entry >> 64));
                match start.checked_add(size) {
                    Some(end) if end <= self.size => Ok(start..end),
                    _ => Err(Error::corrupt(format!(
                        "{what} at {position}: {size} bytes at {start}, the file has {}",
                        self.size
                    ))),
                }
            })
            .collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn low_half(value: u128) -> u64 {
    value as u64
}

fn fetch(source: &dyn ByteSource, range: Range<u64>) -> Result<Bytes> {
    let len = range.end - range.start;
    let bytes = source.read(std::slice::from_ref(&range))?.pop().unwrap_or_default();
    if bytes.len() as u64 != len {
        return Err(Error::corrupt(format!(
            "{} bytes where {len} were to be read at {}",
            bytes.len(),
            range.start
        )));
    }
    Ok(bytes)
}
