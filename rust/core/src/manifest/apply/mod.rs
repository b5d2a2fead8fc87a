//! One version and a transaction make the next version: pure, no I/O (table format 7.2).
//!
//! Row ids, fragment ids and version sequences of new rows are handed out here, so an attempt that lost the race gets
//! them anew on top of the winner. Counters never go back: `max_fragment_id` and `next_row_id` only grow.

mod flags;
mod indices;
mod lineage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{CarriedFields, Flags, Fragment, IndexMetadata, Manifest, Timestamp, WriterVersion};
use crate::file::FileVersion;
use crate::schema::Metadata;
use crate::transaction::{Append, Delete, Operation, Overwrite, Restore, Transaction};
use crate::{Error, FieldId, FragmentId, Result, Version};

/// What applying a transaction needs besides the transaction.
#[derive(Debug, Clone)]
pub struct ApplyContext<'a> {
    /// When the version is made.
    pub timestamp: Timestamp,
    /// Name of the transaction file; empty if there is none.
    pub transaction_file: String,
    /// Content of the version that a [`Restore`] goes back to.
    pub restored: Option<&'a (Manifest, Vec<IndexMetadata>)>,
    /// Who makes the version.
    pub writer: WriterVersion,
    /// Whether a table that is created gets stable row ids; existing tables keep what they have.
    pub enable_stable_row_ids: bool,
    /// File version that a created or overwritten table states; `None`: that of its files, else the current one.
    pub file_version: Option<FileVersion>,
}

/// The version after `current` (version 1 without it) and its indices.
///
/// `indices` are those of `current`. The flags of `current` must have been checked for writing.
/// Errors: `Unsupported` for operations that are not applied yet; retryable `Conflict` if a fragment of the
/// transaction is not there any more; `InvalidInput` for fragments that do not fit the table.
pub fn apply(
    current: Option<&Manifest>,
    indices: &[IndexMetadata],
    transaction: &Transaction,
    context: &ApplyContext<'_>,
) -> Result<(Manifest, Vec<IndexMetadata>)> {
    let (mut next, indices) = match (&transaction.operation, current) {
        (Operation::Overwrite(overwrite), None) => (create(overwrite, context)?, Vec::new()),
        (Operation::Overwrite(overwrite), Some(current)) => {
            (apply_overwrite(current, overwrite, context)?, Vec::new())
        }
        (Operation::Append(append), Some(current)) => (apply_append(current, append)?, indices.to_vec()),
        (Operation::Delete(delete), Some(current)) => {
            let next = apply_delete(current, delete)?;
            let kept = indices::retain(indices, &next);
            (next, kept)
        }
        (Operation::Restore(restore), Some(current)) => apply_restore(current, restore, context)?,
        (operation, Some(_)) => {
            return Err(Error::unsupported(format!(
                "{} transactions cannot be committed by this release (it commits Append, Delete, Overwrite, Restore)",
                operation.name()
            )));
        }
        (operation, None) => {
            return Err(Error::not_found(format!("{} on a table that does not exist", operation.name())));
        }
    };
    next.timestamp = context.timestamp;
    next.transaction_file.clone_from(&context.transaction_file);
    next.writer = Some(context.writer.clone());
    next.index_section = None;
    next.transaction_section = None;
    flags::recompute(&mut next)?;
    Ok((next, indices))
}

fn create(overwrite: &Overwrite, context: &ApplyContext<'_>) -> Result<Manifest> {
    let stable = context.enable_stable_row_ids;
    let flags = if stable { Flags::STABLE_ROW_IDS } else { Flags::default() };
    let mut next = Manifest {
        version: Version(1),
        schema: Arc::new(overwrite.schema.clone()),
        fragments: Vec::new(),
        timestamp: Timestamp::default(),
        reader_flags: flags,
        writer_flags: flags,
        max_fragment_id: None,
        transaction_file: String::new(),
        writer: None,
        next_row_id: 0,
        file_version: stated_version(overwrite, context).unwrap_or(FileVersion::STABLE),
        config: overwrite.config_upserts.clone().unwrap_or_default(),
        table_metadata: Metadata::new(),
        base_paths: overwrite.initial_bases.clone(),
        branch: None,
        index_section: None,
        transaction_section: None,
        carried: CarriedFields::default(),
    };
    add_fragments(&mut next, &overwrite.fragments)?;
    Ok(next)
}

fn apply_overwrite(
    current: &Manifest,
    overwrite: &Overwrite,
    context: &ApplyContext<'_>,
) -> Result<Manifest> {
    if !overwrite.initial_bases.is_empty() {
        return Err(Error::invalid_input("base paths can only be given when the table is created"));
    }
    let mut next = successor(current);
    next.schema = Arc::new(overwrite.schema.clone());
    next.fragments.clear();
    next.file_version = stated_version(overwrite, context).unwrap_or(current.file_version);
    next.config.extend(overwrite.config_upserts.clone().unwrap_or_default());
    add_fragments(&mut next, &overwrite.fragments)?;
    Ok(next)
}

/// What the writer says, else what it wrote.
fn stated_version(overwrite: &Overwrite, context: &ApplyContext<'_>) -> Option<FileVersion> {
    let mut files = overwrite.fragments.iter().flat_map(|f| &f.files);
    context.file_version.or_else(|| files.next().map(|f| f.version))
}

fn apply_append(current: &Manifest, append: &Append) -> Result<Manifest> {
    let mut next = successor(current);
    add_fragments(&mut next, &append.fragments)?;
    Ok(next)
}

/// A delete changes deletion files only: the rest of an updated fragment is taken from `current`, so that a column
/// dropped meanwhile does not come back.
fn apply_delete(current: &Manifest, delete: &Delete) -> Result<Manifest> {
    let removed: BTreeSet<FragmentId> = delete.deleted_fragment_ids.iter().copied().collect();
    let mut updated: BTreeMap<FragmentId, &Fragment> = BTreeMap::new();
    for fragment in &delete.updated_fragments {
        if removed.contains(&fragment.id) || updated.insert(fragment.id, fragment).is_some() {
            return Err(Error::invalid_input(format!(
                "Delete names fragment {} more than once",
                fragment.id
            )));
        }
    }
    for id in removed.iter().chain(updated.keys()) {
        if current.fragment(*id).is_none() {
            return Err(Error::retryable_conflict(format!(
                "Delete changes fragment {id}, which version {} does not have",
                current.version
            )));
        }
    }
    let mut next = successor(current);
    next.fragments.retain(|f| !removed.contains(&f.id));
    if !updated.is_empty() {
        for fragment in &mut next.fragments {
            let Some(change) = updated.get(&fragment.id) else { continue };
            let deleted = change.deleted_rows();
            if deleted > fragment.physical_rows {
                return Err(Error::invalid_input(format!(
                    "Delete removes {deleted} rows of fragment {}, which has {}",
                    fragment.id, fragment.physical_rows
                )));
            }
            let edited = Fragment { deletion: change.deletion.clone(), ..fragment.edit() };
            *fragment = Arc::new(edited.sealed());
        }
    }
    Ok(next)
}

fn apply_restore(
    current: &Manifest,
    restore: &Restore,
    context: &ApplyContext<'_>,
) -> Result<(Manifest, Vec<IndexMetadata>)> {
    let Some((target, indices)) = context.restored else {
        return Err(Error::internal("Restore without the version to restore"));
    };
    if target.version != restore.version {
        return Err(Error::internal(format!(
            "Restore of version {} was given version {}",
            restore.version, target.version
        )));
    }
    let next = Manifest {
        version: current.version.next(),
        max_fragment_id: target.max_fragment_id.max(current.max_fragment_id),
        next_row_id: target.next_row_id.max(current.next_row_id),
        ..target.clone()
    };
    Ok((next, indices.clone()))
}

/// The same content under the next number.
fn successor(current: &Manifest) -> Manifest {
    Manifest { version: current.version.next(), ..current.clone() }
}

/// Adds fragments with ids and, if rows have stable ids, with lineage. Fragments stay sorted.
fn add_fragments(next: &mut Manifest, new: &[Fragment]) -> Result<()> {
    let mut taken: BTreeSet<FragmentId> = next.fragments.iter().map(|f| f.id).collect();
    let mut sorted = true;
    for fragment in new {
        let mut fragment = fragment.edit();
        // 0 means unassigned; other ids were reserved by an earlier commit.
        if fragment.id == FragmentId(0) {
            fragment.id = FragmentId(next_fragment_id(next.max_fragment_id)?);
        }
        if !taken.insert(fragment.id) {
            return Err(Error::invalid_input(format!("fragment id {} is taken", fragment.id)));
        }
        // Files without a column of the schema go (table format 7.2).
        fragment.files.retain(|f| f.fields.is_empty() || f.fields.iter().any(|id| *id != FieldId::TOMBSTONE));
        if next.has_stable_row_ids() {
            lineage::assign(&mut fragment, next.version, &mut next.next_row_id)
                .map_err(|e| e.at(format!("fragment {}", fragment.id)))?;
        } else if fragment.row_ids.is_some() {
            return Err(Error::invalid_input(format!(
                "fragment {} has row ids, but the table has no stable row ids",
                fragment.id
            )));
        }
        next.max_fragment_id = next.max_fragment_id.max(Some(fragment.id.0));
        sorted &= next.fragments.last().is_none_or(|last| last.id < fragment.id);
        next.fragments.push(Arc::new(fragment.sealed()));
    }
    if !sorted {
        next.fragments.sort_by_key(|f| f.id);
    }
    Ok(())
}

fn next_fragment_id(max: Option<u32>) -> Result<u32> {
    let Some(max) = max else { return Ok(0) };
    max.checked_add(1).ok_or_else(|| Error::unsupported("all 2^32 fragment ids of the table are used up"))
}
