//! Where values end: one 64-bit number per value, relative to the page, raised for a null (file format 3.2, 3.3).

use std::ops::Range;

use bytes::Bytes;
use pennon_core::file::FlatArray;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::columns::Page;
use super::flat::Flat;
use crate::source::Fetch;

/// Ends of some rows of a page, and of the row before each range.
#[derive(Debug)]
pub(super) struct Ends<'a> {
    flat: Flat<'a>,
    rows: RowRanges,
    adjustment: u64,
}

impl<'a> Ends<'a> {
    /// Requests the ends. `adjustment` is added to the end of a null: one more than the largest end.
    pub(super) fn ask(
        page: &Page<'a>,
        array: &FlatArray,
        adjustment: u64,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        let widened = rows.iter().map(|r| r.start.saturating_sub(1)..r.end).collect();
        Ok(Self { flat: Flat::ask(page, array, 64, widened, fetch)?, rows: rows.clone(), adjustment })
    }

    /// Takes the bytes that were requested.
    pub(super) fn take(&mut self, bytes: &[Bytes]) -> Result<()> {
        self.flat.take(bytes)
    }

    /// Calls `visit` with the length of each row and whether it is valid; returns what each range of rows covers.
    ///
    /// Errors: `Corrupt` for ends that are not in order or beyond `limit`.
    pub(super) fn resolve(&self, limit: u64, mut visit: impl FnMut(u64, bool)) -> Result<Vec<Range<u64>>> {
        let mut covered = Vec::with_capacity(self.rows.as_slice().len());
        for (rows, mut values) in self.rows.iter().zip(self.flat.u64_values()?) {
            let first = match rows.start {
                0 => 0,
                _ => self.end(values.next().unwrap_or_default())?.0,
            };
            let mut last = first;
            for number in values {
                let (end, valid) = self.end(number)?;
                if end < last {
                    return Err(Error::corrupt(format!("end {end} after end {last}")));
                }
                visit(end - last, valid);
                last = end;
            }
            if last > limit {
                return Err(Error::corrupt(format!("end {last}, there are {limit}")));
            }
            covered.push(first..last);
        }
        Ok(covered)
    }

    fn end(&self, number: u64) -> Result<(u64, bool)> {
        if number < self.adjustment {
            return Ok((number, true));
        }
        match number.checked_sub(self.adjustment).filter(|&end| end < self.adjustment) {
            Some(end) => Ok((end, false)),
            None => Err(Error::corrupt(format!("end {number} with nulls raised by {}", self.adjustment))),
        }
    }
}
