//! Project (109).

use crate::schema::Schema;

/// Drops or renames columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// The new schema.
    pub schema: Schema,
    /// Whether no column became non-nullable.
    pub preserves_nullability: bool,
}
