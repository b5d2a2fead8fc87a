//! Which layout a page gets.
//!
//! | content | layout |
//! |---|---|
//! | no values, or only nulls | constant without a value |
//! | one value everywhere, from 2.2 on | constant with the value inline |
//! | dictionary type | mini-block with a dictionary |
//! | small values | mini-block |
//! | large values, or levels that fit into no chunk | full-zip |

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::file::{ConstantLayout, FileVersion, Layer, PageLayout};
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, Result};

use super::choose::{choose, choose_large};
use super::levels::PageLevels;
use super::options::{FieldOptions, Structure};
use super::values::{Data, Values};
use super::{full_zip, mini_block};
use crate::container::writer::Page;
use crate::encodings::dictionary::encode::{fixed_width, merge};
use crate::encodings::flat::encode::put_u16;
use crate::values::Leaf;

/// Values of this many bytes and more are not put into chunks, unless most are smaller.
const LARGE: u64 = 256;
/// Values of at most this many bytes may be in a chunk when most are small.
const LARGEST_IN_CHUNK: u64 = 4096;
/// Longest inline value of a constant page.
const MAX_INLINE: usize = 32;

/// What a leaf is stored as.
#[derive(Debug)]
pub(crate) enum Storage {
    /// As its values.
    Plain(Leaf),
    /// As indices into a dictionary.
    Dictionary(DataType),
}

impl Storage {
    /// How a field is stored. Errors: `Unsupported`.
    pub(crate) fn of(field: &Field) -> Result<Self> {
        let data_type = field.data_type();
        if matches!(data_type, DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0)) {
            return Err(Error::unsupported(format!(
                "values of no bytes ({data_type}) cannot be written yet"
            )));
        }
        if matches!(&data_type, DataType::Struct(members) if members.is_empty()) {
            // The reference neither writes all of these nor reads them right.
            return Err(Error::unsupported("a struct without members cannot be written"));
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
            Self::Plain(leaf) => &leaf.data_type,
            Self::Dictionary(data_type) => data_type,
        }
    }
}

/// What a column's pages have in common besides their type.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    /// Version of the file.
    pub version: FileVersion,
    /// What the field asks for.
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
    if levels.null_slots == levels.slots {
        return Ok(constant(levels, None));
    }
    let leaf = match storage {
        Storage::Plain(leaf) => leaf,
        Storage::Dictionary(_) => {
            let merged = merge(arrays)?;
            let indices = Values::fixed(merged.index_width, merged.indices);
            let codec = choose(&indices, options)?;
            let dictionary = (merged.encoding, merged.num_items, merged.block);
            return mini_block::page(levels, &indices, &codec, Some(dictionary), *version)?.ok_or_else(
                || {
                    Error::unsupported(
                        "more null or empty lists in one row than a page of a dictionary column can hold",
                    )
                },
            );
        }
    };
    let values = Values::collect(leaf, levels, arrays)?;
    if *version >= FileVersion::V2_2
        && let Some(value) = only_value(levels, &values)
    {
        return Ok(constant(levels, Some(value)));
    }
    let in_chunks = match options.structure {
        Some(Structure::MiniBlock) => true,
        // Bits have no form there.
        Some(Structure::FullZip) => matches!(values.data, Data::Bits { .. }),
        None => is_small(levels, &values),
    };
    if in_chunks
        && let Some(page) = mini_block::page(levels, &values, &choose(&values, options)?, None, *version)?
    {
        return Ok(page);
    }
    full_zip::page(levels, &values, &choose_large(&values, options)?, *version)
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

fn constant(levels: &PageLevels, value: Option<Bytes>) -> Page {
    let plain = match &value {
        None => levels.layers == [Layer::NullableItem],
        Some(_) => levels.rep.is_none() && levels.def.is_none(),
    };
    let mut buffers = Vec::new();
    if !plain {
        for part in [&levels.rep, &levels.def] {
            let mut bytes = Vec::new();
            put_u16(part.as_deref().unwrap_or_default(), &mut bytes);
            buffers.push(bytes);
        }
    }
    let layout = ConstantLayout { layers: levels.layers.clone(), inline_value: value, rep: None, def: None };
    Page { num_rows: levels.rows as u64, layout: PageLayout::Constant(layout), buffers }
}

/// The value that all slots but the null ones have, as an inline value.
fn only_value(levels: &PageLevels, values: &Values) -> Option<Bytes> {
    if !values.lists.is_empty() {
        return None;
    }
    match &values.data {
        Data::Bits { bits, .. } => match bits.count_set_bits() {
            0 => Some(Bytes::from_static(&[0])),
            n if n == levels.slots - levels.null_slots => Some(Bytes::from_static(&[1])),
            _ => None,
        },
        Data::Fixed { width, bytes } if (1..=MAX_INLINE).contains(width) => {
            let slots = bytes.parts().iter().flat_map(|part| part.chunks_exact(*width));
            match levels.def.as_deref().filter(|_| levels.null_slots > 0) {
                None => only(slots),
                Some(def) => {
                    let visible = def.iter().filter(|&&d| d <= levels.visible);
                    only(slots.zip(visible).filter(|&(_, &d)| d == 0).map(|(value, _)| value))
                }
            }
        }
        _ => None,
    }
}

fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Bytes> {
    let first = values.next()?;
    values.all(|value| value == first).then(|| Bytes::copy_from_slice(first))
}

/// What cannot be written although the schema allows it. Errors: `Unsupported`, with the path.
pub(crate) fn check_supported(field: &Field, path: &str, version: FileVersion) -> Result<()> {
    let refuse = |why: &str| Err(Error::unsupported(format!("field `{path}`: {why}")));
    let flag = |key: &str| field.metadata.get(key).is_some_and(|v| v.eq_ignore_ascii_case("true"));
    match &field.logical_type {
        LogicalType::Map if version < FileVersion::V2_2 => {
            refuse(&format!("maps need file version 2.2, this file has {version}"))
        }
        LogicalType::FixedSizeList(..) if !field.children.is_empty() => {
            refuse("fixed-size lists of structs cannot be written yet")
        }
        LogicalType::Struct if flag("lance-encoding:packed") || flag("packed") => {
            refuse("packed structs cannot be written yet")
        }
        _ if flag("lance-encoding:blob") => refuse("blob columns cannot be written yet"),
        _ => Ok(()),
    }
}
