//! JSON of changes of rows.

use pennon_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::super::ChangeWork;
use super::{ScanJson, columns_json, columns_of};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangesJson {
    scan: Option<ScanJson>,
    /// See [`columns_json`].
    changes: String,
    #[serde(default)]
    updates: Option<Vec<String>>,
    keys: Vec<String>,
    exact_keys: bool,
    predicate: Option<String>,
}

impl TryFrom<&ChangeWork> for ChangesJson {
    type Error = Error;

    fn try_from(work: &ChangeWork) -> Result<Self> {
        Ok(Self {
            scan: work.scan.as_ref().map(TryInto::try_into).transpose()?,
            changes: columns_json(&work.changes)?,
            updates: work.updates.clone(),
            keys: work.keys.clone(),
            exact_keys: work.exact_keys,
            predicate: work.predicate.clone(),
        })
    }
}

impl TryFrom<ChangesJson> for ChangeWork {
    type Error = Error;

    fn try_from(json: ChangesJson) -> Result<Self> {
        Ok(Self {
            scan: json.scan.map(TryInto::try_into).transpose()?,
            changes: columns_of(&json.changes)?,
            updates: json.updates,
            keys: json.keys,
            exact_keys: json.exact_keys,
            predicate: json.predicate,
        })
    }
}
