//! Verification of a table.

use std::collections::HashMap;

use pennon_table::ops::verify::{DamagedPage as TableDamagedPage, Depth, Finding as TableFinding, Report};
use pennon_table::{ConnectOptions, OpenOptions, VersionRef};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::progress::run_observed;

/// One thing that is wrong.
#[derive(IntoPyObject)]
pub(crate) struct Finding {
    kind: &'static str,
    version: Option<u64>,
    fragment: Option<u32>,
    path: Option<String>,
    message: String,
    bytes: Option<(u64, u64)>,
    pages: Vec<DamagedPage>,
}

/// A page of a column with bytes that were changed.
#[derive(IntoPyObject)]
pub(crate) struct DamagedPage {
    column: String,
    page: usize,
    rows: Option<(u64, u64)>,
}

impl From<TableFinding> for Finding {
    fn from(finding: TableFinding) -> Self {
        let page = |page: TableDamagedPage| DamagedPage {
            column: page.column,
            page: page.page,
            rows: page.rows.map(|rows| (rows.start, rows.end)),
        };
        Self {
            kind: finding.kind.name(),
            version: finding.version.map(|version| version.0),
            fragment: finding.fragment.map(|id| id.0),
            path: finding.path,
            message: finding.message,
            bytes: finding.bytes.map(|bytes| (bytes.start, bytes.end)),
            pages: finding.pages.into_iter().map(page).collect(),
        }
    }
}

/// Files that no version needs.
#[derive(IntoPyObject)]
pub(crate) struct Leftover {
    kind: &'static str,
    reason: &'static str,
    files: u64,
    size_bytes: u64,
}

/// All of it.
#[derive(IntoPyObject)]
pub(crate) struct Parts {
    uri: String,
    version: u64,
    versions: u64,
    fragments: u64,
    files: u64,
    findings: Vec<Finding>,
    leftovers: Vec<Leftover>,
    without_checksums: u64,
    notes: Vec<String>,
}

impl From<Report> for Parts {
    fn from(report: Report) -> Self {
        let leftovers = report.leftovers.into_iter().map(|leftover| Leftover {
            kind: leftover.kind,
            reason: leftover.reason.name(),
            files: leftover.files,
            size_bytes: leftover.bytes,
        });
        Self {
            uri: report.uri,
            version: report.version.0,
            versions: report.versions,
            fragments: report.fragments,
            files: report.files,
            findings: report.findings.into_iter().map(Into::into).collect(),
            leftovers: leftovers.collect(),
            without_checksums: report.without_checksums,
            notes: report.notes,
        }
    }
}

fn depth(data: bool) -> Depth {
    if data { Depth::Data } else { Depth::Rows }
}

/// Verifies an open table.
#[pyfunction]
#[pyo3(signature = (dataset, data, progress))]
pub(crate) fn verify(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    data: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Parts> {
    let dataset = dataset.get().get(py)?;
    run_observed(py, dataset.verify(depth(data)), progress).map(Into::into)
}

/// Verifies a table that may be too damaged to open.
#[pyfunction]
#[pyo3(signature = (uri, version, storage_options, data, progress))]
pub(crate) fn verify_table(
    py: Python<'_>,
    uri: &str,
    version: Option<u64>,
    storage_options: HashMap<String, String>,
    data: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Parts> {
    let version = version.map(VersionRef::Number);
    let connect = ConnectOptions { storage_options, ..ConnectOptions::default() };
    let options = OpenOptions { version, connect, ..OpenOptions::default() };
    let verify = pennon_table::Dataset::verify_table(uri, options, depth(data));
    run_observed(py, verify, progress).map(Into::into)
}
