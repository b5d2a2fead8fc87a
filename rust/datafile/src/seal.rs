//! Seals: checksums of a file in a file of their own, for files whose writer left none in them.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | 8 bytes | `PENNSEAL` |
//! | 8 | u32 | kind of the checksums, 1 |
//! | 12 | u32 | bytes of a block |
//! | 16 | u64 | size of the sealed file |
//! | 24 | u32 for each block | the lower half of its XXH3 |
//! | then | u64 | XXH3 (64 bits) of all bytes before |
//!
//! A seal states what the bytes of a file were when it was sealed, not that they were right.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::{Error, Result};
use twox_hash::XxHash3_64;

use crate::block_check::BlockCheck;
use crate::checked_source::CheckedSource;
use crate::container::checksums::{BLOCK, BLOCKS, BlockHasher, Checksums, KIND};
use crate::encodings::le::{number_at, to_usize};
use crate::source::ByteSource;

const MAGIC: &[u8; 8] = b"PENNSEAL";
/// Bytes before the checksums of blocks.
const HEADER: usize = 24;
/// Bytes of a file that are read at once.
const BYTES: u64 = 4 << 20;

/// The checksums of all blocks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    checksums: Checksums,
    size: u64,
    table: Bytes,
}

impl Seal {
    /// Seals a file: reads all of it, some MiB at a time. Errors: those of the source.
    pub fn of(source: &dyn ByteSource) -> Result<Self> {
        let size = source.size()?;
        let mut hasher = BlockHasher::default();
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
            hasher.update(&read);
        }
        let table: Vec<u8> = hasher.finish().into_iter().flat_map(u32::to_le_bytes).collect();
        Ok(Self { checksums: Checksums::of_sealed(BLOCK as u64, size), size, table: table.into() })
    }

    /// The seal as a file.
    ///
    /// ```
    /// use pennon_datafile::{MemorySource, Seal};
    ///
    /// let file = MemorySource::new("file", b"some bytes".to_vec());
    /// let seal = Seal::of(&file).unwrap();
    /// assert_eq!(Seal::decode(&seal.encode().into()).unwrap(), seal);
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.table.len() + 8);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&KIND.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(self.checksums.block()).unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.table);
        let checksum = XxHash3_64::oneshot(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a seal. Errors: `Corrupt` for one that was changed or is none, `Unsupported` for a kind of checksums that
    /// is not known.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let damaged = |found: String| Error::corrupt(format!("not a seal as it was written: {found}"));
        let Some((content, expected)) =
            bytes.split_last_chunk::<8>().filter(|(rest, _)| rest.len() >= HEADER)
        else {
            return Err(damaged(format!("{} bytes", bytes.len())));
        };
        let (expected, found) = (u64::from_le_bytes(*expected), XxHash3_64::oneshot(content));
        if !content.starts_with(MAGIC) || expected != found {
            return Err(damaged(format!("its checksum is {found:016x}, expected {expected:016x}")));
        }
        let (kind, block): (u32, u32) = (number_at(content, 8)?, number_at(content, 12)?);
        if kind != KIND {
            return Err(Error::unsupported(format!("a seal with checksums of kind {kind}, expected {KIND}")));
        }
        let size: u64 = number_at(content, 16)?;
        let table = bytes.slice(HEADER..content.len());
        let checksums = Checksums::of_sealed(block.into(), size);
        let expected = BLOCKS.contains(&checksums.block()).then(|| checksums.table_range());
        match expected.map(|range| range.end - range.start) {
            Some(length) if length == table.len() as u64 => Ok(Self { checksums, size, table }),
            _ => Err(damaged(format!(
                "{} bytes of checksums of blocks of {block} bytes, for a file of {size} bytes",
                table.len()
            ))),
        }
    }

    /// Size in bytes of the file that was sealed.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Checks a file that was read whole. Errors: `Corrupt` for another size or changed bytes.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        self.check_size(bytes.len() as u64)?;
        match self.checksums.damaged_blocks(&(0..self.size), bytes, &self.table)?.first() {
            Some(damaged) => Err(Error::corrupt(damaged.to_string())),
            None => Ok(()),
        }
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

    fn check_size(&self, found: u64) -> Result<()> {
        if found == self.size {
            return Ok(());
        }
        Err(Error::corrupt(format!("{found} bytes, sealed were {}", self.size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    fn file(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 7).to_le_bytes()[0]).collect()
    }

    fn seal(bytes: &[u8]) -> Seal {
        Seal::of(&MemorySource::new("file", bytes.to_vec())).unwrap()
    }

    #[test]
    fn seals_of_all_lengths_find_every_changed_byte() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17] {
            let bytes = file(length);
            let seal = Seal::decode(&seal(&bytes).encode().into()).unwrap();
            assert_eq!(seal.size(), length as u64);
            seal.check(&bytes).unwrap();
            for at in (0..length).step_by(977) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                let error = seal.check(&damaged).unwrap_err().to_string();
                let start = at / BLOCK * BLOCK;
                assert!(error.starts_with(&format!("bytes {start} to ")), "{at}: {error}");
                let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("file", damaged));
                let found = seal.block_check(Arc::clone(&source)).unwrap().all_damaged_blocks().unwrap();
                assert!(found.len() == 1 && found[0].bytes.contains(&(at as u64)), "{at}: {found:?}");
                let checked = seal.checked(source).unwrap();
                let range = at as u64..at as u64 + 1;
                assert!(checked.read(std::slice::from_ref(&range)).is_err());
            }
            let longer = [bytes.as_slice(), b"x"].concat();
            assert!(seal.check(&longer).unwrap_err().to_string().contains("sealed were"));
        }
    }

    #[test]
    fn a_damaged_seal_is_an_error() {
        let bytes = seal(&file(2 * BLOCK)).encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Seal::decode(&damaged.into()).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Seal::decode(&Bytes::copy_from_slice(&bytes[..length])).is_err(), "{length}");
        }
        let mut other = bytes;
        other.truncate(other.len() - 8);
        other[8] = 9;
        let checksum = XxHash3_64::oneshot(&other);
        other.extend_from_slice(&checksum.to_le_bytes());
        let error = Seal::decode(&other.into()).unwrap_err();
        assert_eq!(error.kind(), pennon_core::ErrorKind::Unsupported);
    }
}
