//! Project: columns are dropped or renamed. Not all of them may be dropped: rows without columns cannot be read.

use super::{fragments, indices};
use crate::manifest::{IndexMetadata, Manifest};
use crate::schema::Schema;
use crate::transaction::Project;
use crate::{Error, Result};

pub(super) fn apply(project: &Project, next: &mut Manifest, entries: &mut Vec<IndexMetadata>) -> Result<()> {
    if project.schema.fields.is_empty() && !next.schema.fields.is_empty() {
        return Err(Error::invalid_input("Cannot drop all columns from a dataset"));
    }
    // The transaction has no place for the metadata of the schema.
    let metadata = next.schema.metadata.clone();
    next.schema = fragments::checked(&Schema { metadata, ..project.schema.clone() })?;
    fragments::retain_all_files(next);
    indices::retain(entries, next);
    Ok(())
}
