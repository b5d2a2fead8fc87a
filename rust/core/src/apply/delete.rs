//! Delete: new deletion files; fragments without rows are removed.
//!
//! The rest of an updated fragment is taken from the current version, so that a column dropped meanwhile does not come
//! back.

use super::{fragments, indices};
use crate::Result;
use crate::manifest::{Fragment, IndexMetadata, Manifest};
use crate::transaction::Delete;

pub(super) fn apply(delete: &Delete, next: &mut Manifest, entries: &mut Vec<IndexMetadata>) -> Result<()> {
    fragments::change(
        next,
        "Delete",
        &delete.deleted_fragment_ids,
        &delete.updated_fragments,
        |current, change| Ok(Fragment { deletion: change.deletion.clone(), ..current.edit() }),
    )?;
    indices::retain(entries, next);
    Ok(())
}
