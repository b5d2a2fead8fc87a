//! Writing indices.
//!
//! | part | here |
//! |---|---|
//! | partitions and codes of vectors | `encode.rs` |
//! | rows of all partitions, in memory or elsewhere | `gather.rs` |
//! | an index of new vectors, and of those of other indices | `builder.rs` |
//! | what graphs are built of | `graph_vectors.rs` |
//! | both files, partition by partition | `files.rs` |

mod builder;
mod encode;
mod files;
mod gather;
mod graph_vectors;
#[cfg(test)]
mod tests;

pub use builder::{BuildOptions, Inherited, VectorIndexBuilder};
use files::{PartitionRows, VectorIndexWriter};
pub use gather::SpillFile;
