//! Compaction: in one call, or as plan, tasks and commit for several processes.

use std::sync::Arc;

use pennon_core::manifest::{self, Manifest};
use pennon_core::{Error, FragmentId, Result, Version};
use pennon_table::compact::{CompactionMetrics, CompactionOptions, RewriteResult, TableState};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::error::to_py;
use crate::fragment::FragmentParts;
use crate::given::Given;
use crate::progress::run_observed;
use crate::runtime::run;

/// Options of a compaction: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OptionParts {
    target_rows_per_fragment: Option<u64>,
    max_bytes_per_file: Option<u64>,
    materialize_deletions: Option<bool>,
    materialize_deletions_threshold: Option<f64>,
    defer_index_remap: Option<bool>,
    num_threads: Option<usize>,
    compaction_mode: Option<String>,
    max_source_fragments: Option<u64>,
    max_source_rows: Option<u64>,
    max_source_bytes: Option<u64>,
    excluded_fragment_ids: Option<Vec<u32>>,
    data_storage_version: Option<String>,
    max_seconds: Option<f64>,
    partial_progress: Option<bool>,
}

impl TryFrom<OptionParts> for CompactionOptions {
    type Error = Error;

    fn try_from(parts: OptionParts) -> Result<Self> {
        let excluded = parts.excluded_fragment_ids.unwrap_or_default();
        Ok(Self {
            target_rows_per_fragment: parts.target_rows_per_fragment,
            max_bytes_per_file: parts.max_bytes_per_file,
            materialize_deletions: parts.materialize_deletions,
            materialize_deletions_threshold: parts.materialize_deletions_threshold,
            defer_index_remap: parts.defer_index_remap,
            num_threads: parts.num_threads,
            compaction_mode: parts.compaction_mode,
            max_source_fragments: parts.max_source_fragments,
            max_source_rows: parts.max_source_rows,
            max_source_bytes: parts.max_source_bytes,
            excluded_fragment_ids: excluded.into_iter().map(FragmentId).collect(),
            data_storage_version: parts.data_storage_version.map(|version| version.parse()).transpose()?,
            max_seconds: parts.max_seconds,
            partial_progress: parts.partial_progress.unwrap_or(false),
        })
    }
}

pub(crate) fn options(py: Python<'_>, parts: OptionParts) -> PyResult<CompactionOptions> {
    parts.try_into().map_err(|error| to_py(py, &error))
}

/// What was replaced by what.
#[derive(IntoPyObject)]
pub(crate) struct Metrics {
    fragments_removed: u64,
    fragments_added: u64,
    files_removed: u64,
    files_added: u64,
}

impl From<CompactionMetrics> for Metrics {
    fn from(metrics: CompactionMetrics) -> Self {
        Self {
            fragments_removed: metrics.fragments_removed,
            fragments_added: metrics.fragments_added,
            files_removed: metrics.files_removed,
            files_added: metrics.files_added,
        }
    }
}

/// What a version of a table consists of.
#[derive(IntoPyObject)]
pub(crate) struct State {
    rows: u64,
    fragments: u64,
    files: u64,
    deleted_share: f64,
    id_bits_per_row: f64,
    version_bits_per_row: f64,
}

impl From<TableState> for State {
    fn from(state: TableState) -> Self {
        Self {
            rows: state.rows,
            fragments: state.fragments,
            files: state.files,
            deleted_share: state.deleted_share,
            id_bits_per_row: state.id_bits_per_row,
            version_bits_per_row: state.version_bits_per_row,
        }
    }
}

/// What a task did: the version it read, the fragments it read and wrote.
type ResultParts = (u64, Vec<FragmentParts>, Vec<FragmentParts>);

fn result(parts: ResultParts) -> Result<RewriteResult> {
    let (read_version, original, new) = parts;
    let fragments = |parts: Vec<FragmentParts>| -> Result<Vec<manifest::Fragment>> {
        parts.into_iter().map(TryInto::try_into).collect()
    };
    Ok(RewriteResult {
        read_version: Version(read_version),
        original_fragments: fragments(original)?,
        new_fragments: fragments(new)?,
    })
}

/// Compacts a table: the version that has the result, what was done, the table before and after.
#[pyfunction]
pub(crate) fn compact(
    py: Python<'_>,
    dataset: &Dataset,
    parts: Given<OptionParts>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Dataset, Metrics, State, State)> {
    let (mut dataset, options) = (dataset.get(py)?, options(py, parts.0)?);
    let report = run_observed(py, dataset.compact(&options), progress)?;
    Ok((Dataset::wrap(dataset), report.metrics.into(), report.before.into(), report.after.into()))
}

/// Fragments of one version. What they are is decoded when it is asked for.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct PlannedFragments {
    manifest: Arc<Manifest>,
    ids: Vec<FragmentId>,
}

#[pymethods]
impl PlannedFragments {
    #[getter]
    fn ids(&self) -> Vec<u32> {
        self.ids.iter().map(|id| id.0).collect()
    }

    #[getter]
    fn parts(&self) -> Vec<FragmentParts> {
        let found = self.ids.iter().filter_map(|id| self.manifest.fragment(*id));
        found.map(|fragment| fragment.as_ref().into()).collect()
    }
}

/// The fragments of each task.
#[pyfunction]
pub(crate) fn plan_compaction(
    py: Python<'_>,
    dataset: &Dataset,
    parts: Given<OptionParts>,
) -> PyResult<Vec<PlannedFragments>> {
    let (dataset, options) = (dataset.get(py)?, options(py, parts.0)?);
    let tasks = run(py, dataset.plan_compaction(&options))?;
    let fragments = |ids| PlannedFragments { manifest: Arc::clone(dataset.manifest()), ids };
    Ok(tasks.into_iter().map(fragments).collect())
}

/// Does a task at this version.
#[pyfunction]
pub(crate) fn compact_fragments(
    py: Python<'_>,
    dataset: &Dataset,
    fragments: Vec<u32>,
    parts: Given<OptionParts>,
) -> PyResult<ResultParts> {
    let (dataset, options) = (dataset.get(py)?, options(py, parts.0)?);
    let fragments: Vec<_> = fragments.into_iter().map(FragmentId).collect();
    let done = run(py, dataset.compact_fragments(&fragments, &options))?;
    let parts = |fragments: &[manifest::Fragment]| -> Vec<FragmentParts> {
        fragments.iter().map(Into::into).collect()
    };
    Ok((done.read_version.0, parts(&done.original_fragments), parts(&done.new_fragments)))
}

/// Commits what tasks did: the version that has it, and what was replaced by what.
#[pyfunction]
pub(crate) fn commit_compaction(
    py: Python<'_>,
    dataset: &Dataset,
    results: Vec<ResultParts>,
    parts: Given<OptionParts>,
) -> PyResult<(Dataset, Metrics)> {
    let (mut dataset, options) = (dataset.get(py)?, options(py, parts.0)?);
    let results = results.into_iter().map(result).collect::<Result<Vec<_>>>();
    let results = results.map_err(|error| to_py(py, &error))?;
    let metrics = run(py, dataset.commit_compaction(results, &options))?;
    Ok((Dataset::wrap(dataset), metrics.into()))
}
