//! Indices over vectors: made, taken care of, written again when rows move.
//!
//! | part | file |
//! |---|---|
//! | what is asked for, with what follows if it is not said | `request.rs` |
//! | a new index, or a segment of one | `create.rs` |
//! | what an index is built with, from a sample of the vectors | `train.rs` |
//! | the files of a segment | `build.rs` |
//! | rows and segments taken into an index | `remake.rs` |
//! | what an index says of itself | `describe.rs` |

mod build;
mod create;
mod describe;
mod remake;
mod request;
mod train;

pub(super) use build::rewrite;
pub use describe::VectorStatistics;
pub(super) use describe::{description, description_in_files, model, prewarm, statistics};
pub(super) use remake::{can_remake, remake};
pub use request::{NewVectorIndex, VectorParameters};
