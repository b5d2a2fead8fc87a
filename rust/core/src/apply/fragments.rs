//! Fragments that are added, changed and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::lineage;
use crate::manifest::{Fragment, Manifest, fragment_ids_used_up};
use crate::schema::Schema;
use crate::{Error, FieldId, FragmentId, Result};

/// Errors: `InvalidInput` for deletions, whose file is named after the id that a fragment had before.
pub(super) fn check_newly_written(new: &[Fragment]) -> Result<()> {
    match new.iter().find(|fragment| fragment.deletion.is_some()) {
        None => Ok(()),
        Some(fragment) => Err(Error::invalid_input(format!(
            "fragment {} has a deletion file, expected a fragment that was newly written: rows are deleted by a Delete",
            fragment.id
        ))),
    }
}

/// Adds fragments with ids and, if rows have stable ids, with lineage. Fragments stay sorted.
pub(super) fn add(next: &mut Manifest, new: &[Fragment]) -> Result<()> {
    let numbered = number(next, new)?;
    let mut added = Vec::with_capacity(numbered.len());
    for mut fragment in numbered {
        if next.has_stable_row_ids() {
            lineage::assign(&mut fragment, &mut next.next_row_id)?;
            lineage::set_missing_versions(&mut fragment, next.version);
        }
        added.push(fragment);
    }
    insert(next, added);
    Ok(())
}

/// Errors: `InvalidInput` for files with fields that the table has never had. One that it had may be dropped by now.
pub(super) fn check_fields(current: &Manifest, new: &[Fragment]) -> Result<()> {
    let fields = new.iter().flat_map(|fragment| &fragment.files).flat_map(|file| file.fields.iter());
    let largest = fields.copied().filter(|id| !id.is_lineage()).max();
    // Which fields were dropped all fragments say.
    let Some(id) = largest.filter(|id| *id > current.schema.max_field_id()) else { return Ok(()) };
    match Some(current.next_field_id()).filter(|next| id >= *next) {
        None => Ok(()),
        Some(next) => Err(Error::invalid_input(format!(
            "a data file has field {}; the table has fields up to {} so far: columns that a handle has and no version are \
             committed by that handle",
            id.0,
            next.0 - 1
        ))),
    }
}

/// Gives the fragments that have no id theirs; ids are never used again.
///
/// Errors: `InvalidInput` for ids that are taken, for unknown base paths, and for row ids in a table without them.
pub(super) fn number<'a>(
    next: &mut Manifest,
    new: impl IntoIterator<Item = &'a Fragment>,
) -> Result<Vec<Fragment>> {
    let mut taken = BTreeSet::new();
    let stable = next.has_stable_row_ids();
    let mut numbered = Vec::new();
    for fragment in new {
        let mut fragment = fragment.edit();
        // 0 means unassigned; other ids were reserved by an earlier commit.
        if fragment.id == FragmentId(0) {
            fragment.id = FragmentId(next_id(next.max_fragment_id)?);
        }
        if next.fragments.contains_id(fragment.id) || !taken.insert(fragment.id) {
            return Err(Error::invalid_input(format!("fragment id {} is taken", fragment.id)));
        }
        if !stable && fragment.row_ids.is_some() {
            return Err(Error::invalid_input(format!(
                "fragment {} has row ids, but the table has no stable row ids",
                fragment.id
            )));
        }
        check_base_paths(next, &fragment)?;
        // Files without a column of the schema are removed (table format 7.2).
        fragment.files.retain(|f| f.fields.is_empty() || f.fields.iter().any(|id| *id != FieldId::TOMBSTONE));
        next.max_fragment_id = next.max_fragment_id.max(Some(fragment.id.0));
        numbered.push(fragment);
    }
    Ok(numbered)
}

/// Inserts fragments with new ids and keeps the list sorted.
pub(super) fn insert(next: &mut Manifest, new: Vec<Fragment>) {
    for fragment in new {
        next.fragments.push(Arc::new(fragment.sealed()));
    }
    next.fragments.sort();
}

/// Removes fragments, and replaces fragments by others with their ids.
///
/// `edit` makes the new fragment from the current one and the change. Errors: `InvalidInput` if a fragment is named
/// more than once, has another number of rows, fewer than are deleted, or an unknown base path; retryable `Conflict` if
/// it is missing.
pub(super) fn change<'a>(
    next: &mut Manifest,
    operation: &str,
    removed: &[FragmentId],
    updated: impl IntoIterator<Item = &'a Fragment>,
    mut edit: impl FnMut(&Fragment, &Fragment) -> Result<Fragment>,
) -> Result<()> {
    let duplicate_id = |id| Error::invalid_input(format!("{operation} names fragment {id} more than once"));
    let mut changes: BTreeMap<FragmentId, Option<&Fragment>> = BTreeMap::new();
    let all = removed.iter().map(|id| (*id, None)).chain(updated.into_iter().map(|f| (f.id, Some(f))));
    for (id, change) in all {
        // Removing a fragment two times is harmless; changing it two times is not.
        if changes.insert(id, change).is_some_and(|before| before.is_some() || change.is_some()) {
            return Err(duplicate_id(id));
        }
    }
    if let Some(id) = changes.keys().find(|id| !next.fragments.contains_id(**id)) {
        return Err(Error::retryable_conflict(format!(
            "{operation} changes fragment {id}, which is not in the version before {}",
            next.version
        )));
    }
    for (id, change) in changes.iter().filter_map(|(id, change)| Some((*id, (*change)?))) {
        check_base_paths(next, change)?;
        next.fragments.replace(id, |current| {
            check_rows(operation, current, change)?;
            edit(current, change)
        })?;
    }
    if changes.values().any(Option::is_none) {
        next.fragments.remove(|id| changes.get(&id).is_some_and(Option::is_none));
    }
    Ok(())
}

/// The files of a fragment are at base paths of the table.
fn check_base_paths(manifest: &Manifest, fragment: &Fragment) -> Result<()> {
    let is_known = |id: &u32| manifest.base_paths.iter().any(|base| base.id == *id);
    match fragment.base_ids().find(|id| !is_known(id)) {
        Some(id) => Err(Error::invalid_input(format!(
            "a file of fragment {} is at base path {id}, which the table does not have",
            fragment.id
        ))),
        None => Ok(()),
    }
}

/// A change of a fragment leaves its rows where they are.
fn check_rows(operation: &str, current: &Fragment, change: &Fragment) -> Result<()> {
    let (rows, deleted) = (current.physical_rows, change.deleted_rows());
    if deleted > rows {
        return Err(Error::invalid_input(format!(
            "{operation} removes {deleted} rows of fragment {}, which has {rows}",
            current.id
        )));
    }
    if change.physical_rows != rows {
        return Err(Error::invalid_input(format!(
            "{operation} gives fragment {} {} rows, which has {rows}",
            current.id, change.physical_rows
        )));
    }
    Ok(())
}

/// Files that have a column of the schema. A file that lists no fields holds all of them.
pub(super) fn retain_files(fragment: &mut Fragment, schema: &Schema) {
    let live: BTreeSet<FieldId> = schema.depth_first().map(|f| f.id).collect();
    let is_live = |id: &FieldId| live.contains(id) || id.is_lineage();
    fragment.files.retain(|file| file.fields.is_empty() || file.fields.iter().any(is_live));
}

/// In all fragments the files that have a column of the schema.
pub(super) fn retain_all_files(next: &mut Manifest) {
    let schema = Arc::clone(&next.schema);
    next.fragments.change_all(|fragment| {
        let mut edited = fragment.edit();
        retain_files(&mut edited, &schema);
        (edited.files.len() < fragment.files.len()).then_some(edited)
    });
}

/// A schema to store. Errors: `InvalidInput` for one that breaks a rule, such as ids that are not unique.
pub(super) fn checked(schema: &Schema) -> Result<Arc<Schema>> {
    schema.validate().map_err(|e| Error::invalid_input(format!("the new schema: {e}")))?;
    schema.check_primary_key()?;
    Ok(Arc::new(schema.clone()))
}

/// The id after the largest one.
pub(super) fn next_id(max: Option<u32>) -> Result<u32> {
    let Some(max) = max else { return Ok(0) };
    max.checked_add(1).ok_or_else(fragment_ids_used_up)
}
