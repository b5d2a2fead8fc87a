//! What the envelope of a file says.

use std::ops::Range;
use std::sync::Arc;

use pennon_core::file::{ColumnMetadata, FileVersion};
use pennon_core::schema::Schema;

use super::checksums::Checksums;
use crate::legacy::LegacyPages;

/// The metadata of a data file.
#[derive(Debug, Clone)]
pub struct FileMetadata {
    /// Version of the file.
    pub version: FileVersion,
    /// Schema of the file; inside a table the field ids are the table's.
    pub schema: Schema,
    /// Rows in the file.
    pub num_rows: u64,
    /// Columns in order; none of a file of version 0.1.
    pub columns: Vec<ColumnMetadata>,
    /// Byte ranges of the global buffers; the first is the descriptor, the others belong to the application.
    pub global_buffers: Vec<Range<u64>>,
    /// Size of the file in bytes.
    pub size: u64,
    /// Where its checksums are, if it has some.
    pub(crate) checksums: Option<Checksums>,
    /// The pages of a file of version 0.1.
    pub(crate) legacy: Option<Arc<LegacyPages>>,
}
