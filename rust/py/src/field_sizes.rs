//! How many bytes the fields of a table take.

use std::collections::BTreeMap;

use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::runtime::run;

/// Bytes that each field takes in the data files, by id.
#[pyfunction]
pub(crate) fn field_sizes(py: Python<'_>, dataset: &Bound<'_, Dataset>) -> PyResult<BTreeMap<i32, u64>> {
    let dataset = dataset.get().get(py)?;
    Ok(run(py, dataset.field_sizes())?.into_iter().map(|(field, bytes)| (field.0, bytes)).collect())
}
