//! UpdateBases (114).

use crate::manifest::BasePath;

/// Adds roots that files may lie under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateBases {
    /// The roots; id 0 means not assigned yet.
    pub new_bases: Vec<BasePath>,
}
