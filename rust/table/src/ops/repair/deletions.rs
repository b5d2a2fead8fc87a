//! Deletion files made again.

use std::sync::Arc;

use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DeletionFile, Fragment, paths};
use pennon_core::transaction::Operation;
use pennon_core::{FragmentId, Result, RowId, Version};
use pennon_datafile::deletion_file;

use super::Rebuilt;
use crate::dataset::Dataset;
use crate::runtime::blocking;
use crate::scan::{self, FragmentSlice};
use crate::session::CommitOptions;
use crate::versions::load;
use crate::versions::snapshot::Snapshot;

/// A deletion file, if all that says what it had says the same: versions before or after with as many deleted rows, since
/// rows of a fragment that are deleted stay deleted until a restore, and the transaction of the version that it was
/// made for.
pub(super) async fn rebuild(versions: &[Arc<Snapshot>], path: &str) -> Result<Option<Rebuilt>> {
    let Some((first, fragment, deletion)) = versions.iter().find_map(|found| with_file(found, path)) else {
        return Ok(None);
    };
    let (wanted, version) = (deletion.num_deleted_rows, first.version());
    let mut found: Vec<(Arc<DeletionVector>, String)> = Vec::new();
    for other in versions {
        let of_other = other.manifest.fragment(fragment.id).filter(|other| {
            let count = other.deletion.as_ref().map(|deletion| deletion.num_deleted_rows);
            count == Some(wanted) && !has_file(other, path) && is_same_data(other, &fragment)
        });
        let Some(of_other) = of_other else { continue };
        if is_one_history(versions, version, other.version()).await
            && let Ok(rows) = other.deletion_vector(of_other).await
        {
            found.push((rows, format!("version {}, of which as many rows are deleted", other.version())));
        }
    }
    if let Some(rows) = by_predicate(first, versions, fragment.id).await {
        found.push((Arc::new(rows), format!("the predicate of the delete that made version {version}")));
    }
    if let Some(rows) = by_moves(first, versions, &fragment).await {
        found.push((Arc::new(rows), format!("the rows that are in other fragments since version {version}")));
    }
    let Some((rows, from)) = found.iter().find(|(rows, _)| wanted > 0 && rows.len() == wanted) else {
        return Ok(None);
    };
    if found.iter().any(|(others, _)| others.len() == wanted && others != rows) {
        return Ok(None);
    }
    let bytes = deletion_file::encode_as(deletion.file_type, rows)?;
    Ok(Some(Rebuilt { bytes: bytes.into(), from: from.clone() }))
}

/// Whether all versions between two can be read, and none was restored, overwritten or cloned.
async fn is_one_history(versions: &[Arc<Snapshot>], a: Version, b: Version) -> bool {
    for number in a.min(b).0 + 1..=a.max(b).0 {
        let Some(found) = versions.iter().find(|found| found.version().0 == number) else { return false };
        match load::transaction(found).await {
            Ok(Some(transaction)) => match transaction.operation {
                Operation::Restore(_) | Operation::Overwrite(_) | Operation::Clone(_) => return false,
                _ => {}
            },
            _ => return false,
        }
    }
    true
}

fn has_file(fragment: &Fragment, path: &str) -> bool {
    paths::deletion(fragment).is_some_and(|file| file.base_id.is_none() && file.path() == path)
}

fn is_same_data(fragment: &Fragment, other: &Fragment) -> bool {
    fragment.physical_rows == other.physical_rows
        && fragment.files.first().map(|file| &file.path) == other.files.first().map(|file| &file.path)
}

fn with_file<'a>(
    snapshot: &'a Arc<Snapshot>,
    path: &str,
) -> Option<(&'a Arc<Snapshot>, Arc<Fragment>, DeletionFile)> {
    let fragment = snapshot.manifest.fragments.decode_all().find(|fragment| has_file(fragment, path))?;
    let deletion = fragment.deletion.clone()?;
    Some((snapshot, fragment, deletion))
}

/// The version before another one, and the rows of a fragment that are deleted there.
async fn deleted_before(
    made: &Arc<Snapshot>,
    versions: &[Arc<Snapshot>],
    fragment: FragmentId,
) -> Option<(Arc<Snapshot>, Arc<DeletionVector>)> {
    let number = Version(made.version().0.checked_sub(1)?);
    let before = versions.iter().find(|found| found.version() == number)?;
    let of_before = before.manifest.fragment(fragment)?;
    let deleted = before.deletion_vector(of_before).await.ok()?;
    Some((Arc::clone(before), deleted))
}

/// The deleted rows of a fragment after an update that made a version: those before, and those whose ids are in other
/// fragments.
async fn by_moves(
    made: &Arc<Snapshot>,
    versions: &[Arc<Snapshot>],
    fragment: &Arc<Fragment>,
) -> Option<DeletionVector> {
    let (_, deleted) = deleted_before(made, versions, fragment.id).await?;
    let (made, fragment) = (Arc::clone(made), Arc::clone(fragment));
    let moved = move || {
        let Some(ids) = scan::lineage(&made, &fragment)? else { return Ok(None) };
        let mut moved = Vec::new();
        for other in made.manifest.fragments.decode_all().filter(|other| other.id != fragment.id) {
            let Some(others) = scan::lineage(&made, &other)? else { return Ok(None) };
            let live = others.mask(&*made.deletion_vector_blocking(&other)?);
            moved.extend(live.iter().filter_map(|id| u32::try_from(ids.position(RowId(id))?).ok()));
        }
        Ok(Some(moved))
    };
    let moved = blocking(moved).await.ok()??;
    Some(deleted.iter().chain(moved).collect())
}

/// The deleted rows of a fragment after the delete that made a version: those before, and those that its predicate finds.
async fn by_predicate(
    made: &Arc<Snapshot>,
    versions: &[Arc<Snapshot>],
    fragment: FragmentId,
) -> Option<DeletionVector> {
    let Operation::Delete(delete) = load::transaction(made).await.ok()??.operation else { return None };
    let (before, deleted) = deleted_before(made, versions, fragment).await?;
    let base = Dataset::at(before, CommitOptions::default());
    let slices = vec![FragmentSlice::from(fragment)];
    let found = base.matching_rows(&delete.predicate, Some(slices)).await.ok()?;
    let found = found.get(&fragment).cloned().unwrap_or_default();
    Some(deleted.iter().chain(found.iter()).collect())
}
