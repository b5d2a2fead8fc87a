//! The tree of encodings of a page, checked against the type of its values once and then run for each chunk.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::MutableBuffer;
use pennon_core::file::{CompressionScheme, CompressiveEncoding, General};
use pennon_core::{Error, Result};

use super::fsst::decode::SymbolTable;
use super::general::decode::{decompress, decompress_onto};
use super::le::{bytes_at, check_allocation, with_width};
use super::packed_struct::decode::{FixedRows, VariableRows};
use super::{bitpack, byte_stream_split, fixed_size_list, flat, rle, variable};
use crate::values::{Data, Leaf, Physical, Values};

/// How to turn buffers into values of a known type.
#[derive(Debug)]
pub(crate) enum Codec {
    /// Items as they are in memory.
    Flat,
    /// Bit packing with the width in front.
    Inline,
    /// Bit packing with the width in the encoding.
    OutOfLine { width: usize },
    /// Values and run lengths.
    Rle,
    /// Byte planes.
    ByteStreamSplit,
    /// Offsets (64 bits wide or 32) and bytes.
    Variable { is_64_bit: bool, fsst: Option<Arc<SymbolTable>> },
    /// The first buffer is compressed.
    General { scheme: CompressionScheme, inner: Box<Codec> },
    /// Items without bytes, all of which are null by the bitmap of the lists around them.
    Nulls,
    /// Lists of items.
    FixedSizeList { dimension: usize, has_validity: bool, items: Box<Codec> },
    /// Structs row by row.
    Packed(FixedRows),
    /// Structs row by row, each by itself.
    VariablePacked(VariableRows),
}

/// Memory used again from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    fsst: Vec<u8>,
}

impl Codec {
    /// Checks an encoding against a leaf type. Errors: as [`Self::compile`].
    pub(crate) fn compile_leaf(encoding: &CompressiveEncoding, leaf: &Leaf) -> Result<Self> {
        use CompressiveEncoding as E;
        match encoding {
            _ if leaf.physical != Physical::Packed => {
                Self::compile(encoding, leaf.physical, &leaf.dimensions)
            }
            E::PackedStruct { bits_per_value, values } => {
                Ok(Self::Packed(FixedRows::compile(bits_per_value, values, leaf)?))
            }
            E::VariablePackedStruct { members } => {
                Ok(Self::VariablePacked(VariableRows::compile(members, leaf)?))
            }
            E::General(General { scheme, values, .. }) => {
                Ok(Self::General { scheme: *scheme, inner: Box::new(Self::compile_leaf(values, leaf)?) })
            }
            other => Err(Error::unsupported(format!("packed structs in the form {other:?} cannot be read"))),
        }
    }

    /// Checks an encoding against the items and fixed-size lists (outer first) it is to produce.
    ///
    /// Errors: `Unsupported` for encodings that are not read, `Corrupt` for those that do not fit the type.
    pub(crate) fn compile(
        encoding: &CompressiveEncoding,
        item: Physical,
        dimensions: &[usize],
    ) -> Result<Self> {
        use CompressiveEncoding as E;
        if let E::General(General { scheme, values, .. }) = encoding {
            let inner = Box::new(Self::compile(values, item, dimensions)?);
            return Ok(Self::General { scheme: *scheme, inner });
        }
        if let [dimension, rest @ ..] = dimensions {
            return Self::compile_list(encoding, item, *dimension, rest);
        }
        let bits = match item {
            Physical::Bits => 1,
            Physical::Fixed(width) => width as u64 * 8,
            Physical::None | Physical::Variable32 | Physical::Variable64 | Physical::Packed => 0,
        };
        let fixed = |stated: &u64, codec: Self| {
            if bits == 0 || *stated != bits {
                return Err(Error::corrupt(format!(
                    "values of {stated} bits, the type has {}",
                    describe(item)
                )));
            }
            Ok(codec)
        };
        match encoding {
            E::Flat { bits_per_value } => fixed(bits_per_value, Self::Flat),
            E::InlineBitpacking { uncompressed_bits } => {
                packable(bits)?;
                fixed(uncompressed_bits, Self::Inline)
            }
            E::OutOfLineBitpacking { uncompressed_bits, compressed_bits } => {
                packable(bits)?;
                if compressed_bits > uncompressed_bits {
                    return Err(Error::corrupt(format!(
                        "{uncompressed_bits} bits packed to {compressed_bits}"
                    )));
                }
                fixed(
                    uncompressed_bits,
                    Self::OutOfLine { width: usize::try_from(*compressed_bits).unwrap_or(64) },
                )
            }
            E::Rle { values, run_lengths } => {
                packable(bits)?;
                match (&**values, &**run_lengths) {
                    (E::Flat { bits_per_value }, E::Flat { bits_per_value: 8 }) => {
                        fixed(bits_per_value, Self::Rle)
                    }
                    _ => Err(Error::unsupported("run lengths with encoded values or lengths cannot be read")),
                }
            }
            E::ByteStreamSplit { values } => match &**values {
                E::Flat { bits_per_value } if bits % 8 == 0 => fixed(bits_per_value, Self::ByteStreamSplit),
                _ => Err(Error::unsupported("byte stream split of encoded values cannot be read")),
            },
            E::Variable { .. } | E::Fsst { .. } if bits != 0 || item == Physical::None => {
                Err(Error::corrupt(format!("variable-width values, the type has {}", describe(item))))
            }
            E::Variable { bits_per_offset } => {
                Ok(Self::Variable { is_64_bit: is_64_bit(*bits_per_offset)?, fsst: None })
            }
            E::Fsst { symbol_table, values } => match &**values {
                E::Variable { bits_per_offset } => Ok(Self::Variable {
                    is_64_bit: is_64_bit(*bits_per_offset)?,
                    fsst: Some(Arc::new(SymbolTable::parse(symbol_table)?)),
                }),
                _ => {
                    Err(Error::unsupported("FSST around another encoding than plain strings cannot be read"))
                }
            },
            E::FixedSizeList { .. } => {
                Err(Error::corrupt(format!("fixed-size lists, the type has {}", describe(item))))
            }
            // Rows that are not split into members: the descriptors of blobs.
            E::PackedStruct { bits_per_value, values } if bits_per_value.iter().sum::<u64>() == bits => {
                Self::compile(values, item, dimensions)
            }
            E::PackedStruct { .. } | E::VariablePackedStruct { .. } => {
                Err(Error::corrupt(format!("packed structs, the type has {}", describe(item))))
            }
            E::Dictionary { .. } => Err(Error::unsupported("dictionaries inside of values cannot be read")),
            E::Constant { .. } => Err(Error::unsupported("constants inside of chunks cannot be read")),
            E::Unknown(number) => {
                Err(Error::unsupported(format!("values encoding number {number} cannot be read")))
            }
            E::General(_) => Err(Error::internal("general compression was handled above")),
        }
    }

    fn compile_list(
        encoding: &CompressiveEncoding,
        item: Physical,
        dimension: usize,
        rest: &[usize],
    ) -> Result<Self> {
        if let CompressiveEncoding::FixedSizeList { items_per_value, has_validity, values } = encoding {
            if *items_per_value != dimension as u64 {
                return Err(Error::corrupt(format!(
                    "fixed-size lists of {items_per_value} items, the type has {dimension}"
                )));
            }
            let is_null =
                matches!(**values, CompressiveEncoding::Constant { value: None }) && rest.is_empty();
            let items = Box::new(match item {
                Physical::Bits | Physical::Fixed(_) if is_null && *has_validity => Self::Nulls,
                _ => Self::compile(values, item, rest)?,
            });
            return Ok(Self::FixedSizeList { dimension, has_validity: *has_validity, items });
        }
        let count = rest.iter().fold(dimension as u64, |n, d| n.saturating_mul(*d as u64));
        let bits = match item {
            Physical::Bits => count,
            Physical::Fixed(width) => count.saturating_mul(8).saturating_mul(width as u64),
            _ => 0,
        };
        match encoding {
            CompressiveEncoding::Flat { bits_per_value } if bits > 0 && *bits_per_value == bits => {
                let nest = |items, dimension| Self::FixedSizeList { dimension, has_validity: false, items };
                let inner = rest.iter().rev().fold(Self::Flat, |inner, d| nest(Box::new(inner), *d));
                Ok(nest(Box::new(inner), dimension))
            }
            _ => {
                Err(Error::unsupported("fixed-size lists in another form than lists of items cannot be read"))
            }
        }
    }

    /// The most bytes that a buffer of `n` values needs, generously; anything for values of variable width.
    fn room(&self, n: usize, data: &Data) -> usize {
        const SLACK: usize = 1 << 16;
        let plain = match (self, data) {
            (Self::General { inner, .. }, _) => return inner.room(n, data).saturating_mul(2),
            (Self::FixedSizeList { dimension, items, .. }, _) => {
                return items.room(n.saturating_mul((*dimension).max(1)), data);
            }
            (Self::Variable { .. } | Self::Packed(_) | Self::VariablePacked(_), _) => return usize::MAX,
            (_, Data::Bits(_)) => n.div_ceil(8),
            (_, Data::Fixed { width, .. }) => n.saturating_mul(*width),
            _ => return usize::MAX,
        };
        // Packed values come in groups with their widths, run lengths next to their values.
        plain.saturating_mul(2).saturating_add(SLACK)
    }

    /// Appends parts of the `n` values in the buffers of one chunk. The slices are in order and within `0..n`.
    pub(crate) fn append(
        &self,
        buffers: &[&[u8]],
        n: usize,
        slices: &[Range<usize>],
        values: &mut Values,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.append_nested(buffers, n, slices, values, 0, scratch)
    }

    /// `depth` is the number of fixed-size lists around.
    fn append_nested(
        &self,
        buffers: &[&[u8]],
        n: usize,
        slices: &[Range<usize>],
        values: &mut Values,
        depth: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        match self {
            Self::General { scheme, inner } => {
                let (first, rest) = buffers.split_first().ok_or_else(missing_buffer)?;
                let plain = decompress(*scheme, first, inner.room(n, &values.data))?;
                let mut all = vec![plain.as_slice()];
                all.extend_from_slice(rest);
                inner.append_nested(&all, n, slices, values, depth, scratch)
            }
            Self::FixedSizeList { dimension, has_validity, items } => {
                let count = n.saturating_mul(*dimension);
                let slices = fixed_size_list::decode::item_slices(slices, *dimension);
                let (bitmap, rest) = if *has_validity {
                    let (first, rest) = buffers.split_first().ok_or_else(missing_buffer)?;
                    // As many items as it has bits may be made of no bytes.
                    (Some(bytes_at(first, 0, count.div_ceil(8))?), rest)
                } else {
                    (None, buffers)
                };
                items.append_nested(rest, count, &slices, values, depth + 1, scratch)?;
                let validity = values
                    .item_validity
                    .get_mut(depth)
                    .ok_or_else(|| Error::internal("no validity of list items"))?;
                fixed_size_list::decode::append_validity(bitmap, count, &slices, validity)
            }
            Self::Packed(rows) => match &mut values.data {
                Data::Packed(members) => {
                    rows.append(buffers.first().ok_or_else(missing_buffer)?, n, slices, members)
                }
                _ => Err(mismatch()),
            },
            _ => self.append_items(buffers, n, slices, &mut values.data, scratch),
        }
    }

    /// Appends parts of `n` items that are not lists.
    pub(crate) fn append_items(
        &self,
        buffers: &[&[u8]],
        n: usize,
        slices: &[Range<usize>],
        data: &mut Data,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let bytes = *buffers.first().ok_or_else(missing_buffer)?;
        match (self, data) {
            (Self::General { scheme, inner }, data) => {
                let plain = decompress(*scheme, bytes, inner.room(n, data))?;
                let mut all = vec![plain.as_slice()];
                all.extend_from_slice(buffers.get(1..).unwrap_or_default());
                inner.append_items(&all, n, slices, data, scratch)
            }
            (Self::Nulls, data) => data.append_filler(slices.iter().map(Range::len).sum()),
            (Self::Flat, Data::Bits(out)) => flat::decode::append_bits(bytes, n, slices, out),
            (_, Data::Fixed { width, bytes: out }) => {
                let second = buffers.get(1).copied();
                self.append_fixed(bytes, second, n, slices, *width, out)
            }
            (Self::Variable { is_64_bit, fsst }, data) => {
                let (fsst, scratch) = (fsst.as_deref(), &mut scratch.fsst);
                match (data, is_64_bit) {
                    (Data::Variable32(out), false) => {
                        variable::decode::append::<u32, _>(bytes, n, slices, fsst, scratch, out)
                    }
                    (Data::Variable32(out), true) => {
                        variable::decode::append::<u64, _>(bytes, n, slices, fsst, scratch, out)
                    }
                    (Data::Variable64(out), false) => {
                        variable::decode::append::<u32, _>(bytes, n, slices, fsst, scratch, out)
                    }
                    (Data::Variable64(out), true) => {
                        variable::decode::append::<u64, _>(bytes, n, slices, fsst, scratch, out)
                    }
                    _ => Err(mismatch()),
                }
            }
            _ => Err(mismatch()),
        }
    }

    fn append_fixed(
        &self,
        bytes: &[u8],
        second: Option<&[u8]>,
        n: usize,
        slices: &[Range<usize>],
        width: usize,
        out: &mut MutableBuffer,
    ) -> Result<()> {
        match self {
            Self::Flat => flat::decode::append(bytes, width, n, slices, out),
            Self::ByteStreamSplit => byte_stream_split::decode::append(bytes, width, n, slices, out),
            Self::Inline => {
                with_width!(width, T => bitpack::decode::inline::<T>(bytes, n, slices, out), not_integers(width))
            }
            Self::OutOfLine { width: packed } => {
                with_width!(width, T => bitpack::decode::out_of_line::<T>(bytes, *packed, n, slices, out), not_integers(width))
            }
            Self::Rle => {
                let lengths = second.ok_or_else(missing_buffer)?;
                with_width!(width, T => rle::decode::append::<T>(bytes, lengths, n, slices, out), not_integers(width))
            }
            _ => Err(mismatch()),
        }
    }

    /// Appends all `n` items of a block: a single buffer with everything (levels, dictionary items).
    pub(crate) fn append_block(&self, bytes: &[u8], n: usize, data: &mut Data) -> Result<()> {
        let range = 0..n;
        let all = std::slice::from_ref(&range);
        match (self, data) {
            (Self::General { scheme, inner }, data) => {
                inner.append_block(&decompress(*scheme, bytes, inner.room(n, data))?, n, data)
            }
            (Self::Rle, Data::Fixed { width, bytes: out }) => {
                let (values, lengths) = rle::decode::split_block(bytes)?;
                self.append_fixed(values, Some(lengths), n, all, *width, out)
            }
            (Self::Variable { fsst, .. }, Data::Variable32(out)) => {
                variable::decode::append_block(bytes, n, fsst.as_deref(), out)
            }
            (Self::Variable { fsst, .. }, Data::Variable64(out)) => {
                variable::decode::append_block(bytes, n, fsst.as_deref(), out)
            }
            (_, data) => self.append_items(&[bytes], n, all, data, &mut Scratch::default()),
        }
    }

    /// Appends a single value of variable width (full-zip).
    pub(crate) fn append_value(&self, bytes: &[u8], data: &mut Data, scratch: &mut Scratch) -> Result<()> {
        match self {
            Self::General { scheme, inner } if inner.is_plain_text() => {
                // Large values: they are not copied once more.
                let decompress = |out: &mut Vec<u8>| decompress_onto(*scheme, bytes, usize::MAX, out);
                match data {
                    Data::Variable32(out) => out.append_with(decompress),
                    Data::Variable64(out) => out.append_with(decompress),
                    _ => Err(mismatch()),
                }
            }
            Self::General { scheme, inner } => {
                inner.append_value(&decompress(*scheme, bytes, usize::MAX)?, data, scratch)
            }
            Self::Variable { fsst: Some(table), .. } if table.is_compressed() => {
                let room = SymbolTable::room(bytes.len());
                if scratch.fsst.len() < room {
                    check_allocation(room)?;
                    scratch.fsst.resize(room, 0);
                }
                let end = table.decode(bytes, &mut scratch.fsst, 0)?;
                append_string(scratch.fsst.get(..end).unwrap_or_default(), data)
            }
            Self::Variable { .. } => append_string(bytes, data),
            Self::VariablePacked(rows) => match data {
                Data::Packed(members) => rows.append(bytes, members, scratch),
                _ => Err(mismatch()),
            },
            _ => Err(mismatch()),
        }
    }

    /// The bytes of each buffer of a single value of fixed width: bitmaps of the items of lists, then the items.
    /// Errors: `Corrupt` if they do not add up to the size in the file.
    pub(crate) fn value_parts(&self, leaf: &Leaf, bits: u32) -> Result<Vec<usize>> {
        let item_bits = match leaf.physical {
            Physical::Bits => 1,
            Physical::Fixed(width) => width * 8,
            _ => return Err(Error::corrupt("values of fixed width, the type has variable width")),
        };
        let mut parts = Vec::new();
        let items = self.validity_items(&mut parts);
        let item_bits = if matches!(items, Self::Nulls) { 0 } else { item_bits };
        parts.iter_mut().for_each(|items| *items = items.div_ceil(8));
        parts.push((leaf.items().saturating_mul(item_bits)).div_ceil(8));
        let size: usize = parts.iter().sum();
        if size as u64 * 8 != u64::from(bits) {
            return Err(Error::corrupt(format!("values of {bits} bits, the type has {}", size * 8)));
        }
        Ok(parts)
    }

    /// Appends a single value of fixed width, in the parts of [`Self::value_parts`].
    pub(crate) fn append_parts(
        &self,
        mut bytes: &[u8],
        parts: &[usize],
        values: &mut Values,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let range = 0..1;
        let mut buffers = [&[][..]; 16];
        for (buffer, part) in buffers.iter_mut().zip(parts) {
            (*buffer, bytes) = bytes.split_at_checked(*part).unwrap_or_default();
        }
        let buffers =
            buffers.get(..parts.len()).ok_or_else(|| Error::unsupported("lists nested too deep"))?;
        self.append(buffers, 1, std::slice::from_ref(&range), values, scratch)
    }

    /// The number of items in a value at each level of lists that has a bitmap of them, outer first. Gives the codec of
    /// the items.
    fn validity_items(&self, out: &mut Vec<usize>) -> &Self {
        let (mut codec, mut items_per_value) = (self, 1usize);
        while let Self::FixedSizeList { dimension, has_validity, items } = codec {
            items_per_value = items_per_value.saturating_mul(*dimension);
            if *has_validity {
                out.push(items_per_value);
            }
            codec = items;
        }
        codec
    }

    /// How many times larger values are than their bytes in a chunk, about.
    pub(crate) fn expansion(&self) -> usize {
        match self {
            Self::Variable { fsst: Some(table), .. } if table.is_compressed() => 2,
            Self::General { inner, .. } => inner.expansion().saturating_mul(2),
            _ => 1,
        }
    }

    /// Whether the bytes of strings are stored as they are.
    fn is_plain_text(&self) -> bool {
        match self {
            Self::Variable { fsst, .. } => fsst.as_ref().is_none_or(|table| !table.is_compressed()),
            _ => false,
        }
    }

    /// Whether values take no bytes but their own, so that many of them can be copied at once.
    pub(crate) fn is_contiguous(&self) -> bool {
        match self {
            Self::Flat => true,
            Self::FixedSizeList { has_validity, items, .. } => !has_validity && items.is_contiguous(),
            _ => false,
        }
    }
}

fn append_string(bytes: &[u8], data: &mut Data) -> Result<()> {
    match data {
        Data::Variable32(out) => out.append(bytes),
        Data::Variable64(out) => out.append(bytes),
        _ => Err(mismatch()),
    }
}

fn missing_buffer() -> Error {
    Error::corrupt("fewer buffers in a chunk than its encoding needs")
}

fn mismatch() -> Error {
    Error::corrupt("the encoding does not fit the type of the values")
}

fn not_integers(width: usize) -> Result<()> {
    Err(Error::corrupt(format!("values of {width} bytes cannot be bit-packed or in runs")))
}

fn describe(item: Physical) -> String {
    match item {
        Physical::None => "no values".into(),
        Physical::Bits => "1 bit".into(),
        Physical::Fixed(width) => format!("{} bits", width * 8),
        Physical::Variable32 | Physical::Variable64 => "variable width".into(),
        Physical::Packed => "members of a packed struct".into(),
    }
}

fn packable(bits: u64) -> Result<()> {
    if matches!(bits, 8 | 16 | 32 | 64) {
        return Ok(());
    }
    Err(Error::corrupt(format!("bit packing or runs of values of {bits} bits")))
}

fn is_64_bit(bits_per_offset: u64) -> Result<bool> {
    match bits_per_offset {
        32 => Ok(false),
        64 => Ok(true),
        _ => Err(Error::corrupt(format!("string offsets of {bits_per_offset} bits, expected 32 or 64"))),
    }
}
