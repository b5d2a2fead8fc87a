//! Rewrite (104).

use bytes::Bytes;
use uuid::Uuid;

use crate::manifest::Fragment;

/// Moves rows to other fragments without changing them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    /// What becomes what.
    pub groups: Vec<RewriteGroup>,
    /// Indices that were rewritten for the moved rows.
    pub rewritten_indices: Vec<RewrittenIndex>,
}

/// Fragments that are replaced together.
#[derive(Debug, Clone, PartialEq)]
pub struct RewriteGroup {
    /// Fragments that are removed.
    pub old_fragments: Vec<Fragment>,
    /// Fragments that are added.
    pub new_fragments: Vec<Fragment>,
}

/// An index whose files were rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenIndex {
    /// Its uuid before.
    pub old_id: Uuid,
    /// Its uuid afterwards.
    pub new_id: Uuid,
    /// The whole message, details and files included.
    pub encoded: Bytes,
}
