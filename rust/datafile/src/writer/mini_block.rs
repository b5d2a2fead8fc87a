//! Mini-block pages: values and their levels in small chunks (file format 4.4).
//!
//! | page buffer | content |
//! |---|---|
//! | 0 | a word per chunk: `(bytes / 8 - 1) << 4 \| log2(values)`, 16 bits in 2.1 and 32 in 2.2 |
//! | 1 | the chunks: header, repetition levels, definition levels, value buffers, each padded to 8 |
//! | next | the dictionary block, if there is one |
//! | next | the repetition index, if there are lists |

use pennon_core::file::{CompressiveEncoding, FileVersion, MiniBlockLayout, PageLayout};
use pennon_core::{Error, Result};

use super::codec::{Codec, Encoder};
use super::level_codec::LevelCodec;
use super::levels::PageLevels;
use super::plan::{Chunk, plan, repetition_index};
use super::values::Values;
use crate::container::writer::Page;
use crate::encodings::flat::encode::{pad, put_uint};

/// A dictionary block with its encoding and number of items.
pub(crate) type Dictionary = (CompressiveEncoding, u64, Vec<u8>);

/// The page, or `None` when its levels do not fit into chunks.
pub(crate) fn page(
    levels: &PageLevels,
    values: &Values,
    codec: &Codec,
    dictionary: Option<Dictionary>,
    version: FileVersion,
) -> Result<Option<Page>> {
    let large = version >= FileVersion::V2_2;
    let mut encoder = Encoder::new(values, codec);
    let num_buffers = encoder.num_buffers();
    let level_sizes = usize::from(levels.rep.is_some()) + usize::from(levels.def.is_some());
    let header = (2 + 2 * level_sizes + num_buffers * if large { 4 } else { 2 }).next_multiple_of(8);
    let limits = codec.limits(values, large, header);
    let Some(chunks) = plan(levels, limits, |at, n| encoder.chunk_bytes(at, n)) else { return Ok(None) };
    let lengths = || chunks.iter().map(|chunk| chunk.levels);
    let rep = levels.rep.as_deref().map(|rep| LevelCodec::choose(rep, levels.max_rep, lengths(), version));
    let def = levels.def.as_deref().map(|def| LevelCodec::choose(def, levels.max_def, lengths(), version));
    let (words, bytes) = put_chunks(levels, (rep, def), &mut encoder, &chunks, large)?;
    let mut buffers = vec![words, bytes];
    let dictionary = dictionary.map(|(encoding, num_items, block)| {
        buffers.push(block);
        (encoding, num_items)
    });
    if levels.rep.is_some() {
        let mut bytes = Vec::with_capacity(chunks.len() * 16);
        for (rows, leftover) in repetition_index(levels, &chunks) {
            put_uint(rows, 8, &mut bytes);
            put_uint(leftover, 8, &mut bytes);
        }
        buffers.push(bytes);
    }
    let layout = MiniBlockLayout {
        rep: rep.map(LevelCodec::encoding),
        def: def.map(LevelCodec::encoding),
        values: codec.encoding(values),
        dictionary,
        layers: levels.layers.clone(),
        num_buffers: num_buffers as u64,
        repetition_index_depth: u32::from(levels.rep.is_some()),
        num_items: levels.slots as u64,
        has_large_chunk: large,
    };
    Ok(Some(Page { num_rows: levels.rows as u64, layout: PageLayout::MiniBlock(layout), buffers }))
}

/// The words and the chunks.
fn put_chunks(
    levels: &PageLevels,
    (rep, def): (Option<LevelCodec>, Option<LevelCodec>),
    encoder: &mut Encoder<'_>,
    chunks: &[Chunk],
    large: bool,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let too_large = |what: &str, n: usize| Error::internal(format!("a chunk with {n} {what}"));
    let size_width = if large { 4 } else { 2 };
    let num_buffers = encoder.num_buffers();
    let mut words = Vec::with_capacity(chunks.len() * size_width);
    let mut out = Vec::with_capacity(encoder.bytes() + chunks.len() * 64 + levels.len / 2);
    let (mut sizes, mut parts) = (Vec::new(), Vec::new());
    let (mut value, mut level) = (0, 0);
    for (number, chunk) in chunks.iter().enumerate() {
        let start = out.len();
        let num_levels = if rep.is_some() || def.is_some() { chunk.levels } else { 0 };
        put_uint(u16::try_from(num_levels).map_err(|_| too_large("levels", num_levels))?.into(), 2, &mut out);
        parts.clear();
        for (codec, levels) in
            [(rep, levels.rep_of(level, chunk.levels)), (def, levels.def_of(level, chunk.levels))]
        {
            let Some(codec) = codec else { continue };
            let at = parts.len();
            codec.put(levels, &mut parts);
            let size = parts.len() - at;
            put_uint(
                u16::try_from(size).map_err(|_| too_large("bytes of levels", size))?.into(),
                2,
                &mut out,
            );
            pad(8, 0, &mut parts);
        }
        let size_at = out.len();
        out.resize(out.len() + num_buffers * size_width, 0);
        pad(8, start, &mut out);
        out.extend_from_slice(&parts);
        sizes.clear();
        encoder.put(value, chunk.values, &mut out, &mut sizes)?;
        let slots = out.get_mut(size_at..).unwrap_or_default().chunks_exact_mut(size_width);
        for (slot, &size) in slots.zip(&sizes) {
            let size = size as u64;
            slot.copy_from_slice(size.to_le_bytes().get(..size_width).unwrap_or_default());
        }
        let log = if number + 1 == chunks.len() { 0 } else { chunk.values.ilog2() };
        let word = ((((out.len() - start) / 8 - 1) as u64) << 4) | u64::from(log);
        if word >> (size_width * 8) != 0 {
            return Err(too_large("bytes", out.len() - start));
        }
        put_uint(word, size_width, &mut words);
        value += chunk.values;
        level += chunk.levels;
    }
    Ok((words, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::flat::encode::Rope;
    use arrow_buffer::Buffer;

    /// The examples of file format 4.4, except for the filling of the header.
    #[test]
    fn four_numbers() {
        let levels = PageLevels { rows: 4, len: 4, slots: 4, ..PageLevels::default() };
        let content = [1u8, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
        for (version, word, header) in [
            (FileVersion::V2_1, vec![0x20, 0], [0, 0, 0x10, 0, 0, 0, 0, 0]),
            (FileVersion::V2_2, vec![0x20, 0, 0, 0], [0, 0, 0x10, 0, 0, 0, 0, 0]),
        ] {
            let values = Values::fixed(4, Rope::new(vec![Buffer::from(content.as_slice())]));
            let page = page(&levels, &values, &Codec::default(), None, version).unwrap().unwrap();
            assert_eq!(page.buffers, [word, [header.as_slice(), &content].concat()]);
        }
    }
}
