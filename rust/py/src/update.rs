//! New values for columns of rows.

use std::collections::BTreeMap;
use std::time::Duration;

use pennon_table::UpdateOptions;
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::distributed::row_addresses;
use crate::error::to_py;
use crate::runtime::run;

/// How an update is done.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct UpdateRequest {
    conflict_retries: u32,
    retry_timeout: Duration,
    data_storage_version: Option<String>,
}

impl UpdateRequest {
    fn options(self, py: Python<'_>) -> PyResult<UpdateOptions> {
        let version = self.data_storage_version.map(|text| text.parse()).transpose();
        Ok(UpdateOptions {
            conflict_retries: self.conflict_retries,
            retry_timeout: self.retry_timeout,
            file_version: version.map_err(|error| to_py(py, &error))?,
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
    request: UpdateRequest,
) -> PyResult<(u64, Dataset)> {
    let (mut dataset, options) = (dataset.get(py)?, request.options(py)?);
    let assignments: Vec<_> = assignments.into_iter().collect();
    let result = run(py, dataset.update(&assignments, predicate, options))?;
    Ok((result.num_rows_updated, Dataset::wrap(dataset)))
}

/// Updates the rows at some addresses of this version: number of rows and new version.
#[pyfunction]
pub(crate) fn update_at(
    py: Python<'_>,
    dataset: &Dataset,
    addresses: &Bound<'_, PyAny>,
    assignments: BTreeMap<String, String>,
    request: UpdateRequest,
) -> PyResult<(u64, Dataset)> {
    let (addresses, dataset, options) = (row_addresses(addresses)?, dataset.get(py)?, request.options(py)?);
    let assignments: Vec<_> = assignments.into_iter().collect();
    let (dataset, result) = run(py, dataset.update_at(&addresses, &assignments, options))?;
    Ok((result.num_rows_updated, Dataset::wrap(dataset)))
}
