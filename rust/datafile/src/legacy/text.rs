//! Strings and binary: where the values begin in the first pass, their bytes in the second.

use arrow_array::{ArrayRef, OffsetSizeTrait};
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::{Page, taken};
use crate::encodings::le::{Number, to_usize};
use crate::source::Fetch;
use crate::values::{Data, Leaf, Strings, Validity, Values, leaf_array};

/// Bits of a position.
const POSITION: u64 = 64;

/// Rows of a field.
#[derive(Debug)]
pub(super) struct TextRead {
    /// The field, for errors.
    location: String,
    leaf: Leaf,
    /// Whether an empty value is a null.
    nullable: bool,
    pages: Vec<(Page, RowRanges)>,
    rows: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Begun,
    /// The tickets of the positions of each range of rows.
    Positions(Vec<usize>),
    /// For each range of rows the positions, and the ticket of the bytes.
    Values(Vec<(Bytes, usize)>),
    Loaded(Vec<(Bytes, Bytes)>),
}

impl TextRead {
    /// Errors: `Corrupt` if a page is shorter than its rows need.
    pub(super) fn new(
        location: String,
        data_type: DataType,
        nullable: bool,
        pages: Vec<(Page, RowRanges)>,
    ) -> Result<Self> {
        pages.iter().try_for_each(|(page, rows)| page.check_rows(rows))?;
        let rows = to_usize(pages.iter().map(|(_, rows)| rows.count()).sum())?;
        Ok(Self { location, leaf: Leaf::of(&data_type)?, nullable, pages, rows, state: State::Begun })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match &self.state {
            State::Begun => {
                let mut tickets = Vec::new();
                for (page, rows) in &self.pages {
                    for rows in rows {
                        let ends = rows.start..rows.end.saturating_add(1);
                        tickets.push(fetch.add(page.range(&ends, POSITION).at(|| &self.location)?));
                    }
                }
                self.state = State::Positions(tickets);
                Ok(true)
            }
            State::Positions(tickets) => {
                let mut values = Vec::with_capacity(tickets.len());
                for &ticket in tickets {
                    let positions = taken(bytes, ticket)?.clone();
                    let mut all = u64::iter(&positions);
                    let start = all.next().unwrap_or_default();
                    let mut end = start;
                    for next in all {
                        if next < end {
                            return Err(Error::corrupt(format!(
                                "{}: a value from position {end} to {next}",
                                self.location
                            )));
                        }
                        end = next;
                    }
                    values.push((positions, fetch.add(start..end)));
                }
                self.state = State::Values(values);
                Ok(true)
            }
            State::Values(values) => {
                let take = |(positions, ticket): &(Bytes, usize)| {
                    Ok((positions.clone(), taken(bytes, *ticket)?.clone()))
                };
                self.state = State::Loaded(values.iter().map(take).collect::<Result<_>>()?);
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
        let total = loaded.iter().map(|(_, bytes)| bytes.len()).fold(0, usize::saturating_add);
        values.data.reserve_bytes(total).at(|| &self.location)?;
        let mut nulls = Validity::default();
        for (positions, bytes) in &loaded {
            let append = match &mut values.data {
                Data::Variable32(strings) => append(strings, positions, bytes, self.nullable, &mut nulls),
                Data::Variable64(strings) => append(strings, positions, bytes, self.nullable, &mut nulls),
                _ => Err(Error::internal("strings for another type")),
            };
            append.at(|| &self.location)?;
        }
        leaf_array(&self.leaf, values, self.rows, nulls.finish()).at(|| self.location)
    }
}

/// Appends values one after another; their positions ascend.
fn append<O: OffsetSizeTrait>(
    out: &mut Strings<O>,
    positions: &[u8],
    bytes: &[u8],
    nullable: bool,
    nulls: &mut Validity,
) -> Result<()> {
    let before = out.bytes.len();
    out.check_end(before.saturating_add(bytes.len()))?;
    out.bytes.extend_from_slice(bytes);
    let mut positions = u64::iter(positions);
    let first = positions.next().unwrap_or_default();
    let mut last = first;
    for end in positions {
        nulls.append(end > last || !nullable);
        last = end;
        out.offsets.push(O::usize_as(before + to_usize(end - first)?));
    }
    Ok(())
}
