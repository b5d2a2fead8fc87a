//! CreateIndex: entries are added and removed. A fragment in which indexed values were replaced, or deleted rows restored,
//! after the version that an entry was made for is not covered by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;
use uuid::Uuid;

use super::{ApplyContext, indices};
use crate::manifest::{IndexMetadata, Manifest};
use crate::transaction::CreateIndex;
use crate::{Error, Result};

/// A version that an entry was made for, which is not the current one.
#[derive(Debug, Clone)]
pub struct IndexedVersion {
    /// The version.
    pub manifest: Arc<Manifest>,
    /// The fragments that have rows which are deleted in that version: an older one was restored since then.
    pub restored: RoaringBitmap,
}

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
        Some(new) => uncover_older(new, context.indexed, next),
        None => Ok(()),
    }
}

/// Takes the fragments out of what entries cover in which values of their fields were replaced, or deleted rows restored,
/// since the versions that they were made for. An entry that is not in `indexed` was made for `next`.
pub fn uncover_older(
    entries: &mut [IndexMetadata],
    indexed: &BTreeMap<Uuid, IndexedVersion>,
    next: &Manifest,
) -> Result<()> {
    for entry in entries {
        let Some(IndexedVersion { manifest, restored }) = indexed.get(&entry.uuid) else { continue };
        let Some(covered) = entry.fragments.clone() else { continue };
        indices::uncover_rewritten(std::slice::from_mut(entry), manifest, next, &covered)?;
        if let Some(covered) = entry.fragments.as_ref().filter(|covered| !covered.is_disjoint(restored)) {
            *entry = entry.with_fragments(covered - restored)?;
        }
    }
    Ok(())
}
