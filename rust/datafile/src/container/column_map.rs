//! Which column of a file holds which field (file format 1.6).

use std::collections::BTreeMap;

use pennon_core::FieldId;
use pennon_core::schema::{Field, LogicalType, Schema};

/// Column index of each leaf field of a file of version 2.1 or later.
///
/// Inside a table a manifest's data file entry says it; a file by itself follows its schema, leaves depth first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMap(BTreeMap<FieldId, u32>);

impl ColumnMap {
    /// The columns of a file with this schema: one for each leaf.
    ///
    /// ```
    /// use pennon_core::{FieldId, schema::Schema};
    /// use pennon_datafile::ColumnMap;
    /// assert_eq!(ColumnMap::of_schema(&Schema::default()).column(FieldId(0)), None);
    /// ```
    pub fn of_schema(schema: &Schema) -> Self {
        fn visit(fields: &[Field], map: &mut BTreeMap<FieldId, u32>, next: &mut u32) {
            for field in fields {
                if field.is_leaf() || is_packed(field) {
                    map.insert(field.id, *next);
                    *next += 1;
                } else {
                    visit(&field.children, map, next);
                }
            }
        }
        let mut map = BTreeMap::new();
        visit(&schema.fields, &mut map, &mut 0);
        Self(map)
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

/// Whether a struct is stored row by row in one column, as its metadata asks.
pub(crate) fn is_packed(field: &Field) -> bool {
    field.logical_type == LogicalType::Struct
        && ["lance-encoding:packed", "packed"]
            .iter()
            .any(|key| field.metadata.get(*key).is_some_and(|v| v.eq_ignore_ascii_case("true")))
}
