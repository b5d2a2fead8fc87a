//! Which layout a page gets.
//!
//! | content | layout |
//! |---|---|
//! | no values, or only nulls, or structs without members | constant without a value |
//! | one value everywhere, from 2.2 on | constant with the value |
//! | blobs | blob |
//! | packed structs | mini-block, or full-zip if a member has a variable width |
//! | dictionary type | mini-block with a dictionary |
//! | few distinct values | mini-block with a dictionary |
//! | small values | mini-block |
//! | large values, or levels that fit into no chunk | full-zip |

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use pennon_core::file::FileVersion;
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, Result};

use super::choose::{choose, choose_large};
use super::codec::Codec;
use super::levels::PageLevels;
use super::options::{FieldOptions, Structure};
use super::values::{Data, Values};
use super::{blob, constant, dictionary, full_zip, mini_block, packed, symbols};
use crate::container::writer::Page;
use crate::container::{is_blob, is_packed};
use crate::encodings::dictionary::encode::{fixed_width, merge};
use crate::values::Leaf;

/// Values of this many bytes and more are not put into chunks, unless most are smaller.
const LARGE: u64 = 256;
/// Values of at most this many bytes may be in a chunk when most are small.
const LARGEST_IN_CHUNK: u64 = 4096;

/// The stored form of a leaf.
#[derive(Debug)]
pub(crate) enum Storage {
    /// As its values.
    Plain(Leaf),
    /// As indices into a dictionary.
    Dictionary(DataType),
    /// Structs row by row.
    Packed(Leaf),
    /// As the positions of the values in the file.
    Blob(Leaf),
    /// Not at all: structs without members.
    Nothing(DataType),
}

impl Storage {
    /// How a field is stored. Errors: `Unsupported`.
    pub(crate) fn of(field: &Field, version: FileVersion) -> Result<Self> {
        let data_type = field.data_type();
        if is_blob(field) {
            blob::check(field)?;
            return Ok(Self::Blob(blob::descriptor_leaf()?));
        }
        if matches!(data_type, DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0)) {
            return Err(Error::unsupported(format!(
                "values of no bytes ({data_type}) cannot be written yet"
            )));
        }
        if matches!(&data_type, DataType::Struct(members) if members.is_empty()) {
            return Ok(Self::Nothing(data_type));
        }
        if is_packed(field) {
            let leaf = Leaf::of(&data_type)?;
            packed::check(&leaf, version)?;
            return Ok(Self::Packed(leaf));
        }
        let DataType::Dictionary(_, item) = &data_type else { return Ok(Self::Plain(Leaf::of(&data_type)?)) };
        match item.as_ref() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {}
            fixed => {
                fixed_width(fixed)?;
            }
        }
        Ok(Self::Dictionary(data_type))
    }

    /// The Arrow type the arrays must have.
    pub(crate) fn data_type(&self) -> &DataType {
        match self {
            Self::Plain(leaf) | Self::Packed(leaf) | Self::Blob(leaf) => &leaf.data_type,
            Self::Dictionary(data_type) | Self::Nothing(data_type) => data_type,
        }
    }
}

/// What a column's pages have in common besides their type.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    /// Version of the file.
    pub version: FileVersion,
    /// The options of the field.
    pub options: FieldOptions,
}

/// A page of these levels and the arrays that are their slots.
pub(crate) fn build(
    storage: &Storage,
    levels: &PageLevels,
    arrays: &[ArrayRef],
    encoding: &Encoding,
) -> Result<Page> {
    let Encoding { version, options } = encoding;
    if matches!(storage, Storage::Nothing(_)) {
        return constant::nothing(levels);
    }
    if levels.null_slots == levels.slots && !matches!(storage, Storage::Blob(_)) {
        return Ok(constant::page(levels, None, *version));
    }
    let leaf = match storage {
        Storage::Plain(leaf) => leaf,
        Storage::Packed(leaf) => return packed::page(leaf, levels, arrays, *version),
        Storage::Blob(_) => return blob::page(levels, arrays, *version),
        Storage::Nothing(_) => return constant::nothing(levels),
        Storage::Dictionary(_) => {
            let merged = merge(arrays)?;
            let indices = Values::fixed(merged.index_width, merged.indices);
            let items = (merged.encoding, merged.num_items, merged.block);
            let items = dictionary::compress(items, options, *version)?;
            let codec = choose(&indices, options)?;
            return mini_block::page(levels, &indices, &codec, Some(items), *version)?.ok_or_else(|| {
                Error::unsupported(
                    "more null or empty lists in one row than a page of a dictionary column can hold",
                )
            });
        }
    };
    let values = Values::collect(leaf, levels, arrays)?;
    if *version >= FileVersion::V2_2
        && let Some(value) = constant::only_value(levels, &values)
    {
        return Ok(constant::page(levels, Some(value), *version));
    }
    if let Some((indices, items)) = dictionary::find(&values, options, *version)? {
        let codec = choose(&indices, options)?;
        if let Some(page) = mini_block::page(levels, &indices, &codec, Some(items), *version)? {
            return Ok(page);
        }
    }
    let in_chunks = match options.structure {
        Some(Structure::MiniBlock) => true,
        // Bits have no form there.
        Some(Structure::FullZip) => matches!(values.data, Data::Bits { .. }),
        None => is_small(levels, &values),
    };
    if !in_chunks {
        let codec = choose_large(&values, options)?;
        if codec.compressor.is_some() {
            return full_zip::page(levels, &values, &codec, *version);
        }
    }
    let (values, symbols) = match symbols::encode(&values, &leaf.data_type, options) {
        Some((codes, symbols)) => (codes, Some(symbols)),
        None => (values, None),
    };
    if in_chunks {
        let codec = Codec { symbols: symbols.clone(), ..choose(&values, options)? };
        if let Some(page) = mini_block::page(levels, &values, &codec, None, *version)? {
            return Ok(page);
        }
    }
    full_zip::page(levels, &values, &Codec { symbols, ..Codec::default() }, *version)
}

fn is_small(levels: &PageLevels, values: &Values) -> bool {
    match &values.data {
        Data::Bits { .. } => true,
        Data::Fixed { width, .. } => (*width as u64) < LARGE,
        Data::Variable(v) => {
            let longest = v.longest();
            let mean = v.value_bytes(0, levels.slots) / (levels.slots as u64).max(1);
            longest < LARGE || (mean < LARGE / 2 && longest <= LARGEST_IN_CHUNK)
        }
    }
}

/// What cannot be written although the schema allows it. Errors: `Unsupported`, with the path.
pub(crate) fn check_supported(field: &Field, path: &str, version: FileVersion) -> Result<()> {
    let refuse = |why: &str| Err(Error::unsupported(format!("field `{path}`: {why}")));
    match &field.logical_type {
        LogicalType::Map if version < FileVersion::V2_2 => {
            refuse(&format!("maps need file version 2.2, this file has {version}"))
        }
        LogicalType::FixedSizeList(_, dimension) if !field.children.is_empty() => match dimension {
            ..=0 => refuse("fixed-size lists of no structs cannot be written"),
            _ if version < FileVersion::V2_2 => {
                refuse(&format!("fixed-size lists of structs need file version 2.2, this file has {version}"))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
