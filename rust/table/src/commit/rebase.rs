//! Carries deletions, moves, rewrites and changes in place over to a newer version: what
//! `pennon_core::conflict::rebase` needs is read here, and what it decides is written (table format 8.3).

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::conflict::rebase::{RowsByFragment, carry, rebase_rewrite, rebase_rows};
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DeletionFileType, Fragment, LineageSource, Manifest, paths};
use pennon_core::transaction::{Operation, Rewrite, RewriteGroup};
use pennon_core::{Error, FragmentId, Result, Version};

use crate::runtime::{Fault, is_planted};
use crate::scan::FragmentReader;
use crate::store::{Durability, Uploads};
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{StagedChange, StagedFile};
use crate::write::{deletions, in_place};

/// Replaces affected rows in fragments that a rewrite took away by where the rewrite put them, and says so in mine.
///
/// `committed` is the version that the rewrite made. Errors: retryable `Conflict` if that cannot be told.
pub(super) async fn follow(
    mine: &mut Operation,
    affected: &mut RowsByFragment,
    rewrite: &Rewrite,
    committed: &Arc<Snapshot>,
) -> Result<()> {
    let old = rewrite.groups.iter().flat_map(|group| &group.old_fragments);
    let touched =
        rewrite.groups.iter().filter(|g| g.old_fragments.iter().any(|f| affected.contains_key(&f.id)));
    // Without row ids the order of all live rows says where each went; with them only what was deleted of mine counts.
    let needed = touched
        .flat_map(|group| &group.old_fragments)
        .filter(|old| old.row_ids.is_none() || affected.contains_key(&old.id));
    let mut read = vectors(committed, needed).await?;
    if is_planted(Fault::FollowIgnoresDeletions) {
        read.values_mut().for_each(|deleted| *deleted = DeletionVector::empty());
    }
    let (updated, removed) = fragments(mine);
    let moved: BTreeSet<FragmentId> = old.map(|fragment| fragment.id).collect();
    let needed = updated.iter().chain(removed.intersection(&moved));
    if let Some(id) = needed.into_iter().find(|id| !affected.contains_key(id)) {
        return Err(Error::retryable_conflict(format!(
            "Retryable commit conflict for version {}: rows were moved, and which ones to delete in fragment {id} is \
             not known",
            committed.version()
        )));
    }
    let rewrite = with_ids(committed, rewrite, affected.keys().copied().collect()).await?;
    carry(affected, &rewrite, &committed.manifest, &read)?;
    restate(mine, affected, &committed.manifest);
    Ok(())
}

/// The deletions of a delete or update on top of `newest`, and the files written for that, which may be on their way
/// still. Errors: retryable `Conflict` if rows or fragments are gone.
pub(super) async fn rows(
    newest: &Arc<Snapshot>,
    mine: &mut Operation,
    affected: &RowsByFragment,
    durability: Durability,
) -> Result<(Vec<StagedFile>, Uploads)> {
    let (updated, removed) = fragments(mine);
    let now =
        vectors(newest, affected.keys().filter_map(|&id| newest.manifest.fragment(id)).map(AsRef::as_ref));
    let rebased = rebase_rows(&updated, &removed, &newest.manifest, affected, &now.await?)?;
    let mut pairs = Vec::with_capacity(rebased.vectors.len());
    for (id, vector) in rebased.vectors {
        let fragment = newest.manifest.fragment(id);
        let fragment = fragment.ok_or_else(|| Error::internal(format!("fragment {id} is gone")))?;
        pairs.push((fragment.edit(), vector));
    }
    let form = Some(DeletionFileType::Bitmap);
    let (written, uploads) = deletions::write_later(newest, pairs, form, durability).await?;
    let files = deletion_files(newest, &written)?;
    match mine {
        Operation::Delete(delete) => {
            delete.updated_fragments = written;
            delete.deleted_fragment_ids = rebased.removed_fragments;
        }
        Operation::Update(update) => {
            update.updated_fragments = written;
            update.removed_fragment_ids = rebased.removed_fragments;
        }
        other => return Err(Error::internal(format!("{} has no rows to carry over", other.name()))),
    }
    Ok((files, uploads))
}

/// Columns of last-updated-at versions that are for another version than the one that is to be made of `newest`, written
/// again: gives the files, none if they are right. The fragments are as they were, or there would be a conflict.
pub(super) async fn versions(
    newest: &Arc<Snapshot>,
    change: &mut StagedChange,
    version: Version,
    durability: Durability,
) -> Result<Vec<StagedFile>> {
    let Some(rows) = change.in_place.as_mut().filter(|rows| rows.version() != version) else {
        return Ok(Vec::new());
    };
    let Operation::Update(update) = &mut change.transaction.operation else { return Ok(Vec::new()) };
    let fragments = update.updated_fragments.iter().filter(|f| in_place::has_column(f)).cloned().collect();
    *rows = rows.for_version(version);
    let written = in_place::write_again(Arc::clone(newest), fragments, rows.clone(), durability).await?;
    for fragment in written {
        let old = update.updated_fragments.iter_mut().find(|old| old.id == fragment.id);
        let old = old.ok_or_else(|| Error::internal(format!("fragment {} is gone", fragment.id)))?;
        *old = fragment;
    }
    let last = update.updated_fragments.iter().filter(|f| in_place::has_column(f));
    let last = last.filter_map(|fragment| fragment.files.last());
    last.map(|file| StagedFile::of(newest, paths::data(file))).collect()
}

/// The deletion files of fragments that were just written.
fn deletion_files(newest: &Snapshot, written: &[Fragment]) -> Result<Vec<StagedFile>> {
    written.iter().filter_map(paths::deletion).map(|file| StagedFile::of(newest, file)).collect()
}

/// A rewrite on top of `newest`, and the files written for that, which may be on their way still. Errors: retryable
/// `Conflict` if it cannot be.
pub(super) async fn rewrite(
    newest: &Arc<Snapshot>,
    mine: &Rewrite,
    durability: Durability,
) -> Result<(Rewrite, Vec<StagedFile>, Uploads)> {
    let old: Vec<&Fragment> = mine.groups.iter().flat_map(|group| &group.old_fragments).collect();
    let current: Vec<&Fragment> =
        old.iter().filter_map(|f| newest.manifest.fragment(f.id)).map(AsRef::as_ref).collect();
    let (read, now) =
        (vectors(newest, old.iter().copied()).await?, vectors(newest, current.into_iter()).await?);
    let is_changed = |old: &&&Fragment| {
        newest.manifest.fragment(old.id).is_none_or(|current| current.deletion != old.deletion)
    };
    let changed = old.iter().filter(is_changed).map(|f| f.id).collect();
    let with_row_ids = with_ids(newest, mine, changed).await?;
    let mut rebased = rebase_rewrite(&with_row_ids, &newest.manifest, &read, &now)?;
    let groups = &mut rebased.rewrite.groups;
    restore_columns(groups, mine);
    let mut pairs = Vec::with_capacity(rebased.vectors.len());
    for fragment in groups.iter().flat_map(|group| &group.new_fragments) {
        if let Some(vector) = rebased.vectors.remove(&fragment.id) {
            pairs.push((fragment.clone(), vector));
        }
    }
    let (written, uploads) = deletions::write_later(newest, pairs, None, durability).await?;
    let files = deletion_files(newest, &written)?;
    for fragment in groups.iter_mut().flat_map(|group| &mut group.new_fragments) {
        if let Some(new) = written.iter().find(|new| new.id == fragment.id) {
            *fragment = new.clone();
        }
    }
    Ok((rebased.rewrite, files, uploads))
}

/// A rewrite whose fragments have their row ids inline, in groups with one of these old fragments.
async fn with_ids(
    snapshot: &Arc<Snapshot>,
    rewrite: &Rewrite,
    fragments_with_changes: BTreeSet<FragmentId>,
) -> Result<Rewrite> {
    let (snapshot, mut rewritten) = (Arc::clone(snapshot), rewrite.clone());
    let version = snapshot.version();
    let read = crate::runtime::blocking(move || {
        let groups = rewritten
            .groups
            .iter_mut()
            .filter(|g| g.old_fragments.iter().any(|f| fragments_with_changes.contains(&f.id)));
        let fragments = groups.flat_map(|g| g.old_fragments.iter_mut().chain(&mut g.new_fragments));
        for fragment in fragments.filter(|f| f.row_ids == Some(LineageSource::Column)) {
            let reader = FragmentReader::new(Arc::clone(&snapshot), Arc::new(fragment.clone()), 0);
            fragment.row_ids = Some(LineageSource::Inline(reader.all_row_ids()?.encode()));
        }
        Ok(rewritten)
    });
    let retryable =
        |e| Error::retryable_conflict(format!("Retryable commit conflict for version {version}: {e}"));
    read.await.map_err(retryable)
}

/// Undoes [`with_ids`] in a rewrite that was made of it: files are those of the original.
fn restore_columns(groups: &mut [RewriteGroup], original: &Rewrite) {
    let fragments = original.groups.iter().flat_map(|g| g.old_fragments.iter().chain(&g.new_fragments));
    let column_backed = fragments.filter(|f| f.row_ids == Some(LineageSource::Column));
    let column_backed: BTreeSet<&str> = column_backed.filter_map(first_path).collect();
    for fragment in groups.iter_mut().flat_map(|g| g.old_fragments.iter_mut().chain(&mut g.new_fragments)) {
        if first_path(fragment).is_some_and(|path| column_backed.contains(path)) {
            fragment.row_ids = Some(LineageSource::Column);
        }
    }
}

fn first_path(fragment: &Fragment) -> Option<&str> {
    fragment.files.first().map(|file| file.path.as_str())
}

/// Vectors of fragments that have a deletion file. One that is gone is a reason to do it again, not corruption.
async fn vectors(
    snapshot: &Arc<Snapshot>,
    fragments: impl Iterator<Item = &Fragment>,
) -> Result<RowsByFragment> {
    let with_deletions = fragments.filter(|fragment| fragment.deletion.is_some());
    let reads = with_deletions.map(|fragment| {
        let read = async move {
            let vector = snapshot.deletion_vector(fragment).await.map_err(|e| {
                Error::retryable_conflict(format!(
                    "Retryable commit conflict for version {}: {e}",
                    snapshot.version()
                ))
            })?;
            Ok((fragment.id, vector.as_ref().clone()))
        };
        read.boxed()
    });
    Ok(crate::runtime::gather(reads.collect()).await?.into_iter().collect())
}

/// Fragments that get new vectors, and fragments that go.
fn fragments(operation: &Operation) -> (BTreeSet<FragmentId>, BTreeSet<FragmentId>) {
    let (updated, removed) = match operation {
        Operation::Delete(delete) => (&delete.updated_fragments, &delete.deleted_fragment_ids),
        Operation::Update(update) => (&update.updated_fragments, &update.removed_fragment_ids),
        _ => return Default::default(),
    };
    (updated.iter().map(|f| f.id).collect(), removed.iter().copied().collect())
}

/// Names the fragments in which the affected rows are now; what becomes of them is decided later.
fn restate(mine: &mut Operation, affected: &RowsByFragment, manifest: &Manifest) {
    let removed = |ids: &mut Vec<FragmentId>| ids.retain(|id| manifest.fragment(*id).is_some());
    let updated = |gone: &[FragmentId]| {
        let ids = affected.keys().filter(|id| !gone.contains(id));
        ids.filter_map(|id| manifest.fragment(*id)).map(|f| f.as_ref().clone()).collect()
    };
    match mine {
        Operation::Delete(delete) => {
            removed(&mut delete.deleted_fragment_ids);
            delete.updated_fragments = updated(&delete.deleted_fragment_ids);
        }
        Operation::Update(update) => {
            removed(&mut update.removed_fragment_ids);
            update.updated_fragments = updated(&update.removed_fragment_ids);
        }
        _ => {}
    }
}
