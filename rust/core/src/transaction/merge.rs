//! Merge (105).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Operation, UpdateMode};
use crate::manifest::{Fragment, Manifest};
use crate::schema::Schema;
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
                    && update.updated_offsets.is_empty()
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
            let id =
                next.ok_or_else(|| Error::unsupported("all 2^32 fragment ids of the table are used up"))?;
            next = id.checked_add(1);
            // The commit finds out when rows that moved were made, and changes all of these.
            fragments.push(Fragment { id: FragmentId(id), last_updated_at: None, ..fragment.edit() });
        }
        Ok(Self { fragments, schema, preserves_nullability: true })
    }
}
