//! Columns whose id may mean another one in a version than in an older one.
//!
//! The id of a dropped column is given out again once no data file lists it (table format 3.1), as after a compaction
//! of all fragments; an overwrite gives new ids, and a restore goes back to the columns before. A data file that lists
//! the id and is in both versions rules all that out. Otherwise the versions since the older one decide: whether one
//! does not have the column, or was made by an overwrite or a restore.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::Manifest;
use pennon_core::schema::Schema;
use pennon_core::transaction::Operation;
use pennon_core::{FieldId, Result, Version};

use crate::versions::load;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};

/// Those of the fields of which it cannot be ruled out.
pub(super) async fn maybe_reused(
    old: &Arc<Snapshot>,
    new: &Arc<Snapshot>,
    fields: BTreeSet<FieldId>,
) -> Result<Vec<FieldId>> {
    let mut open = without_shared_file(&old.manifest, &new.manifest, fields);
    if open.is_empty() || old.store.root() != new.store.root() {
        // The versions of another branch tell nothing.
        return Ok(open.into_iter().collect());
    }
    let (first, last) = (old.version().next(), new.version());
    let mut since = if first < last { locate::list(&new.store).await? } else { Vec::new() };
    since.retain(|at| (first..last).contains(&at.version));
    since.push(Located { version: last, scheme: new.source().scheme });
    let is_gap = !since.iter().map(|at| at.version).eq((first.0..=last.0).map(Version));
    if is_gap {
        return Ok(open.into_iter().collect());
    }
    let schemas = since.into_iter().map(|at| schema_that_follows(new, at).boxed());
    let schemas = crate::runtime::gather(schemas.collect()).await?;
    let is_always_there = |id: FieldId| {
        schemas.iter().all(|schema| schema.as_ref().is_some_and(|schema| schema.field_by_id(id).is_some()))
    };
    open.retain(|&id| !is_always_there(id));
    Ok(open.into_iter().collect())
}

/// The schema of a version; `None` if that was cleaned up or may give a field id to another column than the one before
/// it.
async fn schema_that_follows(table: &Snapshot, at: Located) -> Result<Option<Arc<Schema>>> {
    let snapshot = match load::load(&table.store, table.session(), at).await {
        Err(error) if error.is_not_found() => return Ok(None),
        found => found?,
    };
    let made = load::transaction(&snapshot).await?.map(|transaction| transaction.operation);
    let follows = made.is_some_and(|made| !matches!(made, Operation::Overwrite(_) | Operation::Restore(_)));
    Ok(follows.then(|| Arc::clone(&snapshot.manifest.schema)))
}

/// Those of the fields that data files list, but none that both versions have.
fn without_shared_file(old: &Manifest, new: &Manifest, mut fields: BTreeSet<FieldId>) -> BTreeSet<FieldId> {
    let mut listed = BTreeSet::new();
    for fragment in new.fragments.decode_all() {
        let before = old.fragment(fragment.id);
        for file in &fragment.files {
            let shared = before.and_then(|before| before.files.iter().find(|other| other.path == file.path));
            for id in file.fields.iter() {
                if shared.is_some_and(|other| other.fields.contains(id)) {
                    fields.remove(id);
                } else {
                    listed.insert(*id);
                }
            }
        }
        if fields.is_empty() {
            return fields;
        }
    }
    for fragment in old.fragments.decode_all() {
        listed.extend(fragment.files.iter().flat_map(|file| file.fields.iter().copied()));
    }
    fields.retain(|id| listed.contains(id));
    fields
}
