//! Update: rows are changed in place or moved to new fragments, rows are added and removed.
//!
//! A row that moves keeps its id and the version that made it. A fragment with ids for all its rows has only moved
//! rows: an index of fields that did not change may still cover them. In other fragments the rows after those with ids
//! are new.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::lineage::Origins;
use super::{ApplyContext, fragments, indices, lineage};
use crate::bitmaps::decode_bitmap;
use crate::deletion::DeletionVector;
use crate::manifest::{DataFile, Fragment, IndexMetadata, LineageSource, Manifest};
use crate::rows::{RowIdSequence, VersionSequence};
use crate::transaction::{Update, UpdateMode};
use crate::{Error, FieldId, FragmentId, Result, Version};

pub(super) fn apply(
    update: &Update,
    current: &Manifest,
    next: &mut Manifest,
    entries: &mut Vec<IndexMetadata>,
    context: &ApplyContext<'_>,
) -> Result<()> {
    if !update.compacted_sstables.is_empty() {
        return Err(Error::unsupported("Update that changes the state of an in-memory log"));
    }
    let (version, stable) = (next.version, next.has_stable_row_ids());
    let touched = offsets(update)?;
    let schema = next.schema.clone();
    let (removed, updated) = (&update.removed_fragment_ids, &update.updated_fragments);
    fragments::change(next, "Update", removed, updated, |current, change| {
        let mut edited =
            Fragment { files: change.files.clone(), deletion: change.deletion.clone(), ..current.edit() };
        // A column that was dropped meanwhile is not restored.
        fragments::retain_files(&mut edited, &schema);
        if let Some(rows) = touched.get(&current.id).filter(|_| stable) {
            if writes_version_column(change, context.writes_version_column) {
                edited.last_updated_at = Some(LineageSource::Column);
            } else {
                lineage::touch(&mut edited, context.inline_lineage.get(&current.id), rows, version)?;
            }
        }
        Ok(edited)
    })?;
    let changed = || removed.iter().copied().chain(updated.iter().map(|f| f.id));
    fragments::check_fields(current, &update.new_fragments)?;
    let mut new = fragments::number(next, &update.new_fragments)?;
    new.iter_mut().for_each(|fragment| fragment.last_updated_at = None);
    let moved = add(next, new, current, changed(), context)?;
    let changed_ids = updated.iter().map(|f| f.id.0).collect();
    if update.fields_modified.is_empty() {
        indices::uncover_rewritten(entries, current, next, &changed_ids)?;
    } else {
        let fields = next.schema.touched_fields(&update.fields_modified);
        indices::uncover(entries, &changed_ids, &fields)?;
    }
    if stable && update.mode == UpdateMode::RewriteRows {
        let fields = next.schema.touched_fields(&update.fields_for_preserving_fragment_bitmap);
        let from: BTreeSet<FragmentId> = changed().collect();
        indices::cover_moved(entries, &moved, &from, &fields)?;
    }
    indices::retain(entries, next);
    Ok(())
}

/// Adds numbered fragments with rows that moved to them, whose ids they have, and with new rows after these; gives
/// those that have only rows that moved. `from`: fragments that these rows were in, probably. Rows whose
/// last-updated-at versions are not known were changed in this version.
pub(super) fn add(
    next: &mut Manifest,
    mut new: Vec<Fragment>,
    current: &Manifest,
    from: impl Iterator<Item = FragmentId>,
    context: &ApplyContext<'_>,
) -> Result<Vec<FragmentId>> {
    let mut moved = Vec::new();
    if next.has_stable_row_ids() {
        let mut origins = Origins::new(current, from, context.inline_lineage);
        for fragment in &mut new {
            if has_all_ids(fragment)? {
                moved.push(fragment.id);
            }
            set_lineage(fragment, next.version, &mut next.next_row_id, &mut origins)?;
        }
    }
    fragments::insert(next, new);
    Ok(moved)
}

/// Whether a changed fragment has a column with the last-updated-at versions of the version that is made. If not
/// `valid`, such a column is of an attempt that failed or of the version before.
pub(super) fn writes_version_column(change: &Fragment, valid: bool) -> bool {
    let has = |file: &DataFile| file.column_of(FieldId::ROW_LAST_UPDATED_AT).is_some();
    valid && change.last_updated_at == Some(LineageSource::Column) && change.files.iter().any(has)
}

/// Offsets that changed in place, by fragment. Errors: `InvalidInput` for bytes that are no bitmap.
pub(super) fn offsets(update: &Update) -> Result<BTreeMap<FragmentId, DeletionVector>> {
    let rows = |(id, bytes): (&u64, &Bytes)| {
        let Ok(fragment) = u32::try_from(*id) else {
            return Err(Error::invalid_input(format!("offsets of fragment {id}, which cannot be")));
        };
        let bitmap = decode_bitmap(bytes)
            .map_err(|e| Error::invalid_input(format!("changed offsets of fragment {id}: {e}")))?;
        Ok((FragmentId(fragment), DeletionVector::from_roaring(bitmap)))
    };
    update.updated_offset_bitmaps.iter().map(rows).collect()
}

fn has_all_ids(fragment: &Fragment) -> Result<bool> {
    Ok(match &fragment.row_ids {
        None => false,
        Some(LineageSource::Column) => true,
        Some(LineageSource::Inline(bytes)) => RowIdSequence::decode(bytes)?.len() == fragment.physical_rows,
    })
}

fn set_lineage(
    fragment: &mut Fragment,
    version: Version,
    next_row_id: &mut u64,
    origins: &mut Origins<'_>,
) -> Result<()> {
    let existing = lineage::assign(fragment, next_row_id)?;
    let created = match (&fragment.created_at, &existing) {
        (Some(LineageSource::Column), _) => None,
        (Some(LineageSource::Inline(bytes)), _) => Some(VersionSequence::decode(bytes)?),
        (None, Some(ids)) if ids.is_empty() => Some(VersionSequence::default()),
        (None, Some(ids)) => Some(origins.versions(ids, version)?.0),
        (None, None) => {
            return Err(Error::unsupported(format!(
                "fragment {}: its row ids are in a data column, so it must have its created-at versions",
                fragment.id
            )));
        }
    };
    if let Some(mut created) = created {
        created.push(fragment.physical_rows.saturating_sub(created.len()), version);
        fragment.created_at = Some(LineageSource::Inline(created.encode()));
    }
    if fragment.last_updated_at.is_none() {
        lineage::touch_all(fragment, version);
    }
    Ok(())
}
