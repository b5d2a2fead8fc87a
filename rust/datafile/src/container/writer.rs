//! The envelope of a data file, written front to back (file format 1.1).
//!
//! | order | region | starts at |
//! |---|---|---|
//! | 1 | page buffers, global buffers from 1 on | a multiple of 64, zeros between |
//! | 2 | checksums of the blocks of 1 and 3 (`checksums.rs`) | a multiple of 64 |
//! | 3 | lookup buffers of all pages: chunk tables, and others that are small | a multiple of 64 |
//! | 4 | global buffer 0, the file descriptor | a multiple of 64 |
//! | 5 | one metadata block per column | where the one before ends |
//! | 6 | offset tables of columns and of global buffers | where the one before ends |
//! | 7 | record of the checksums | where the one before ends |
//! | 8 | footer | the last 40 bytes |
//!
//! Lookup buffers are read before values. Right before the metadata they are read with it, so that a store where
//! requests take long is asked for the values next. Readers that do not know this find them like any other buffer. The
//! lookup buffers of a page are in the file in their order: one before a dictionary of more bytes stays with the
//! values, too.
//!
//! Nothing is ever written behind the position, so any [`Write`] will do.

use std::io::Write;
use std::ops::Range;

use pennon_core::file::{ColumnMetadata, FileDescriptor, FileVersion, Footer, PageLayout, PageMetadata};
use pennon_core::{Error, Result};

use super::checksums::{self, BlockHasher};

/// Buffers start at multiples of this.
const ALIGNMENT: usize = 64;
/// Dictionaries and repetition indices of so many bytes lie right before the metadata.
const SMALL_LOOKUP: usize = 4 * 1024;

/// A page that is not in the file yet.
#[derive(Debug)]
pub(crate) struct Page {
    /// Rows of the column in the page.
    pub num_rows: u64,
    /// How the buffers are laid out.
    pub layout: PageLayout,
    /// The buffers.
    pub buffers: Vec<Vec<u8>>,
}

/// Writes pages, and finally their metadata.
#[derive(Debug)]
pub(crate) struct ContainerWriter<W> {
    sink: W,
    position: u64,
    blocks: BlockHasher,
    columns: Vec<ColumnMetadata>,
    /// Global buffers after the descriptor.
    global_buffers: Vec<Range<u64>>,
    /// Lookup buffers of pages, which follow the pages.
    lookups: Vec<Lookup>,
    /// Bytes of them.
    lookup_bytes: u64,
}

/// A buffer of a page that is not in the file yet, and which one it is.
#[derive(Debug)]
struct Lookup {
    column: usize,
    page: usize,
    buffer: usize,
    bytes: Vec<u8>,
}

impl<W: Write> ContainerWriter<W> {
    /// A file with this many columns.
    pub(crate) fn new(sink: W, num_columns: usize) -> Self {
        let columns =
            (0..num_columns).map(|_| ColumnMetadata { pages: Vec::new(), is_blob: false }).collect();
        Self {
            sink,
            position: 0,
            blocks: BlockHasher::default(),
            columns,
            global_buffers: Vec::new(),
            lookups: Vec::new(),
            lookup_bytes: 0,
        }
    }

    /// Bytes so far, those of lookup buffers too.
    pub(crate) fn bytes(&self) -> u64 {
        self.position + self.lookup_bytes
    }

    /// Writes the next page of a column; its first row has number `priority`.
    pub(crate) fn page(&mut self, column: usize, page: Page, priority: u64) -> Result<()> {
        let missing = || Error::internal(format!("page of column {column}, which the file does not have"));
        let number = self.columns.get(column).ok_or_else(missing)?.pages.len();
        let Page { num_rows, layout, buffers: contents } = page;
        let mut buffers = Vec::with_capacity(contents.len());
        let stays = |(buffer, bytes): &(usize, &Vec<u8>)| {
            layout.is_lookup_buffer(*buffer) && bytes.len() > SMALL_LOOKUP && !layout.is_chunk_table(*buffer)
        };
        // Those before one that stays do so as well: the reference up to 10.0 asks for them at once, and gets wrong
        // bytes unless they are in the order of the file.
        let first = contents.iter().enumerate().rfind(stays).map_or(0, |(buffer, _)| buffer + 1);
        for (buffer, bytes) in contents.into_iter().enumerate() {
            if buffer >= first && layout.is_lookup_buffer(buffer) {
                // Set when it is written.
                buffers.push(0..0);
                self.lookup_bytes += bytes.len() as u64;
                self.lookups.push(Lookup { column, page: number, buffer, bytes });
            } else {
                buffers.push(self.buffer(&bytes)?);
            }
        }
        let column = self.columns.get_mut(column).ok_or_else(missing)?;
        column.pages.push(PageMetadata { buffers, num_rows, layout, priority });
        Ok(())
    }

    /// Writes the checksums of blocks and the lookup buffers, those of a column one after another, up to where the metadata
    /// starts. Gives where the checksums and the lookup buffers start.
    fn lookups(&mut self) -> Result<(u64, u64)> {
        let mut lookups = std::mem::take(&mut self.lookups);
        lookups.sort_by_key(|lookup| lookup.column);
        let mut content = Vec::new();
        let mut ranges = Vec::with_capacity(lookups.len());
        for Lookup { bytes, .. } in &lookups {
            let start = content.len();
            content.extend_from_slice(bytes);
            ranges.push(start as u64..content.len() as u64);
            content.resize(content.len().next_multiple_of(ALIGNMENT), 0);
        }
        self.align()?;
        let table = self.position;
        let blocks = std::mem::take(&mut self.blocks);
        let (second, checksums) = checksums::table(table, blocks, &content, ALIGNMENT as u64);
        self.put(&checksums)?;
        self.align()?;
        self.put(&content)?;
        for (Lookup { column, page, buffer, .. }, range) in lookups.into_iter().zip(ranges) {
            let page = self.columns.get_mut(column).and_then(|column| column.pages.get_mut(page));
            let buffer = page.and_then(|page| page.buffers.get_mut(buffer));
            let buffer = buffer.ok_or_else(|| Error::internal("a lookup buffer of no page"))?;
            *buffer = second + range.start..second + range.end;
        }
        self.lookup_bytes = 0;
        Ok((table, second))
    }

    /// Writes the bytes of a blob, outside of any page, and returns where they are.
    pub(crate) fn blob(&mut self, bytes: &[u8]) -> Result<Range<u64>> {
        self.buffer(bytes)
    }

    /// Declares that the pages of a column of file version 2.0 have descriptors of blobs.
    pub(crate) fn holds_blobs(&mut self, column: usize) {
        if let Some(column) = self.columns.get_mut(column) {
            column.is_blob = true;
        }
    }

    /// Writes a global buffer and returns its index, which is 1 for the first.
    pub(crate) fn global_buffer(&mut self, bytes: &[u8]) -> Result<u32> {
        let range = self.buffer(bytes)?;
        self.global_buffers.push(range);
        u32::try_from(self.global_buffers.len()).map_err(|_| {
            Error::unsupported(format!("{} global buffers in one file", self.global_buffers.len()))
        })
    }

    /// Writes everything that follows the pages. Returns the size of the file and the sink.
    pub(crate) fn finish(mut self, descriptor: &FileDescriptor, version: FileVersion) -> Result<(u64, W)> {
        let (table, second) = self.lookups()?;
        let start = self.position;
        let mut bytes = descriptor.encode();
        let mut global_buffers = vec![start..start + bytes.len() as u64];
        global_buffers.append(&mut self.global_buffers);
        let columns = std::mem::take(&mut self.columns);
        let column_metadata = start + bytes.len() as u64;
        let mut blocks = Vec::with_capacity(columns.len());
        for column in &columns {
            let from = start + bytes.len() as u64;
            bytes.extend_from_slice(&column.encode()?);
            blocks.push(from..start + bytes.len() as u64);
        }
        let column_table = start + bytes.len() as u64;
        put_table(&blocks, &mut bytes);
        let global_buffer_table = start + bytes.len() as u64;
        put_table(&global_buffers, &mut bytes);
        let num_global_buffers = u32::try_from(global_buffers.len()).map_err(|_| {
            Error::unsupported(format!("{} global buffers in one file", global_buffers.len()))
        })?;
        let num_columns = u32::try_from(columns.len())
            .map_err(|_| Error::unsupported(format!("{} columns in one file", columns.len())))?;
        let footer = Footer {
            column_metadata,
            column_table,
            global_buffer_table,
            num_global_buffers,
            num_columns,
            version,
        };
        checksums::finish(&mut bytes, (table, second, start), &footer.encode());
        self.put(&bytes)?;
        self.sink.flush().map_err(sink_error)?;
        Ok((self.position, self.sink))
    }

    fn buffer(&mut self, bytes: &[u8]) -> Result<Range<u64>> {
        self.align()?;
        self.put(bytes)
    }

    fn align(&mut self) -> Result<()> {
        let padding = usize::try_from(self.position.next_multiple_of(ALIGNMENT as u64) - self.position);
        self.put([0; ALIGNMENT].get(..padding.unwrap_or_default()).unwrap_or_default())?;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<Range<u64>> {
        self.sink.write_all(bytes).map_err(sink_error)?;
        self.blocks.update(bytes);
        let start = self.position;
        self.position += bytes.len() as u64;
        Ok(start..self.position)
    }
}

/// Appends a table of positions and sizes.
fn put_table(entries: &[Range<u64>], bytes: &mut Vec<u8>) {
    for entry in entries {
        bytes.extend_from_slice(&entry.start.to_le_bytes());
        bytes.extend_from_slice(&(entry.end - entry.start).to_le_bytes());
    }
}

fn sink_error(error: std::io::Error) -> Error {
    Error::store(format!("writing a data file failed: {error}")).with_source(error)
}
