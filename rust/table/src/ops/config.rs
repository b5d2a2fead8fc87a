//! Config and metadata: of the table, of the schema, of fields.
//!
//! Settings that the reference or Pennon itself reads are checked before they are stored: a commit after one that
//! cannot be parsed would otherwise find out.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::Result;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{MapUpdate, Operation, UpdateConfig};
use tracing::instrument;

use super::cleanup::check_setting;
use crate::dataset::Dataset;

impl Dataset {
    /// Changes the table config by a new commit and moves to it. Errors: `InvalidInput` for a setting that cannot be
    /// parsed, `Conflict` if another writer changed the same keys since this version.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_config(&mut self, update: MapUpdate) -> Result<()> {
        self.change_metadata(UpdateConfig { config: Some(update), ..UpdateConfig::default() }).await
    }

    /// Changes the table metadata by a new commit and moves to it. Errors: `Conflict` as for
    /// [`Self::update_config`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_table_metadata(&mut self, update: MapUpdate) -> Result<()> {
        self.change_metadata(UpdateConfig { table_metadata: Some(update), ..UpdateConfig::default() }).await
    }

    /// Changes the metadata of the schema by a new commit and moves to it. Errors: `Conflict` as for
    /// [`Self::update_config`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_schema_metadata(&mut self, update: MapUpdate) -> Result<()> {
        self.change_metadata(UpdateConfig { schema_metadata: Some(update), ..UpdateConfig::default() }).await
    }

    /// Changes the metadata of fields, by their paths, by a new commit and moves to it.
    ///
    /// Errors: `InvalidInput` for an unknown field, `Conflict` as for [`Self::update_config`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_field_metadata(&mut self, updates: BTreeMap<String, MapUpdate>) -> Result<()> {
        let schema = Arc::clone(self.schema());
        let by_id = updates.into_iter().map(|(path, update)| {
            let field = schema.field_by_path(&path).ok_or_else(|| schema.unknown_column(&path))?;
            Ok((field.id, update))
        });
        let field_metadata = by_id.collect::<Result<_>>()?;
        self.change_metadata(UpdateConfig { field_metadata, ..UpdateConfig::default() }).await
    }

    async fn change_metadata(&mut self, update: UpdateConfig) -> Result<()> {
        check(&update)?;
        self.commit_operation(Operation::UpdateConfig(update), None, Metadata::new()).await
    }
}

/// Checks the settings of an update. Errors: `InvalidInput` naming the key and what was expected.
pub(super) fn check(update: &UpdateConfig) -> Result<()> {
    let new = update.config.iter().flat_map(|config| &config.entries);
    check_values(new.filter_map(|(key, value)| Some((key, value.as_ref()?))))?;
    check_values(&update.old.upserts)
}

/// Checks settings. Errors: those of [`check`].
pub(crate) fn check_values<'a>(settings: impl IntoIterator<Item = (&'a String, &'a String)>) -> Result<()> {
    settings.into_iter().try_for_each(|(key, value)| check_setting(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        let check = |key: &str, value: &str| check_values([(&key.to_owned(), &value.to_owned())]);
        check("lance.auto_cleanup.interval", "20").unwrap();
        check("lance.auto_cleanup.older_than", "14d").unwrap();
        check("anything", "else").unwrap();
        for (key, value) in
            [("interval", "often"), ("interval", "-1"), ("older_than", "20"), ("referenced_branch", "1")]
        {
            let error = check(&format!("lance.auto_cleanup.{key}"), value).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
