//! DataReplacement (111).

use crate::FragmentId;
use crate::manifest::DataFile;

/// Replaces data files, each with one of the same fields.
#[derive(Debug, Clone, PartialEq)]
pub struct DataReplacement {
    /// File by file.
    pub replacements: Vec<Replacement>,
}

/// A new file for a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The fragment.
    pub fragment: FragmentId,
    /// The file.
    pub file: DataFile,
}
