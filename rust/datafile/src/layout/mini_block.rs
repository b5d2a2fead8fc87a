//! Mini-block pages: chunks of up to 32,768 values, each with its levels (file format 4.4).
//!
//! | page buffer | content |
//! |---|---|
//! | 0 | a word per chunk: `(bytes / 8 - 1) << 4 \| log2(values)`, u16 in 2.1 and u32 in 2.2 |
//! | 1 | the chunks |
//! | next | dictionary items, if there is a dictionary |
//! | next | repetition index, if there are lists: u64 rows that end in the chunk, u64 levels of an unfinished row |
//!
//! | part of a chunk | size |
//! |---|---|
//! | number of levels | u16 |
//! | size of repetition levels, of definition levels | u16 each, if there are any |
//! | size of each value buffer | u16 in 2.1, u32 in 2.2 |
//! | padding; levels and value buffers, each padded | to multiples of 8 |

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{CompressiveEncoding, MiniBlockLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::{
    Dictionary, Output, VisibleCounter, buffer, decode_levels, index_width, level_buffer, level_codec, within,
};
use crate::encodings::codec::Codec;
use crate::encodings::dictionary;
use crate::encodings::le::{Number, bytes_at, check_allocation, number_at, to_usize};
use crate::repdef;
use crate::source::{Fetch, Fetched};
use crate::values::{Data, Leaf, Physical};

/// More value buffers than any combination of encodings has.
const MAX_BUFFERS: usize = 32;
/// Bytes before the values of a chunk without levels: two counts, padded.
const PLAIN_HEADER: u64 = 8;
/// Smaller chunks are always read as a whole.
const LARGE_CHUNK: usize = 2 * 1024;
/// Below this share of a chunk (one in ...) its values are read by themselves.
const FEW: u64 = 4;

/// A page whose chunks are known.
#[derive(Debug)]
pub(super) struct Page {
    codec: Codec,
    rep: Option<Codec>,
    def: Option<Codec>,
    dictionary: Option<(Dictionary, usize)>,
    /// The indices are the requested values.
    keys_only: bool,
    /// Repetition level of a row's start; 0 without lists.
    repetition: u16,
    max_visible: u16,
    num_buffers: usize,
    wide_sizes: bool,
    /// Bytes of a row, where chunks have nothing but rows as they are in memory after their header.
    plain_width: Option<u64>,
    /// Where each chunk starts in the buffer, and the end.
    bytes: Vec<u64>,
    /// Values before each chunk, and in all.
    values: Vec<u64>,
    /// The first row that starts in each chunk, and the number of rows; empty without lists, where it is `values`.
    rows: Vec<u64>,
    /// Whether each chunk starts with the rest of a row; empty without lists.
    continued: Vec<bool>,
}

/// Chunks to read.
#[derive(Debug)]
pub(super) struct MiniBlockPlan {
    parts: Vec<ChunkRead>,
}

/// A chunk, the ranges of rows that touch it, and where its bytes will be.
#[derive(Debug)]
struct ChunkRead {
    chunk: usize,
    ranges: Range<usize>,
    /// Rows of the chunk that are read without the others.
    few: Option<Range<u64>>,
    ticket: usize,
}

/// Requests chunk table, dictionary and repetition index.
pub(super) fn first(page: &PageMetadata, layout: &MiniBlockLayout, fetch: &mut Fetch) -> Result<Vec<usize>> {
    let mut tickets = vec![fetch.add(buffer(page, 0)?)];
    buffer(page, 1)?;
    let extra = usize::from(layout.dictionary.is_some()) + usize::from(layout.repetition_index_depth > 0);
    for index in 2..2 + extra {
        tickets.push(fetch.add(buffer(page, index)?));
    }
    Ok(tickets)
}

impl Page {
    /// Checks the layout and the bytes that [`first`] requested.
    pub(super) fn new(
        page: &PageMetadata,
        layout: &MiniBlockLayout,
        leaf: &Leaf,
        keys_only: bool,
        got: &[Bytes],
    ) -> Result<Self> {
        let mut got = got.iter();
        let words = got.next().ok_or_else(|| Error::internal("the chunk table was not read"))?;
        let (codec, dictionary) = match &layout.dictionary {
            Some((items, count)) => {
                let width = index_width(&layout.values)?;
                let block = got.next().ok_or_else(|| Error::internal("the dictionary was not read"))?;
                let items = decode_dictionary(items, *count, leaf, block).at(|| "dictionary")?;
                (Codec::compile(&layout.values, Physical::Fixed(width), &[])?, Some((Arc::new(items), width)))
            }
            None => (Codec::compile_leaf(&layout.values, leaf)?, None),
        };
        let repetition = repdef::max_repetition(&layout.layers);
        if (repetition > 0) != (layout.repetition_index_depth > 0) || (repetition > 0) != layout.rep.is_some()
        {
            return Err(Error::corrupt(format!(
                "{repetition} layers of lists, repetition index of depth {}, repetition levels {}",
                layout.repetition_index_depth,
                if layout.rep.is_some() { "present" } else { "absent" }
            )));
        }
        let num_buffers = to_usize(layout.num_buffers)?;
        if num_buffers > MAX_BUFFERS {
            return Err(Error::unsupported(format!("{num_buffers} value buffers in a chunk")));
        }
        let (bytes, values) = if layout.has_large_chunk {
            chunk_table::<u32>(words, layout.num_items)?
        } else {
            chunk_table::<u16>(words, layout.num_items)?
        };
        let chunks = buffer(page, 1)?;
        if bytes.last().is_some_and(|&total| total > chunks.end - chunks.start) {
            return Err(Error::corrupt("the chunks are longer than their buffer"));
        }
        let (mut rows, mut continued) = (Vec::new(), Vec::new());
        if repetition > 0 {
            let index = got.next().ok_or_else(|| Error::internal("the repetition index was not read"))?;
            (rows, continued) = repetition_index(index, bytes.len() - 1)?;
        }
        let total = if rows.is_empty() { values.last() } else { rows.last() }.copied().unwrap_or_default();
        if total != page.num_rows {
            return Err(Error::corrupt(format!("chunks of {total} rows, the page has {}", page.num_rows)));
        }
        let plain_width = match leaf.physical {
            Physical::Fixed(width)
                if codec.is_contiguous()
                    && dictionary.is_none()
                    && num_buffers == 1
                    && repetition == 0
                    && layout.def.is_none() =>
            {
                Some(width.saturating_mul(leaf.items()) as u64)
            }
            _ => None,
        };
        Ok(Self {
            codec,
            rep: layout.rep.as_ref().map(level_codec).transpose().at(|| "repetition levels")?,
            def: layout.def.as_ref().map(level_codec).transpose().at(|| "definition levels")?,
            dictionary,
            keys_only,
            repetition,
            max_visible: repdef::max_visible(&repdef::bounds(&layout.layers)?),
            num_buffers,
            wide_sizes: layout.has_large_chunk,
            plain_width,
            bytes,
            values,
            rows,
            continued,
        })
    }

    pub(super) fn memory_size(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, |(items, _)| items.memory_size());
        (self.bytes.len() + self.values.len() + self.rows.len()) * 8 + self.continued.len() + dictionary
    }

    pub(super) fn dictionary(&self) -> Option<&(Dictionary, usize)> {
        self.dictionary.as_ref().filter(|_| self.keys_only)
    }

    /// First row that starts in each chunk, and the number of rows.
    fn starts(&self) -> &[u64] {
        if self.repetition > 0 { &self.rows } else { &self.values }
    }

    /// Rows that a chunk has a part of.
    fn touched(&self, chunk: usize) -> Range<u64> {
        let starts = self.starts();
        let first = starts.get(chunk).copied().unwrap_or_default();
        let end = starts.get(chunk + 1).copied().unwrap_or_default();
        first - u64::from(self.continued.get(chunk).copied().unwrap_or_default())..end
    }

    /// Requests the chunks that the rows touch.
    pub(super) fn second(
        &self,
        page: &PageMetadata,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<MiniBlockPlan> {
        let chunks = buffer(page, 1)?;
        let count = self.bytes.len() - 1;
        let ends = self.starts().get(1..).unwrap_or_default();
        let mut parts: Vec<ChunkRead> = Vec::new();
        let mut first = 0;
        for (at, range) in rows.iter().enumerate() {
            // Most ranges start in the chunk of the one before.
            if ends.get(first).is_some_and(|&end| end <= range.start) {
                let later = ends.get(first..).unwrap_or_default();
                first += later.partition_point(|&end| end <= range.start);
            }
            for chunk in first..count {
                if self.touched(chunk).start >= range.end {
                    break;
                }
                match parts.last_mut() {
                    Some(last) if last.chunk == chunk => last.ranges.end = at + 1,
                    _ => parts.push(ChunkRead { chunk, ranges: at..at + 1, few: None, ticket: 0 }),
                }
            }
        }
        let position = |chunk: usize| self.bytes.get(chunk).copied().unwrap_or_default();
        for part in &mut parts {
            part.few = self.plain_width.and_then(|width| self.few(part, rows.as_slice(), width));
            let start = position(part.chunk);
            let bytes = match (&part.few, self.plain_width) {
                (Some(few), Some(width)) => {
                    start + PLAIN_HEADER + few.start * width..start + PLAIN_HEADER + few.end * width
                }
                _ => start..position(part.chunk + 1),
            };
            part.ticket = fetch.add(within(&chunks, bytes)?);
        }
        Ok(MiniBlockPlan { parts })
    }

    /// From the first to the last row wanted of a chunk, if they are few next to the others. A chunk that is too short
    /// for them is read as a whole, which finds its fault.
    fn few(&self, part: &ChunkRead, rows: &[Range<u64>], width: u64) -> Option<Range<u64>> {
        let size = self.chunk_size(part.chunk);
        let touched = self.touched(part.chunk);
        let wanted = rows.get(part.ranges.clone())?;
        let start = wanted.first()?.start.max(touched.start) - touched.start;
        let end = wanted.last()?.end.min(touched.end) - touched.start;
        let is_there = PLAIN_HEADER.checked_add(end.checked_mul(width)?)? <= size as u64;
        let are_few = end.saturating_sub(start).saturating_mul(FEW) <= touched.end - touched.start;
        (size >= LARGE_CHUNK && start < end && is_there && are_few).then_some(start..end)
    }

    /// Decodes the chunks and keeps the requested rows.
    pub(super) fn decode(
        &self,
        plan: &MiniBlockPlan,
        rows: &RowRanges,
        got: &mut Fetched<'_>,
        out: Output<'_>,
    ) -> Result<()> {
        if self.dictionary.is_none() {
            out.values.data.reserve_bytes(self.value_bytes(plan, super::row_count(rows)?))?;
        }
        let mut work = Work {
            rep: level_buffer()?,
            def: level_buffer()?,
            indices: Data::with_capacity(
                self.dictionary.as_ref().map_or(Physical::None, |(_, width)| Physical::Fixed(*width)),
                0,
            )?,
            slices: Vec::new(),
            starts: Vec::new(),
            out,
        };
        for part in &plan.parts {
            let bytes = &got.get(part.ticket)?;
            let ranges = rows.as_slice().get(part.ranges.clone()).unwrap_or_default();
            if let Some(few) = &part.few {
                let start = self.touched(part.chunk).start;
                self.decode_few(start + few.start..start + few.end, bytes, ranges, &mut work)?;
                continue;
            }
            self.decode_chunk(part.chunk, bytes, ranges, &mut work).at(|| format!("chunk {}", part.chunk))?;
        }
        Ok(())
    }

    /// As [`Self::value_bytes`]; 0 for items of a dictionary.
    pub(super) fn bytes_of(&self, plan: &MiniBlockPlan, rows: usize) -> Result<usize> {
        Ok(if self.dictionary.is_none() { self.value_bytes(plan, rows) } else { 0 })
    }

    /// Bytes of the values of that many rows of the chunks, about.
    fn value_bytes(&self, plan: &MiniBlockPlan, rows: usize) -> usize {
        let (mut bytes, mut all) = (0usize, 0u64);
        for part in &plan.parts {
            let touched = self.touched(part.chunk);
            bytes = bytes.saturating_add(self.chunk_size(part.chunk));
            all = all.saturating_add(touched.end - touched.start);
        }
        // Rounded up, and never more than all of it.
        let per_row = bytes.saturating_mul(self.codec.expansion()) / usize::try_from(all.max(1)).unwrap_or(1);
        per_row.saturating_add(1).saturating_mul(rows).min(bytes.saturating_mul(self.codec.expansion()))
    }

    fn chunk_size(&self, chunk: usize) -> usize {
        match (self.bytes.get(chunk), self.bytes.get(chunk + 1)) {
            (Some(start), Some(end)) => usize::try_from(end - start).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// Keeps the requested plain rows that were read by themselves.
    fn decode_few(
        &self,
        read: Range<u64>,
        bytes: &[u8],
        rows: &[Range<u64>],
        work: &mut Work<'_>,
    ) -> Result<()> {
        work.slice(rows, &read)?;
        let Output { values, levels, scratch, .. } = &mut work.out;
        levels.len += work.slices.iter().map(Range::len).sum::<usize>();
        self.codec.append(&[bytes], to_usize(read.end - read.start)?, &work.slices, values, scratch)
    }

    fn decode_chunk(
        &self,
        chunk: usize,
        bytes: &[u8],
        rows: &[Range<u64>],
        work: &mut Work<'_>,
    ) -> Result<()> {
        let parts = self.split(bytes)?;
        let n = match (self.values.get(chunk), self.values.get(chunk + 1)) {
            (Some(start), Some(end)) => to_usize(end - start)?,
            _ => 0,
        };
        let touched = self.touched(chunk);
        work.slices.clear();
        if self.repetition == 0 {
            work.slice(rows, &touched)?;
            if let (Some(codec), Some(def)) = (&self.def, parts.def) {
                if parts.num_levels != n {
                    return Err(Error::corrupt(format!("{} levels of {n} values", parts.num_levels)));
                }
                let def = decode_levels(codec, def, n, &mut work.def).at(|| "definition levels")?;
                for slice in &work.slices {
                    work.out.levels.def.extend_from_slice(def.get(slice.clone()).unwrap_or_default());
                }
            }
            work.out.levels.len += work.slices.iter().map(Range::len).sum::<usize>();
        } else {
            self.select_levels(chunk, &parts, n, rows, touched, work)?;
        }
        self.append_values(&parts, n, work)
    }

    /// Finds the levels of the rows, appends them and turns `work.slices` into their value slots.
    fn select_levels(
        &self,
        chunk: usize,
        parts: &Parts<'_>,
        n: usize,
        rows: &[Range<u64>],
        touched: Range<u64>,
        work: &mut Work<'_>,
    ) -> Result<()> {
        let levels = parts.num_levels;
        let rep = match (&self.rep, parts.rep) {
            (Some(codec), Some(bytes)) => {
                decode_levels(codec, bytes, levels, &mut work.rep).at(|| "repetition levels")?
            }
            _ => return Err(Error::corrupt("lists without repetition levels")),
        };
        let def = match (&self.def, parts.def) {
            (Some(codec), Some(bytes)) => {
                decode_levels(codec, bytes, levels, &mut work.def).at(|| "definition levels")?
            }
            _ => &[],
        };
        if VisibleCounter::new(def, self.max_visible).before(levels) != n {
            return Err(Error::corrupt(format!("{levels} levels do not have {n} values")));
        }
        let first_start = self.rows.get(chunk).copied().unwrap_or_default();
        let continued = touched.start < first_start;
        work.starts.clear();
        repdef::positions(rep, self.repetition, &mut work.starts);
        if work.starts.len() as u64 != touched.end - first_start
            || (levels > 0 && continued == (work.starts.first() == Some(&0)))
        {
            return Err(Error::corrupt(format!(
                "{} rows start among the levels, the repetition index says {}",
                work.starts.len(),
                touched.end - first_start
            )));
        }
        let level_of = |row: u64| -> Result<usize> {
            match row.checked_sub(first_start) {
                None => Ok(0),
                Some(row) => Ok(work.starts.get(to_usize(row)?).copied().unwrap_or(levels)),
            }
        };
        let mut visible = VisibleCounter::new(def, self.max_visible);
        for range in rows {
            let (from, to) = (range.start.max(touched.start), range.end.min(touched.end));
            if from >= to {
                continue;
            }
            let slice = level_of(from)?..level_of(to)?;
            work.out.levels.rep.extend_from_slice(rep.get(slice.clone()).unwrap_or_default());
            if self.def.is_some() {
                work.out.levels.def.extend_from_slice(def.get(slice.clone()).unwrap_or_default());
            }
            work.out.levels.len += slice.len();
            let start = visible.before(slice.start);
            let end = visible.before(slice.end);
            if start < end {
                work.slices.push(start..end);
            }
        }
        Ok(())
    }

    fn append_values(&self, parts: &Parts<'_>, n: usize, work: &mut Work<'_>) -> Result<()> {
        let buffers = parts.buffers.get(..self.num_buffers).unwrap_or_default();
        let Output { values, missing, scratch, .. } = &mut work.out;
        match &self.dictionary {
            Some((items, width)) if !self.keys_only => {
                if let Data::Fixed { bytes, .. } = &mut work.indices {
                    bytes.clear();
                }
                self.codec.append_items(buffers, n, &work.slices, &mut work.indices, scratch)?;
                match &work.indices {
                    Data::Fixed { bytes, .. } => {
                        dictionary::decode::append(items, bytes, *width, &mut values.data, missing)
                    }
                    _ => Err(Error::internal("dictionary indices without width")),
                }
            }
            _ => self.codec.append(buffers, n, &work.slices, values, scratch),
        }
    }

    /// Splits a chunk into its levels and value buffers.
    fn split<'a>(&self, bytes: &'a [u8]) -> Result<Parts<'a>> {
        let num_levels = number_at::<u16>(bytes, 0)?.size();
        let mut at = 2;
        let mut size = |is_large: bool| -> Result<usize> {
            let size = if is_large {
                number_at::<u32>(bytes, at)?.size()
            } else {
                number_at::<u16>(bytes, at)?.size()
            };
            at += if is_large { 4 } else { 2 };
            Ok(size)
        };
        let rep = self.rep.is_some().then(|| size(false)).transpose()?;
        let def = self.def.is_some().then(|| size(false)).transpose()?;
        let mut sizes = [0; MAX_BUFFERS];
        for s in sizes.iter_mut().take(self.num_buffers) {
            *s = size(self.wide_sizes)?;
        }
        let mut at = at.next_multiple_of(8);
        let mut take = |size: usize| -> Result<&'a [u8]> {
            let part = bytes_at(bytes, at, size)?;
            at = (at + size).next_multiple_of(8);
            Ok(part)
        };
        let rep = rep.map(&mut take).transpose()?;
        let def = def.map(&mut take).transpose()?;
        let mut buffers: [&[u8]; MAX_BUFFERS] = [&[]; MAX_BUFFERS];
        for (part, size) in buffers.iter_mut().zip(sizes).take(self.num_buffers) {
            *part = take(size)?;
        }
        Ok(Parts { num_levels, rep, def, buffers })
    }
}

/// A chunk in parts.
struct Parts<'a> {
    num_levels: usize,
    rep: Option<&'a [u8]>,
    def: Option<&'a [u8]>,
    buffers: [&'a [u8]; MAX_BUFFERS],
}

/// Memory used from chunk to chunk.
struct Work<'a> {
    rep: Data,
    def: Data,
    indices: Data,
    /// Value slots wanted of the chunk.
    slices: Vec<Range<usize>>,
    /// Positions where rows start.
    starts: Vec<usize>,
    out: Output<'a>,
}

impl Work<'_> {
    /// Sets the slices to the requested rows among those that were read.
    fn slice(&mut self, rows: &[Range<u64>], read: &Range<u64>) -> Result<()> {
        self.slices.clear();
        for range in rows {
            let slice = range.start.max(read.start)..range.end.min(read.end);
            if slice.start < slice.end {
                self.slices.push(to_usize(slice.start - read.start)?..to_usize(slice.end - read.start)?);
            }
        }
        Ok(())
    }
}

fn decode_dictionary(encoding: &CompressiveEncoding, count: u64, leaf: &Leaf, block: &[u8]) -> Result<Data> {
    let count = to_usize(count)?;
    // Bit packing to width 0 is the only form without bytes for its items.
    if count > block.len().saturating_mul(1024).saturating_add(1024) {
        return Err(Error::corrupt(format!("{count} items in {} bytes", block.len())));
    }
    check_allocation(count.saturating_mul(8))?;
    if !leaf.dimensions.is_empty() {
        return Err(Error::unsupported("a dictionary of fixed-size lists cannot be read"));
    }
    let mut data = Data::with_capacity(leaf.physical, count)?;
    Codec::compile(encoding, leaf.physical, &[])?.append_block(block, count, &mut data)?;
    Ok(data.into_items())
}

/// Byte and value positions of the chunks.
fn chunk_table<T: Number>(words: &[u8], num_items: u64) -> Result<(Vec<u64>, Vec<u64>)> {
    if !words.len().is_multiple_of(T::BYTES) {
        return Err(Error::corrupt(format!("chunk table of {} bytes", words.len())));
    }
    let count = words.len() / T::BYTES;
    let (mut bytes, mut values) = (vec![0u64], vec![0u64]);
    bytes.reserve_exact(count);
    values.reserve_exact(count);
    let (mut position, mut total) = (0u64, 0u64);
    for (at, word) in T::iter(words).enumerate() {
        let word = word.size() as u64;
        position += ((word >> 4) + 1) * 8;
        let log = word & 15;
        let rest = num_items.saturating_sub(total);
        total = match (at + 1 == count, log) {
            (true, 0) => num_items.max(total),
            (false, 0) => return Err(Error::corrupt(format!("chunk {at} of {count} does not say its size"))),
            _ => total + (1 << log),
        };
        if (at + 1 == count && rest > 1 << 15) || total > num_items {
            return Err(Error::corrupt(format!(
                "chunk {at} of {count} ends at value {total} of {num_items}"
            )));
        }
        bytes.push(position);
        values.push(total);
    }
    if total != num_items {
        return Err(Error::corrupt(format!("chunks of {total} values, the page has {num_items}")));
    }
    Ok((bytes, values))
}

/// The first row that starts in each chunk, the number of rows, and which chunks start inside a row.
fn repetition_index(bytes: &[u8], chunks: usize) -> Result<(Vec<u64>, Vec<bool>)> {
    if bytes.len() != chunks.saturating_mul(16) {
        return Err(Error::corrupt(format!("repetition index of {} bytes for {chunks} chunks", bytes.len())));
    }
    let (mut rows, mut continued) = (Vec::with_capacity(chunks + 1), Vec::with_capacity(chunks));
    let (mut finished, mut open) = (0u64, false);
    let mut entries = u64::iter(bytes);
    while let (Some(ends), Some(leftover)) = (entries.next(), entries.next()) {
        let start = finished + u64::from(open);
        if rows.last().is_some_and(|&last| start < last) {
            return Err(Error::corrupt("rows of the repetition index do not grow"));
        }
        rows.push(start);
        continued.push(open);
        finished = finished
            .checked_add(ends)
            .filter(|&f| f < u64::MAX)
            .ok_or_else(|| Error::corrupt("repetition index counts too many rows"))?;
        open = leftover > 0;
    }
    if open || rows.last().is_some_and(|&last| finished < last) {
        return Err(Error::corrupt("the last row of the repetition index does not end"));
    }
    rows.push(finished);
    Ok((rows, continued))
}
