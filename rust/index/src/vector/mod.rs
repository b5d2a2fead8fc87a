//! Nearest vectors: distances of many vectors to one query, and the nearest of them, by looking at all or by an index.
//!
//! | part | file |
//! |---|---|
//! | what distance means, and for which values | `metric.rs` |
//! | loops over two vectors | `kernels.rs`; in the registers of x86-64 `lane_sums.rs` |
//! | the registers that loops are compiled for | `simd.rs` |
//! | numbers from a seed | `random.rs` |
//! | vectors in memory, in the type in which they are computed | `matrix.rs` |
//! | the vectors of a column that an index can hold | `rows.rs` |
//! | one query against the vectors of a column | `query.rs` |
//! | the nearest rows that were seen so far | `neighbors.rs` |
//! | kinds of index over vectors | `kind.rs` |
//! | what the metadata of their files says | `metadata.rs` |
//! | what an index is built with: centroids, and how vectors are stored | `model.rs` |
//! | how vectors are stored in them | `storage/` |
//! | graphs of partitions | `graph/` |
//! | indices that were opened, and searches | `index/` |
//! | centroids, codebooks and bounds from a sample | `train/` |
//! | files that are written | `write/` |
//! | the metric alone, of indices of the old form, too | `old_form.rs` |

mod graph;
mod index;
mod kernels;
mod kind;
#[cfg(target_arch = "x86_64")]
mod lane_sums;
mod matrix;
mod metadata;
mod metric;
mod model;
mod neighbors;
mod old_form;
mod query;
mod random;
mod rows;
mod simd;
mod storage;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod train;
mod write;

pub use graph::GraphOptions;
pub use index::{IndexQuery, RowMask, VectorIndex, VectorPartition};
pub use kind::VectorIndexKind;
pub use metric::Metric;
pub use model::{VectorModel, VectorStorage};
pub use neighbors::{DistanceRange, Neighbor, Neighbors};
pub use old_form::metric_of_files;
pub use query::VectorQuery;
pub use train::{ClusterOptions, train_bounds, train_centroids, train_codebook};
pub use write::{BuildOptions, Inherited, SpillFile, VectorIndexBuilder};

/// Sums at once: the compiler may not change the order of one sum of floats.
const LANES: usize = 32;
