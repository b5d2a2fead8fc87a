//! CreateIndex: entries are added and removed. A fragment in which indexed values were replaced after the version that
//! the entries were made for is not covered by them.

use std::collections::BTreeSet;

use roaring::RoaringBitmap;

use super::{ApplyContext, indices};
use crate::manifest::{IndexMetadata, Manifest};
use crate::transaction::CreateIndex;
use crate::{Error, Result};

pub(super) fn apply(
    create: &CreateIndex,
    next: &Manifest,
    entries: &mut Vec<IndexMetadata>,
    context: &ApplyContext<'_>,
) -> Result<()> {
    entries.retain(|entry| {
        let same = |other: &IndexMetadata| other.uuid == entry.uuid;
        !create.removed_indices.iter().any(same) && !create.new_indices.iter().any(same)
    });
    let mut seen = BTreeSet::new();
    let kept = entries.len();
    for entry in &create.new_indices {
        if !seen.insert(entry.uuid) {
            return Err(Error::invalid_input(format!("index {} is created twice", entry.uuid)));
        }
        if let Some(id) = entry.fields.iter().find(|id| next.schema.field_by_id(**id).is_none()) {
            return Err(Error::invalid_input(format!(
                "index `{}` is of field {id}, which the schema does not have",
                entry.name
            )));
        }
        entries.push(entry.clone());
    }
    if let (Some(indexed), Some(new)) = (context.indexed, entries.get_mut(kept..)) {
        let covered = new
            .iter()
            .filter_map(|entry| entry.fragments.clone())
            .fold(RoaringBitmap::new(), |all, more| all | more);
        indices::uncover_rewritten(new, indexed, next, &covered)?;
    }
    Ok(())
}
