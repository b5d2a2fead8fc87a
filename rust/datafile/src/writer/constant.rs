//! Constant pages: levels, and at most one value (file format 4.7).

use bytes::Bytes;
use pennon_core::file::{ConstantLayout, FileVersion, Layer, PageLayout};
use pennon_core::{Error, Result};

use super::level_codec::LevelCodec;
use super::levels::PageLevels;
use super::values::{Data, Values};
use crate::container::writer::Page;
use crate::encodings::flat::encode::put_uint;

/// Longest value in the layout itself.
const MAX_INLINE: usize = 32;

/// Longest value in a buffer; a longer value is better compressed.
const MAX_BUFFER: usize = 4096;

/// The value of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// In the layout.
    Inline(Bytes),
    /// In a buffer, as the buffers of an Arrow array.
    Buffer(Vec<u8>),
}

/// A page of these levels whose slots all have this value, or are all null.
pub(crate) fn page(levels: &PageLevels, value: Option<Value>, version: FileVersion) -> Page {
    let plain = match &value {
        None => levels.layers == [Layer::NullableItem],
        Some(_) => levels.rep.is_none() && levels.def.is_none(),
    };
    let (mut buffers, mut inline_value) = (Vec::new(), None);
    match value {
        Some(Value::Inline(bytes)) => inline_value = Some(bytes),
        Some(Value::Buffer(bytes)) => buffers.push(bytes),
        None => {}
    }
    let mut put = |part: &Option<Vec<u16>>, highest: u16| {
        let (part, mut bytes) = (part.as_deref().unwrap_or_default(), Vec::new());
        let codec = match version >= FileVersion::V2_2 && !part.is_empty() {
            true => LevelCodec::choose(part, highest, std::iter::once(part.len()), version),
            false => LevelCodec::Plain,
        };
        codec.put(part, &mut bytes);
        buffers.push(bytes);
        (codec != LevelCodec::Plain).then(|| (codec.encoding(), part.len() as u64))
    };
    let (mut rep, mut def) = (None, None);
    if !plain {
        rep = put(&levels.rep, levels.max_rep);
        def = put(&levels.def, levels.max_def);
    }
    let layout = ConstantLayout { layers: levels.layers.clone(), inline_value, rep, def };
    Page { num_rows: levels.rows as u64, layout: PageLayout::Constant(layout), buffers }
}

/// A page of structs without members. It looks as if all were null, and readers take none for null: so there is no form
/// for nulls among them, nor for lists of them. Errors: `Unsupported` for those.
pub(crate) fn nothing(levels: &PageLevels) -> Result<Page> {
    if levels.max_def > 0 || levels.rep.is_some() {
        return Err(Error::unsupported(
            "structs without members can be stored neither in lists or maps nor where they or the structs around \
             them are null",
        ));
    }
    // One layer, however many structs are around.
    let layout =
        ConstantLayout { layers: vec![Layer::NullableItem], inline_value: None, rep: None, def: None };
    Ok(Page { num_rows: levels.rows as u64, layout: PageLayout::Constant(layout), buffers: Vec::new() })
}

/// The value that all slots have. Only of pages without levels: next to a value the reference reads levels only as
/// they are, and then chunks are smaller.
pub(crate) fn only_value(levels: &PageLevels, values: &Values) -> Option<Value> {
    if !values.lists.is_empty() || levels.rep.is_some() || levels.def.is_some() {
        return None;
    }
    let inline = match &values.data {
        Data::Bits { bits, .. } => match bits.count_set_bits() {
            0 => Some(Bytes::from_static(&[0])),
            n if n == levels.slots => Some(Bytes::from_static(&[1])),
            _ => None,
        },
        Data::Fixed { width, bytes } if (1..=MAX_INLINE).contains(width) => {
            let slots = bytes.parts().iter().flat_map(|part| part.chunks_exact(*width));
            only(slots).map(Bytes::copy_from_slice)
        }
        Data::Variable(v) => {
            let value = only(v.values()).filter(|value| value.len() <= MAX_BUFFER)?;
            let mut bytes = Vec::with_capacity(12 + v.width * 2 + value.len());
            for number in [2, v.width as u64 * 2, value.len() as u64] {
                put_uint(number, 4, &mut bytes);
            }
            put_uint(0, v.width, &mut bytes);
            put_uint(value.len() as u64, v.width, &mut bytes);
            bytes.extend_from_slice(value);
            return Some(Value::Buffer(bytes));
        }
        Data::Fixed { .. } => None,
    };
    inline.map(Value::Inline)
}

fn only<'a>(mut slots: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let first = slots.next()?;
    slots.all(|value| value == first).then_some(first)
}
