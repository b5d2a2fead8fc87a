//! Fragments that are rewritten and committed by hand.

use std::sync::Arc;

use arrow_pyarrow::FromPyArrow;
use bytes::Bytes;
use pennon_core::schema::Metadata;
use pennon_core::{FragmentId, Result};
use pennon_table::{CommitOptions, WrittenFragments};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::dataset::Dataset;
use crate::error::to_py;
use crate::fragment::Fragment;
use crate::given::Given;
use crate::runtime::run;
use crate::write_request::WriteRequest;

/// Writes the live rows of some fragments into new ones without committing them.
#[pyfunction]
pub(crate) fn rewrite_fragments<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    fragments: Vec<u32>,
    request: Given<WriteRequest>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Fragment>)> {
    let dataset = dataset.get(py)?;
    let params = request.0.options(py, dataset.commit_options().clone())?;
    let fragments: Vec<_> = fragments.into_iter().map(FragmentId).collect();
    let written = run(py, dataset.rewrite_fragments(&fragments, &params))?;
    let bytes = PyBytes::new(py, &written.encode());
    Ok((bytes, written.fragments.into_iter().map(|fragment| Fragment(Arc::new(fragment))).collect()))
}

/// Commits fragments as the whole content of a table; its mode says whether the table may exist.
#[pyfunction]
pub(crate) fn commit_new(
    py: Python<'_>,
    uri: &str,
    written: Vec<PyBackedBytes>,
    schema: &Bound<'_, PyAny>,
    uuid: Option<String>,
    request: Given<WriteRequest>,
) -> PyResult<Dataset> {
    let arrow = arrow_schema::Schema::from_pyarrow_bound(schema)?;
    let mode = request.0.mode(py)?;
    let config = request.0.config.clone();
    let params = request.0.transaction_options(py, CommitOptions::default())?;
    let written = decode(&written).and_then(|parts| {
        let mut all = WrittenFragments::empty(&arrow, params.create.file_version)?;
        parts.into_iter().try_for_each(|part| all.extend(part))?;
        Ok(all)
    });
    let written = written.map_err(|error| to_py(py, &error))?;
    let commit =
        pennon_table::Dataset::commit_new(uri, (written, config), mode, uuid, Metadata::new(), params);
    run(py, commit).map(Dataset::wrap)
}

fn decode(written: &[PyBackedBytes]) -> Result<Vec<WrittenFragments>> {
    let parts = written.iter().filter(|bytes| !bytes.is_empty());
    parts.map(|bytes| WrittenFragments::decode(Bytes::copy_from_slice(bytes))).collect()
}
