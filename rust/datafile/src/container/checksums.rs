//! Checksums of a data file: of blocks of what lies before the metadata, and of the metadata. Other readers pass over
//! them: no table of the file names these bytes.
//!
//! | order | region | checked by |
//! |---|---|---|
//! | 1 | pages, global buffers from 1 on | a checksum for each block |
//! | 2 | u32 per block of 1 and 3: the lower half of its XXH3 | itself |
//! | 3 | lookup buffers of pages | a checksum for each block |
//! | 4 | metadata: descriptor, columns, offset tables | the record |
//! | 5 | the record, and the footer | the record |
//!
//! | offset in the record | type | content |
//! |---|---|---|
//! | 0 | 8 bytes | `PENNHASH` |
//! | 8 | u32 | kind of the checksums, 1 |
//! | 12 | u32 | bytes of a block |
//! | 16 | u64 | where 2 starts, and 1 ends |
//! | 24 | u64 | where 3 starts |
//! | 32 | u64 | where 4 starts, and 3 ends |
//! | 40 | u64 | XXH3 (64 bits) of the metadata and the record up to here, the seed for that of the footer |
//!
//! The record lies right before the footer. A kind that is not known is not a checksum; kinds differ in more than one
//! bit, as do all other names from this one, so that a single wrong bit is damage and not another kind of file.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Once;

use pennon_core::file::Footer;
use pennon_core::{Error, Result};
use tracing::warn;
use twox_hash::XxHash3_64;

use crate::encodings::le::{number_at, to_usize};

const MAGIC: u64 = u64::from_le_bytes(*b"PENNHASH");
/// XXH3, of blocks the lower half.
pub(crate) const KIND: u32 = 1;
/// Bytes of a block: small, since a row is read with the blocks it lies in.
pub(crate) const BLOCK: usize = 8 * 1024;
/// What a block may have in files of other releases.
pub(crate) const BLOCKS: RangeInclusive<u64> = 512..=1 << 20;
/// Bytes of the record.
pub(crate) const RECORD: usize = 48;
/// Bytes of a block's checksum.
pub(crate) const ENTRY: u64 = 4;

/// Where the parts of a file with checksums are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksums {
    block: u64,
    /// The checksums of blocks; the blocks before it start at 0.
    table: u64,
    /// The blocks behind the table.
    second: u64,
    /// The metadata, up to the footer.
    metadata: u64,
}

/// Blocks, one after another, whose bytes are not those that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedBlock {
    /// Where they are in the file.
    pub bytes: Range<u64>,
    /// Of the first block.
    expected: u32,
    found: u32,
}

impl DamagedBlock {
    /// Adds a block to runs of blocks.
    pub(crate) fn push(damaged: &mut Vec<Self>, block: Self) {
        match damaged.last_mut().filter(|last| last.bytes.end == block.bytes.start) {
            Some(last) => last.bytes.end = block.bytes.end,
            None => damaged.push(block),
        }
    }

    /// Adds runs of blocks to others before them.
    pub fn append(damaged: &mut Vec<Self>, blocks: Vec<Self>) {
        blocks.into_iter().for_each(|block| Self::push(damaged, block));
    }
}

impl fmt::Display for DamagedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes: Range { start, end }, expected, found } = self;
        write!(
            f,
            "bytes {start} to {end} were changed after they were written: the checksum of their first block is \
             {found:08x}, expected {expected:08x}"
        )
    }
}

impl Checksums {
    /// Those of a file of so many bytes, from its last bytes; `None` if it has none of a known kind, which is logged once.
    /// Errors: `Corrupt` for a record that is damaged.
    pub(crate) fn find(end: &[u8], size: u64) -> Result<Option<Self>> {
        let Some(at) = end.len().checked_sub(RECORD + Footer::SIZE) else { return Ok(None) };
        let damaged = |found: fmt::Arguments<'_>| {
            Err(Error::corrupt(format!(
                "the record of its checksums was changed after it was written: {found}"
            )))
        };
        let magic: u64 = number_at(end, at)?;
        match (magic ^ MAGIC).count_ones() {
            0 => {}
            1 => return damaged(format_args!("it starts with {:02x?}", magic.to_le_bytes())),
            _ => return Ok(None),
        }
        let (kind, block): (u32, u32) = (number_at(end, at + 8)?, number_at(end, at + 12)?);
        match (kind ^ KIND).count_ones() {
            0 => {}
            1 => return damaged(format_args!("kind {kind}")),
            _ => {
                static UNKNOWN: Once = Once::new();
                UNKNOWN.call_once(|| {
                    warn!(kind, "checksums of an unknown kind are passed over: a newer release wrote them")
                });
                return Ok(None);
            }
        }
        let (table, second): (u64, u64) = (number_at(end, at + 16)?, number_at(end, at + 24)?);
        let found = Self { block: block.into(), table, second, metadata: number_at(end, at + 32)? };
        let record = size.saturating_sub((RECORD + Footer::SIZE) as u64);
        let is_in_order = table <= second && second <= found.metadata && found.metadata <= record;
        if !BLOCKS.contains(&found.block) || !is_in_order || found.table_range().end > second {
            return damaged(format_args!("{found:?} in a file of {size} bytes"));
        }
        Ok(Some(found))
    }

    /// Those of a file that is blocks and nothing else, whose checksums lie in another one.
    pub(crate) fn of_sealed(block: u64, size: u64) -> Self {
        Self { block, table: size, second: size, metadata: size }
    }

    /// Bytes of a block.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Where the metadata starts.
    pub(crate) fn metadata(&self) -> u64 {
        self.metadata
    }

    /// Checks the bytes from the metadata to the end of the file. Errors: `Corrupt`.
    pub(crate) fn check_metadata(&self, end: &[u8]) -> Result<()> {
        let parts = end.split_last_chunk::<{ Footer::SIZE }>();
        let parts = parts.and_then(|(rest, footer)| Some((rest.split_last_chunk::<8>()?, footer)));
        let Some(((content, expected), footer)) = parts else {
            return Err(Error::corrupt(format!("{} bytes of metadata", end.len())));
        };
        let (expected, found) = (u64::from_le_bytes(*expected), hash_parts(content, footer));
        if expected == found {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the metadata was changed after it was written: its checksum is {found:016x}, expected {expected:016x}"
        )))
    }

    /// Where the blocks behind the table are: those of lookup buffers.
    pub(crate) fn second(&self) -> Range<u64> {
        self.second..self.metadata
    }

    /// Where the checksums of blocks are.
    pub(crate) fn table_range(&self) -> Range<u64> {
        let entries = self.table.div_ceil(self.block) + (self.metadata - self.second).div_ceil(self.block);
        self.table..self.table.saturating_add(entries.saturating_mul(ENTRY))
    }

    /// A range extended to whole blocks.
    pub(crate) fn widened(&self, range: &Range<u64>) -> Range<u64> {
        let start = match self.parts().find(|(part, _)| part.contains(&range.start)) {
            Some((part, _)) => range.start - (range.start - part.start) % self.block,
            None => range.start,
        };
        let last = range.end.saturating_sub(1);
        let end = match self.parts().find(|(part, _)| part.contains(&last)) {
            Some((part, _)) => {
                let end = (last - part.start) / self.block * self.block + self.block;
                part.start.saturating_add(end).min(part.end)
            }
            None => range.end,
        };
        start..end
    }

    /// The first blocks of both parts, and the numbers of their first checksums.
    fn parts(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        let first = (0..self.table, 0);
        [first, (self.second..self.metadata, self.table.div_ceil(self.block))].into_iter()
    }

    /// The blocks that lie in a range and are not as they were written. `bytes` are those of the range, `table` those of
    /// [`Self::table_range`].
    pub(crate) fn damaged_blocks(
        &self,
        range: &Range<u64>,
        bytes: &[u8],
        table: &[u8],
    ) -> Result<Vec<DamagedBlock>> {
        let mut damaged = Vec::new();
        for (part, first) in self.parts() {
            let (start, end) = (range.start.max(part.start), range.end.min(part.end));
            let mut number = start.saturating_sub(part.start).div_ceil(self.block);
            loop {
                let at = part.start.saturating_add(number.saturating_mul(self.block));
                let block = at..at.saturating_add(self.block).min(part.end);
                if block.start >= end || block.end > end {
                    break;
                }
                let content = to_usize(block.start - range.start)?..to_usize(block.end - range.start)?;
                let found = hash_block(bytes.get(content).unwrap_or_default());
                let expected = number_at(table, to_usize((first + number) * ENTRY)?)?;
                if found != expected {
                    DamagedBlock::push(&mut damaged, DamagedBlock { bytes: block, expected, found });
                }
                number += 1;
            }
        }
        Ok(damaged)
    }

    /// The parts that have blocks, in ranges of whole blocks of about so many bytes.
    pub(crate) fn ranges(&self, bytes: u64) -> impl Iterator<Item = Range<u64>> {
        let step = to_usize(bytes.next_multiple_of(self.block).max(self.block)).unwrap_or(usize::MAX);
        let bytes = step as u64;
        self.parts().flat_map(move |(part, _)| {
            let end = part.end;
            part.step_by(step).map(move |start| start..start.saturating_add(bytes).min(end))
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn hash_block(block: &[u8]) -> u32 {
    XxHash3_64::oneshot(block) as u32
}

/// The checksum of two parts: that of the first is the seed for that of the second.
pub(crate) fn hash_parts(first: &[u8], second: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(first), second)
}

/// Checksums of the blocks of bytes that come piece by piece.
#[derive(Debug, Default)]
pub(crate) struct BlockHasher {
    /// The beginning of a block that is not complete.
    pending: Vec<u8>,
    checksums: Vec<u32>,
}

impl BlockHasher {
    /// The next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        if !self.pending.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK - self.pending.len()));
            self.pending.extend_from_slice(head);
            bytes = rest;
            if self.pending.len() < BLOCK {
                return;
            }
            self.checksums.push(hash_block(&self.pending));
            self.pending.clear();
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        self.checksums.extend(blocks.iter().map(|block| hash_block(block)));
        self.pending.extend_from_slice(rest);
    }

    /// The checksums of all blocks; the last block may be short.
    pub(crate) fn finish(mut self) -> Vec<u32> {
        if !self.pending.is_empty() {
            self.checksums.push(hash_block(&self.pending));
        }
        self.checksums
    }
}

/// Where the second blocks start in a file whose first ones end at `table`, and the table of both.
pub(crate) fn table(table: u64, first: BlockHasher, second: &[u8], alignment: u64) -> (u64, Vec<u8>) {
    let mut hasher = BlockHasher::default();
    hasher.update(second);
    let checksums = first.finish().into_iter().chain(hasher.finish());
    let bytes: Vec<u8> = checksums.flat_map(u32::to_le_bytes).collect();
    ((table + bytes.len() as u64).next_multiple_of(alignment), bytes)
}

/// Appends the record and the footer to the metadata, which starts at `metadata`.
pub(crate) fn finish(
    bytes: &mut Vec<u8>,
    (table, second, metadata): (u64, u64, u64),
    footer: &[u8; Footer::SIZE],
) {
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&KIND.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(BLOCK).unwrap_or_default().to_le_bytes());
    for position in [table, second, metadata] {
        bytes.extend_from_slice(&position.to_le_bytes());
    }
    let checksum = hash_parts(bytes, footer);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(footer);
}
