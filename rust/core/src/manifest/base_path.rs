//! A further root that files of a table may lie under (table format 2.6 and 11.4).

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
