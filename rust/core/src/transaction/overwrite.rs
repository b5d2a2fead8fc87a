//! Overwrite (102).

use crate::manifest::{BasePath, Fragment};
use crate::schema::{Metadata, Schema};

/// Replaces schema and rows; creates the table when there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Overwrite {
    /// New fragments, unassigned.
    pub fragments: Vec<Fragment>,
    /// The new schema.
    pub schema: Schema,
    /// Config keys to set; the others are kept.
    pub config_upserts: Option<Metadata>,
    /// Roots of a table that is created.
    pub initial_bases: Vec<BasePath>,
}
