//! DataReplacement: other files for some columns, row by row in the same order.
//!
//! A file replaces the one with the same fields. Otherwise it is added: if the fragment has all of its fields in other
//! files, these do not have them any more.

use super::{fragments, indices, lineage};
use crate::manifest::{DataFile, Fragment, IndexMetadata, Manifest};
use crate::transaction::DataReplacement;
use crate::{Error, FieldId, Result};

pub(super) fn apply(
    replacement: &DataReplacement,
    next: &mut Manifest,
    entries: &mut Vec<IndexMetadata>,
) -> Result<()> {
    let Some(first) = replacement.replacements.first() else { return Ok(()) };
    let fields = std::sync::Arc::clone(&first.file.fields);
    if let Some(other) = replacement.replacements.iter().find(|r| r.file.fields != fields) {
        return Err(Error::invalid_input(format!(
            "All new data files must have the same fields: fragment {} has {:?}, fragment {} {fields:?}",
            other.fragment, other.file.fields, first.fragment
        )));
    }
    if let Some(id) = fields.iter().find(|id| next.schema.field_by_id(**id).is_none()) {
        return Err(Error::invalid_input(format!(
            "a new data file has field {id}, which is not in the schema"
        )));
    }
    let mut updated = Vec::with_capacity(replacement.replacements.len());
    for new in &replacement.replacements {
        let rows = next.fragment(new.fragment).map_or(0, |f| f.physical_rows);
        let change = Fragment { id: new.fragment, ..Fragment::new(vec![new.file.clone()], rows) };
        updated.push(change);
    }
    let (version, stable) = (next.version, next.has_stable_row_ids());
    fragments::change(next, "DataReplacement", &[], &updated, |current, change| {
        let mut edited = current.edit();
        for file in &change.files {
            replace(&mut edited, file)?;
        }
        if stable {
            lineage::touch_all(&mut edited, version);
        }
        Ok(edited)
    })?;
    let fields = next.schema.touched_fields(&fields);
    indices::uncover(entries, &updated.iter().map(|f| f.id.0).collect(), &fields)?;
    indices::retain(entries, next);
    Ok(())
}

fn replace(fragment: &mut Fragment, new: &DataFile) -> Result<()> {
    if let Some(file) = fragment.files.iter_mut().find(|file| file.fields == new.fields) {
        *file = new.clone();
        return Ok(());
    }
    let is_stored = |id: &&FieldId| fragment.files.iter().any(|file| file.fields.contains(id));
    let stored = new.fields.iter().filter(is_stored).count();
    if stored > 0 && stored < new.fields.len() {
        return Err(Error::invalid_input(format!(
            "fragment {}: Expected to modify the fragment but no changes were made. The new data file has fields {:?}, of \
             which the fragment has {stored} and lacks others",
            fragment.id, new.fields
        )));
    }
    let others = fragment.files.iter().filter_map(|file| file.without(|id| new.fields.contains(id)));
    fragment.files = others.collect();
    fragment.files.push(new.clone());
    Ok(())
}
