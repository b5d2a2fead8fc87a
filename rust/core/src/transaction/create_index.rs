//! CreateIndex (103).

use crate::manifest::IndexMetadata;

/// Adds and removes index entries.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// Entries to add.
    pub new_indices: Vec<IndexMetadata>,
    /// Entries to remove.
    pub removed_indices: Vec<IndexMetadata>,
}
