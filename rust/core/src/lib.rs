//! The Lance table format as values.
//!
//! Everything here is pure: schema, manifest, row identity, transactions and conflict rules, and the
//! conversions between wire messages and these types. No Arrow arrays, no async, no files, no clock and
//! no randomness; callers pass such values in.
//!
//! A value of a type in this crate is valid: rules are checked once, when bytes become values
//! ([`wire`]), and are not checked again.

pub mod apply;
pub mod bitmaps;
pub mod checksum;
pub mod conflict;
pub mod deletion;
pub mod error;
pub mod file;
pub mod ids;
pub mod lengths;
pub mod manifest;
pub mod rows;
pub mod schema;
pub mod transaction;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
pub use ids::{FieldId, FragmentId, RowAddress, RowId, Version};
