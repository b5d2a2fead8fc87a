//! Comparing all blocks of a file with their checksums.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::Result;

use crate::container::DamagedBlock;
use crate::container::checksums::Checksums;
use crate::source::ByteSource;

/// Bytes that are read at once.
const BYTES: u64 = 4 << 20;

/// A file and the checksums of its blocks.
#[derive(Debug, Clone)]
pub struct BlockCheck {
    source: Arc<dyn ByteSource>,
    checksums: Checksums,
    table: Bytes,
}

impl BlockCheck {
    pub(crate) fn new(source: Arc<dyn ByteSource>, checksums: Checksums, table: Bytes) -> Self {
        Self { source, checksums, table }
    }

    /// All that has checksums, in ranges of some MiB.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.checksums.ranges(BYTES)
    }

    /// Runs of blocks in one of the ranges that are not as they were written. Errors: those of the source.
    pub fn damaged_blocks(&self, range: &Range<u64>) -> Result<Vec<DamagedBlock>> {
        let bytes = self.source.read(std::slice::from_ref(range))?.pop().unwrap_or_default();
        self.checksums.damaged_blocks(range, &bytes, &self.table)
    }

    /// Runs of blocks that are not as they were written. Reads all of them. Errors: those of the source.
    pub fn all_damaged_blocks(&self) -> Result<Vec<DamagedBlock>> {
        let mut all = Vec::new();
        for range in self.ranges() {
            DamagedBlock::append(&mut all, self.damaged_blocks(&range)?);
        }
        Ok(all)
    }
}
