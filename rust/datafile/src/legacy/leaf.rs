//! Values of fixed width, bits, and fixed-size lists of both.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::{Page, taken};
use crate::encodings::le::to_usize;
use crate::source::Fetch;
use crate::values::{Data, Leaf, Physical, Values, leaf_array};

/// Rows of a field.
#[derive(Debug)]
pub(super) struct LeafRead {
    /// The field, for errors.
    location: String,
    leaf: Leaf,
    bits_per_row: u64,
    pages: Vec<(Page, RowRanges)>,
    rows: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Begun,
    /// For each range of rows its ticket and its bits.
    Requested(Vec<(usize, Range<usize>)>),
    Loaded(Vec<(Bytes, Range<usize>)>),
}

impl LeafRead {
    /// Errors: `Unsupported` for a type that has no such pages; `Corrupt` if a page is shorter than its rows need.
    pub(super) fn new(location: String, data_type: &DataType, pages: Vec<(Page, RowRanges)>) -> Result<Self> {
        let leaf = Leaf::of(data_type)?;
        let bits = match leaf.physical {
            Physical::Bits => 1,
            Physical::Fixed(width) => width as u64 * 8,
            Physical::None | Physical::Variable32 | Physical::Variable64 | Physical::Packed => {
                return Err(Error::unsupported(format!(
                    "values of type {data_type} cannot be read from file version 0.1"
                )));
            }
        };
        pages.iter().try_for_each(|(page, rows)| page.check_rows(rows))?;
        let rows = pages.iter().map(|(_, rows)| rows.count()).sum();
        let bits_per_row = bits.saturating_mul(leaf.items() as u64);
        Ok(Self { location, bits_per_row, pages, rows: to_usize(rows)?, state: State::Begun, leaf })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match &self.state {
            State::Begun => {
                let mut requested = Vec::new();
                for (page, rows) in &self.pages {
                    for rows in rows {
                        let range = page.range(&rows, self.bits_per_row).at(|| &self.location)?;
                        // Bits may begin within a byte; all else begins with one.
                        let first = to_usize(rows.start.saturating_mul(self.bits_per_row) % 8)?;
                        let len = to_usize((rows.end - rows.start).saturating_mul(self.bits_per_row))?;
                        requested.push((fetch.add(range), first..first.saturating_add(len)));
                    }
                }
                self.state = State::Requested(requested);
                Ok(true)
            }
            State::Requested(requested) => {
                let take = |(ticket, bits): &(usize, Range<usize>)| {
                    Ok((taken(bytes, *ticket)?.clone(), bits.clone()))
                };
                self.state = State::Loaded(requested.iter().map(take).collect::<Result<_>>()?);
                Ok(false)
            }
            State::Loaded(_) => Ok(false),
        }
    }

    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let State::Loaded(loaded) = self.state else {
            return Err(Error::internal("values that were not read"));
        };
        let mut values = Values::with_capacity(&self.leaf, self.rows).at(|| &self.location)?;
        for (part, bits) in loaded {
            match &mut values.data {
                Data::Bits(out) => out.append_packed_range(bits, &part),
                Data::Fixed { bytes, .. } => bytes.extend_from_slice(&part),
                _ => return Err(Error::internal("values of fixed width for another type")),
            }
        }
        values.append_valid_items(&self.leaf, self.rows);
        leaf_array(&self.leaf, values, self.rows, None).at(|| self.location)
    }
}
