//! Whether rows or columns are rewritten.
//!
//! | | writes | others may meanwhile |
//! |---|---|---|
//! | rows | all columns of the rows that match | change other rows of the same fragments |
//! | columns | the assigned columns of all rows of the fragments with a match | not change these fragments |
//!
//! Columns are chosen if more than half of the rows of those fragments match, rows would take at least twice the bytes,
//! and that saves enough to keep others from changing these fragments. Columns with blobs are not chosen: their bytes are
//! not known before they are read.

use pennon_core::manifest::Fragment;
use pennon_core::transaction::UpdateMode;
use pennon_core::{Error, Result};

/// What both ways write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Rows that match.
    pub(super) matched: u64,
    /// Physical rows of the fragments with a match.
    pub(super) rows: u64,
    /// Bytes of the assigned columns of a row, about.
    pub(super) assigned: u64,
    /// Bytes of all columns of a row, about.
    pub(super) all: u64,
}

/// Bytes that columns have to save: a compaction of the fragments is thrown away when their columns change.
const WORTHWHILE: u128 = 64 << 10;

impl Cost {
    pub(super) fn mode(self) -> UpdateMode {
        let columns = u128::from(self.rows) * u128::from(self.assigned);
        let rows = u128::from(self.matched) * u128::from(self.all);
        let most = self.matched > self.rows / 2;
        if most && columns * 2 <= rows && columns + WORTHWHILE <= rows {
            UpdateMode::RewriteColumns
        } else {
            UpdateMode::RewriteRows
        }
    }
}

/// Errors: `Unsupported`, why columns of a fragment cannot be rewritten.
pub(super) fn check_columns(fragment: &Fragment) -> Result<()> {
    if fragment.overlays.is_empty() {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "Columns of fragment {} cannot be rewritten, rows can: it has overlays",
        fragment.id
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_pay_for_most_rows_and_few_bytes() {
        let mode = |matched, assigned| Cost { matched, rows: 1000, assigned, all: 1000 }.mode();
        assert_eq!(mode(501, 250), UpdateMode::RewriteColumns);
        assert_eq!(mode(500, 8), UpdateMode::RewriteRows);
        assert_eq!(mode(501, 251), UpdateMode::RewriteRows);
        assert_eq!(mode(1000, 500), UpdateMode::RewriteColumns);
        assert_eq!(mode(1000, 1000), UpdateMode::RewriteRows);
        assert_eq!(mode(u64::MAX, u64::MAX), UpdateMode::RewriteRows);
        let few = |rows| Cost { matched: rows, rows, assigned: 8, all: 1000 }.mode();
        assert_eq!(few(1), UpdateMode::RewriteRows);
        assert_eq!(few(100), UpdateMode::RewriteColumns);
    }
}
