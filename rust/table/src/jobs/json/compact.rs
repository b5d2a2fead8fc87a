//! JSON of the options of a compaction.

use pennon_core::{Error, FragmentId, Result};
use serde::{Deserialize, Serialize};

use crate::ops::compact::CompactionOptions;

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CompactJson {
    target_rows_per_fragment: Option<u64>,
    max_bytes_per_file: Option<u64>,
    materialize_deletions: Option<bool>,
    materialize_deletions_threshold: Option<f64>,
    defer_index_remap: Option<bool>,
    compaction_mode: Option<String>,
    max_source_fragments: Option<u64>,
    max_source_rows: Option<u64>,
    max_source_bytes: Option<u64>,
    excluded_fragment_ids: Vec<u32>,
    data_storage_version: Option<String>,
}

impl From<&CompactionOptions> for CompactJson {
    fn from(options: &CompactionOptions) -> Self {
        let options = options.clone();
        Self {
            target_rows_per_fragment: options.target_rows_per_fragment,
            max_bytes_per_file: options.max_bytes_per_file,
            materialize_deletions: options.materialize_deletions,
            materialize_deletions_threshold: options.materialize_deletions_threshold,
            defer_index_remap: options.defer_index_remap,
            compaction_mode: options.compaction_mode,
            max_source_fragments: options.max_source_fragments,
            max_source_rows: options.max_source_rows,
            max_source_bytes: options.max_source_bytes,
            excluded_fragment_ids: options.excluded_fragment_ids.iter().map(|id| id.0).collect(),
            data_storage_version: options.data_storage_version.map(|version| version.to_string()),
        }
    }
}

impl TryFrom<CompactJson> for CompactionOptions {
    type Error = Error;

    fn try_from(json: CompactJson) -> Result<Self> {
        Ok(Self {
            target_rows_per_fragment: json.target_rows_per_fragment,
            max_bytes_per_file: json.max_bytes_per_file,
            materialize_deletions: json.materialize_deletions,
            materialize_deletions_threshold: json.materialize_deletions_threshold,
            defer_index_remap: json.defer_index_remap,
            compaction_mode: json.compaction_mode,
            max_source_fragments: json.max_source_fragments,
            max_source_rows: json.max_source_rows,
            max_source_bytes: json.max_source_bytes,
            excluded_fragment_ids: json.excluded_fragment_ids.into_iter().map(FragmentId).collect(),
            data_storage_version: json.data_storage_version.map(|version| version.parse()).transpose()?,
            ..Self::default()
        })
    }
}
