//! Nearest vectors: distances of many vectors to one query, and the nearest of them.
//!
//! | part | file |
//! |---|---|
//! | what distance means, and for which values | `metric.rs` |
//! | loops over two vectors | `kernels.rs` |
//! | one query against the vectors of a column | `query.rs` |
//! | the nearest rows that were seen so far | `neighbors.rs` |

mod kernels;
mod metric;
mod neighbors;
mod query;
#[cfg(test)]
mod tests;

pub use metric::Metric;
pub use neighbors::{DistanceRange, Neighbor, Neighbors};
pub use query::VectorQuery;
