//! Cleanup of old versions, and its explanation.

use std::time::Duration;

use pennon_table::ops::cleanup::{CleanupOptions, CleanupStats};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::given::Given;
use crate::progress::run_observed;
use crate::runtime::run;

/// Options of a cleanup: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CleanupRequest {
    older_than: Option<Duration>,
    retain_versions: Option<u64>,
    versions: Option<Vec<u64>>,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: Option<u64>,
    delete_concurrency: Option<u64>,
}

impl From<CleanupRequest> for CleanupOptions {
    fn from(given: CleanupRequest) -> Self {
        Self {
            older_than: given.older_than,
            retain_versions: given.retain_versions,
            versions: given.versions,
            delete_unverified: given.delete_unverified,
            error_if_tagged_old_versions: given.error_if_tagged_old_versions,
            delete_rate_limit: given.delete_rate_limit,
            delete_concurrency: given.delete_concurrency,
        }
    }
}

/// What went.
#[derive(IntoPyObject)]
pub(crate) struct Stats {
    bytes_removed: u64,
    old_versions: u64,
    data_files_removed: u64,
    transaction_files_removed: u64,
    index_files_removed: u64,
    deletion_files_removed: u64,
    failed_deletes: u64,
}

impl From<CleanupStats> for Stats {
    fn from(stats: CleanupStats) -> Self {
        Self {
            bytes_removed: stats.bytes_removed,
            old_versions: stats.old_versions,
            data_files_removed: stats.data_files_removed,
            transaction_files_removed: stats.transaction_files_removed,
            index_files_removed: stats.index_files_removed,
            deletion_files_removed: stats.deletion_files_removed,
            failed_deletes: stats.failed_deletes,
        }
    }
}

/// A file and what happens to it; the time is seconds and nanoseconds since 1970, UTC.
#[derive(IntoPyObject)]
pub(crate) struct FileDisposition {
    path: String,
    kind: &'static str,
    size_bytes: u64,
    last_modified: (i64, u32),
    removed: bool,
    reason: &'static str,
    by: String,
}

/// What a cleanup would do.
#[derive(IntoPyObject)]
pub(crate) struct Explanation {
    read_version: u64,
    stats: Stats,
    files: Vec<FileDisposition>,
    branches: Vec<(String, u64)>,
    warnings: Vec<String>,
}

/// Removes old versions.
#[pyfunction]
pub(crate) fn cleanup(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    request: Given<CleanupRequest>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Stats> {
    let dataset = dataset.get().get(py)?;
    run_observed(py, dataset.cleanup_old_versions(&request.0.into()), progress).map(Into::into)
}

/// What [`cleanup`] would remove.
#[pyfunction]
pub(crate) fn explain_cleanup(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    request: Given<CleanupRequest>,
) -> PyResult<Explanation> {
    let dataset = dataset.get().get(py)?;
    let explanation = run(py, dataset.explain_cleanup_old_versions(&request.0.into()))?;
    let files = explanation.files.into_iter().map(|found| FileDisposition {
        kind: found.kind(),
        path: found.file.path,
        size_bytes: found.file.size,
        last_modified: (found.file.modified.seconds, found.file.modified.nanos),
        removed: found.reason.removes(),
        reason: found.reason.name(),
        by: found.by,
    });
    Ok(Explanation {
        read_version: explanation.read_version.0,
        stats: explanation.stats.into(),
        files: files.collect(),
        branches: explanation.branches.into_iter().map(|(name, version)| (name, version.0)).collect(),
        warnings: explanation.warnings,
    })
}
