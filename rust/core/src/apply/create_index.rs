//! CreateIndex: entries are added and removed.

use std::collections::BTreeSet;

use crate::manifest::{IndexMetadata, Manifest};
use crate::transaction::CreateIndex;
use crate::{Error, Result};

pub(super) fn apply(create: &CreateIndex, next: &Manifest, entries: &mut Vec<IndexMetadata>) -> Result<()> {
    entries.retain(|entry| {
        let same = |other: &IndexMetadata| other.uuid == entry.uuid;
        !create.removed_indices.iter().any(same) && !create.new_indices.iter().any(same)
    });
    let mut seen = BTreeSet::new();
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
    Ok(())
}
