//! Merge (105).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Operation, UpdateMode};
use crate::manifest::{DataFile, Fragment, Manifest, fragment_ids_used_up};
use crate::schema::{Field, Schema};
use crate::{Error, FragmentId, Result};

/// Changes columns: the whole new fragment list and schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// All fragments.
    pub fragments: Vec<Fragment>,
    /// The new schema.
    pub schema: Schema,
    /// Whether no column became non-nullable.
    pub preserves_nullability: bool,
}

impl Merge {
    /// Errors: `Unsupported` for what is neither an append, nor a delete, nor an update that writes whole rows.
    pub fn check(operation: &Operation) -> Result<()> {
        match operation {
            Operation::Append(_) | Operation::Delete(_) => Ok(()),
            Operation::Update(update)
                if update.mode == UpdateMode::RewriteRows
                    && update.fields_modified.is_empty()
                    && update.updated_offset_bitmaps.is_empty()
                    && update.compacted_sstables.is_empty() =>
            {
                Ok(())
            }
            other => Err(Error::unsupported(format!(
                "{} cannot add columns in the same version: expected an append, a delete, or an update that writes \
                 whole rows",
                other.name()
            ))),
        }
    }

    /// Errors: `InvalidInput` if a fragment of the version that this was made for is left out or given two times, if another
    /// one has its data files, if a field has another type and a fragment keeps its values, or if it may not be null and a
    /// fragment has no values of it.
    pub fn check_columns(&self, current: &Manifest) -> Result<()> {
        let kept: BTreeSet<FragmentId> = self.fragments.iter().map(|fragment| fragment.id).collect();
        if let Some(id) = current.fragments.ids().find(|id| !kept.contains(id)) {
            return Err(Error::invalid_input(format!(
                "Merge leaves out fragment {id}: it adds columns, and is given all fragments"
            )));
        }
        let mut owners = BTreeMap::new();
        for (fragment, file) in
            self.fragments.iter().flat_map(|f| f.files.iter().map(move |file| (f.id, file)))
        {
            let Some(other) = owners.insert((&file.path, file.base_id), fragment) else { continue };
            let is_file = |known: &DataFile| (&known.path, known.base_id) == (&file.path, file.base_id);
            let had = |id| current.fragment(id).is_some_and(|known| known.files.iter().any(is_file));
            if fragment == other || !had(fragment) || !had(other) {
                return Err(Error::invalid_input(format!(
                    "Merge has data file {:?} in fragment {other} and again in fragment {fragment}",
                    file.path
                )));
            }
        }
        let retyped = |field: &&Field| {
            current.schema.field_by_id(field.id).is_some_and(|old| old.logical_type != field.logical_type)
        };
        let retyped: Vec<&Field> = self.schema.depth_first().filter(retyped).collect();
        for fragment in &self.fragments {
            if let Some(field) = fragment.missing_field(&self.schema) {
                return Err(Error::invalid_input(format!(
                    "Merge adds field {} (\"{}\"), which may not be null, and fragment {} has no data file of it",
                    field.id, field.name, fragment.id
                )));
            }
            let Some(before) = current.fragment(fragment.id).filter(|_| !retyped.is_empty()) else {
                continue;
            };
            let is_kept = |file: &&DataFile| before.files.iter().any(|old| old.path == file.path);
            let mut kept = fragment.files.iter().filter(is_kept).flat_map(|file| file.fields.iter());
            if let Some(field) = kept.find_map(|id| retyped.iter().find(|field| field.id == *id)) {
                return Err(Error::invalid_input(format!(
                    "Merge gives field {} (\"{}\") the type {}, and fragment {} keeps its values of another type",
                    field.id, field.name, field.logical_type, fragment.id
                )));
            }
        }
        Ok(())
    }

    /// What an append, a delete or an update of rows does to a version, together with a schema that has more columns.
    ///
    /// Errors: those of [`Self::check`]; retryable `Conflict` if the version does not have a fragment that is changed.
    pub fn with_rows(current: &Manifest, schema: Schema, operation: Operation) -> Result<Self> {
        Self::check(&operation)?;
        let (removed, updated, new) = match operation {
            Operation::Append(append) => (Vec::new(), Vec::new(), append.fragments),
            Operation::Delete(delete) => (delete.deleted_fragment_ids, delete.updated_fragments, Vec::new()),
            Operation::Update(update) => {
                (update.removed_fragment_ids, update.updated_fragments, update.new_fragments)
            }
            other => return Err(Error::internal(format!("{} passed the check of rows", other.name()))),
        };
        let removed: BTreeSet<FragmentId> = removed.into_iter().collect();
        let mut updated: BTreeMap<FragmentId, Fragment> = updated.into_iter().map(|f| (f.id, f)).collect();
        let present = current.fragments.decode_all().filter(|fragment| !removed.contains(&fragment.id));
        // Files are those that the version has: others may have written columns of fragments meanwhile.
        let change = |fragment: Arc<Fragment>| match updated.remove(&fragment.id) {
            Some(changed) => Fragment { deletion: changed.deletion, ..fragment.edit() },
            None => Arc::unwrap_or_clone(fragment),
        };
        let mut fragments: Vec<Fragment> = present.map(change).collect();
        if let Some(id) = updated.into_keys().next() {
            return Err(Error::retryable_conflict(format!(
                "fragment {id}, which is changed, is not in version {}",
                current.version
            )));
        }
        let mut next = current.max_fragment_id.map_or(Some(0), |max| max.checked_add(1));
        for fragment in new {
            let id = next.ok_or_else(fragment_ids_used_up)?;
            next = id.checked_add(1);
            // The commit finds out when rows that moved were made, and changes all of these.
            fragments.push(Fragment { id: FragmentId(id), last_updated_at: None, ..fragment.edit() });
        }
        Ok(Self { fragments, schema, preserves_nullability: true })
    }
}
