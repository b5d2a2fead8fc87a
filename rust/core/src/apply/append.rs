//! Append: the new fragments are added after the others.

use super::fragments;
use crate::Result;
use crate::manifest::Manifest;
use crate::transaction::Append;

pub(super) fn apply(append: &Append, next: &mut Manifest) -> Result<()> {
    fragments::check_newly_written(&append.fragments)?;
    fragments::check_fields(next, &append.fragments)?;
    fragments::add(next, &append.fragments)
}
