//! Columns that no data file need hold: where a row is, who it is, and since when.
//!
//! | column | value |
//! |---|---|
//! | `_rowid` | stable id, or the row address in a table without stable ids; null for a deleted row |
//! | `_rowaddr` | fragment and physical offset; null for a deleted row |
//! | `_rowoffset` | position among the live rows of the table; of a deleted row, that of the next live one |
//! | `_row_created_at_version`, `_row_last_updated_at_version` | versions; 1 where none are recorded (table format 4.5) |

use arrow_schema::{DataType, Field};

/// The column of row ids, and that of row addresses.
pub(crate) const ROW_ID: &str = "_rowid";
pub(crate) const ROW_ADDRESS: &str = "_rowaddr";

/// One of the system columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    RowId,
    RowAddress,
    RowOffset,
    CreatedAt,
    LastUpdatedAt,
}

impl System {
    pub(super) const ALL: [Self; 5] =
        [Self::RowId, Self::RowAddress, Self::RowOffset, Self::CreatedAt, Self::LastUpdatedAt];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RowId => ROW_ID,
            Self::RowAddress => ROW_ADDRESS,
            Self::RowOffset => "_rowoffset",
            Self::CreatedAt => "_row_created_at_version",
            Self::LastUpdatedAt => "_row_last_updated_at_version",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// The columns that options add at the end of a result.
    pub(super) fn appended(row_id: bool, row_address: bool) -> Vec<Self> {
        let columns = [(row_id, Self::RowId), (row_address, Self::RowAddress)];
        columns.into_iter().filter_map(|(with, column)| with.then_some(column)).collect()
    }

    pub(super) fn field(self) -> Field {
        Field::new(self.name(), DataType::UInt64, true)
    }
}

/// The system columns as fields, all nullable `uint64`.
pub fn system_fields() -> Vec<Field> {
    System::ALL.into_iter().map(System::field).collect()
}
