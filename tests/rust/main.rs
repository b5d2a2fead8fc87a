//! Tests of whole tables, in one binary: linking it once is what most of their build time is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

mod at_once;
mod bad_input;
mod changed_rows;
mod clones;
mod conflicts;
mod decoded;
mod deletes;
#[cfg(feature = "sqlite")]
mod external;
mod faults;
mod history;
mod inserted_keys;
mod jobs;
mod jobs_with_rows;
mod merges;
mod moved;
mod new_columns;
mod orphans;
mod outcomes;
mod processes;
mod pruning;
mod races;
mod requests;
mod rewrites;
mod rounds;
mod row_ids;
mod scan;
mod stores;
mod support;
mod unreliable;
mod updates;
mod vanishing;
mod writing;
