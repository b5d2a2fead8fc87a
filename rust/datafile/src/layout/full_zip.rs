//! Full-zip pages: large values one after another, a control word before each (file format 4.6).
//!
//! | part | present | size |
//! |---|---|---|
//! | control word `rep << bits_def \| def` | if there are levels | 1, 2 or 4 bytes |
//! | length | variable width, visible and not null | 4 or 8 bytes |
//! | value | visible; of variable width only if not null | |
//!
//! Page buffer 1, with lists or variable width: the position of each row, and the end, in the narrowest integers.

use std::ops::Range;

use bytes::Bytes;
use pennon_core::file::{CompressiveEncoding, FullZipLayout, FullZipWidth, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::{Output, buffer, within};
use crate::encodings::codec::Codec;
use crate::encodings::le::{Number, bytes_at, number_at, to_usize};
use crate::repdef;
use crate::source::{Fetch, Fetched};
use crate::values::{Leaf, Physical};

/// A page whose layout is checked.
#[derive(Debug)]
pub(super) struct Page {
    codec: Codec,
    /// Bytes of a control word.
    control: usize,
    bits_rep: u32,
    bits_def: u32,
    width: Width,
    /// Repetition level of a row's start; 0 without lists.
    repetition: u16,
    max_visible: u16,
    /// Bitmaps of the items of fixed-size lists in front of each value, and the bytes of the items.
    parts: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
enum Width {
    /// Bytes of a value.
    Fixed(usize),
    /// Bytes of a length.
    Variable(usize),
}

/// Tickets of the ranges of rows.
#[derive(Debug)]
pub(super) struct FullZipPlan {
    tickets: Vec<usize>,
    /// Bytes of all ranges.
    bytes: u64,
}

impl FullZipPlan {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn has_index(layout: &FullZipLayout) -> bool {
    matches!(layout.width, FullZipWidth::Variable(_)) || layout.layers.iter().any(|l| l.is_list())
}

/// Requests the positions where the ranges of rows start and end.
pub(super) fn first(
    page: &PageMetadata,
    layout: &FullZipLayout,
    rows: &RowRanges,
    fetch: &mut Fetch,
) -> Result<Vec<usize>> {
    let mut tickets = Vec::new();
    if has_index(layout) {
        let (index, width) = index(page)?;
        for range in rows {
            for row in [range.start, range.end] {
                let at = row.saturating_mul(width);
                tickets.push(fetch.add(within(&index, at..at.saturating_add(width))?));
            }
        }
    }
    Ok(tickets)
}

/// The repetition index and the bytes of its entries.
pub(super) fn index(page: &PageMetadata) -> Result<(Range<u64>, u64)> {
    let index = buffer(page, 1)?;
    let (len, entries) = (index.end - index.start, page.num_rows.saturating_add(1));
    match len / entries {
        width @ (1 | 2 | 4 | 8) if len % entries == 0 => Ok((index, width)),
        _ => Err(Error::corrupt(format!("repetition index of {len} bytes for {} rows", page.num_rows))),
    }
}

impl Page {
    /// Checks the layout against the type.
    pub(super) fn new(layout: &FullZipLayout, leaf: &Leaf) -> Result<Self> {
        // A bit takes a whole byte here.
        let bit = CompressiveEncoding::Flat { bits_per_value: 1 };
        let values = match &layout.values {
            CompressiveEncoding::Flat { bits_per_value: 8 } if is_bit(leaf) => &bit,
            other => other,
        };
        let codec = Codec::compile_leaf(values, leaf)?;
        let mut parts = Vec::new();
        let width = match layout.width {
            FullZipWidth::Fixed(bits) => {
                parts = codec.value_parts(leaf, bits)?;
                Width::Fixed(parts.iter().sum())
            }
            FullZipWidth::Variable(bits) => {
                if !matches!(leaf.physical, Physical::Variable32 | Physical::Variable64 | Physical::Packed) {
                    return Err(Error::unsupported("values of variable width of this type cannot be read"));
                }
                Width::Variable(if bits == 64 { 8 } else { 4 })
            }
        };
        let control = match layout.bits_rep + layout.bits_def {
            0 => 0,
            1..=8 => 1,
            9..=16 => 2,
            _ => 4,
        };
        let repetition = repdef::max_repetition(&layout.layers);
        if repetition > 0 && layout.bits_rep == 0 {
            return Err(Error::corrupt("lists without repetition levels"));
        }
        Ok(Self {
            codec,
            control,
            bits_rep: layout.bits_rep,
            bits_def: layout.bits_def,
            width,
            repetition,
            max_visible: repdef::max_visible(&repdef::bounds(&layout.layers)?),
            parts,
        })
    }

    /// Requests the bytes of each range of rows; neighbours become one request.
    pub(super) fn second(
        &self,
        page: &PageMetadata,
        rows: &RowRanges,
        positions: &[Bytes],
        fetch: &mut Fetch,
    ) -> Result<FullZipPlan> {
        let data = buffer(page, 0)?;
        let ranges: Vec<Range<u64>> = match self.width {
            Width::Fixed(size) if self.repetition == 0 => {
                let stride = (self.control + size) as u64;
                rows.iter().map(|r| r.start.saturating_mul(stride)..r.end.saturating_mul(stride)).collect()
            }
            _ => positions.as_chunks::<2>().0.iter().map(|[start, end]| entry(start)..entry(end)).collect(),
        };
        if ranges.len() != rows.as_slice().len() {
            return Err(Error::internal("positions of rows were not read"));
        }
        let bytes = ranges.iter().map(|r| r.end.saturating_sub(r.start)).fold(0, u64::saturating_add);
        let tickets = ranges.into_iter().map(|r| Ok(fetch.add(within(&data, r)?))).collect::<Result<_>>()?;
        Ok(FullZipPlan { tickets, bytes })
    }

    /// Decodes the rows.
    pub(super) fn decode(
        &self,
        plan: &FullZipPlan,
        rows: &RowRanges,
        got: &mut Fetched<'_>,
        mut out: Output<'_>,
    ) -> Result<()> {
        for (range, &ticket) in rows.iter().zip(&plan.tickets) {
            let bytes = &got.get(ticket)?;
            let n = to_usize(range.end - range.start)?;
            out.values.data.reserve_bytes(bytes.len())?;
            match self.width {
                Width::Fixed(_)
                    if self.control == 0 && self.codec.is_contiguous() && self.whole_bytes(out.leaf) =>
                {
                    let range = 0..n;
                    let all = std::slice::from_ref(&range);
                    self.codec.append(&[bytes], n, all, out.values, out.scratch)?;
                    out.levels.len += n;
                }
                _ => self.walk(bytes, n, &mut out)?,
            }
        }
        Ok(())
    }

    fn whole_bytes(&self, leaf: &Leaf) -> bool {
        leaf.physical != Physical::Bits || leaf.items().is_multiple_of(8)
    }

    /// From control word to control word.
    fn walk(&self, bytes: &[u8], n: usize, out: &mut Output<'_>) -> Result<()> {
        let mut at = 0;
        let mut rows = 0;
        while at < bytes.len() || (self.control == 0 && rows < n) {
            let word = match self.control {
                0 => 0,
                1 => number_at::<u8>(bytes, at)?.into(),
                2 => number_at::<u16>(bytes, at)?.into(),
                _ => number_at::<u32>(bytes, at)?,
            };
            at += self.control;
            let def = level(word, self.bits_def);
            let rep = level(word.checked_shr(self.bits_def).unwrap_or_default(), self.bits_rep);
            if self.repetition == 0 || rep == self.repetition {
                rows += 1;
            }
            if self.bits_rep > 0 && self.repetition > 0 {
                out.levels.rep.push(rep);
            }
            if self.bits_def > 0 {
                out.levels.def.push(def);
            }
            out.levels.len += 1;
            if def <= self.max_visible {
                at = self.value(bytes, at, def > 0, out)?;
            }
        }
        if rows != n {
            return Err(Error::corrupt(format!("{rows} rows where the repetition index has {n}")));
        }
        Ok(())
    }

    /// Appends the value at a position and returns where it ends.
    fn value(&self, bytes: &[u8], at: usize, null: bool, out: &mut Output<'_>) -> Result<usize> {
        match self.width {
            Width::Fixed(size) => {
                let value = bytes_at(bytes, at, size)?;
                self.codec.append_parts(value, &self.parts, out.values, out.scratch)?;
                Ok(at + size)
            }
            Width::Variable(_) if null => {
                out.values.append_filler(out.leaf, 1)?;
                Ok(at)
            }
            Width::Variable(width) => {
                let len = if width == 8 {
                    number_at::<u64>(bytes, at)?.size()
                } else {
                    number_at::<u32>(bytes, at)?.size()
                };
                let value = bytes_at(bytes, at + width, len)?;
                self.codec.append_value(value, &mut out.values.data, out.scratch)?;
                Ok(at + width + len)
            }
        }
    }
}

fn is_bit(leaf: &Leaf) -> bool {
    leaf.physical == Physical::Bits && leaf.dimensions.is_empty()
}

fn level(word: u32, bits: u32) -> u16 {
    let mask = (1u32 << bits.min(16)) - 1;
    u16::try_from(word & mask).unwrap_or(u16::MAX)
}

/// An entry of the repetition index, as wide as its bytes.
pub(super) fn entry(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}
