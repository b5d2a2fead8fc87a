//! Restore: an older version is the next one again.

use super::ApplyContext;
use crate::manifest::{IndexMetadata, Manifest};
use crate::transaction::Restore;
use crate::{Error, Result};

pub(super) fn apply(
    restore: &Restore,
    current: &Manifest,
    context: &ApplyContext<'_>,
) -> Result<(Manifest, Vec<IndexMetadata>)> {
    let Some((target, indices)) = context.restored else {
        return Err(Error::internal("Restore without the version to restore"));
    };
    if target.version != restore.version {
        return Err(Error::internal(format!(
            "Restore of version {} was given version {}",
            restore.version, target.version
        )));
    }
    if current.has_stable_row_ids() && !target.has_stable_row_ids() {
        return Err(Error::invalid_input(format!(
            "version {} is from before the table had stable row ids: its rows have none to continue with. Write them again, as \
             by an overwrite",
            restore.version
        )));
    }
    let next = Manifest {
        version: context.next_version(current),
        max_fragment_id: target.max_fragment_id.max(current.max_fragment_id),
        next_row_id: target.next_row_id.max(current.next_row_id),
        ..target.clone()
    };
    Ok((next, indices.clone()))
}
