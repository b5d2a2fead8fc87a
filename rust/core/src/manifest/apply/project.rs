//! Project: columns go or get other names.

use super::{fragments, indices};
use crate::Result;
use crate::manifest::{IndexMetadata, Manifest};
use crate::schema::Schema;
use crate::transaction::Project;

pub(super) fn apply(project: &Project, next: &mut Manifest, entries: &mut Vec<IndexMetadata>) -> Result<()> {
    // The transaction has no place for the metadata of the schema.
    let metadata = next.schema.metadata.clone();
    next.schema = fragments::checked(&Schema { metadata, ..project.schema.clone() })?;
    fragments::retain_all_files(next);
    indices::retain(entries, next);
    Ok(())
}
