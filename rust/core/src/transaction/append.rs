//! Append (100).

use crate::manifest::Fragment;

/// Adds fragments after the existing ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// New fragments, unassigned.
    pub fragments: Vec<Fragment>,
}
