//! Reading the envelope: from the footer back to the tables, the schema and the columns.

use std::ops::Range;

use pennon_core::error::ResultExt;
use pennon_core::file::{ColumnMetadata, FileDescriptor, FileVersion, Footer, LegacyFooter};
use pennon_core::{Error, Result};

use super::checksums::Checksums;
use super::end::{End, TAIL, fetch};
use super::metadata::FileMetadata;
use crate::legacy;
use crate::source::{ByteSource, VerifyReads};

/// Rows of a file are addressed with 32 bits.
const MAX_ROWS: u64 = 1 << 32;

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
    let mut end = End::read(source, ahead.max(TAIL))?;
    let size = end.size();
    let checksums = match verify_reads {
        VerifyReads::Off => None,
        VerifyReads::Metadata | VerifyReads::Pages => Checksums::find(end.bytes(), size)?,
    };
    if let Some(checksums) = &checksums {
        end.extend(source, checksums.metadata())?;
        checksums.check_metadata(end.slice(&(checksums.metadata()..size))?)?;
    }
    if let Some(footer) = LegacyFooter::decode(end.bytes()) {
        let metadata = legacy::open(source, &mut end, footer)?;
        return Ok((metadata, end));
    }
    let footer = Footer::decode(end.bytes())?;
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
        if let Some(buffer) = page.buffers.iter().find(|b| b.start > b.end || b.end > end.size()) {
            return Err(Error::corrupt(format!(
                "page {i}: a buffer from {} to {}, the file has {} bytes",
                buffer.start,
                buffer.end,
                end.size()
            )));
        }
    }
    Ok(column)
}
