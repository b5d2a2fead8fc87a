//! The error of a version that was cleaned up.

use pennon_core::{Error, Version};

/// The error of a version that is needed and was cleaned up.
pub(crate) fn cleaned_up(version: Version, why: &str) -> Error {
    Error::not_found(format!(
        "Version {version} was cleaned up and is needed: {why}. A tag on it would have kept it, and so would a cleanup \
         with more retain_versions or a longer older_than"
    ))
}
