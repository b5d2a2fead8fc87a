//! CreateIndex: entries are added and removed. A fragment in which indexed values were replaced after the version that
//! an entry was made for is not covered by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

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
    match entries.get_mut(kept..) {
        Some(new) => uncover_older_values(new, context.indexed, next),
        None => Ok(()),
    }
}

/// Takes the fragments out of what entries cover in which values of their fields were replaced since the versions that they
/// were made for. An entry that is not in `indexed` was made for `next`.
pub fn uncover_older_values(
    entries: &mut [IndexMetadata],
    indexed: &BTreeMap<Uuid, Arc<Manifest>>,
    next: &Manifest,
) -> Result<()> {
    for entry in entries {
        let Some(before) = indexed.get(&entry.uuid) else { continue };
        let Some(covered) = entry.fragments.clone() else { continue };
        indices::uncover_rewritten(std::slice::from_mut(entry), before, next, &covered)?;
    }
    Ok(())
}
