//! Data files by themselves, without a table around them: one address, one file.
//!
//! | file | what |
//! |---|---|
//! | `read` | rows of a file as batches, what the file says about itself |
//! | `write` | batches to a file that appears when it is complete |

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use pennon_datafile::FileMetadata;
pub use read::{DataFileReader, FileRows, FileSizes};
pub use write::{DataFileWriter, FileSummary, FileWriteParams};
