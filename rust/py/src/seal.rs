//! Seals, and the files of a table looked at one by one.

use std::collections::HashMap;

use pennon_table::ops::scrub::Scrub as TableScrub;
use pennon_table::ops::seal::SealReport;
use pennon_table::{ConnectOptions, OpenOptions};
use pyo3::prelude::*;

use crate::progress::run_observed;
use crate::runtime::run;
use crate::verify::Finding;

/// What became of the files of a table.
#[derive(IntoPyObject)]
pub(crate) struct SealParts {
    sealed: u64,
    size_bytes: u64,
    sealed_before: u64,
    with_checksums: u64,
    elsewhere: u64,
    findings: Vec<Finding>,
}

impl From<SealReport> for SealParts {
    fn from(report: SealReport) -> Self {
        Self {
            sealed: report.sealed,
            size_bytes: report.bytes,
            sealed_before: report.sealed_before,
            with_checksums: report.with_checksums,
            elsewhere: report.elsewhere,
            findings: report.findings.into_iter().map(Into::into).collect(),
        }
    }
}

/// What was found in a file.
#[derive(IntoPyObject)]
pub(crate) struct ScrubbedParts {
    findings: Vec<Finding>,
    size_bytes: Option<u64>,
    has_checksums: bool,
}

fn options(storage_options: HashMap<String, String>) -> OpenOptions {
    let connect = ConnectOptions { storage_options, ..ConnectOptions::default() };
    OpenOptions { connect, ..OpenOptions::default() }
}

/// Seals the files of all versions of a table.
#[pyfunction]
#[pyo3(signature = (uri, storage_options, progress))]
pub(crate) fn seal_table(
    py: Python<'_>,
    uri: &str,
    storage_options: HashMap<String, String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<SealParts> {
    let seal = async {
        let dataset = pennon_table::Dataset::open(uri, options(storage_options)).await?;
        dataset.seal().await
    };
    run_observed(py, seal, progress).map(Into::into)
}

/// The files of all versions of a table, looked at one by one.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Scrub(TableScrub);

#[pymethods]
impl Scrub {
    #[new]
    #[pyo3(signature = (uri, storage_options))]
    fn new(py: Python<'_>, uri: &str, storage_options: HashMap<String, String>) -> PyResult<Self> {
        let open = async {
            let dataset = pennon_table::Dataset::open(uri, options(storage_options)).await?;
            dataset.scrub().await
        };
        run(py, open).map(Self)
    }

    /// URI of the table.
    #[getter]
    fn uri(&self) -> &str {
        self.0.uri()
    }

    /// Full paths of the files.
    #[getter]
    fn paths(&self) -> Vec<String> {
        self.0.files().into_iter().map(|file| file.path).collect()
    }

    /// Compares one of them with its checksums.
    #[pyo3(signature = (at, bytes_per_second))]
    fn check(&self, py: Python<'_>, at: usize, bytes_per_second: Option<u64>) -> PyResult<ScrubbedParts> {
        let found = run(py, self.0.check(at, bytes_per_second))?;
        Ok(ScrubbedParts {
            findings: found.findings.into_iter().map(Into::into).collect(),
            size_bytes: found.bytes,
            has_checksums: found.has_checksums,
        })
    }
}
