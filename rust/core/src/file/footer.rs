//! The last 40 bytes of a data file (file format 1.2).
//!
//! | offset | type | meaning |
//! |---|---|---|
//! | 0 | u64 | position of column metadata block 0 |
//! | 8 | u64 | position of the column metadata offset table |
//! | 16 | u64 | position of the global buffer offset table |
//! | 24 | u32 | number of global buffers, at least 1 |
//! | 28 | u32 | number of columns |
//! | 32, 34 | u16 | major and minor version |
//! | 36 | 4 bytes | `LANC` |

use super::FileVersion;

/// The decoded footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Position of column metadata block 0.
    pub column_metadata: u64,
    /// Position of the column metadata offset table.
    pub column_table: u64,
    /// Position of the global buffer offset table.
    pub global_buffer_table: u64,
    /// Number of global buffers.
    pub num_global_buffers: u32,
    /// Number of columns.
    pub num_columns: u32,
    /// Version of the file.
    pub version: FileVersion,
}
