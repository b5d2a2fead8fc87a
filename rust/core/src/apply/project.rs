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
    let schema = fragments::checked(&Schema { metadata, ..project.schema.clone() })?;
    check_types(&next.schema, &schema)?;
    next.schema = schema;
    fragments::retain_all_files(next);
    indices::retain(entries, next);
    Ok(())
}

/// Values stay as they are stored, so fields keep their types: with others, as where ids were given by position, they could
/// not be read.
fn check_types(before: &Schema, after: &Schema) -> Result<()> {
    for field in after.depth_first() {
        let Some(known) = before.field_by_id(field.id) else { continue };
        if known.logical_type != field.logical_type {
            return Err(Error::invalid_input(format!(
                "field {} is `{}` of type {} in the table, the projection has it as `{}` of type {}: fields are known by their ids",
                field.id, known.name, known.logical_type, field.name, field.logical_type
            )));
        }
    }
    Ok(())
}
