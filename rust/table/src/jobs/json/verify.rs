//! JSON of what a verification found.

use std::ops::Range;

use pennon_core::{FragmentId, Version};
use serde::{Deserialize, Serialize};

use crate::ops::verify::{DamagedPage, Finding, FindingKind};

#[derive(Serialize, Deserialize)]
pub(super) struct FindingJson {
    kind: FindingKind,
    version: Option<u64>,
    fragment: Option<u32>,
    path: Option<String>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<Range<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pages: Vec<DamagedPage>,
}

impl From<&Finding> for FindingJson {
    fn from(finding: &Finding) -> Self {
        let Finding { kind, version, fragment, path, message, bytes, pages } = finding.clone();
        Self {
            kind,
            version: version.map(|v| v.0),
            fragment: fragment.map(|id| id.0),
            path,
            message,
            bytes,
            pages,
        }
    }
}

impl From<FindingJson> for Finding {
    fn from(json: FindingJson) -> Self {
        let FindingJson { kind, version, fragment, path, message, bytes, pages } = json;
        Self {
            kind,
            version: version.map(Version),
            fragment: fragment.map(FragmentId),
            path,
            message,
            bytes,
            pages,
        }
    }
}
