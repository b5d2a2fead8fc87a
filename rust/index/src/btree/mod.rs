//! B-tree indices: all values of a column in their order, nulls first, in pages, and the bounds of each page.
//!
//! | file | columns |
//! |---|---|
//! | `page_data.lance` | `values`, `ids` u64: page p is the rows `p * n .. (p + 1) * n` |
//! | `page_lookup.lance` | `min`, `max`: first and last value of the page; `null_count` u32, `page_idx` u32 |
//!
//! The schema metadata of the lookup file has n, the rows of a page, as `batch_size`. Equal values may lie in several pages,
//! and their rows are in no order.

mod lookup;
mod moved;
mod page;
mod search;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use pennon_core::file::FileVersion;
use pennon_datafile::WriteOptions;

pub use page::{BTreePage, PageRun};
pub use search::BTreeIndex;
pub use walk::RowSink;
pub use write::BTreeWriter;

/// Rows of a page, if nothing else is asked for.
pub const DEFAULT_PAGE_ROWS: u32 = 4096;

const DATA_FILE: &str = "page_data.lance";
pub(crate) const LOOKUP_FILE: &str = "page_lookup.lance";
/// Key of the rows of a page in the metadata of the lookup file's schema.
const PAGE_ROWS: &str = "batch_size";
/// Key that says whether pages of several files form ranges; they never do.
const RANGE_PARTITIONED: &str = "range_partitioned";

/// What files of a version are written with.
fn options(version: FileVersion) -> WriteOptions {
    WriteOptions { version, ..WriteOptions::default() }
}
