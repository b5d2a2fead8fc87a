//! Merge (105).

use crate::manifest::Fragment;
use crate::schema::Schema;

/// Changes columns: the whole new fragment list and schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// All fragments.
    pub fragments: Vec<Fragment>,
    /// The new schema.
    pub schema: Schema,
    /// Whether no column became non-nullable.
    pub preserves_nullability: bool,
}
