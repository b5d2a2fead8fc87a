//! Which rows of a page are null, without their values, where the layout tells.
//!
//! | layout | rows that are null |
//! |---|---|
//! | mini-block or full-zip without levels | none |
//! | full-zip of variable width with one definition level | those that consist of their control word: the repetition index tells |
//!
//! Of other pages the values are read.

use bytes::Bytes;
use pennon_core::file::{FullZipLayout, FullZipWidth, MiniBlockLayout, PageLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::full_zip::{entry, index};
use super::{buffer, row_count, within};
use crate::encodings::le::to_usize;
use crate::repdef::assemble::Levels;
use crate::source::Fetch;
use crate::values::{Leaf, Values};

/// Most values of a chunk.
const CHUNK_VALUES: u64 = 1 << 15;
/// Bytes of a control word with one definition level.
const CONTROL: u64 = 1;

/// What is read of a page to find its nulls.
#[derive(Debug)]
pub(crate) enum NullRead {
    /// Nothing: there are none.
    NoNulls,
    /// The positions of the rows of each range, and where the last row ends.
    Positions {
        /// Bytes of a position.
        width: u64,
        /// Bytes of all rows of the page.
        size: u64,
        /// For each range of rows.
        tickets: Vec<usize>,
        /// What came for the tickets.
        got: Vec<Bytes>,
    },
}

impl NullRead {
    /// Requests what tells the nulls of some rows of a page; `None` if its values must be read.
    pub(crate) fn begin(page: &PageMetadata, rows: &RowRanges, fetch: &mut Fetch) -> Result<Option<Self>> {
        match &page.layout {
            PageLayout::MiniBlock(layout) if has_no_levels(page, layout)? => Ok(Some(Self::NoNulls)),
            PageLayout::FullZip(layout) if layout.layers.iter().all(|layer| !layer.is_list()) => {
                Self::of_full_zip(page, layout, rows, fetch)
            }
            _ => Ok(None),
        }
    }

    fn of_full_zip(
        page: &PageMetadata,
        layout: &FullZipLayout,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Option<Self>> {
        let data = buffer(page, 0)?;
        let size = data.end.saturating_sub(data.start);
        match (layout.width, layout.bits_rep, layout.bits_def) {
            (FullZipWidth::Fixed(bits), 0, 0) if page.num_rows <= size / u64::from(bits / 8).max(1) => {
                return Ok(Some(Self::NoNulls));
            }
            (FullZipWidth::Variable(_), 0, 0) => {
                index(page)?;
                return Ok(Some(Self::NoNulls));
            }
            (FullZipWidth::Variable(_), 0, 1) => {}
            _ => return Ok(None),
        }
        if layout.layers.iter().map(|layer| layer.num_def_levels()).sum::<u16>() != 1 {
            return Ok(None);
        }
        let (index, width) = index(page)?;
        let mut tickets = Vec::with_capacity(rows.as_slice().len());
        for range in rows {
            let end = range.end.saturating_add(1).saturating_mul(width);
            tickets.push(fetch.add(within(&index, range.start.saturating_mul(width)..end)?));
        }
        Ok(Some(Self::Positions { width, size, tickets, got: Vec::new() }))
    }

    /// Takes what came for the requests.
    pub(crate) fn advance(&mut self, bytes: &[Bytes]) {
        if let Self::Positions { tickets, got, .. } = self {
            *got = tickets.iter().filter_map(|&ticket| bytes.get(ticket).cloned()).collect();
        }
    }

    /// Appends the levels of the rows, and values that stand for theirs.
    pub(crate) fn decode(
        &self,
        leaf: &Leaf,
        rows: &RowRanges,
        values: &mut Values,
        levels: &mut Levels,
    ) -> Result<()> {
        let count = row_count(rows)?;
        if let Self::Positions { width, size, got, .. } = self {
            for bytes in got {
                let mut ends = bytes.chunks_exact(to_usize(*width)?).map(entry);
                let mut start = ends.next().unwrap_or_default();
                for end in ends {
                    let length = end.checked_sub(start).filter(|&length| length >= CONTROL && end <= *size);
                    let length = length.ok_or_else(|| {
                        Error::corrupt(format!("a row from {start} to {end} in a page of {size} bytes"))
                    })?;
                    levels.def.push(u16::from(length == CONTROL));
                    start = end;
                }
            }
            if levels.def.len() != count {
                return Err(Error::internal("positions of rows were not read"));
            }
        }
        levels.len += count;
        values.append_filler(leaf, count)
    }
}

/// Whether the rows of a page of chunks are all valid. Errors: `Corrupt` for a page without chunks.
fn has_no_levels(page: &PageMetadata, layout: &MiniBlockLayout) -> Result<bool> {
    let table = buffer(page, 0)?;
    let words = table.end.saturating_sub(table.start) / if layout.has_large_chunk { 4 } else { 2 };
    // A page that claims more rows is read, which finds its fault.
    Ok(layout.rep.is_none() && layout.def.is_none() && page.num_rows <= words.saturating_mul(CHUNK_VALUES))
}
