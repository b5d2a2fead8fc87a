//! What is in the folders of a table, and who refers to it: gathered once, for cleanup and for `verify`.
//!
//! `gather` lists files and then reads versions, tags, branches and known clones; `plan` decides from those values
//! why each file is kept or removed.

mod gather;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use gather::{Damaged, FOLDERS, Inventory, UnreachableClones, gather};
pub(crate) use plan::Policy;
pub use plan::{Disposition, Reason};
