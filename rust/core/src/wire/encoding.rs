//! `CompressiveEncoding` and layers <-> [`CompressiveEncoding`], [`Layer`] (file format 4.1 and 4.3).
//!
//! An encoding this release does not read becomes [`CompressiveEncoding::Unknown`], so that the error can come
//! from the code that reads the values and name the column.

use super::encodings21 as wire;
use super::encodings21::compressive_encoding::Compression;
use super::encodings21::variable_packed_struct::FieldEncoding;
use super::encodings21::variable_packed_struct::field_encoding::Layout as MemberLayout;
use crate::file::{CompressionScheme, CompressiveEncoding, FullZipWidth, General, Layer, PackedMember};
use crate::{Error, Result};

type Wire = wire::CompressiveEncoding;

fn missing(what: &str) -> Error {
    Error::corrupt(format!("{what} is missing"))
}

/// Decodes an encoding that must be there.
pub(super) fn decode_required(what: &str, wire: Option<Wire>) -> Result<CompressiveEncoding> {
    decode(wire.ok_or_else(|| missing(what))?)
}

fn boxed(what: &str, wire: Option<Box<Wire>>) -> Result<Box<CompressiveEncoding>> {
    Ok(Box::new(decode(*wire.ok_or_else(|| missing(what))?)?))
}

/// Decodes an encoding. The depth is bounded: the protobuf decoder refuses messages nested deeper than 100.
pub(super) fn decode(wire: Wire) -> Result<CompressiveEncoding> {
    // Nothing set: a number that is not in the schema of the message.
    let Some(compression) = wire.compression else { return Ok(CompressiveEncoding::Unknown(0)) };
    Ok(match compression {
        Compression::Flat(flat) => CompressiveEncoding::Flat { bits_per_value: flat.bits_per_value },
        Compression::Variable(variable) => {
            let bits_per_offset = flat_bits("the offsets of a variable encoding", variable.offsets)?;
            if bits_per_offset != 32 && bits_per_offset != 64 {
                return Err(Error::corrupt(format!("offsets of {bits_per_offset} bits, expected 32 or 64")));
            }
            CompressiveEncoding::Variable { bits_per_offset }
        }
        Compression::Constant(constant) => CompressiveEncoding::Constant { value: constant.value },
        Compression::OutOfLineBitpacking(packed) => CompressiveEncoding::OutOfLineBitpacking {
            uncompressed_bits: packed.uncompressed_bits_per_value,
            compressed_bits: flat_bits("the values of out-of-line bit packing", packed.values)?,
        },
        Compression::InlineBitpacking(packed) => {
            CompressiveEncoding::InlineBitpacking { uncompressed_bits: packed.uncompressed_bits_per_value }
        }
        Compression::Fsst(fsst) => CompressiveEncoding::Fsst {
            symbol_table: fsst.symbol_table,
            values: boxed("the values of an FSST encoding", fsst.values)?,
        },
        Compression::Dictionary(dictionary) => CompressiveEncoding::Dictionary {
            indices: boxed("the indices of a dictionary", dictionary.indices)?,
            items: boxed("the items of a dictionary", dictionary.items)?,
            num_items: dictionary.num_dictionary_items,
        },
        Compression::Rle(rle) => CompressiveEncoding::Rle {
            values: boxed("the values of a run-length encoding", rle.values)?,
            run_lengths: boxed("the lengths of a run-length encoding", rle.run_lengths)?,
        },
        Compression::ByteStreamSplit(split) => CompressiveEncoding::ByteStreamSplit {
            values: boxed("the values of a byte stream split", split.values)?,
        },
        Compression::General(general) => {
            let compression =
                general.compression.ok_or_else(|| missing("the compressor of a general encoding"))?;
            CompressiveEncoding::General(General {
                scheme: decode_scheme(compression.scheme)?,
                level: compression.level,
                values: boxed("the values of a general encoding", general.values)?,
            })
        }
        Compression::FixedSizeList(list) => CompressiveEncoding::FixedSizeList {
            items_per_value: list.items_per_value,
            has_validity: list.has_validity,
            values: boxed("the items of a fixed-size list", list.values)?,
        },
        Compression::PackedStruct(packed) => CompressiveEncoding::PackedStruct {
            bits_per_value: packed.bits_per_value,
            values: boxed("the rows of a packed struct", packed.values)?,
        },
        Compression::VariablePackedStruct(packed) => CompressiveEncoding::VariablePackedStruct {
            members: packed.fields.into_iter().map(decode_member).collect::<Result<_>>()?,
        },
        Compression::Range(_) => CompressiveEncoding::Unknown(14),
        Compression::Delta(_) => CompressiveEncoding::Unknown(15),
    })
}

fn decode_member(wire: FieldEncoding) -> Result<PackedMember> {
    let bits = |bits: u64| {
        u32::try_from(bits).map_err(|_| Error::corrupt(format!("a member of a packed struct of {bits} bits")))
    };
    let width = match wire.layout {
        Some(MemberLayout::BitsPerValue(width)) => FullZipWidth::Fixed(bits(width)?),
        Some(MemberLayout::BitsPerLength(width @ (32 | 64))) => FullZipWidth::Variable(bits(width)?),
        Some(MemberLayout::BitsPerLength(width)) => {
            return Err(Error::corrupt(format!(
                "lengths of {width} bits in a packed struct, expected 32 or 64"
            )));
        }
        None => return Err(missing("the width of a member of a packed struct")),
    };
    Ok(PackedMember {
        values: decode_required("the values of a member of a packed struct", wire.value)?,
        width,
    })
}

fn flat_bits(what: &str, wire: Option<Box<Wire>>) -> Result<u64> {
    match wire.and_then(|w| w.compression) {
        Some(Compression::Flat(flat)) => Ok(flat.bits_per_value),
        Some(_) => Err(Error::corrupt(format!("{what} are not flat"))),
        None => Err(Error::corrupt(format!("{what} are missing"))),
    }
}

fn decode_scheme(scheme: i32) -> Result<CompressionScheme> {
    match wire::CompressionScheme::try_from(scheme) {
        Ok(wire::CompressionScheme::CompressionLz4) => Ok(CompressionScheme::Lz4),
        Ok(wire::CompressionScheme::CompressionZstd) => Ok(CompressionScheme::Zstd),
        _ => Err(Error::unsupported(format!("compressor {scheme} is not known (known: 1 LZ4, 2 zstd)"))),
    }
}

/// Encodes an encoding. Errors: `Internal` for one that was not understood.
pub(super) fn encode(encoding: &CompressiveEncoding) -> Result<Wire> {
    let compression = match encoding {
        CompressiveEncoding::Flat { bits_per_value } => Compression::Flat(flat(*bits_per_value)),
        CompressiveEncoding::Variable { bits_per_offset } => {
            Compression::Variable(Box::new(wire::Variable {
                offsets: flat_box(*bits_per_offset),
                values: None,
            }))
        }
        CompressiveEncoding::Constant { value } => {
            Compression::Constant(wire::Constant { value: value.clone() })
        }
        CompressiveEncoding::OutOfLineBitpacking { uncompressed_bits, compressed_bits } => {
            Compression::OutOfLineBitpacking(Box::new(wire::OutOfLineBitpacking {
                uncompressed_bits_per_value: *uncompressed_bits,
                values: flat_box(*compressed_bits),
            }))
        }
        CompressiveEncoding::InlineBitpacking { uncompressed_bits } => {
            Compression::InlineBitpacking(wire::InlineBitpacking {
                uncompressed_bits_per_value: *uncompressed_bits,
                values: None,
            })
        }
        CompressiveEncoding::Fsst { symbol_table, values } => Compression::Fsst(Box::new(wire::Fsst {
            symbol_table: symbol_table.clone(),
            values: encode_box(values)?,
        })),
        CompressiveEncoding::Dictionary { indices, items, num_items } => {
            Compression::Dictionary(Box::new(wire::Dictionary {
                indices: encode_box(indices)?,
                items: encode_box(items)?,
                num_dictionary_items: *num_items,
            }))
        }
        CompressiveEncoding::Rle { values, run_lengths } => Compression::Rle(Box::new(wire::Rle {
            values: encode_box(values)?,
            run_lengths: encode_box(run_lengths)?,
        })),
        CompressiveEncoding::ByteStreamSplit { values } => {
            Compression::ByteStreamSplit(Box::new(wire::ByteStreamSplit { values: encode_box(values)? }))
        }
        CompressiveEncoding::General(general) => Compression::General(Box::new(wire::General {
            compression: Some(wire::BufferCompression {
                scheme: encode_scheme(general.scheme).into(),
                level: general.level,
            }),
            values: encode_box(&general.values)?,
        })),
        CompressiveEncoding::FixedSizeList { items_per_value, has_validity, values } => {
            Compression::FixedSizeList(Box::new(wire::FixedSizeList {
                items_per_value: *items_per_value,
                has_validity: *has_validity,
                values: encode_box(values)?,
            }))
        }
        CompressiveEncoding::PackedStruct { bits_per_value, values } => {
            Compression::PackedStruct(Box::new(wire::PackedStruct {
                bits_per_value: bits_per_value.clone(),
                values: encode_box(values)?,
            }))
        }
        CompressiveEncoding::VariablePackedStruct { members } => {
            let fields = members.iter().map(encode_member).collect::<Result<_>>()?;
            Compression::VariablePackedStruct(wire::VariablePackedStruct { fields })
        }
        CompressiveEncoding::Unknown(number) => {
            return Err(Error::internal(format!(
                "encoding {number} was not understood and cannot be written"
            )));
        }
    };
    Ok(Wire { compression: Some(compression) })
}

fn encode_member(member: &PackedMember) -> Result<FieldEncoding> {
    let layout = match member.width {
        FullZipWidth::Fixed(bits) => MemberLayout::BitsPerValue(bits.into()),
        FullZipWidth::Variable(bits) => MemberLayout::BitsPerLength(bits.into()),
    };
    Ok(FieldEncoding { value: Some(encode(&member.values)?), layout: Some(layout) })
}

fn flat(bits_per_value: u64) -> wire::Flat {
    wire::Flat { bits_per_value, data: None }
}

fn flat_box(bits_per_value: u64) -> Option<Box<Wire>> {
    Some(Box::new(Wire { compression: Some(Compression::Flat(flat(bits_per_value))) }))
}

fn encode_box(encoding: &CompressiveEncoding) -> Result<Option<Box<Wire>>> {
    Ok(Some(Box::new(encode(encoding)?)))
}

fn encode_scheme(scheme: CompressionScheme) -> wire::CompressionScheme {
    match scheme {
        CompressionScheme::Lz4 => wire::CompressionScheme::CompressionLz4,
        CompressionScheme::Zstd => wire::CompressionScheme::CompressionZstd,
    }
}

/// Decodes layers, innermost first. Errors: `Corrupt` for a number that is not a layer or an empty list.
pub(super) fn decode_layers(codes: &[i32]) -> Result<Vec<Layer>> {
    use wire::RepDefLayer as Number;
    if codes.is_empty() {
        return Err(Error::corrupt("the page has no layers, expected at least that of its items"));
    }
    let decode = |&number: &i32| match Number::try_from(number) {
        Ok(Number::RepdefAllValidItem) => Ok(Layer::AllValidItem),
        Ok(Number::RepdefAllValidList) => Ok(Layer::AllValidList),
        Ok(Number::RepdefNullableItem) => Ok(Layer::NullableItem),
        Ok(Number::RepdefNullableList) => Ok(Layer::NullableList),
        Ok(Number::RepdefEmptyableList) => Ok(Layer::EmptyableList),
        Ok(Number::RepdefNullAndEmptyList) => Ok(Layer::NullAndEmptyList),
        Ok(Number::RepdefUnspecified) | Err(_) => {
            Err(Error::corrupt(format!("layer {number} is not known, expected 1 to 6")))
        }
    };
    codes.iter().map(decode).collect()
}

pub(super) fn encode_layers(layers: &[Layer]) -> Vec<i32> {
    use wire::RepDefLayer as Number;
    let encode = |layer: &Layer| match layer {
        Layer::AllValidItem => Number::RepdefAllValidItem,
        Layer::AllValidList => Number::RepdefAllValidList,
        Layer::NullableItem => Number::RepdefNullableItem,
        Layer::NullableList => Number::RepdefNullableList,
        Layer::EmptyableList => Number::RepdefEmptyableList,
        Layer::NullAndEmptyList => Number::RepdefNullAndEmptyList,
    };
    layers.iter().map(|layer| encode(layer).into()).collect()
}
