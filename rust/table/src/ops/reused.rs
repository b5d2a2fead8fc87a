//! Columns whose id may mean another one in a version than in an older one.
//!
//! The id of a dropped column is given out again once no data file lists it (table format 3.1), as after a compaction of
//! all fragments; an overwrite gives ids anew, and a restore goes back to the columns before. A data file that lists the
//! id and is in both versions rules all that out. Otherwise the versions since the older one tell: whether one does not
//! have the column, or was made by an overwrite or a restore.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::Manifest;
use pennon_core::transaction::{Operation, Transaction};
use pennon_core::{FieldId, Result, Version};

use crate::commit::latest::{self, Located};
use crate::commit::load;
use crate::ops::made_by::made_by;
use crate::snapshot::Snapshot;

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
    let mut since = if first < last { latest::list(&new.store).await? } else { Vec::new() };
    since.retain(|at| (first..last).contains(&at.version));
    since.push(Located { version: last, scheme: new.source().scheme });
    let is_gap = !since.iter().map(|at| at.version).eq((first.0..=last.0).map(Version));
    if is_gap || any_replaces_columns(new, &since).await? {
        return Ok(open.into_iter().collect());
    }
    since.pop();
    let schemas = since.into_iter().map(|at| {
        let schema = async move {
            match load::load(&new.store, new.session(), at).await {
                Err(error) if error.is_not_found() => Ok(None),
                found => found.map(|snapshot| Some(Arc::clone(&snapshot.manifest.schema))),
            }
        };
        schema.boxed()
    });
    let schemas = crate::gather(schemas.collect()).await?;
    let is_always_there = |id: FieldId| {
        schemas.iter().all(|schema| schema.as_ref().is_some_and(|schema| schema.field_by_id(id).is_some()))
    };
    open.retain(|&id| !is_always_there(id));
    Ok(open.into_iter().collect())
}

async fn any_replaces_columns(table: &Snapshot, versions: &[Located]) -> Result<bool> {
    let all = versions.iter().map(|&at| replaces_columns(table, at).boxed());
    Ok(crate::gather(all.collect()).await?.contains(&true))
}

/// Whether a field id may be another column's in a version than in the one before.
async fn replaces_columns(table: &Snapshot, at: Located) -> Result<bool> {
    if let Some(made) = made_by(&table.store, at).await {
        return Ok(made.replaces_columns());
    }
    let version = match load::load(&table.store, table.session(), at).await {
        Err(error) if error.is_not_found() => return Ok(true),
        found => found?,
    };
    let transaction = load::transaction(&version).await?;
    let replaces =
        |made: Transaction| matches!(made.operation, Operation::Overwrite(_) | Operation::Restore(_));
    Ok(transaction.is_none_or(replaces))
}

/// Those of the fields that data files list, but none that both versions have.
fn without_shared_file(old: &Manifest, new: &Manifest, mut fields: BTreeSet<FieldId>) -> BTreeSet<FieldId> {
    let mut listed = BTreeSet::new();
    for fragment in &new.fragments {
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
    let old = old.fragments.iter().flat_map(|fragment| &fragment.files);
    listed.extend(old.flat_map(|file| file.fields.iter().copied()));
    fields.retain(|id| listed.contains(id));
    fields
}
