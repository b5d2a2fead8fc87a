//! Clone (113).

use crate::Version;

/// Starts a table or a branch from a version of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clone {
    /// Whether data files are not copied.
    pub is_shallow: bool,
    /// Branch or tag that was named.
    pub ref_name: Option<String>,
    /// Version that was copied.
    pub ref_version: Version,
    /// Root of the other table.
    pub ref_path: String,
    /// Branch that is started.
    pub branch_name: Option<String>,
}
