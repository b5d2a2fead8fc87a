//! Pages of a column and how their bytes are encoded from file version 2.1 on (file format 4).

use std::ops::Range;

use bytes::Bytes;

use super::array_encoding::ArrayEncoding;
use super::compression::CompressionScheme;

/// One column of a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMetadata {
    /// Pages in row order; from file version 2.1 on rows never cross pages.
    pub pages: Vec<PageMetadata>,
    /// Whether the column says that it holds blobs. Only in file version 2.0; later it is the pages that say so.
    pub is_blob: bool,
}

impl ColumnMetadata {
    /// Whether the values, if there are any, are blobs: the pages say where they are.
    pub fn holds_blobs(&self) -> bool {
        self.is_blob || self.pages.iter().all(|page| matches!(page.layout, PageLayout::Blob { .. }))
    }
}

/// One page of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageMetadata {
    /// Byte ranges in the file, padding left out.
    pub buffers: Vec<Range<u64>>,
    /// Rows of the column in the page.
    pub num_rows: u64,
    /// How the buffers are laid out.
    pub layout: PageLayout,
    /// Top-level row number of the first row of the page; not needed to read.
    pub priority: u64,
}

/// What a level of nesting contributes to the repetition and definition levels, see file format 4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Item or struct without nulls (1).
    AllValidItem,
    /// List without nulls or empty lists (2).
    AllValidList,
    /// Item or struct with nulls (3).
    NullableItem,
    /// List with nulls (4).
    NullableList,
    /// List with empty lists (5).
    EmptyableList,
    /// List with nulls (lower level) and empty lists (higher level) (6).
    NullAndEmptyList,
}

impl Layer {
    /// Whether this is a list.
    pub fn is_list(self) -> bool {
        !matches!(self, Self::AllValidItem | Self::NullableItem)
    }

    /// Definition levels the layer uses.
    pub fn num_def_levels(self) -> u16 {
        match self {
            Self::AllValidItem | Self::AllValidList => 0,
            Self::NullableItem | Self::NullableList | Self::EmptyableList => 1,
            Self::NullAndEmptyList => 2,
        }
    }
}

/// Layout of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageLayout {
    /// Small values in chunks.
    MiniBlock(MiniBlockLayout),
    /// One value or none.
    Constant(ConstantLayout),
    /// Large values one after another.
    FullZip(FullZipLayout),
    /// Descriptors of out-of-line values: inner layout and the real layers.
    Blob {
        /// Layout of the descriptors.
        inner: Box<PageLayout>,
        /// Layers of the column, innermost first.
        layers: Vec<Layer>,
    },
    /// An array of file version 2.0, which has no layers.
    Array(ArrayEncoding),
}

impl PageLayout {
    /// Whether a buffer of the page is read before the values, to find them: chunk table, dictionary, repetition index.
    pub fn is_lookup_buffer(&self, index: usize) -> bool {
        match self {
            Self::MiniBlock(_) => index != 1,
            Self::FullZip(_) => index == 1,
            Self::Blob { inner, .. } => inner.is_lookup_buffer(index),
            Self::Constant(_) | Self::Array(_) => false,
        }
    }

    /// Whether a buffer of the page is its chunk table.
    pub fn is_chunk_table(&self, index: usize) -> bool {
        match self {
            Self::MiniBlock(_) => index == 0,
            Self::Blob { inner, .. } => inner.is_chunk_table(index),
            Self::FullZip(_) | Self::Constant(_) | Self::Array(_) => false,
        }
    }
}

/// Chunks of values with their levels (file format 4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MiniBlockLayout {
    /// Codec of the repetition levels; `None` without levels.
    pub rep: Option<CompressiveEncoding>,
    /// Codec of the definition levels; `None` without levels.
    pub def: Option<CompressiveEncoding>,
    /// Codec of the values.
    pub values: CompressiveEncoding,
    /// Codec of the dictionary block, and its number of items.
    pub dictionary: Option<(CompressiveEncoding, u64)>,
    /// Innermost first.
    pub layers: Vec<Layer>,
    /// Value buffers of a chunk.
    pub num_buffers: u64,
    /// 1 if there is a list layer, else 0.
    pub repetition_index_depth: u32,
    /// Value slots in the page.
    pub num_items: u64,
    /// Whether sizes are 32 bits wide: must be true in 2.2 and false in 2.1.
    pub has_large_chunk: bool,
}

/// One value for all rows, or none (file format 4.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantLayout {
    /// Innermost first.
    pub layers: Vec<Layer>,
    /// The value, at most 32 bytes (2.2 and later).
    pub inline_value: Option<Bytes>,
    /// Codec and number of the repetition levels; `None` for plain u16 (or none at all).
    pub rep: Option<(CompressiveEncoding, u64)>,
    /// Codec and number of the definition levels; `None` for plain u16 (or none at all).
    pub def: Option<(CompressiveEncoding, u64)>,
}

/// Values with a control word before each (file format 4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullZipLayout {
    /// Bits of a repetition level in the control word.
    pub bits_rep: u32,
    /// Bits of a definition level in the control word.
    pub bits_def: u32,
    /// Fixed or variable width.
    pub width: FullZipWidth,
    /// Control words, that is levels.
    pub num_items: u32,
    /// Value slots.
    pub num_visible_items: u32,
    /// Codec of a value.
    pub values: CompressiveEncoding,
    /// Innermost first.
    pub layers: Vec<Layer>,
}

/// Width of values that stand one by one: in a full-zip page, in a packed struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullZipWidth {
    /// Bits of each value.
    Fixed(u32),
    /// Bits of the length before each value, 32 or 64.
    Variable(u32),
}

/// A general compressor around another encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct General {
    /// The compressor.
    pub scheme: CompressionScheme,
    /// Level, if stated.
    pub level: Option<i32>,
    /// What was compressed.
    pub values: Box<CompressiveEncoding>,
}

/// A member of a packed struct with members of variable width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedMember {
    /// Codec of a value.
    pub values: CompressiveEncoding,
    /// Bits of the value or of the length before it.
    pub width: FullZipWidth,
}

/// How values become bytes (file format 4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompressiveEncoding {
    /// Values of a fixed number of bits, one after another.
    Flat {
        /// Bits of a value.
        bits_per_value: u64,
    },
    /// Offsets and bytes.
    Variable {
        /// 32 or 64.
        bits_per_offset: u64,
    },
    /// The same value everywhere.
    Constant {
        /// The value.
        value: Option<Bytes>,
    },
    /// Bit packing with the width in the encoding.
    OutOfLineBitpacking {
        /// Bits of a value before packing.
        uncompressed_bits: u64,
        /// Bits after packing.
        compressed_bits: u64,
    },
    /// Bit packing with the width in front of each 1024 values.
    InlineBitpacking {
        /// Bits of a value before packing.
        uncompressed_bits: u64,
    },
    /// FSST codes.
    Fsst {
        /// 2312 bytes, see file format 2.2.
        symbol_table: Bytes,
        /// Layout of the codes.
        values: Box<CompressiveEncoding>,
    },
    /// Indices into items.
    Dictionary {
        /// Codec of the indices.
        indices: Box<CompressiveEncoding>,
        /// Codec of the items.
        items: Box<CompressiveEncoding>,
        /// Number of items.
        num_items: u32,
    },
    /// Values and run lengths.
    Rle {
        /// Codec of the values.
        values: Box<CompressiveEncoding>,
        /// Codec of the lengths.
        run_lengths: Box<CompressiveEncoding>,
    },
    /// Byte planes.
    ByteStreamSplit {
        /// Codec of the values, flat 32 or 64.
        values: Box<CompressiveEncoding>,
    },
    /// LZ4 or zstd around another encoding.
    General(General),
    /// Items of a fixed-size list.
    FixedSizeList {
        /// Items in a list.
        items_per_value: u64,
        /// Whether a bitmap of the items comes first.
        has_validity: bool,
        /// Codec of the items.
        values: Box<CompressiveEncoding>,
    },
    /// Fixed-width members of a struct row by row.
    PackedStruct {
        /// Bits of each member.
        bits_per_value: Vec<u64>,
        /// Codec of the rows.
        values: Box<CompressiveEncoding>,
    },
    /// Members of a struct row by row, some of them with a length in front (2.2 and later).
    VariablePackedStruct {
        /// The members in order.
        members: Vec<PackedMember>,
    },
    /// An encoding this release does not read; the number is its field in the wire's oneof.
    Unknown(u32),
}
