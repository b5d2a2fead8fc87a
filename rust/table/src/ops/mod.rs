//! What can be done to a table: one file per verb.
//!
//! Each file adds its methods to [`Dataset`](crate::Dataset). An operation reads one snapshot, decides, writes new
//! files and hands a transaction to [`crate::commit`]; it never calls another operation.

pub mod commit;
mod config;
pub mod delete;
mod drop_table;
mod migrate;
mod restore;
mod rewrite;
pub mod tags;
mod validate;
mod write;
