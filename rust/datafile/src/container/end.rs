//! The end of a file, which is read first: as much of it as the metadata takes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::ColumnMetadata;
use pennon_core::{Error, Result};

use crate::encodings::le::to_usize;
use crate::source::{ByteSource, EndSource};

/// Bytes read from the end at once; small files and the metadata of most files fit.
pub const TAIL: u64 = 64 * 1024;

/// The part of the file from `start` to its end.
#[derive(Debug)]
pub(crate) struct End {
    start: u64,
    size: u64,
    bytes: Bytes,
}

impl End {
    /// The last `bytes` of a file, or all of it.
    pub(super) fn read(source: &dyn ByteSource, bytes: u64) -> Result<Self> {
        let size = source.size()?;
        let start = size.saturating_sub(bytes);
        Ok(Self { start, size, bytes: fetch(source, start..size)? })
    }

    /// What was read so far.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

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
    pub(super) fn table(&self, what: &str, position: u64, entries: u32) -> Result<Vec<Range<u64>>> {
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

/// Bytes of a file. Errors: `Corrupt` if there are fewer, those of the source.
pub(super) fn fetch(source: &dyn ByteSource, range: Range<u64>) -> Result<Bytes> {
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
