//! ReserveFragments: ids that a later transaction uses.

use super::fragments::next_id;
use crate::Result;
use crate::manifest::{Manifest, fragment_ids_used_up};
use crate::transaction::ReserveFragments;

pub(super) fn apply(reserve: ReserveFragments, next: &mut Manifest) -> Result<()> {
    if let Some(more) = reserve.num_fragments.checked_sub(1) {
        let first = next_id(next.max_fragment_id)?;
        next.max_fragment_id = Some(first.checked_add(more).ok_or_else(fragment_ids_used_up)?);
    }
    Ok(())
}
