//! UpdateBases: more roots that files may lie under.

use crate::manifest::{BasePath, Manifest};
use crate::transaction::UpdateBases;
use crate::{Error, Result};

pub(super) fn apply(update: &UpdateBases, next: &mut Manifest) -> Result<()> {
    add(&update.new_bases, &mut next.base_paths)
}

/// Adds roots; id 0 means not assigned yet. Errors: `InvalidInput` if an id, a name or a path is there already, or
/// for a path that climbs.
pub(super) fn add(new: &[BasePath], bases: &mut Vec<BasePath>) -> Result<()> {
    for base in new {
        base.check()?;
        let mut base = base.clone();
        if base.id == 0 {
            let max = bases.iter().map(|b| b.id).max().unwrap_or(0);
            base.id = max.checked_add(1).ok_or_else(|| Error::unsupported("all base ids are used up"))?;
        }
        let same = |other: &&BasePath| {
            other.id == base.id || other.path == base.path || (base.name.is_some() && other.name == base.name)
        };
        if let Some(other) = bases.iter().find(same) {
            return Err(Error::invalid_input(format!(
                "base path {:?} (id {}, name {:?}) is there already: {:?} (id {}, name {:?})",
                base.path, base.id, base.name, other.path, other.id, other.name
            )));
        }
        bases.push(base);
    }
    Ok(())
}
