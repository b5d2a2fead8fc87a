//! What one operation does at a time.
//!
//! Requests to a store are bounded by the store's own budget, for the whole process: `store/requests`. The numbers here
//! and below bound what a budget of requests does not: memory, threads and processor time.
//!
//! | number | what it bounds |
//! |---|---|
//! | [`super::processors`] | threads of a call that compute; the program may set it |
//! | [`super::Computing`] | threads of a session that decode what remote stores sent: as many as processors |
//! | [`IN_FLIGHT`] | calls of one operation that wait at a time, so futures and, on local disks, blocking threads |
//! | `scan::plan::REMOTE_BYTES`, processors elsewhere | decoded batches of a scan |
//! | `scan::take::FRAGMENTS_IN_FLIGHT` | blocking threads of a local take, or of one of blobs |
//! | `store::object::PARTS_IN_FLIGHT`, `write::fragments::{UPLOADS, ENDING}` | bytes that a writer holds until they are sent |
//! | `ops::history::{IN_FLIGHT, AHEAD}` | versions whose state is held |
//! | `scan::brief` | work that is done on the calling thread |
//! | `ops::merge_insert::join::THREADS` | processors that one join can use |

/// As many as the budget of a store lets through unless its options say otherwise: that keeps it full.
pub(crate) const IN_FLIGHT: usize = 64;
