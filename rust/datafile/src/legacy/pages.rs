//! Where the values of a file of version 0.1 are: its page table, and the rows of its batches.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, FieldId, Result};

use crate::encodings::le::number_at;

/// The pages of a file, by field and batch.
#[derive(Debug)]
pub(crate) struct LegacyPages {
    /// First row of each batch, and the number of rows.
    pub(super) batch_starts: Vec<u64>,
    /// The field the page table begins with, and the table.
    pub(super) first_field: i64,
    pub(super) table: Bytes,
    /// Position and number of the values of dictionaries.
    pub(super) dictionaries: BTreeMap<FieldId, (u64, u64)>,
    pub(super) file_size: u64,
}

/// A page, or the values of a dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) position: u64,
    pub(super) length: u64,
    pub(super) file_size: u64,
}

impl LegacyPages {
    /// Bytes of memory held, about.
    pub(crate) fn memory_size(&self) -> usize {
        self.table.len() + self.batch_starts.len() * 8 + self.dictionaries.len() * 64
    }

    /// The page of a field in a batch.
    pub(super) fn page(&self, field: FieldId, batch: usize) -> Result<Page> {
        let batches = self.batch_starts.len().saturating_sub(1);
        let row = usize::try_from(i64::from(field.0) - self.first_field).ok();
        let entry = row.and_then(|row| row.checked_mul(batches)?.checked_add(batch)?.checked_mul(16));
        let entry = entry.ok_or_else(|| Error::corrupt("the page table has no such field"))?;
        let position = number_at::<u64>(&self.table, entry)?;
        let length = number_at::<u64>(&self.table, entry + 8)?;
        Ok(Page { position, length, file_size: self.file_size })
    }
}

impl Page {
    /// Where some values of `bits` bits are in the file. Errors: `Corrupt` beyond its end.
    pub(super) fn range(&self, values: &Range<u64>, bits: u64) -> Result<Range<u64>> {
        let at = |value: u64, round_up: u64| {
            let bytes = value.checked_mul(bits)?.checked_add(round_up)? / 8;
            self.position.checked_add(bytes).filter(|&end| end <= self.file_size)
        };
        match (at(values.start, 0), at(values.end, 7)) {
            (Some(start), Some(end)) => Ok(start..end),
            _ => Err(Error::corrupt(format!(
                "values {} to {} of {bits} bits from position {} on, the file has {} bytes",
                values.start, values.end, self.position, self.file_size
            ))),
        }
    }

    /// Errors: `Corrupt` if the page is shorter than its rows need.
    pub(super) fn check_rows(&self, rows: &RowRanges) -> Result<()> {
        let end = rows.span().end;
        if end > self.length {
            return Err(Error::corrupt(format!(
                "a page of {} values at {}, rows up to {end} needed",
                self.length, self.position
            )));
        }
        Ok(())
    }
}
