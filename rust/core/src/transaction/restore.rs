//! Restore (106).

use crate::Version;

/// Goes back to an older version by making a new one with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restore {
    /// The older version.
    pub version: Version,
}
