//! Indices of a version: their segments, what each covers, and their files opened.
//!
//! An entry of the index section is a segment; the segments of one name are an index. A segment answers only for live rows
//! of the fragments that it covers and that the version still has.
//!
//! | part | file |
//! |---|---|
//! | entries that can be read, as segments | `segments.rs` |
//! | their files, and pages that the session keeps | `files.rs` |

mod files;
mod segments;

pub(crate) use segments::{Segment, segments};
