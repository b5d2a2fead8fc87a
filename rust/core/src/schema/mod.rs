//! Table schema: a tree of fields with stable ids and logical types (table format, section 3).

mod arrow;
mod blobs;
mod compatibility;
mod evolution;
mod logical_type;
mod projection;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use blobs::{BLOB_EXTENSION, BlobKind, BlobThresholds, is_blob, legacy_description};
pub use evolution::{Alteration, Altered, Evolved};
pub use logical_type::{LogicalType, TimeUnit};
pub use projection::{edit_distance, path_names, unknown_field};

use crate::{FieldId, Result};

/// Metadata of a schema or a field, ordered so that equal maps have equal bytes.
pub type Metadata = BTreeMap<String, String>;

/// One field and its children.
///
/// Children follow the type: the members of a struct, the item of a list, the entries of a map, the struct
/// items of a fixed-size list; fixed-size lists of primitives have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Stable id, unique in the table.
    pub id: FieldId,
    /// Simple name, not a path.
    pub name: String,
    /// Whether values may be null.
    pub nullable: bool,
    /// The type.
    pub logical_type: LogicalType,
    /// Fields below this one.
    pub children: Vec<Field>,
    /// Metadata, `ARROW:extension:*` and `lance-encoding:*` keys included.
    pub metadata: Metadata,
    /// Whether the field belongs to the declared (not enforced) primary key.
    pub unenforced_primary_key: bool,
    /// Wire fields this release only carries along (table format 2.3, numbers 13 to 15).
    pub carried: CarriedKeys,
}

/// Key positions of a field that are kept as found (table format 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CarriedKeys {
    /// Number 13.
    pub primary_key_position: u32,
    /// Number 14.
    pub clustering_key: bool,
    /// Number 15.
    pub clustering_key_position: u32,
}

/// The fields of a table version and the schema's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// Top-level fields.
    pub fields: Vec<Field>,
    /// Schema metadata.
    pub metadata: Metadata,
}

impl Schema {
    /// The top-level field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// All fields, parents before children.
    pub fn depth_first(&self) -> impl Iterator<Item = &Field> {
        let mut stack: Vec<&Field> = self.fields.iter().rev().collect();
        std::iter::from_fn(move || {
            let field = stack.pop()?;
            stack.extend(field.children.iter().rev());
            Some(field)
        })
    }

    /// The leaves in column order: one per file column from file version 2.1 on (file format 1.6).
    pub fn leaves(&self) -> impl Iterator<Item = &Field> {
        self.depth_first().filter(|f| f.is_leaf())
    }

    /// The largest field id, -1 without fields.
    pub fn max_field_id(&self) -> FieldId {
        self.depth_first().map(|f| f.id).max().unwrap_or(FieldId::NO_PARENT)
    }

    /// The same schema with ids 0, 1, 2 ... handed out depth first.
    #[must_use]
    pub fn with_fresh_ids(mut self) -> Self {
        fn assign(fields: &mut [Field], next: &mut i32) {
            for field in fields {
                field.id = FieldId(*next);
                *next += 1;
                assign(&mut field.children, next);
            }
        }
        assign(&mut self.fields, &mut 0);
        self
    }

    /// These fields with all above and below them: the values of each of those may change with one of these.
    pub fn touched_fields(&self, ids: &[FieldId]) -> BTreeSet<FieldId> {
        fn walk(fields: &[Field], within: bool, touched: &mut BTreeSet<FieldId>, ids: &[FieldId]) -> bool {
            let mut any = false;
            for field in fields {
                let named = ids.contains(&field.id);
                let below = walk(&field.children, within || named, touched, ids);
                if within || named || below {
                    touched.insert(field.id);
                }
                any |= named || below;
            }
            any
        }
        let mut touched = ids.iter().copied().collect();
        walk(&self.fields, false, &mut touched, ids);
        touched
    }

    /// Checks what the format demands of a stored schema: unique ids, unique names per level, children that fit the
    /// type, bounded depth. Errors: `Corrupt`, with the field's path.
    pub fn validate(&self) -> Result<()> {
        compatibility::validate(self)
    }

    /// Errors: `InvalidInput` for a primary key that may be null, or is not a leaf: the reference does not open such a
    /// table.
    pub fn check_primary_key(&self) -> Result<()> {
        compatibility::check_primary_key(self)
    }
}

impl Field {
    /// Whether the field is stored as a file column of its own (file format 1.6).
    ///
    /// A struct without members is a leaf; so is a fixed-size list of primitives.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether it is a primary key, or a part of it, by its metadata too.
    fn is_primary_key(&self) -> bool {
        self.unenforced_primary_key || arrow::is_primary_key(&self.metadata)
    }

    /// The child of that name.
    pub fn child(&self, name: &str) -> Option<&Field> {
        self.children.iter().find(|f| f.name == name)
    }
}
