//! Tests of whole tables, in one binary: linking it once is what most of their build time is.

mod bad_input;
mod conflicts;
mod deletes;
mod faults;
mod history;
mod races;
mod scan;
mod support;
mod writing;
