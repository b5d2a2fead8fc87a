//! `PageLayout` <-> [`PageLayout`] (file format 4.2), with the rules that depend on the file version (4.10).

use super::encoding;
use super::encodings21 as wire;
use super::encodings21::full_zip_layout::Details;
use super::encodings21::page_layout::Layout;
use crate::file::{
    CompressiveEncoding, ConstantLayout, FileVersion, FullZipLayout, FullZipWidth, MiniBlockLayout,
    PageLayout,
};
use crate::{Error, Result};

/// An inline value of a constant page may have this many bytes.
const MAX_INLINE_VALUE: usize = 32;

/// Decodes a layout. The depth is bounded: the protobuf decoder refuses messages nested deeper than 100.
pub(super) fn decode(wire: wire::PageLayout, version: FileVersion) -> Result<PageLayout> {
    match wire.layout {
        Some(Layout::MiniBlockLayout(layout)) => {
            Ok(PageLayout::MiniBlock(decode_mini_block(layout, version)?))
        }
        Some(Layout::ConstantLayout(layout)) => Ok(PageLayout::Constant(decode_constant(layout, version)?)),
        Some(Layout::FullZipLayout(layout)) => Ok(PageLayout::FullZip(decode_full_zip(layout)?)),
        Some(Layout::BlobLayout(layout)) => {
            let Some(inner) = layout.inner_layout else {
                return Err(Error::corrupt("the blob layout has no inner layout"));
            };
            let inner = Box::new(decode(*inner, version)?);
            Ok(PageLayout::Blob { inner, layers: encoding::decode_layers(&layout.layers)? })
        }
        Some(Layout::SparseLayout(_)) => {
            Err(Error::unsupported(format!("a sparse page layout in a file of version {version}")))
        }
        None => Err(Error::unsupported(
            "a page layout that is not known (known: mini-block, constant, full-zip, blob)",
        )),
    }
}

fn decode_mini_block(wire: wire::MiniBlockLayout, version: FileVersion) -> Result<MiniBlockLayout> {
    let large = version >= FileVersion::V2_2;
    if wire.has_large_chunk != large {
        return Err(Error::corrupt(format!(
            "has_large_chunk is {}, files of version {version} have {large}",
            wire.has_large_chunk
        )));
    }
    let dictionary = match wire.dictionary {
        Some(dictionary) => Some((encoding::decode(dictionary)?, wire.num_dictionary_items)),
        None => None,
    };
    Ok(MiniBlockLayout {
        rep: wire.rep_compression.map(encoding::decode).transpose()?,
        def: wire.def_compression.map(encoding::decode).transpose()?,
        values: encoding::decode_required("the value encoding of a mini-block page", wire.value_compression)?,
        dictionary,
        layers: encoding::decode_layers(&wire.layers)?,
        num_buffers: wire.num_buffers,
        repetition_index_depth: wire.repetition_index_depth,
        num_items: wire.num_items,
        has_large_chunk: wire.has_large_chunk,
    })
}

fn decode_constant(wire: wire::ConstantLayout, version: FileVersion) -> Result<ConstantLayout> {
    let compressed = wire.rep_compression.is_some() || wire.def_compression.is_some();
    if version < FileVersion::V2_2 && (wire.inline_value.is_some() || compressed) {
        return Err(Error::corrupt(format!(
            "a constant page with a value or compressed levels, which files of version {version} do not have"
        )));
    }
    if let Some(length) = wire.inline_value.as_ref().map(|v| v.len()).filter(|&n| n > MAX_INLINE_VALUE) {
        return Err(Error::corrupt(format!(
            "inline value of {length} bytes, expected at most {MAX_INLINE_VALUE}"
        )));
    }
    let levels = |codec: Option<wire::CompressiveEncoding>,
                  number: u64|
     -> Result<Option<(CompressiveEncoding, u64)>> {
        codec.map(|codec| Ok((encoding::decode(codec)?, number))).transpose()
    };
    Ok(ConstantLayout {
        layers: encoding::decode_layers(&wire.layers)?,
        inline_value: wire.inline_value,
        rep: levels(wire.rep_compression, wire.num_rep_values)?,
        def: levels(wire.def_compression, wire.num_def_values)?,
    })
}

fn decode_full_zip(wire: wire::FullZipLayout) -> Result<FullZipLayout> {
    let width = match wire.details {
        Some(Details::BitsPerValue(bits)) => FullZipWidth::Fixed(bits),
        Some(Details::BitsPerOffset(bits @ (32 | 64))) => FullZipWidth::Variable(bits),
        Some(Details::BitsPerOffset(bits)) => {
            return Err(Error::corrupt(format!("full-zip lengths of {bits} bits, expected 32 or 64")));
        }
        None => return Err(Error::corrupt("a full-zip page without bits per value or per length")),
    };
    if wire.bits_rep > 16 || wire.bits_def > 16 {
        return Err(Error::corrupt(format!(
            "full-zip levels of {} and {} bits, expected at most 16",
            wire.bits_rep, wire.bits_def
        )));
    }
    if wire.num_visible_items > wire.num_items {
        return Err(Error::corrupt(format!(
            "{} visible items of {} items in a full-zip page",
            wire.num_visible_items, wire.num_items
        )));
    }
    Ok(FullZipLayout {
        bits_rep: wire.bits_rep,
        bits_def: wire.bits_def,
        width,
        num_items: wire.num_items,
        num_visible_items: wire.num_visible_items,
        values: encoding::decode_required("the value encoding of a full-zip page", wire.value_compression)?,
        layers: encoding::decode_layers(&wire.layers)?,
    })
}

/// Encodes a layout. Errors: `Internal` for an encoding that was not understood.
pub(super) fn encode(layout: &PageLayout) -> Result<wire::PageLayout> {
    let layout = match layout {
        PageLayout::MiniBlock(layout) => Layout::MiniBlockLayout(encode_mini_block(layout)?),
        PageLayout::Constant(layout) => Layout::ConstantLayout(encode_constant(layout)?),
        PageLayout::FullZip(layout) => Layout::FullZipLayout(encode_full_zip(layout)?),
        PageLayout::Blob { inner, layers } => Layout::BlobLayout(Box::new(wire::BlobLayout {
            inner_layout: Some(Box::new(encode(inner)?)),
            layers: encoding::encode_layers(layers),
        })),
        PageLayout::Array(_) => {
            return Err(Error::internal("an array of file version 2.0 has no page layout"));
        }
    };
    Ok(wire::PageLayout { layout: Some(layout) })
}

fn encode_mini_block(layout: &MiniBlockLayout) -> Result<wire::MiniBlockLayout> {
    Ok(wire::MiniBlockLayout {
        rep_compression: layout.rep.as_ref().map(encoding::encode).transpose()?,
        def_compression: layout.def.as_ref().map(encoding::encode).transpose()?,
        value_compression: Some(encoding::encode(&layout.values)?),
        dictionary: layout.dictionary.as_ref().map(|(codec, _)| encoding::encode(codec)).transpose()?,
        num_dictionary_items: layout.dictionary.as_ref().map_or(0, |(_, number)| *number),
        layers: encoding::encode_layers(&layout.layers),
        num_buffers: layout.num_buffers,
        repetition_index_depth: layout.repetition_index_depth,
        num_items: layout.num_items,
        has_large_chunk: layout.has_large_chunk,
    })
}

fn encode_constant(layout: &ConstantLayout) -> Result<wire::ConstantLayout> {
    let codec = |levels: &Option<(CompressiveEncoding, u64)>| {
        levels.as_ref().map(|(codec, _)| encoding::encode(codec)).transpose()
    };
    let number =
        |levels: &Option<(CompressiveEncoding, u64)>| levels.as_ref().map_or(0, |(_, number)| *number);
    Ok(wire::ConstantLayout {
        layers: encoding::encode_layers(&layout.layers),
        inline_value: layout.inline_value.clone(),
        rep_compression: codec(&layout.rep)?,
        def_compression: codec(&layout.def)?,
        num_rep_values: number(&layout.rep),
        num_def_values: number(&layout.def),
    })
}

fn encode_full_zip(layout: &FullZipLayout) -> Result<wire::FullZipLayout> {
    Ok(wire::FullZipLayout {
        bits_rep: layout.bits_rep,
        bits_def: layout.bits_def,
        num_items: layout.num_items,
        num_visible_items: layout.num_visible_items,
        value_compression: Some(encoding::encode(&layout.values)?),
        layers: encoding::encode_layers(&layout.layers),
        details: Some(match layout.width {
            FullZipWidth::Fixed(bits) => Details::BitsPerValue(bits),
            FullZipWidth::Variable(bits) => Details::BitsPerOffset(bits),
        }),
    })
}
