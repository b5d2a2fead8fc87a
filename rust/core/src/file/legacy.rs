//! The end of a data file of version 0.1.
//!
//! | offset, from the end | type | meaning |
//! |---|---|---|
//! | -16 | u64 | position of the metadata message, its length (u32) before it |
//! | -8, -6 | u16 | major version 0, minor version 1 or 2 |
//! | -4 | 4 bytes | `LANC` |
//!
//! It differs from the [`Footer`](super::Footer) of later versions in its length.

use std::collections::BTreeMap;

use super::FileVersion;
use crate::FieldId;
use crate::schema::Schema;

/// The decoded footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyFooter {
    /// Position of the metadata message.
    pub metadata: u64,
    /// Whether the page table begins with the field 0, as releases before minor version 2 wrote it, and not with the
    /// first field of the file.
    pub table_begins_with_field_0: bool,
}

/// Where the parts of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyMetadata {
    /// Position of the schema, its length (u32) before it.
    pub schema: u64,
    /// First row of each batch, and the number of rows.
    pub batch_starts: Vec<u64>,
    /// Position of the page table.
    pub page_table: u64,
}

/// The schema of a file, and where the values of its dictionaries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacySchema {
    /// The schema.
    pub schema: Schema,
    /// Of each field of a dictionary type: position and number of its values.
    pub dictionaries: BTreeMap<FieldId, (u64, u64)>,
}

impl LegacyFooter {
    /// Length in bytes.
    pub const SIZE: usize = 16;

    /// Decodes the footer at the end of `tail`; `None` if it is not that of a file of version 0.1.
    ///
    /// ```
    /// use pennon_core::file::LegacyFooter;
    /// let footer = LegacyFooter::decode(b"\x05\0\0\0\0\0\0\0\0\0\x02\0LANC").unwrap();
    /// assert_eq!((footer.metadata, footer.table_begins_with_field_0), (5, false));
    /// assert_eq!(LegacyFooter::decode(b"\x05\0\0\0\0\0\0\0\0\0\x03\0LANC"), None);
    /// ```
    pub fn decode(tail: &[u8]) -> Option<Self> {
        let [position @ .., a, b, c, d, b'L', b'A', b'N', b'C'] = tail.last_chunk::<{ Self::SIZE }>()? else {
            return None;
        };
        let (major, minor) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        match FileVersion::from_footer_numbers(major, minor) {
            Ok(FileVersion::Legacy) => Some(Self {
                metadata: position.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)),
                table_begins_with_field_0: minor < 2,
            }),
            _ => None,
        }
    }
}
