//! Full-zip pages: large values one after another, each behind its control word (file format 4.6).
//!
//! | part | present |
//! |---|---|
//! | control word `rep << bits_def \| def` of 1, 2 or 4 bytes | for each position, if there are levels |
//! | fixed width: bitmaps of items, then the items | for each slot, filled with zeros for a null |
//! | variable width: length of 4 or 8 bytes, then the bytes, compressed or not | for each slot that is not null |
//!
//! The second buffer, where each row starts, exists for lists and for variable width.

use pennon_core::file::{FileVersion, FullZipLayout, FullZipWidth, PageLayout};
use pennon_core::{Error, Result};

use super::codec::Codec;
use super::levels::PageLevels;
use super::values::{Data, Values, put_bits};
use crate::container::writer::Page;
use crate::encodings::flat::encode::put_uint;
use crate::encodings::general::encode::Context;
use crate::encodings::le::Number;

/// The page. Errors: `Unsupported` for values that are no whole bytes.
pub(crate) fn page(
    levels: &PageLevels,
    values: &Values,
    codec: &Codec,
    version: FileVersion,
) -> Result<Page> {
    let bits = |highest: u16| u16::BITS - highest.leading_zeros();
    let bits_rep = if levels.rep.is_some() { bits(levels.max_rep) } else { 0 };
    let bits_def = if levels.def.is_some() { bits(levels.max_def) } else { 0 };
    let control = match bits_rep + bits_def {
        0 => 0,
        1..=8 => 1,
        9..=16 => 2,
        _ => 4,
    };
    let bitmap_bytes = bitmap_bytes(values);
    let width = width(values, version)?;
    let with_index = matches!(width, FullZipWidth::Variable(_)) || levels.rep.is_some();
    let mut capacity = values.bytes() + levels.len * (control + bitmap_bytes);
    if let (Data::Variable(v), Some(compressor)) = (&values.data, codec.compressor) {
        // What the longest may take before it is compressed, so that the others need not be moved for it.
        capacity += compressor.bound(v.longest().size()) + levels.len * 8;
    }
    let mut out = Vec::with_capacity(capacity);
    let mut starts = Vec::with_capacity(if with_index { levels.rows + 1 } else { 0 });
    if let (Data::Fixed { bytes, .. }, 0, 0) = (&values.data, control, bitmap_bytes) {
        bytes.copy(0, bytes.len(), &mut out);
    } else {
        let (mut scratch, mut context) = (Vec::new(), Context::default());
        let mut slot = 0;
        for at in 0..levels.len {
            let rep = levels.rep_of(at, 1).first().copied();
            let def = levels.def_of(at, 1).first().copied().unwrap_or_default();
            if with_index && rep.is_none_or(|r| r == levels.max_rep) {
                starts.push(out.len() as u64);
            }
            let word = u64::from(rep.unwrap_or_default()) << bits_def | u64::from(def);
            put_uint(word, control, &mut out);
            if def <= levels.visible {
                match (&values.data, codec.compressor) {
                    (Data::Variable(v), Some(compressor)) if def == 0 => {
                        let bytes = v.bytes.slice(v.start(slot), v.value_bytes(slot, 1).size(), &mut scratch);
                        let at = out.len();
                        put_uint(0, v.width, &mut out);
                        compressor.append_in(&mut context, bytes, &mut out)?;
                        let len = (out.len() - at - v.width) as u64;
                        let slot = out.iter_mut().skip(at).take(v.width);
                        slot.zip(len.to_le_bytes()).for_each(|(to, from)| *to = from);
                    }
                    _ => put_value(values, slot, def, bitmap_bytes, &mut out),
                }
                slot += 1;
            }
        }
    }
    let encoding = codec.encoding(values);
    let size = out.len() as u64;
    let mut buffers = vec![out];
    if with_index {
        starts.push(size);
        let width = match size {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        let mut index = Vec::with_capacity(starts.len() * width);
        for start in starts {
            put_uint(start, width, &mut index);
        }
        buffers.push(index);
    }
    let layout = FullZipLayout {
        bits_rep,
        bits_def,
        width,
        num_items: count(levels.len)?,
        num_visible_items: count(levels.slots)?,
        values: encoding,
        layers: levels.layers.clone(),
    };
    Ok(Page { num_rows: levels.rows as u64, layout: PageLayout::FullZip(layout), buffers })
}

/// Bits of a value, bitmaps of items included, or of its length. Errors: `Unsupported` for single bits.
pub(crate) fn width(values: &Values, version: FileVersion) -> Result<FullZipWidth> {
    match &values.data {
        Data::Fixed { width, .. } => Ok(FullZipWidth::Fixed(count(8 * (bitmap_bytes(values) + width))?)),
        Data::Variable(v) => Ok(FullZipWidth::Variable(count(v.width * 8)?)),
        Data::Bits { .. } => Err(Error::unsupported(format!(
            "lists of bits too large for the chunks of file version {version}"
        ))),
    }
}

fn bitmap_bytes(values: &Values) -> usize {
    values.bitmaps().map(|(per_row, _)| per_row.div_ceil(8)).sum()
}

/// Appends the value of a slot, with zeros for a null of fixed width.
pub(crate) fn put_value(values: &Values, slot: usize, def: u16, bitmap_bytes: usize, out: &mut Vec<u8>) {
    match &values.data {
        Data::Variable(v) if def == 0 => {
            put_uint(v.value_bytes(slot, 1), v.width, out);
            v.copy(slot, 1, out);
        }
        Data::Fixed { width, bytes } => {
            if def > 0 {
                out.resize(out.len() + bitmap_bytes, 0);
            } else {
                for (per_row, bits) in values.bitmaps() {
                    put_bits(bits, slot * per_row, per_row, out);
                }
            }
            bytes.copy(slot * width, *width, out);
        }
        _ => {}
    }
}

fn count(n: usize) -> Result<u32> {
    u32::try_from(n)
        .map_err(|_| Error::unsupported(format!("{n} values or bits in one page of large values")))
}
