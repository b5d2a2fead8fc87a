//! Kinds of index over vectors: how vectors are stored, and whether there are graphs.

use std::fmt;
use std::str::FromStr;

use pennon_core::Error;

/// How the vectors of a partition are stored, and whether a graph leads to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VectorIndexKind {
    /// As they are.
    IvfFlat,
    /// By product quantization.
    IvfPq,
    /// By scalar quantization.
    IvfSq,
    /// By RaBitQ.
    IvfRq,
    /// As they are, with graphs.
    IvfHnswFlat,
    /// By product quantization, with graphs.
    IvfHnswPq,
    /// By scalar quantization, with graphs.
    IvfHnswSq,
}

const NAMES: [(VectorIndexKind, &str); 7] = [
    (VectorIndexKind::IvfFlat, "IVF_FLAT"),
    (VectorIndexKind::IvfPq, "IVF_PQ"),
    (VectorIndexKind::IvfSq, "IVF_SQ"),
    (VectorIndexKind::IvfRq, "IVF_RQ"),
    (VectorIndexKind::IvfHnswFlat, "IVF_HNSW_FLAT"),
    (VectorIndexKind::IvfHnswPq, "IVF_HNSW_PQ"),
    (VectorIndexKind::IvfHnswSq, "IVF_HNSW_SQ"),
];

impl VectorIndexKind {
    /// The name in files.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Whether each partition has a graph.
    pub fn has_graph(self) -> bool {
        matches!(self, Self::IvfHnswFlat | Self::IvfHnswPq | Self::IvfHnswSq)
    }

    /// The version of its files that the reference writes.
    pub fn version(self) -> i32 {
        if self == Self::IvfRq { 2 } else { 1 }
    }
}

impl fmt::Display for VectorIndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VectorIndexKind {
    type Err = Error;

    /// Names in any case. Errors: `InvalidInput`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        let names = NAMES.map(|(_, name)| name).join(", ");
        let unknown =
            || Error::invalid_input(format!("{text:?} is not a vector index, expected one of {names}"));
        found.map(|(kind, _)| *kind).ok_or_else(unknown)
    }
}
