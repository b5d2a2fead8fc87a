//! Seals: checksums of a file in a file of their own, for files whose writer left none in them; of a file of blobs
//! behind the blobs, which other readers find by their positions.
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
//! Behind blobs a seal is followed by its length (u64) and `PENNSEAL`.
//!
//! A seal states what the bytes of a file were when it was sealed, not that they were right.

use bytes::Bytes;
use pennon_core::{Error, Result};
use twox_hash::XxHash3_64;

use crate::container::checksums::{BLOCK, BLOCKS, BlockHasher, Checksums, KIND};
use crate::encodings::le::number_at;

pub(crate) const MAGIC: &[u8; 8] = b"PENNSEAL";
/// Bytes before the checksums of blocks.
const HEADER: usize = 24;

/// The checksums of all blocks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    pub(crate) checksums: Checksums,
    pub(crate) size: u64,
    pub(crate) table: Bytes,
    /// Bytes of the file behind what is sealed: of the seal itself, if that is there.
    pub(crate) behind: u64,
}

/// Seals bytes that come piece by piece.
#[derive(Debug, Default)]
pub struct Sealer {
    hasher: BlockHasher,
    size: u64,
}

impl Sealer {
    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
    }

    /// The seal of all of them.
    pub fn finish(self) -> Seal {
        let table: Vec<u8> = self.hasher.finish().into_iter().flat_map(u32::to_le_bytes).collect();
        let checksums = Checksums::of_sealed(BLOCK as u64, self.size);
        Seal { checksums, size: self.size, table: table.into(), behind: 0 }
    }
}

impl Seal {
    /// The seal as the end of its file.
    pub fn encode_at_end(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        let length = bytes.len() as u64;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes
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
            Some(length) if length == table.len() as u64 => Ok(Self { checksums, size, table, behind: 0 }),
            _ => Err(damaged(format!(
                "{} bytes of checksums of blocks of {block} bytes, for a file of {size} bytes",
                table.len()
            ))),
        }
    }

    /// Size in bytes of what was sealed.
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

    pub(crate) fn check_size(&self, found: u64) -> Result<()> {
        let expected = self.size.saturating_add(self.behind);
        if found == expected {
            return Ok(());
        }
        Err(Error::corrupt(format!("{found} bytes, sealed were {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::source::{ByteSource, MemorySource};

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
    fn a_seal_at_the_end_of_its_file() {
        let bytes = file(2 * BLOCK + 5);
        let sealed_file = [bytes.as_slice(), &seal(&bytes).encode_at_end()].concat();
        let source = |bytes: &[u8]| Arc::new(MemorySource::new("file", bytes.to_vec()));
        assert_eq!(Seal::at_end(source(&bytes).as_ref()).unwrap(), None);
        assert_eq!(Seal::at_end(source(b"short").as_ref()).unwrap(), None);
        let found = Seal::at_end(source(&sealed_file).as_ref()).unwrap().unwrap();
        let ranges = [0..10, 9_000..9_500, bytes.len() as u64 - 3..bytes.len() as u64];
        let expected = source(&bytes).read(&ranges).unwrap();
        assert_eq!(found.checked(source(&sealed_file)).unwrap().read(&ranges).unwrap(), expected);
        assert!(found.block_check(source(&sealed_file)).unwrap().all_damaged_blocks().unwrap().is_empty());
        for bit in (0..sealed_file.len() * 8).step_by(61) {
            let mut damaged = sealed_file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match Seal::at_end(source(&damaged).as_ref()) {
                Ok(Some(seal)) => {
                    let blocks = seal.block_check(source(&damaged)).unwrap().all_damaged_blocks().unwrap();
                    assert!(blocks.len() == 1 && bit / 8 < bytes.len(), "bit {bit}: {blocks:?}");
                }
                // Where a wrong bit hides the seal, what was sealed is as it was.
                Ok(None) => assert!(bit / 8 >= sealed_file.len() - 16, "bit {bit}"),
                Err(_) => assert!(bit / 8 >= bytes.len(), "bit {bit}"),
            }
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
