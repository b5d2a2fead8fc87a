//! How the arrays of a page are stored in file version 2.0 (file format 3.1).

use bytes::Bytes;

use super::compression::CompressionScheme;

/// An array of a page: a tree whose leaves name buffers of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrayEncoding {
    /// Values of a fixed number of bits, one after another.
    Flat(FlatArray),
    /// No value is null.
    NoNulls(Box<ArrayEncoding>),
    /// A bitmap, 1 for valid, and values with a slot for each null.
    SomeNulls {
        /// Flat with one bit per value.
        validity: FlatArray,
        /// The values.
        values: Box<ArrayEncoding>,
    },
    /// Every value is null; no buffers.
    AllNulls,
    /// Lists of one length.
    FixedSizeList {
        /// Items of a list.
        dimension: u32,
        /// The items of all lists.
        items: Box<ArrayEncoding>,
    },
    /// Ends of lists; the items are the next column.
    List {
        /// The end of each list among the items of this page, raised for a null list.
        offsets: FlatArray,
        /// What the end of a null list is raised by.
        null_offset_adjustment: u64,
        /// Items that belong to the page.
        num_items: u64,
    },
    /// The header of a struct, without data.
    Struct,
    /// Strings or binary values.
    Binary(BinaryArray),
    /// FSST codes.
    Fsst {
        /// The codes.
        codes: BinaryArray,
        /// 2312 bytes, see file format 2.2.
        symbol_table: Bytes,
    },
    /// Indices into items (file format 3.4).
    Dictionary {
        /// The indices.
        indices: Box<ArrayEncoding>,
        /// The items.
        items: Box<ArrayEncoding>,
        /// Number of items.
        num_items: u32,
    },
    /// Members of a struct row by row.
    PackedStruct {
        /// How each member would be stored alone; says how wide it is.
        members: Vec<ArrayEncoding>,
        /// Index of the buffer.
        buffer: u32,
    },
    /// An encoding this release does not read, by name.
    Unknown(&'static str),
}

/// Values of a fixed number of bits in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatArray {
    /// Bits of a value.
    pub bits_per_value: u64,
    /// Index of the buffer in the page.
    pub buffer: u32,
    /// How the whole buffer is compressed.
    pub compression: Option<CompressionScheme>,
}

/// Strings or binary values: an end for each, and the bytes (file format 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryArray {
    /// The end of each value, raised for a null.
    pub indices: FlatArray,
    /// The bytes of all values.
    pub bytes: FlatArray,
    /// What the end of a null is raised by.
    pub null_adjustment: u64,
}

impl ArrayEncoding {
    /// What to call the encoding in errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Flat(_) => "flat",
            Self::NoNulls(values) | Self::SomeNulls { values, .. } => values.name(),
            Self::AllNulls => "all-null",
            Self::FixedSizeList { .. } => "fixed-size list",
            Self::List { .. } => "list",
            Self::Struct => "struct",
            Self::Binary(_) => "binary",
            Self::Fsst { .. } => "FSST",
            Self::Dictionary { .. } => "dictionary",
            Self::PackedStruct { .. } => "packed struct",
            Self::Unknown(name) => name,
        }
    }
}
