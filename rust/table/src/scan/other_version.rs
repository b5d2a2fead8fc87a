//! Columns of one version as they are read from others.
//!
//! They are matched by field id. What a version does not have, or has with another type, is null there; so everything
//! may be null, members of structs and items of lists included.

use pennon_core::schema::{Field, LogicalType, Schema};

/// Columns that may be null at every level.
#[derive(Debug)]
pub(crate) struct NullableFields(Vec<Field>);

impl NullableFields {
    /// These top-level columns.
    pub(crate) fn of<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Self {
        Self(fields.into_iter().map(nullable).collect())
    }

    /// The columns.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.0
    }

    /// What can be read of them in a version: `None` for those it does not have with that type.
    pub(crate) fn in_version(&self, schema: &Schema) -> Vec<Option<Field>> {
        let is_there = |field: &Field| schema.fields.iter().any(|other| fits(field, other));
        self.0.iter().map(|field| is_there(field).then(|| field.clone())).collect()
    }
}

fn nullable(field: &Field) -> Field {
    let children = match field.logical_type {
        // Neither the entries of a map nor their keys are null.
        LogicalType::Map => field.children.clone(),
        _ => field.children.iter().map(nullable).collect(),
    };
    Field { nullable: true, children, ..field.clone() }
}

/// Whether a field of another version is this one and can be read as it. Members that only one of both has are null.
fn fits(field: &Field, other: &Field) -> bool {
    field.id == other.id && field.logical_type == other.logical_type && {
        let same = |child: &Field, other: &Field| child.id != other.id || fits(child, other);
        field.children.iter().all(|child| other.children.iter().all(|other| same(child, other)))
    }
}
