//! The last 40 bytes of a data file (file format 1.2).
//!
//! | offset | type | meaning |
//! |---|---|---|
//! | 0 | u64 | position of column metadata block 0 |
//! | 8 | u64 | position of the column metadata offset table |
//! | 16 | u64 | position of the global buffer offset table |
//! | 24 | u32 | number of global buffers, at least 1 |
//! | 28 | u32 | number of columns |
//! | 32, 34 | u16 | major and minor version |
//! | 36 | 4 bytes | `LANC` |

use super::FileVersion;
use crate::{Error, Result};

/// The decoded footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Position of column metadata block 0.
    pub column_metadata: u64,
    /// Position of the column metadata offset table.
    pub column_table: u64,
    /// Position of the global buffer offset table.
    pub global_buffer_table: u64,
    /// Number of global buffers.
    pub num_global_buffers: u32,
    /// Number of columns.
    pub num_columns: u32,
    /// Version of the file.
    pub version: FileVersion,
}

impl Footer {
    /// Length in bytes.
    pub const SIZE: usize = 40;

    const MAGIC: [u8; 4] = *b"LANC";

    /// Decodes the footer at the end of `tail`, the last bytes of a file (at least [`Self::SIZE`] of them).
    ///
    /// Errors: `Corrupt` for fewer bytes, another magic or tables out of order; `Unsupported` for an unknown version.
    /// Positions are not compared with the size of the file, which is not known here.
    pub fn decode(tail: &[u8]) -> Result<Self> {
        let Some(footer) = tail.last_chunk::<{ Self::SIZE }>() else {
            return Err(Error::corrupt(format!(
                "{} bytes, a data file ends with a footer of {}",
                tail.len(),
                Self::SIZE
            )));
        };
        let (fields, magic) = footer.split_at(36);
        if magic != Self::MAGIC {
            return Err(Error::corrupt(format!("it ends with {magic:02x?}, a data file ends with \"LANC\"")));
        }
        let (major, minor) = (le(fields, 32, 2), le(fields, 34, 2));
        let decoded = Self {
            column_metadata: le(fields, 0, 8),
            column_table: le(fields, 8, 8),
            global_buffer_table: le(fields, 16, 8),
            num_global_buffers: le32(fields, 24),
            num_columns: le32(fields, 28),
            version: FileVersion::from_footer_numbers(
                u16::try_from(major).unwrap_or(u16::MAX),
                u16::try_from(minor).unwrap_or(u16::MAX),
            )?,
        };
        if decoded.version == FileVersion::Legacy {
            return Err(Error::unsupported("a data file of version 0.1, which has another footer"));
        }
        if decoded.num_global_buffers == 0 {
            return Err(Error::corrupt("footer: no global buffers, the first holds the schema"));
        }
        Ok(decoded)
    }

    /// Encodes the footer; the inverse of [`Self::decode`].
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let (major, minor) = self.version.footer_numbers();
        let mut out = [0; Self::SIZE];
        let parts: [&[u8]; 8] = [
            &self.column_metadata.to_le_bytes(),
            &self.column_table.to_le_bytes(),
            &self.global_buffer_table.to_le_bytes(),
            &self.num_global_buffers.to_le_bytes(),
            &self.num_columns.to_le_bytes(),
            &major.to_le_bytes(),
            &minor.to_le_bytes(),
            &Self::MAGIC,
        ];
        for (to, from) in out.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        out
    }
}

/// The little-endian number of `width` bytes at `at`; bytes outside count as zero.
fn le(bytes: &[u8], at: usize, width: usize) -> u64 {
    let digits = bytes.get(at..at + width).unwrap_or_default();
    digits.iter().rev().fold(0, |number, &digit| number << 8 | u64::from(digit))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::try_from(le(bytes, at, 4)).unwrap_or(u32::MAX)
}
