//! Config and metadata: of the table, of the schema, of fields.
//!
//! Settings that the reference or Pennon itself reads are checked before they are stored: a commit after one that
//! cannot be parsed would otherwise find out.
//!
//! | key | value |
//! |---|---|
//! | `lance.auto_cleanup.interval`, `retain_versions`, `delete_rate_limit`, `delete_concurrency` | a whole number |
//! | `lance.auto_cleanup.older_than` | a duration: numbers with units, such as `7d`, `3600s`, `1h 30m` |
//! | `lance.auto_cleanup.referenced_branch` | `true` or `false` |

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::schema::{Metadata, unknown_field};
use pennon_core::transaction::{MapUpdate, Operation, UpdateConfig};
use pennon_core::{Error, Result};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::write::staged::{self, StagedChange};

const AUTO_CLEANUP: &str = "lance.auto_cleanup.";

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
        let valid = || schema.fields.iter().map(|field| field.name.as_str());
        let by_id = updates.into_iter().map(|(path, update)| {
            let field = schema.field_by_path(&path).ok_or_else(|| unknown_field(&path, valid()))?;
            Ok((field.id, update))
        });
        let field_metadata = by_id.collect::<Result<_>>()?;
        self.change_metadata(UpdateConfig { field_metadata, ..UpdateConfig::default() }).await
    }

    async fn change_metadata(&mut self, update: UpdateConfig) -> Result<()> {
        check(&update)?;
        let operation = Operation::UpdateConfig(update);
        let transaction = staged::transaction(self.version(), None, Metadata::new(), operation);
        let base = Arc::clone(self.snapshot());
        let snapshot = super::publish(base, StagedChange::from(transaction), self.commit_options())
            .await
            .into_result()?;
        self.move_to(snapshot);
        Ok(())
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
    for (key, value) in settings {
        let (valid, expected) = match key.strip_prefix(AUTO_CLEANUP) {
            Some("interval" | "delete_rate_limit" | "delete_concurrency") => {
                (value.parse::<u64>().is_ok(), "a whole number")
            }
            Some("retain_versions") => {
                (value.parse::<u64>().is_ok_and(|count| count > 0), "a whole number, at least 1")
            }
            Some("older_than") => (is_duration(value), "a duration such as 7d or 3600s"),
            Some("referenced_branch") => (value.parse::<bool>().is_ok(), "true or false"),
            _ => continue,
        };
        if !valid {
            return Err(Error::invalid_input(format!("{key} is {value:?}, expected {expected}")));
        }
    }
    Ok(())
}

/// Whether a text is numbers with units of time, as the reference reads them.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 30] = [
        "nsec", "ns", "usec", "us", "µs", "msec", "ms", "seconds", "second", "secs", "sec", "s", "minutes",
        "minute", "mins", "min", "m", "hours", "hour", "hrs", "hr", "h", "days", "day", "d", "weeks", "week",
        "w", "months", "years",
    ];
    let mut rest = text.trim();
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Some((digits, after)) = rest.split_at_checked(number) else { return false };
        let after = after.trim_start();
        let unit = after.len() - after.trim_start_matches(|c: char| c.is_alphabetic()).len();
        let Some((unit, after)) = after.split_at_checked(unit) else { return false };
        if digits.parse::<u64>().is_err() || !UNITS.contains(&unit) {
            return false;
        }
        parts += 1;
        rest = after.trim_start();
    }
    parts > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for valid in ["0s", "3600s", "7d", "1h 30m", "2 weeks", "15days", "1h30min"] {
            assert!(is_duration(valid), "{valid}");
        }
        for wrong in ["", "x", "7", "d", "-1s", "1.5h", "7 fortnights", "1h,30m", "99999999999999999999s"] {
            assert!(!is_duration(wrong), "{wrong}");
        }
    }

    #[test]
    fn settings() {
        let check = |key: &str, value: &str| check_values([(&key.to_owned(), &value.to_owned())]);
        check("lance.auto_cleanup.interval", "20").unwrap();
        check("lance.auto_cleanup.older_than", "14d").unwrap();
        check("anything", "else").unwrap();
        for (key, value) in
            [("interval", "often"), ("interval", "-1"), ("older_than", "20"), ("referenced_branch", "1")]
        {
            let error = check(&format!("{AUTO_CLEANUP}{key}"), value).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
