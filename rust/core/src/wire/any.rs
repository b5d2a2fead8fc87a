//! Type URLs of `Any` values (table format 2.7, file format 1.4).
//!
//! The reference writes a leading slash and no host and, when it reads, compares what follows the last slash.

use super::well_known::Any;
use crate::{Error, Result};

/// What follows the last slash; `None` without a slash.
pub(super) fn message_name(type_url: &str) -> Option<&str> {
    type_url.rsplit_once('/').map(|(_, name)| name)
}

/// Checks that `any` holds the message called `expected`. Errors: `Corrupt` naming both.
pub(super) fn check(any: &Any, expected: &str) -> Result<()> {
    if message_name(&any.type_url) == Some(expected) {
        return Ok(());
    }
    Err(Error::corrupt(format!("found an encoding of type {:?}, expected \"/{expected}\"", any.type_url)))
}

/// Wraps an encoded message called `name`.
pub(super) fn wrap(name: &str, value: Vec<u8>) -> Any {
    Any { type_url: format!("/{name}"), value: value.into() }
}
