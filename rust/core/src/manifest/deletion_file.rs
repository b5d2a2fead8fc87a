//! A deletion file as a fragment refers to it (table format 2.6 and 5).

use crate::{FragmentId, Version};

/// The two forms of a deletion file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionFileType {
    /// Arrow IPC file with one uint32 column.
    Arrow,
    /// Roaring bitmap, portable serialization.
    Bitmap,
}

impl DeletionFileType {
    /// File name extension, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Bitmap => "bin",
        }
    }
}

/// One deletion file: the full set of deleted offsets of its fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionFile {
    /// Its form.
    pub file_type: DeletionFileType,
    /// The version its writer read; part of the name.
    pub read_version: Version,
    /// Random part of the name.
    pub id: u64,
    /// Number of deleted rows, checked against the content.
    pub num_deleted_rows: u64,
    /// Root the file lies under; `None` for the table's own.
    pub base_id: Option<u32>,
}

impl DeletionFile {
    /// Name of the file in the deletions directory.
    pub fn file_name(&self, fragment: FragmentId) -> String {
        format!("{fragment}-{}-{}.{}", self.read_version, self.id, self.file_type.extension())
    }
}
