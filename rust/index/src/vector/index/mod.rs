//! Indices over vectors that were opened: partitions around centroids, and the search in them.
//!
//! | file | contents |
//! |---|---|
//! | `index.idx` | centroids, in a global buffer; with graphs, their nodes |
//! | `auxiliary.idx` | columns `_rowid` and the vectors, partition by partition; how they are stored, in its metadata |
//!
//! | part | here |
//! |---|---|
//! | what is read when an index is opened | `open.rs` |
//! | a query, and the partitions nearest to it | `query.rs` |
//! | rows of partitions | `partition.rs` |
//! | the nearest rows of a partition | `search.rs` |

mod open;
mod partition;
mod query;
mod search;
#[cfg(test)]
mod tests;

pub use open::VectorIndex;
pub use partition::VectorPartition;
pub use query::IndexQuery;
pub use search::RowMask;

pub(super) use open::{AUXILIARY_FILE, INDEX_FILE};
