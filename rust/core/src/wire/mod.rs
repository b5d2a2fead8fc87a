//! Wire messages and their conversions to and from domain types: the only place that names generated types.
//!
//! Each file converts one message or family of messages. Decoding checks every rule once; encoding mirrors it in
//! the same file. Byte fields are slices of the input (`Bytes`), so a decoded value keeps its input alive. Unknown
//! protobuf fields are skipped, except where a whole message is kept as bytes (fragments, index entries).

mod any;
mod array_encoding;
mod columns;
mod cursor;
mod data_fragment;
mod encoding;
mod fields;
mod file_descriptor;
pub mod fragment_reuse;
mod fragment_scan;
pub mod index_parts;
pub mod index_section;
pub mod json_index;
mod key_filter;
mod layout;
mod legacy_file;
mod manifest;
mod operations;
pub(crate) mod rows;
#[cfg(test)]
pub(crate) mod tests;
mod transaction;
pub mod vector_index;

use bytes::Buf;
pub use fragment_scan::decoded_fragments;
pub(crate) use fragment_scan::{FragmentScanner, NewestVersion};

use crate::{Error, Result};

/// The code generated from `protos/` (see `pennon-testkit`), by package.
#[allow(missing_docs, dead_code, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]
#[rustfmt::skip]
pub(crate) mod generated {
    pub(crate) mod google {
        pub(crate) mod protobuf {
            include!("generated/google.protobuf.rs");
        }
    }
    pub(crate) mod lance {
        pub(crate) mod encodings {
            include!("generated/lance.encodings.rs");
        }
        pub(crate) mod encodings21 {
            include!("generated/lance.encodings21.rs");
        }
        pub(crate) mod file {
            include!("generated/lance.file.rs");
            pub(crate) mod v2 {
                include!("generated/lance.file.v2.rs");
            }
        }
        pub(crate) mod table {
            include!("generated/lance.table.rs");
        }
    }
}

pub(crate) use generated::google::protobuf as well_known;
pub(crate) use generated::lance::{encodings, encodings21, file, table};

/// Decodes a message. Errors: `Corrupt`, with what was decoded and what the decoder met.
pub(crate) fn decode_message<M: prost::Message + Default>(what: &str, bytes: impl Buf) -> Result<M> {
    let length = bytes.remaining();
    M::decode(bytes).map_err(|e| {
        Error::corrupt(format!("{what} ({length} bytes) is not a valid protobuf message: {e}")).with_source(e)
    })
}
