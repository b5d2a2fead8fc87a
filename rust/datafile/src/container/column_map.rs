//! Which column of a file holds which field (file format 1.6).

use std::collections::BTreeMap;

use pennon_core::FieldId;
use pennon_core::file::FileVersion;
use pennon_core::schema::{Field, LogicalType, Schema};

/// Column index of each field that has a column: from version 2.1 on leaves, before that structs and lists as well.
///
/// In a table the manifest's data file entry contains the map; otherwise columns follow the schema, depth first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMap(BTreeMap<FieldId, u32>);

impl ColumnMap {
    /// The columns of a file with this schema and version.
    ///
    /// ```
    /// use pennon_core::{FieldId, file::FileVersion, schema::Schema};
    /// use pennon_datafile::ColumnMap;
    /// let columns = ColumnMap::of_schema(&Schema::default(), FileVersion::STABLE);
    /// assert_eq!(columns.column(FieldId(0)), None);
    /// ```
    pub fn of_schema(schema: &Schema, version: FileVersion) -> Self {
        fields_with_column(schema, version).map(|field| field.id).zip(0..).collect()
    }

    /// The column of a field.
    pub fn column(&self, field: FieldId) -> Option<u32> {
        self.0.get(&field).copied()
    }
}

impl FromIterator<(FieldId, u32)> for ColumnMap {
    fn from_iter<I: IntoIterator<Item = (FieldId, u32)>>(columns: I) -> Self {
        Self(columns.into_iter().collect())
    }
}

/// The fields that have a column of their own, in column order (file format 1.6).
pub fn fields_with_column(schema: &Schema, version: FileVersion) -> impl Iterator<Item = &Field> {
    let mut stack: Vec<&Field> = schema.fields.iter().rev().collect();
    std::iter::from_fn(move || {
        loop {
            let field = stack.pop()?;
            let is_whole = field.is_leaf() || is_packed(field);
            if !is_whole {
                stack.extend(field.children.iter().rev());
            }
            if is_whole || !version.is_structural() {
                return Some(field);
            }
        }
    })
}

/// Whether all of a field is in one column: a leaf, a packed struct, or what describes legacy blobs.
pub fn has_one_column(field: &Field) -> bool {
    field.is_leaf() || is_packed(field) || field.describes_legacy_blob()
}

/// Whether a struct is stored row by row in one column, according to its metadata.
pub fn is_packed(field: &Field) -> bool {
    field.logical_type == LogicalType::Struct
        && ["lance-encoding:packed", "packed"].iter().any(|key| has_flag(field, key))
}

/// Whether the values of a field are stored outside of its pages, according to its metadata.
pub(crate) fn is_blob(field: &Field) -> bool {
    // Descriptors of blob v2 are packed structs.
    has_flag(field, "lance-encoding:blob") && !is_packed(field)
}

fn has_flag(field: &Field, key: &str) -> bool {
    field.metadata.get(key).is_some_and(|v| v.eq_ignore_ascii_case("true"))
}
