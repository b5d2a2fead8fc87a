//! Indices of a version: their segments, what each covers, and their files opened.
//!
//! An entry of the index section is a segment; the segments of one name are an index. A segment answers only for live rows
//! of the fragments that it covers and that the version still has.
//!
//! | part | file |
//! |---|---|
//! | entries that can be read, as segments | `segments.rs` |
//! | those over a key of JSON documents | `json.rs` |
//! | their files, and pages that the session keeps | `files.rs` |
//! | those that cannot be read | `unreadable.rs` |
//! | where rows went that an index names by address | `moves.rs` |
//! | partitions of indices over vectors, and which of their rows count | `vectors.rs` |

mod files;
mod json;
mod moves;
mod segments;
mod unreadable;
mod vectors;

pub(crate) use files::list_files;
pub(crate) use json::key_of;
pub(crate) use moves::{Coverage, followed};
pub(crate) use segments::{Segment, all_segments, kind_of, known_segments, segments};
pub(crate) use unreadable::{SearchError, check_versions, is_about_the_index, pass_over, pass_over_all};
pub(crate) use vectors::{CountedRows, metric_in_files, open_undescribed};
