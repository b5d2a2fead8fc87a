//! `ArrayEncoding` <-> [`ArrayEncoding`], the page encodings of file version 2.0 (file format 3.1).
//!
//! An encoding this release does not read becomes [`ArrayEncoding::Unknown`], so that the error can come from
//! the code that reads the values and name the column.

use super::encodings as wire;
use super::encodings::array_encoding::ArrayEncoding as Form;
use super::encodings::nullable::{AllNull, NoNull, Nullability, SomeNull};
use crate::file::{ArrayEncoding, BinaryArray, CompressionScheme, FlatArray};
use crate::{Error, Result};

type Wire = wire::ArrayEncoding;

const OTHER_BUFFER: &str = "buffer outside of its page";

fn missing(what: &str) -> Error {
    Error::corrupt(format!("{what} is missing"))
}

/// Decodes an encoding. The depth is bounded: the protobuf decoder refuses messages nested deeper than 100.
pub(super) fn decode(wire: Wire) -> Result<ArrayEncoding> {
    Ok(match wire.array_encoding {
        Some(Form::Flat(flat)) => {
            decode_flat(&flat)?.map_or_else(ArrayEncoding::Unknown, ArrayEncoding::Flat)
        }
        Some(Form::Nullable(nullable)) => decode_nullable(*nullable)?,
        Some(Form::FixedSizeList(list)) if list.has_validity => {
            ArrayEncoding::Unknown("fixed-size list with a bitmap of its own")
        }
        Some(Form::FixedSizeList(list)) => ArrayEncoding::FixedSizeList {
            dimension: list.dimension,
            items: boxed("the items of a fixed-size list", list.items)?,
        },
        Some(Form::List(list)) => match flat_without_nulls("the offsets of a list", list.offsets)? {
            Ok(offsets) => ArrayEncoding::List {
                offsets,
                null_offset_adjustment: list.null_offset_adjustment,
                num_items: list.num_items,
            },
            Err(name) => ArrayEncoding::Unknown(name),
        },
        Some(Form::Struct(_)) => ArrayEncoding::Struct,
        Some(Form::Binary(binary)) => {
            decode_binary(*binary)?.map_or_else(ArrayEncoding::Unknown, ArrayEncoding::Binary)
        }
        Some(Form::Dictionary(dictionary)) => ArrayEncoding::Dictionary {
            indices: boxed("the indices of a dictionary", dictionary.indices)?,
            items: boxed("the items of a dictionary", dictionary.items)?,
            num_items: dictionary.num_dictionary_items,
        },
        Some(Form::Fsst(fsst)) => match decode(*fsst.binary.ok_or_else(|| missing("the codes of FSST"))?)? {
            ArrayEncoding::Binary(codes) => {
                ArrayEncoding::Fsst { codes, symbol_table: fsst.symbol_table.clone() }
            }
            _ => ArrayEncoding::Unknown("FSST around something else than binary"),
        },
        Some(Form::PackedStruct(packed)) => match buffer(packed.buffer)? {
            Some(buffer) => {
                let members = packed.inner.into_iter().map(decode).collect::<Result<_>>()?;
                ArrayEncoding::PackedStruct { members, buffer }
            }
            None => ArrayEncoding::Unknown(OTHER_BUFFER),
        },
        Some(Form::Bitpacked(_)) => ArrayEncoding::Unknown("bitpacked"),
        Some(Form::FixedSizeBinary(_)) => ArrayEncoding::Unknown("fixed_size_binary"),
        Some(Form::BitpackedForNonNeg(_)) => ArrayEncoding::Unknown("bitpacked_for_non_neg"),
        Some(Form::Constant(_)) => ArrayEncoding::Unknown("constant"),
        // Nothing set: a number that is not in the schema of the message.
        None => ArrayEncoding::Unknown("array encoding that is not known"),
    })
}

fn boxed(what: &str, wire: Option<Box<Wire>>) -> Result<Box<ArrayEncoding>> {
    Ok(Box::new(decode(*wire.ok_or_else(|| missing(what))?)?))
}

/// The index of a buffer; `None` for one that is not the page's.
fn buffer(wire: Option<wire::Buffer>) -> Result<Option<u32>> {
    let buffer = wire.ok_or_else(|| missing("the buffer of an array"))?;
    let is_page = buffer.buffer_type == i32::from(wire::buffer::BufferType::Page);
    Ok(is_page.then_some(buffer.buffer_index))
}

/// A flat array, or the name of what cannot be read.
fn decode_flat(flat: &wire::Flat) -> Result<Result<FlatArray, &'static str>> {
    let compression = match flat.compression.as_ref().map(|c| c.scheme.as_str()) {
        None | Some("none" | "") => None,
        Some("lz4") => Some(CompressionScheme::Lz4),
        Some("zstd") => Some(CompressionScheme::Zstd),
        Some(_) => return Ok(Err("unknown compression scheme")),
    };
    let Some(buffer) = buffer(flat.buffer)? else { return Ok(Err(OTHER_BUFFER)) };
    Ok(Ok(FlatArray { bits_per_value: flat.bits_per_value, buffer, compression }))
}

/// A flat array that may be wrapped as one without nulls.
fn flat_without_nulls(what: &str, wire: Option<Box<Wire>>) -> Result<Result<FlatArray, &'static str>> {
    let wire = *wire.ok_or_else(|| missing(what))?;
    match wire.array_encoding {
        Some(Form::Flat(flat)) => decode_flat(&flat),
        Some(Form::Nullable(nullable)) => match nullable.nullability {
            Some(Nullability::NoNulls(inner)) => flat_without_nulls(what, inner.values),
            _ => Err(Error::corrupt(format!("{what} may be null"))),
        },
        _ => Ok(Err("offsets that are not flat")),
    }
}

fn decode_binary(binary: wire::Binary) -> Result<Result<BinaryArray, &'static str>> {
    let indices = flat_without_nulls("the offsets of a binary array", binary.indices)?;
    let bytes = flat_without_nulls("the bytes of a binary array", binary.bytes)?;
    let (indices, bytes) = match (indices, bytes) {
        (Ok(indices), Ok(bytes)) => (indices, bytes),
        (Err(name), _) | (_, Err(name)) => return Ok(Err(name)),
    };
    if bytes.bits_per_value != 8 {
        return Err(Error::corrupt(format!("bytes of {} bits in a binary array", bytes.bits_per_value)));
    }
    Ok(Ok(BinaryArray { indices, bytes, null_adjustment: binary.null_adjustment }))
}

fn decode_nullable(nullable: wire::Nullable) -> Result<ArrayEncoding> {
    match nullable.nullability {
        Some(Nullability::NoNulls(inner)) => {
            Ok(ArrayEncoding::NoNulls(boxed("the values of an array without nulls", inner.values)?))
        }
        Some(Nullability::SomeNulls(inner)) => {
            let values = boxed("the values of an array with nulls", inner.values)?;
            match flat_without_nulls("the validity of an array", inner.validity)? {
                Ok(validity) if validity.bits_per_value == 1 => {
                    Ok(ArrayEncoding::SomeNulls { validity, values })
                }
                Ok(validity) => {
                    Err(Error::corrupt(format!("validity of {} bits, expected 1", validity.bits_per_value)))
                }
                Err(name) => Ok(ArrayEncoding::Unknown(name)),
            }
        }
        Some(Nullability::AllNulls(_)) => Ok(ArrayEncoding::AllNulls),
        None => Ok(ArrayEncoding::Unknown("nullable form that is not known")),
    }
}

/// Encodes an encoding; the inverse of [`decode`]. Errors: `Internal` for one that was not understood.
pub(super) fn encode(encoding: &ArrayEncoding) -> Result<Wire> {
    let boxed = |inner: &ArrayEncoding| Ok::<_, Error>(Some(Box::new(encode(inner)?)));
    Ok(form(match encoding {
        ArrayEncoding::Flat(flat) => Form::Flat(encode_flat(flat)),
        ArrayEncoding::NoNulls(values) => {
            nullable(Nullability::NoNulls(Box::new(NoNull { values: boxed(values)? })))
        }
        ArrayEncoding::SomeNulls { validity, values } => {
            let validity = Some(Box::new(form(Form::Flat(encode_flat(validity)))));
            nullable(Nullability::SomeNulls(Box::new(SomeNull { validity, values: boxed(values)? })))
        }
        ArrayEncoding::AllNulls => nullable(Nullability::AllNulls(AllNull {})),
        ArrayEncoding::FixedSizeList { dimension, items } => {
            Form::FixedSizeList(Box::new(wire::FixedSizeList {
                dimension: *dimension,
                items: boxed(items)?,
                has_validity: false,
            }))
        }
        ArrayEncoding::List { offsets, null_offset_adjustment, num_items } => {
            Form::List(Box::new(wire::List {
                offsets: Some(Box::new(without_nulls(offsets))),
                null_offset_adjustment: *null_offset_adjustment,
                num_items: *num_items,
            }))
        }
        ArrayEncoding::Struct => Form::Struct(wire::SimpleStruct {}),
        ArrayEncoding::Binary(binary) => encode_binary(binary),
        ArrayEncoding::Fsst { codes, symbol_table } => Form::Fsst(Box::new(wire::Fsst {
            binary: Some(Box::new(form(encode_binary(codes)))),
            symbol_table: symbol_table.clone(),
        })),
        ArrayEncoding::Dictionary { indices, items, num_items } => {
            Form::Dictionary(Box::new(wire::Dictionary {
                indices: boxed(indices)?,
                items: boxed(items)?,
                num_dictionary_items: *num_items,
            }))
        }
        ArrayEncoding::PackedStruct { members, buffer } => Form::PackedStruct(wire::PackedStruct {
            inner: members.iter().map(encode).collect::<Result<_>>()?,
            buffer: Some(page_buffer(*buffer)),
        }),
        ArrayEncoding::Unknown(name) => {
            return Err(Error::internal(format!(
                "an encoding that was not understood cannot be written: {name}"
            )));
        }
    }))
}

fn form(form: Form) -> Wire {
    Wire { array_encoding: Some(form) }
}

fn nullable(nullability: Nullability) -> Form {
    Form::Nullable(Box::new(wire::Nullable { nullability: Some(nullability) }))
}

fn page_buffer(index: u32) -> wire::Buffer {
    wire::Buffer { buffer_index: index, buffer_type: wire::buffer::BufferType::Page.into() }
}

fn encode_flat(flat: &FlatArray) -> wire::Flat {
    let scheme = flat.compression.map(|scheme| match scheme {
        CompressionScheme::Lz4 => "lz4",
        CompressionScheme::Zstd => "zstd",
    });
    wire::Flat {
        bits_per_value: flat.bits_per_value,
        buffer: Some(page_buffer(flat.buffer)),
        compression: scheme.map(|scheme| wire::Compression { scheme: scheme.to_owned(), level: None }),
    }
}

fn without_nulls(flat: &FlatArray) -> Wire {
    let values = Some(Box::new(form(Form::Flat(encode_flat(flat)))));
    form(nullable(Nullability::NoNulls(Box::new(NoNull { values }))))
}

fn encode_binary(binary: &BinaryArray) -> Form {
    Form::Binary(Box::new(wire::Binary {
        indices: Some(Box::new(without_nulls(&binary.indices))),
        bytes: Some(Box::new(form(Form::Flat(encode_flat(&binary.bytes))))),
        null_adjustment: binary.null_adjustment,
    }))
}
