//! A further root that files of a table may lie under (table format 2.6 and 11.4).

use crate::{Error, Result};

/// One registered root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasePath {
    /// Id that files refer to; 0 is valid.
    pub id: u32,
    /// Optional name.
    pub name: Option<String>,
    /// Whether the path is the root of a table (files lie in `data/`, `_deletions/` ...) or the directory itself.
    pub is_dataset_root: bool,
    /// The path or URI.
    pub path: String,
}

impl BasePath {
    /// Whether it can be the base of file paths. Errors: `InvalidInput` for an empty path and for one with `..`.
    pub fn check(&self) -> Result<()> {
        let has_parent = self.path.split(['/', '\\']).any(|part| part == "..");
        if self.path.is_empty() || has_parent || self.path.contains('\0') {
            return Err(Error::invalid_input(format!(
                "base path {:?}: expected an absolute path or a URI, without `..`",
                self.path
            )));
        }
        Ok(())
    }
}
