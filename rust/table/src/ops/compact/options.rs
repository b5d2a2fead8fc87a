//! What a compaction is asked for, and what follows from that and the table's config.

use std::collections::BTreeSet;
use std::str::FromStr;

use pennon_core::file::FileVersion;
use pennon_core::schema::Metadata;
use pennon_core::{Error, FragmentId, Result};

use crate::write::WriteOptions;
use crate::write::fragments::at_least_one;

/// Keys of the table config begin so.
const PREFIX: &str = "lance.compaction.";
/// What is expected of numbers, and of what is on or off.
const COUNT: &str = "a whole number";
const FLAG: &str = "true or false";

/// What to compact and how. What is `None` is as the table config says under `lance.compaction.` and the name, or else
/// as is said here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionOptions {
    /// Fragments of fewer rows are compacted with their neighbours, to about so many; 1,048,576.
    pub target_rows_per_fragment: Option<u64>,
    /// Bytes after which a new fragment starts; as when rows are written.
    pub max_bytes_per_file: Option<u64>,
    /// Whether fragments are compacted because of deleted rows; yes.
    pub materialize_deletions: Option<bool>,
    /// The share of deleted rows, above which they are; 0.1.
    pub materialize_deletions_threshold: Option<f64>,
    /// Whether indices that name row addresses are left as they are, with a note about where the rows went; no.
    pub defer_index_remap: Option<bool>,
    /// Tasks in flight at a time; as many as there are cores.
    pub num_threads: Option<usize>,
    /// `reencode`, or `try_binary_copy`, which does the same here. `force_binary_copy` is refused.
    pub compaction_mode: Option<String>,
    /// No task that would make it more old fragments; any number.
    pub max_source_fragments: Option<u64>,
    /// No task that would make it more live rows; any number.
    pub max_source_rows: Option<u64>,
    /// No task that would make it more bytes of old data files; any number.
    pub max_source_bytes: Option<u64>,
    /// Fragments that are not compacted.
    pub excluded_fragment_ids: Vec<FragmentId>,
    /// Version of the new data files; the table's.
    pub data_storage_version: Option<FileVersion>,
    /// No task except the first one starts after this time; any time. Not a key of the config.
    pub max_seconds: Option<f64>,
    /// Whether each task is committed as soon as it is done, instead of all at the end. Not a key of the config.
    pub partial_progress: bool,
}

/// Options with all values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) target_rows: u64,
    pub(super) max_bytes_per_file: u64,
    /// The share of deleted rows, above which a fragment is compacted by itself.
    pub(super) threshold: Option<f64>,
    pub(super) defer_index_remap: bool,
    pub(super) max_fragments: u64,
    pub(super) max_rows: u64,
    pub(super) max_bytes: u64,
    pub(super) excluded: BTreeSet<FragmentId>,
    pub(super) file_version: Option<FileVersion>,
}

impl CompactionOptions {
    /// Errors: `InvalidInput` for an invalid value of an option or of the config; `Unsupported` for
    /// `force_binary_copy`.
    pub(super) fn settings(&self, config: &Metadata) -> Result<Settings> {
        let mode: Option<String> = set(&self.compaction_mode, config, "compaction_mode", "a mode")?;
        match mode.as_deref() {
            None | Some("reencode" | "try_binary_copy") => {}
            Some("force_binary_copy") => {
                return Err(Error::unsupported(
                    "compaction_mode \"force_binary_copy\": rows are always encoded again",
                ));
            }
            Some(other) => {
                return Err(Error::invalid_input(format!(
                    "Invalid compaction mode \"{other}\". Valid values: \"reencode\", \"try_binary_copy\", \
                     \"force_binary_copy\""
                )));
            }
        }
        let target_rows = set(&self.target_rows_per_fragment, config, "target_rows_per_fragment", COUNT)?;
        let threshold = set(
            &self.materialize_deletions_threshold,
            config,
            "materialize_deletions_threshold",
            "a share of the rows",
        )?;
        let materialize =
            set(&self.materialize_deletions, config, "materialize_deletions", FLAG)?.unwrap_or(true);
        let threshold = threshold.unwrap_or(0.1);
        if !(0.0..).contains(&threshold) {
            return Err(Error::invalid_input(format!(
                "materialize_deletions_threshold is {threshold}, expected a share of the rows"
            )));
        }
        let bytes = set(&self.max_bytes_per_file, config, "max_bytes_per_file", COUNT)?;
        let most = |given, key| set(given, config, key, COUNT).map(|most| most.unwrap_or(u64::MAX));
        Ok(Settings {
            target_rows: at_least_one(target_rows.unwrap_or(1024 * 1024), "target_rows_per_fragment")?,
            max_bytes_per_file: bytes.unwrap_or(WriteOptions::default().max_bytes_per_file),
            threshold: materialize.then_some(threshold),
            defer_index_remap: set(&self.defer_index_remap, config, "defer_index_remap", FLAG)?
                .unwrap_or(false),
            max_fragments: most(&self.max_source_fragments, "max_source_fragments")?,
            max_rows: most(&self.max_source_rows, "max_source_rows")?,
            max_bytes: most(&self.max_source_bytes, "max_source_bytes")?,
            excluded: self.excluded_fragment_ids.iter().copied().collect(),
            file_version: set(
                &self.data_storage_version,
                config,
                "data_storage_version",
                "a version such as 2.1",
            )?,
        })
    }
}

/// The option, or what the config has in its place.
fn set<T: FromStr + Clone>(
    given: &Option<T>,
    config: &Metadata,
    name: &str,
    expected: &str,
) -> Result<Option<T>> {
    if given.is_some() {
        return Ok(given.clone());
    }
    let key = format!("{PREFIX}{name}");
    let Some(text) = config.get(&key) else { return Ok(None) };
    match text.parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Error::invalid_input(format!("table config {key} is {text:?}, expected {expected}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_before_config_before_defaults() {
        let options = CompactionOptions { target_rows_per_fragment: Some(7), ..CompactionOptions::default() };
        let config: Metadata = [
            ("lance.compaction.target_rows_per_fragment", "9"),
            ("lance.compaction.max_source_rows", "11"),
            ("lance.compaction.materialize_deletions", "false"),
            ("lance.compaction.data_storage_version", "2.1"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let settings = options.settings(&config).unwrap();
        assert_eq!((settings.target_rows, settings.max_rows, settings.max_fragments), (7, 11, u64::MAX));
        assert_eq!((settings.threshold, settings.file_version), (None, Some(FileVersion::V2_1)));
        let settings = CompactionOptions::default().settings(&Metadata::new()).unwrap();
        assert_eq!((settings.target_rows, settings.threshold), (1 << 20, Some(0.1)));
    }

    #[test]
    fn invalid_values() {
        let wrong = |options: CompactionOptions, says: &str| {
            let error = options.settings(&Metadata::new()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        };
        let none = CompactionOptions::default;
        wrong(
            CompactionOptions { compaction_mode: Some("x".to_owned()), ..none() },
            "Invalid compaction mode \"x\"",
        );
        wrong(
            CompactionOptions { compaction_mode: Some("force_binary_copy".to_owned()), ..none() },
            "encoded again",
        );
        wrong(CompactionOptions { target_rows_per_fragment: Some(0), ..none() }, "is 0");
        wrong(CompactionOptions { materialize_deletions_threshold: Some(f64::NAN), ..none() }, "a share");
        let config = [("lance.compaction.max_source_rows".to_owned(), "many".to_owned())].into();
        let error = none().settings(&config).unwrap_err();
        assert!(error.to_string().contains("lance.compaction.max_source_rows is \"many\""), "{error}");
    }
}
