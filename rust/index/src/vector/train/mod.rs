//! Training: centroids of partitions, codebooks, bounds.
//!
//! | part | here |
//! |---|---|
//! | the nearest centroid of each of many vectors | `assign.rs` |
//! | inner products of eight vectors with 32 centroids | `products.rs` |
//! | centroids of clusters | `kmeans.rs` |
//! | what an index is built with, from a sample of its vectors | `sample.rs` |

pub(super) mod assign;
mod kmeans;
mod products;
mod sample;
#[cfg(test)]
mod tests;

pub use kmeans::ClusterOptions;
pub(super) use kmeans::prepared;
pub use sample::{train_bounds, train_centroids, train_codebook};
