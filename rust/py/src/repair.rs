//! Repair of a damaged table.

use std::collections::HashMap;

use pennon_table::ConnectOptions;
use pennon_table::ops::repair::{RepairAction, RepairOptions, RepairReport};
use pyo3::prelude::*;

use crate::progress::run_observed;
use crate::verify::Finding;

/// Something that repairs a table.
#[derive(IntoPyObject)]
pub(crate) struct Action {
    kind: &'static str,
    path: Option<String>,
    version: Option<u64>,
    fragment: Option<u32>,
    message: String,
    row_ids: Vec<(u64, u64)>,
}

/// All of it.
#[derive(IntoPyObject)]
pub(crate) struct RepairParts {
    uri: String,
    findings: Vec<Finding>,
    actions: Vec<Action>,
    remaining: Vec<Finding>,
}

impl From<RepairAction> for Action {
    fn from(action: RepairAction) -> Self {
        Self {
            kind: action.kind.name(),
            path: action.path,
            version: action.version.map(|version| version.0),
            fragment: action.fragment.map(|id| id.0),
            message: action.message,
            row_ids: action.row_ids.into_iter().map(|ids| (ids.start, ids.end)).collect(),
        }
    }
}

impl From<RepairReport> for RepairParts {
    fn from(report: RepairReport) -> Self {
        Self {
            uri: report.uri,
            findings: report.findings.into_iter().map(Into::into).collect(),
            actions: report.actions.into_iter().map(Into::into).collect(),
            remaining: report.remaining.into_iter().map(Into::into).collect(),
        }
    }
}

/// Plans what repairs a table, and does it if it is asked for.
#[pyfunction]
#[pyo3(signature = (uri, storage_options, copy, apply, progress))]
pub(crate) fn repair_table(
    py: Python<'_>,
    uri: &str,
    storage_options: HashMap<String, String>,
    copy: Option<String>,
    apply: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<RepairParts> {
    let connect = ConnectOptions { storage_options, ..ConnectOptions::default() };
    let options = RepairOptions { connect, copy, apply, ..RepairOptions::default() };
    run_observed(py, pennon_table::Dataset::repair_table(uri, &options), progress).map(Into::into)
}
