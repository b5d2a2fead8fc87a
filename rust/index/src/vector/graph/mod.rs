//! The graph of a partition: vectors are nodes, and lead to vectors nearby.
//!
//! Malkov and Yashunin: "Efficient and robust approximate nearest neighbor search using hierarchical navigable small world
//! graphs", 2018. Level 0 has all vectors; each further level has a few of those of the level below. A search begins at a
//! node of the highest level, goes to the nearest node of each level, and looks around on level 0.
//!
//! | part | here |
//! |---|---|
//! | graphs of an index, from its file | `read.rs` |
//! | the nearest nodes | `search.rs` |
//! | a graph of vectors | `build.rs`, `links.rs` |
//! | rows of a file | `write.rs` |

mod build;
mod links;
mod read;
mod search;
#[cfg(test)]
mod tests;
mod write;

pub use build::GraphOptions;
pub(super) use build::{NodeDistances, build};
pub(super) use read::GraphFile;
pub(super) use search::{FoundNode, candidates, search};
pub(super) use write::{GraphRows, empty_text};

/// The graph of a partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Graph {
    /// A node of the highest level.
    pub(super) entry: u32,
    /// Level 0, with all nodes, first.
    pub(super) levels: Vec<Level>,
}

/// The nodes of a level, and their neighbors in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Level {
    /// Ascending; `None` for all.
    pub(super) nodes: Option<Vec<u32>>,
    /// The neighbors of each node end before those of the next one begin.
    pub(super) ends: Vec<usize>,
    pub(super) neighbors: Vec<u32>,
}

impl Level {
    /// The neighbors of a node; none of one that is not in the level.
    pub(super) fn neighbors(&self, node: u32) -> &[u32] {
        let at = match &self.nodes {
            None => node as usize,
            Some(nodes) => match nodes.binary_search(&node) {
                Ok(at) => at,
                Err(_) => return &[],
            },
        };
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = start.zip(self.ends.get(at).copied());
        range.and_then(|(start, end)| self.neighbors.get(start..end)).unwrap_or_default()
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

impl Graph {
    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.levels.first().map_or(0, Level::len)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_level = |level: &Level| {
            level.nodes.as_ref().map_or(0, Vec::len) * 4 + level.ends.len() * 8 + level.neighbors.len() * 4
        };
        self.levels.iter().map(of_level).sum()
    }
}
