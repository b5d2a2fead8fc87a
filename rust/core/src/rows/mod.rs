//! Row identity: which stable id each physical row has, and in which version it was made and changed.
//!
//! | file | what |
//! |---|---|
//! | `segment` | a piece of an id sequence in one of five forms |
//! | `sequence` | the ids of a fragment's physical rows, in order |
//! | `versions` | the versions of a fragment's physical rows, run-length encoded |
//! | `index` | row id to row address, for one version of the table |
//! | `merge` | rows of several fragments in the order of their ids |
//! | `ranges` | sets of row numbers, as scans and readers pass them |
//! | `changes` | what happened to rows between two versions |
//!
//! A position in a sequence is a physical row: deleted rows keep theirs.

mod changes;
#[cfg(test)]
mod changes_tests;
mod index;
mod intervals;
mod merge;
mod ranges;
pub(crate) mod segment;
mod sequence;
#[cfg(test)]
mod tests;
mod versions;

pub use changes::{RowChanges, RowRun, RowSide, RowSides, differing, row_changes};
pub use index::{Deletions, ReadRowIds, RowIdIndex};
pub(crate) use intervals::Intervals;
pub use merge::{MergeInput, MergedRows, Selection, SortedMerge, Take};
pub use ranges::{RankedRows, RowRanges};
pub use sequence::RowIdSequence;
pub use versions::VersionSequence;

use crate::lengths::to_u64;

/// Ids handled at a time.
const BLOCK: u64 = 1024;

/// Positions and lengths in memory. What does not fit is as good as infinite.
fn to_index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
