//! Windows over live rows, units of work, rows that a mask selects.
//!
//! A unit is a run of rows of one fragment, small enough that several cores share a big fragment and that
//! memory stays bounded, big enough to be worth a task. Its rows are counted as positions among the *live* rows
//! (physical rows when a scan shows deleted ones), because their number is known from the manifest alone.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

/// Decoded bytes a unit should have.
const UNIT_BYTES: u64 = 16 << 20;
/// Rows of a unit, at most and (short of huge rows) at least.
const UNIT_ROWS: Range<u64> = 64..128 << 10;
/// Rows of a unit from a remote store, at most: each unit has requests of its own, also for what it shares with others.
const REMOTE_UNIT_ROWS: u64 = 1 << 20;
/// Below this share of selected rows (one in ...) the other columns are read for the selected rows only.
const SELECTIVE: usize = 6;

/// Rows to leave out at the beginning and rows to give after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) skip: u64,
    pub(super) rows: u64,
}

impl Window {
    pub(super) fn new(offset: Option<u64>, limit: Option<u64>) -> Self {
        Self { skip: offset.unwrap_or(0), rows: limit.unwrap_or(u64::MAX) }
    }

    pub(super) fn everything() -> Self {
        Self::new(None, None)
    }

    pub(super) fn is_everything(self) -> bool {
        self.skip == 0 && self.rows == u64::MAX
    }

    /// The part of the next `rows` rows that lies in the window; moves the window on.
    pub(super) fn advance(&mut self, rows: u64) -> Range<u64> {
        let start = self.skip.min(rows);
        let taken = self.rows.min(rows - start);
        self.skip -= start;
        self.rows -= taken;
        start..start + taken
    }
}

/// Consecutive rows of one fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Index into the fragments of the plan.
    pub(super) fragment: usize,
    pub(super) rows: UnitRows,
}

/// The rows of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnitRows {
    /// Positions among the rows of the fragment that the scan shows.
    Shown(Range<u64>),
    /// Physical rows, all of which the scan shows.
    Physical(RowRanges),
    /// Physical rows that an index found: the filter is true for all of them.
    Matching(RowRanges),
    /// So many rows that an index found, of which nothing but their number is asked for.
    Counted(u64),
}

impl UnitRows {
    /// How many there are; none that has to be read if they are only counted.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Shown(rows) => rows.end - rows.start,
            Self::Physical(rows) | Self::Matching(rows) => rows.count(),
            Self::Counted(_) => 0,
        }
    }
}

/// Pieces of at most so many rows.
pub(super) fn split(rows: Range<u64>, unit_rows: u64) -> impl Iterator<Item = Range<u64>> {
    let (mut rest, unit_rows) = (rows, unit_rows.max(1));
    std::iter::from_fn(move || {
        let end = rest.end.min(rest.start.saturating_add(unit_rows));
        let piece = rest.start..end;
        rest.start = end;
        (piece.start < piece.end).then_some(piece)
    })
}

/// Rows of a unit for rows of about this many bytes, a multiple of the batch size where that is smaller.
pub(super) fn unit_rows(bytes_per_row: u64, batch_size: usize) -> u64 {
    rows_at_most(UNIT_ROWS.end, bytes_per_row, batch_size)
}

/// [`unit_rows`] of a store where requests take long.
pub(super) fn remote_unit_rows(bytes_per_row: u64, batch_size: usize) -> u64 {
    rows_at_most(REMOTE_UNIT_ROWS, bytes_per_row, batch_size)
}

fn rows_at_most(most: u64, bytes_per_row: u64, batch_size: usize) -> u64 {
    let batch_size = to_u64(batch_size);
    let rows = (UNIT_BYTES / bytes_per_row.max(1)).clamp(UNIT_ROWS.start, most);
    if batch_size == 0 || batch_size > rows { rows } else { rows / batch_size * batch_size }
}

/// Of rows that take so many bytes, as many as take those of a unit; `None` if they are not too large for one.
pub(super) fn rows_of_a_part(rows: u64, bytes: u64) -> Option<u64> {
    (rows > 1 && bytes > 2 * UNIT_BYTES).then(|| (UNIT_BYTES / (bytes / rows).max(1)).max(1))
}

/// Bytes of a value when decoded; for variable ones what the file's bytes per row suggest.
pub(super) fn value_bytes(data_type: &DataType, file_bytes_per_row: u64) -> u64 {
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(width) => u64::try_from(*width).unwrap_or(0),
        DataType::FixedSizeList(item, length) => u64::try_from(*length)
            .unwrap_or(0)
            .saturating_mul(value_bytes(item.data_type(), file_bytes_per_row)),
        DataType::Struct(fields) => {
            let members = fields.iter().map(|f| value_bytes(f.data_type(), file_bytes_per_row));
            members.fold(0, u64::saturating_add)
        }
        DataType::Dictionary(index, _) => value_bytes(index, file_bytes_per_row),
        other => match other.primitive_width() {
            Some(width) => u64::try_from(width).unwrap_or(0),
            None => file_bytes_per_row.max(32),
        },
    }
}

/// Bytes of the data files of these fragments for each of their rows.
pub(super) fn file_bytes_per_row<'a>(fragments: impl IntoIterator<Item = &'a Arc<Fragment>>) -> u64 {
    let (bytes, rows) = fragments.into_iter().fold((0_u64, 0_u64), |(bytes, rows), fragment| {
        let sizes = fragment.files.iter().filter_map(|file| file.size);
        (sizes.fold(bytes, u64::saturating_add), rows.saturating_add(fragment.physical_rows))
    });
    bytes / rows.max(1)
}

/// Bytes of the values of some stored columns in a row of these fragments, about.
pub(crate) fn stored_row_bytes(fragments: &[&Arc<Fragment>], fields: &[Field]) -> u64 {
    let in_files = file_bytes_per_row(fragments.iter().copied());
    fields.iter().map(|f| value_bytes(&f.data_type(), in_files)).fold(0, u64::saturating_add)
}

/// Whether so few rows were selected that reading the other columns row by row pays.
pub(super) fn is_selective(selected: usize, rows: usize) -> bool {
    selected.saturating_mul(SELECTIVE) <= rows
}

/// The rows that a mask over all of them selects.
pub(super) fn select(rows: &RowRanges, mask: &BooleanBuffer) -> RowRanges {
    // Bits one by one are found faster than runs of them; neighbours become one range in any case.
    let is_sparse = is_selective(mask.count_set_bits(), mask.len());
    let bits = is_sparse.then(|| mask.set_indices().map(|at| (at, at + 1))).into_iter().flatten();
    let runs = (!is_sparse).then(|| mask.set_slices()).into_iter().flatten();
    rows.select(bits.chain(runs).map(|(start, end)| to_u64(start)..to_u64(end)))
}

/// Rows of an array. Errors: `InvalidInput` for more than memory can address.
pub(super) fn array_rows(rows: &RowRanges) -> Result<usize> {
    array_len(rows.count())
}

/// The length of an array of so many rows. Errors: `InvalidInput` for more than memory can address.
pub(super) fn array_len(rows: u64) -> Result<usize> {
    usize::try_from(rows).map_err(|_| Error::invalid_input(format!("{rows} rows at once")))
}
