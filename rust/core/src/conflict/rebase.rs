//! Carrying a delete over to a newer version (table format 8.3).
//!
//! Affected rows are offsets at the version the delete read. Offsets do not move as long as the fragment lives, so the
//! new vector of a fragment is the current one and the affected rows, provided they are disjoint.

use std::collections::{BTreeMap, BTreeSet};

use crate::deletion::DeletionVector;
use crate::manifest::{Fragment, Manifest};
use crate::transaction::Delete;
use crate::{Error, FragmentId, Result};

/// A delete on top of a newer version.
#[derive(Debug, Clone)]
pub struct RebasedDelete {
    /// The full new vector of each fragment that keeps rows.
    pub vectors: BTreeMap<FragmentId, DeletionVector>,
    /// Fragments without a row left, ascending.
    pub removed_fragments: Vec<FragmentId>,
}

/// Puts `delete` on top of `current`.
///
/// `affected`: the rows it deletes, by fragment; also those of fragments it removes, if known. `current_vectors`: the
/// vectors of those fragments in `current`, for all that have a deletion file.
/// Errors: retryable `Conflict` if a fragment is gone or a row was deleted meanwhile; `Internal` if a vector is missing.
pub fn rebase_delete(
    delete: &Delete,
    current: &Manifest,
    affected: &BTreeMap<FragmentId, DeletionVector>,
    current_vectors: &BTreeMap<FragmentId, DeletionVector>,
) -> Result<RebasedDelete> {
    let none = DeletionVector::empty();
    let mut vectors = BTreeMap::new();
    let mut removed = BTreeSet::new();
    let mut ids: BTreeSet<FragmentId> = delete.updated_fragments.iter().map(|f| f.id).collect();
    ids.extend(&delete.deleted_fragment_ids);
    for id in ids {
        let Some(fragment) = current.fragment(id) else {
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {}: fragment {id}, with rows to delete, is gone",
                current.version
            )));
        };
        let Some(rows) = affected.get(&id) else {
            if delete.deleted_fragment_ids.contains(&id)
                && delete.updated_fragments.iter().all(|f| f.id != id)
            {
                removed.insert(id);
                continue;
            }
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {}: the rows to delete in fragment {id} are not known",
                current.version
            )));
        };
        let now = vector_of(fragment, current_vectors, &none)?;
        if now.intersects(rows) {
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {}: rows to delete in fragment {id} were deleted or changed \
                 meanwhile",
                current.version
            )));
        }
        let all = now.union(rows);
        if all.len() >= fragment.physical_rows {
            removed.insert(id);
        } else {
            vectors.insert(id, all);
        }
    }
    Ok(RebasedDelete { vectors, removed_fragments: removed.into_iter().collect() })
}

/// A promised vector that was not loaded must never count as "no deletions".
fn vector_of<'a>(
    fragment: &Fragment,
    vectors: &'a BTreeMap<FragmentId, DeletionVector>,
    none: &'a DeletionVector,
) -> Result<&'a DeletionVector> {
    match (vectors.get(&fragment.id), &fragment.deletion) {
        (Some(vector), _) => Ok(vector),
        (None, None) => Ok(none),
        (None, Some(_)) => {
            Err(Error::internal(format!("the deletion vector of fragment {} was not loaded", fragment.id)))
        }
    }
}
