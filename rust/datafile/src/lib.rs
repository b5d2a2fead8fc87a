//! Lance data files: Arrow arrays to bytes and back, for file versions 2.0, 2.1 and 2.2; version 0.1 is read only.
//!
//! Synchronous and without I/O of its own: a reader requests byte ranges from a [`ByteSource`], a writer passes
//! bytes to a sink. Modules follow the file format: `container` is the envelope, `repdef` turns nesting into levels
//! and back, `encodings` turns values into bytes and back, `layout` is how a page puts both together.
//! `array_encoding` replaces them in files of version 2.0, `legacy` all of it in files of version 0.1.

mod array_encoding;
#[doc(hidden)]
pub mod bench_support;
mod block_check;
mod checked_source;
pub mod container;
pub mod deletion_file;
mod encodings;
#[cfg(test)]
mod fuzz;
mod layout;
mod legacy;
mod processors;
mod reader;
mod repdef;
mod seal;
mod sealed;
mod simd;
mod source;
pub mod statistics;
mod values;
mod writer;

pub use block_check::BlockCheck;
pub use container::{ColumnMap, DamagedBlock, FileMetadata, fields_with_column, is_packed};
pub use encodings::dictionary::unify::{unify_dictionaries, with_one_dictionary};
pub use processors::{processors, set_processors};
pub use reader::{Ahead, FileReader};
pub use seal::{Seal, Sealer};
pub use simd::simd_into;
pub use source::{ByteSource, EndSource, MemorySource, VerifyReads};
pub use writer::{FileWriter, Finished, WriteOptions, check_writable};
