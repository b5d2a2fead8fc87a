//! FSST: frequent byte sequences of up to eight bytes become one-byte codes (file format 2.2).
//!
//! The symbol table is in the page's encoding, one per page:
//!
//! | offset | content |
//! |---|---|
//! | 0 | number of symbols `n`, terminator, suffix limit, switch (1 compressed, 0 stored as is), `FSST` reversed |
//! | 8 | `n` times 8 bytes: the symbols, unused bytes zero |
//! | 8 + 8 n | `n` times 1 byte: their lengths, 1 to 8 |
//! | ... 2312 | zero |
//!
//! Code 255 escapes one literal byte. Values are independent of each other.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod train;

/// Bytes of a symbol table.
pub(crate) const TABLE_SIZE: usize = 2312;

/// "FSST" as a little-endian number.
pub(crate) const MAGIC: u32 = 0x4653_5354;

/// The code that is followed by one literal byte.
pub(crate) const ESCAPE: u8 = 255;
