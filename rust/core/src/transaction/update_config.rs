//! UpdateConfig (110).

use std::collections::BTreeMap;

use crate::FieldId;
use crate::schema::Metadata;

/// Changes config and metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpdateConfig {
    /// Of the table config.
    pub config: Option<MapUpdate>,
    /// Of the table metadata.
    pub table_metadata: Option<MapUpdate>,
    /// Of the schema metadata.
    pub schema_metadata: Option<MapUpdate>,
    /// Of the metadata of fields.
    pub field_metadata: BTreeMap<FieldId, MapUpdate>,
    /// What older writers say instead of all of the above.
    pub old: OldConfigUpdate,
}

/// A change of a map of texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapUpdate {
    /// New values; a key without one is removed.
    pub entries: BTreeMap<String, Option<String>>,
    /// Whether the map is cleared first.
    pub replace: bool,
}

/// The form of older writers (fields 1 to 4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OldConfigUpdate {
    /// Config keys to set.
    pub upserts: Metadata,
    /// Config keys to remove.
    pub deletes: Vec<String>,
    /// The new schema metadata.
    pub schema_metadata: Metadata,
    /// The new metadata of fields.
    pub field_metadata: BTreeMap<FieldId, Metadata>,
}

impl UpdateConfig {
    /// Whether a key of the table config gets a value or is removed.
    pub fn touches_config_key(&self, key: &str) -> bool {
        let cleared = self.config.as_ref().is_some_and(|c| c.replace || c.entries.contains_key(key));
        cleared || self.old.upserts.contains_key(key) || self.old.deletes.iter().any(|k| k == key)
    }

    /// Keys of the table config that get a value or are removed.
    pub fn config_keys(&self) -> impl Iterator<Item = &String> {
        let new = self.config.iter().flat_map(|c| c.entries.keys());
        new.chain(self.old.upserts.keys()).chain(&self.old.deletes)
    }

    /// Whether the table config changes.
    pub fn touches_config(&self) -> bool {
        self.config.is_some() || self.config_keys().next().is_some()
    }

    /// Whether the metadata of the schema changes.
    pub fn touches_schema_metadata(&self) -> bool {
        self.schema_metadata.is_some() || !self.old.schema_metadata.is_empty()
    }

    /// Fields whose metadata changes.
    pub fn metadata_fields(&self) -> impl Iterator<Item = FieldId> {
        self.field_metadata.keys().chain(self.old.field_metadata.keys()).copied()
    }

    /// Whether the metadata of the schema or of a field changes.
    pub fn touches_schema(&self) -> bool {
        self.touches_schema_metadata() || self.metadata_fields().next().is_some()
    }
}
