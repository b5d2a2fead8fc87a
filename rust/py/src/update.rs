//! New values for columns of rows.

use std::collections::BTreeMap;
use std::time::Duration;

use pennon_core::transaction::UpdateMode;
use pennon_core::{Error, FragmentId};
use pennon_table::{ConflictRetries, UpdateOptions, UpdatedFragment};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Input;
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::fragment::FragmentParts;
use crate::given::Given;
use crate::runtime::run;

/// How an update is done.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct UpdateRequest {
    conflict_retries: u32,
    retry_timeout: Duration,
    data_storage_version: Option<String>,
    mode: String,
}

impl UpdateRequest {
    pub(crate) fn options(self, py: Python<'_>) -> PyResult<UpdateOptions> {
        let version = self.data_storage_version.map(|text| text.parse()).transpose();
        let mode = match self.mode.as_str() {
            "auto" => None,
            "rewrite_rows" => Some(UpdateMode::RewriteRows),
            "rewrite_columns" => Some(UpdateMode::RewriteColumns),
            other => {
                let expected = "expected auto, rewrite_rows or rewrite_columns";
                return Err(to_py(py, &Error::invalid_input(format!("mode is {other:?}, {expected}"))));
            }
        };
        Ok(UpdateOptions {
            retries: ConflictRetries { count: self.conflict_retries, timeout: self.retry_timeout },
            file_version: version.map_err(|error| to_py(py, &error))?,
            mode,
        })
    }
}

/// Updates the rows that match a predicate, all without one: number of rows and new version.
#[pyfunction]
pub(crate) fn update(
    py: Python<'_>,
    dataset: &Dataset,
    assignments: BTreeMap<String, String>,
    predicate: Option<&str>,
    request: Given<UpdateRequest>,
) -> PyResult<(u64, Dataset)> {
    let (mut dataset, options) = (dataset.get(py)?, request.0.options(py)?);
    let assignments: Vec<_> = assignments.into_iter().collect();
    let result = run(py, dataset.update(&assignments, predicate, options))?;
    Ok((result.num_rows_updated, Dataset::wrap(dataset)))
}

/// Updates the rows that are named by their ids: number of rows and new version.
#[pyfunction]
pub(crate) fn update_rows(
    py: Python<'_>,
    dataset: &Dataset,
    data: Input,
    request: Given<UpdateRequest>,
) -> PyResult<(u64, Dataset)> {
    let (mut dataset, options) = (dataset.get(py)?, request.0.options(py)?);
    let result = data.run(py, |data| dataset.update_rows(data, options))?;
    Ok((result.num_rows_updated, Dataset::wrap(dataset)))
}

/// Rewrites columns of a fragment: the fragment, its modified fields, and the offsets of the rows with a match.
#[pyfunction]
pub(crate) fn update_columns_in_fragment(
    py: Python<'_>,
    dataset: &Dataset,
    fragment: u32,
    data: Input,
    left_on: &str,
    right_on: &str,
) -> PyResult<(FragmentParts, Vec<i32>, Py<PyBytes>)> {
    let (dataset, id) = (dataset.get(py)?, FragmentId(fragment));
    let update = |data| dataset.update_columns_in_fragment(id, data, left_on, right_on);
    let UpdatedFragment { fragment, fields_modified, offsets } = data.run(py, update)?;
    let fields = fields_modified.iter().map(|id| id.0).collect();
    Ok(((&fragment).into(), fields, PyBytes::new(py, &offsets).unbind()))
}
