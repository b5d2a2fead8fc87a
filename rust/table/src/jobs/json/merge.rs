//! JSON of merges: what is merged, and what a task found.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{KeyFilter, Operation, Transaction, Update};
use pennon_core::{Error, Result, Version};
use serde::{Deserialize, Serialize};

use super::super::MergeWork;
use super::{RowsJson, bytes, columns_json, columns_of, rows_json, rows_of};
use crate::ops::merge_insert::parts::MergedPart;
use crate::ops::merge_insert::{MergeClauses, MergeResult, MergeWriteMode, WhenMatched, WhenUnmatchedTarget};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeJson {
    on: Vec<String>,
    /// See [`WhenMatched::parse`].
    when_matched: String,
    condition: Option<String>,
    insert: bool,
    delete_unmatched: bool,
    delete_condition: Option<String>,
    #[serde(default)]
    memory_limit: Option<u64>,
    /// See [`columns_json`].
    source: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MergedJson {
    inserted: u64,
    updated: u64,
    deleted: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    matched: Vec<RowsJson>,
    /// The keys that were inserted, in an update that has nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keys: Option<String>,
}

impl TryFrom<&MergeWork> for MergeJson {
    type Error = Error;

    fn try_from(merge: &MergeWork) -> Result<Self> {
        let clauses = &merge.clauses;
        let (when_matched, condition) = clauses.when_matched.parts();
        let (delete_unmatched, delete_condition) = clauses.when_unmatched_target.parts();
        Ok(Self {
            on: clauses.on.clone(),
            when_matched: when_matched.to_owned(),
            condition: condition.map(str::to_owned),
            insert: clauses.insert,
            delete_unmatched,
            delete_condition: delete_condition.map(str::to_owned),
            memory_limit: merge.memory_limit,
            source: columns_json(&merge.source)?,
        })
    }
}

impl TryFrom<MergeJson> for MergeWork {
    type Error = Error;

    fn try_from(json: MergeJson) -> Result<Self> {
        let clauses = MergeClauses {
            on: json.on,
            when_matched: WhenMatched::parse(&json.when_matched, json.condition)?,
            insert: json.insert,
            when_unmatched_target: WhenUnmatchedTarget::new(json.delete_unmatched, json.delete_condition)?,
            write_mode: MergeWriteMode::Auto,
        };
        Ok(Self { clauses, source: columns_of(&json.source)?, memory_limit: json.memory_limit })
    }
}

impl TryFrom<&MergedPart> for MergedJson {
    type Error = Error;

    fn try_from(part: &MergedPart) -> Result<Self> {
        let MergeResult { num_inserted_rows, num_updated_rows, num_deleted_rows } = part.counts;
        Ok(Self {
            inserted: num_inserted_rows,
            updated: num_updated_rows,
            deleted: num_deleted_rows,
            matched: rows_json(&part.matched),
            keys: part.inserted_keys.as_ref().map(|keys| BASE64.encode(update_with(keys).encode())),
        })
    }
}

impl TryFrom<MergedJson> for MergedPart {
    type Error = Error;

    fn try_from(json: MergedJson) -> Result<Self> {
        let counts = MergeResult {
            num_inserted_rows: json.inserted,
            num_updated_rows: json.updated,
            num_deleted_rows: json.deleted,
        };
        let inserted_keys = json.keys.map(|text| keys_of(&text)).transpose()?.flatten();
        Ok(Self { matched: rows_of(json.matched)?, inserted_keys, counts })
    }
}

/// Only in a transaction has the table format bytes for keys.
fn update_with(keys: &KeyFilter) -> Transaction {
    let operation = Operation::Update(Update { inserted_rows: Some(keys.clone()), ..Update::default() });
    let uuid = uuid::Uuid::nil().to_string();
    Transaction { read_version: Version(0), uuid, tag: String::new(), properties: Metadata::new(), operation }
}

fn keys_of(text: &str) -> Result<Option<KeyFilter>> {
    let what = "inserted keys";
    let transaction = Transaction::decode(Bytes::from(bytes(text, what)?));
    match transaction.map_err(|e| Error::invalid_input(format!("{what} of a job: {e}")))?.operation {
        Operation::Update(update) => Ok(update.inserted_rows),
        other => Err(Error::invalid_input(format!(
            "{what} of a job: found a transaction of kind {}",
            other.name()
        ))),
    }
}
