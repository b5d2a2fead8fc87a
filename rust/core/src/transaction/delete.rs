//! Delete (101).

use crate::FragmentId;
use crate::manifest::Fragment;

/// Deletes rows: new deletion files, or whole fragments.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Fragments with their new deletion files.
    pub updated_fragments: Vec<Fragment>,
    /// Fragments without a row left.
    pub deleted_fragment_ids: Vec<FragmentId>,
    /// As the user wrote it.
    pub predicate: String,
}
