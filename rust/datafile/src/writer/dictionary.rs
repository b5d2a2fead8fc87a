//! Whether a page of plain values becomes one of indices into a dictionary.
//!
//! | values | from file version | compared with |
//! |---|---|---|
//! | strings, binary | 2.1 | offsets and bytes |
//! | 128 bits | 2.1 | plain values |
//! | 64 bits | 2.2 | the smallest form without dictionary |
//!
//! A sample decides whether it is tried at all, so that values without repetition cost next to nothing.

use arrow_buffer::Buffer;
use pennon_core::Result;
use pennon_core::file::{CompressiveEncoding, FileVersion, General};

use super::choose::{is_share, size_of_integers};
use super::codec::INDEX;
use super::mini_block::Dictionary;
use super::options::FieldOptions;
use super::values::{Data, Values};
use crate::encodings::bitpack;
use crate::encodings::bitpack::encode::Pack;
use crate::encodings::dictionary::distinct::{Distinct, Limits, distinct, estimate};
use crate::encodings::flat::encode::Rope;
use crate::encodings::le::Number;
use crate::encodings::variable::encode::put_block;

/// Fewer values are not worth a dictionary.
const MIN_VALUES: usize = 100;
/// Items at most.
const MAX_ITEMS: usize = 100_000;
/// Values looked at first.
const SAMPLE: usize = 4096;

/// Indices and dictionary of these values, if that makes them clearly smaller.
pub(crate) fn find(
    values: &Values,
    options: &FieldOptions,
    version: FileVersion,
) -> Result<Option<(Values, Dictionary)>> {
    let n = values.len();
    if n < MIN_VALUES || !values.lists.is_empty() {
        return Ok(None);
    }
    let max_items = (n / options.dictionary_divisor).min(MAX_ITEMS);
    let (found, width) = match &values.data {
        Data::Variable(v) => {
            let plain = values.bytes();
            let sample: Vec<Vec<u8>> = (0..n.min(SAMPLE))
                .map(|i| {
                    let mut value = Vec::new();
                    v.copy(n / n.min(SAMPLE) * i, 1, &mut value);
                    value
                })
                .collect();
            let Some(items) = estimate(sample.iter().map(|v| v.as_slice())) else { return Ok(None) };
            let per_item = plain / n;
            if !is_share(items * per_item + packed_indices(n, items), plain, options.dictionary_ratio) {
                return Ok(None);
            }
            let found = distinct(v.values(), n, Limits { items: max_items, bytes: plain });
            let smaller = |found: &Distinct| {
                let items = found.offsets.len() - 1;
                let bytes = found.bytes.len() + items * v.width + packed_indices(n, items);
                is_share(bytes, plain, options.dictionary_ratio)
            };
            (found.filter(smaller), Err(v.width))
        }
        Data::Fixed { width: width @ (8 | 16), bytes } if *width == 16 || version >= FileVersion::V2_2 => {
            let width = *width;
            let mut sample = Vec::with_capacity(n.min(SAMPLE) * width);
            for i in 0..n.min(SAMPLE) {
                bytes.copy(n / n.min(SAMPLE) * i * width, width, &mut sample);
            }
            let Some(items) = estimate(sample.chunks_exact(width)) else { return Ok(None) };
            if width == 8 && u64::width(&sample) <= index_bits(items) + 1 {
                // Packed they are as small.
                return Ok(None);
            }
            let (plain, runs) = match width {
                8 => size_of_integers(bytes, options),
                _ => (bytes.len(), n),
            };
            let size = |items: usize| items * width + packed_indices(n, items).min(runs * (INDEX + 1));
            if !is_share(size(items), plain, options.dictionary_ratio) {
                return Ok(None);
            }
            let all = bytes.parts().iter().flat_map(|part| part.chunks_exact(width));
            let found = distinct(all, n, Limits { items: max_items, bytes: plain });
            let smaller =
                |found: &Distinct| is_share(size(found.offsets.len() - 1), plain, options.dictionary_ratio);
            (found.filter(smaller), Ok(width))
        }
        _ => return Ok(None),
    };
    let Some(Distinct { indices, offsets, bytes }) = found else { return Ok(None) };
    let num_items = offsets.len() as u64 - 1;
    let mut index_bytes = Vec::with_capacity(indices.len() * INDEX);
    index_bytes.extend(indices.into_iter().flat_map(u32::to_le_bytes));
    let indices = Values::fixed(INDEX, Rope::new(vec![Buffer::from_vec(index_bytes)]));
    let (block, encoding) = match width {
        Err(offset_width) => {
            let mut block = Vec::with_capacity(bytes.len() + (offsets.len() + 2) * offset_width);
            put_block(&offsets, &bytes, offset_width, &mut block);
            (block, CompressiveEncoding::Variable { bits_per_offset: offset_width as u64 * 8 })
        }
        Ok(width) => (bytes, CompressiveEncoding::Flat { bits_per_value: width as u64 * 8 }),
    };
    Ok(Some((indices, compress((encoding, num_items, block), options, version)?)))
}

/// The items in the smallest form that the file version allows.
pub(crate) fn compress(
    dictionary: Dictionary,
    options: &FieldOptions,
    version: FileVersion,
) -> Result<Dictionary> {
    let (encoding, num_items, mut block) = dictionary;
    if version < FileVersion::V2_2 {
        return Ok((encoding, num_items, block));
    }
    let mut best = encoding.clone();
    let mut smallest = Vec::new();
    if let Some(compressor) = options.items {
        compressor.append(&block, &mut smallest)?;
        let (scheme, level) = (compressor.scheme, compressor.level);
        best = CompressiveEncoding::General(General { scheme, level, values: Box::new(encoding.clone()) });
        if smallest.len() >= block.len() {
            (best, smallest) = (encoding.clone(), Vec::new());
        }
    }
    let len = if smallest.is_empty() { block.len() } else { smallest.len() };
    if encoding == (CompressiveEncoding::Flat { bits_per_value: 64 }) && block.len() <= bitpack::GROUP * 8 {
        let mut packed = Vec::new();
        bitpack::encode::inline::<u64>(&block, &mut packed);
        if packed.len() < len {
            (best, smallest) = (CompressiveEncoding::InlineBitpacking { uncompressed_bits: 64 }, packed);
        }
    }
    if !smallest.is_empty() {
        block = smallest;
    }
    Ok((best, num_items, block))
}

fn packed_indices(n: usize, items: usize) -> usize {
    n / 8 * index_bits(items)
}

fn index_bits(items: usize) -> usize {
    (usize::BITS - items.saturating_sub(1).leading_zeros()).size()
}
