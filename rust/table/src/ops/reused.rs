//! Columns whose id may mean another one at the end of a window than at its begin.
//!
//! The id of a dropped column is given out again once no data file lists it (table format 3.1), as after a compaction of
//! all fragments. A data file that lists the id and is in both versions rules that out; otherwise a version between them
//! that does not have the column tells.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::Manifest;
use pennon_core::{FieldId, Result};

use crate::commit::latest;
use crate::commit::load;
use crate::snapshot::Snapshot;

/// Those of the fields of which it cannot be ruled out.
pub(super) async fn maybe_reused(
    old: &Arc<Snapshot>,
    new: &Arc<Snapshot>,
    fields: BTreeSet<FieldId>,
) -> Result<Vec<FieldId>> {
    let mut open = without_shared_file(&old.manifest, &new.manifest, fields);
    if open.is_empty() || new.version() <= old.version().next() {
        return Ok(Vec::new());
    }
    let mut between = latest::list(&new.store).await?;
    between.retain(|at| at.version > old.version() && at.version < new.version());
    let mut expected = old.version();
    let complete = between.iter().all(|at| {
        expected = expected.next();
        at.version == expected
    });
    if !complete || expected.next() != new.version() {
        return Ok(open.into_iter().collect());
    }
    let schemas = between.iter().map(|&at| {
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
