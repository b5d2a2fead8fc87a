//! Files with a seal: sealing one, finding the seal at its end, and reading what it covers.

use std::ops::Range;
use std::sync::Arc;

use pennon_core::{Error, Result};

use crate::block_check::BlockCheck;
use crate::checked_source::CheckedSource;
use crate::encodings::le::{number_at, to_usize};
use crate::seal::{MAGIC, Seal, Sealer};
use crate::source::ByteSource;

/// Bytes of the length and the name at the end of a file.
const END: u64 = 16;
/// Bytes of a file that are read at once.
const BYTES: u64 = 4 << 20;

impl Seal {
    /// Seals a file: reads all of it, some MiB at a time. Errors: those of the source.
    pub fn of(source: &dyn ByteSource) -> Result<Self> {
        let size = source.size()?;
        let mut sealer = Sealer::default();
        let step = to_usize(BYTES)?;
        for start in (0..size).step_by(step) {
            let range = start..size.min(start + BYTES);
            let read = source.read(std::slice::from_ref(&range))?.pop().unwrap_or_default();
            if read.len() as u64 != range.end - range.start {
                return Err(Error::corrupt(format!(
                    "{} bytes at {start} of a file of {size} bytes, expected {}",
                    read.len(),
                    range.end - range.start
                ))
                .in_data_file(source.name()));
            }
            sealer.update(&read);
        }
        Ok(sealer.finish())
    }

    /// The seal at the end of a file that has one. Errors: `Corrupt` for a seal that was changed, those of the source.
    pub fn at_end(source: &dyn ByteSource) -> Result<Option<Self>> {
        let size = source.size()?;
        let Some(end) = size.checked_sub(END) else { return Ok(None) };
        let read = |range: Range<u64>| {
            let bytes = source.read(std::slice::from_ref(&range))?.pop();
            bytes.ok_or_else(|| Error::internal("nothing was read of a file with a seal"))
        };
        let found = read(end..size)?;
        let length: u64 = number_at(&found, 0)?;
        let Some(start) = end.checked_sub(length).filter(|_| found.ends_with(MAGIC)) else { return Ok(None) };
        let seal = Self::decode(&read(start..end)?).map_err(|e| e.in_data_file(source.name()))?;
        Ok((seal.size == start).then_some(Self { behind: size - start, ..seal }))
    }

    /// A source that checks what is read of a file. Errors: `Corrupt` for a file of another size.
    pub fn checked(&self, source: Arc<dyn ByteSource>) -> Result<Arc<dyn ByteSource>> {
        self.check_size(source.size()?).map_err(|e| e.in_data_file(source.name()))?;
        Ok(Arc::new(CheckedSource::new(source, self.checksums.clone(), self.table.clone())))
    }

    /// The check of all blocks of a file. Errors: `Corrupt` for a file of another size.
    pub fn block_check(&self, source: Arc<dyn ByteSource>) -> Result<BlockCheck> {
        self.check_size(source.size()?)?;
        Ok(BlockCheck::new(source, self.checksums.clone(), self.table.clone()))
    }
}
