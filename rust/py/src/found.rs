//! Rows that Python code finds: what a delete or an update is about where no predicate in SQL can say it.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use arrow_array::UInt64Array;
use arrow_data::ArrayData;
use arrow_pyarrow::FromPyArrow;
use arrow_schema::DataType;
use futures::FutureExt;
use pennon_core::{Result, RowAddress};
use pennon_table::{ConflictRetries, FindRows};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::caller::Caller;
use crate::dataset::Dataset;
use crate::given::Given;
use crate::runtime;
use crate::update::UpdateRequest;

/// Deletes the rows that a function finds in a version: number of deleted rows and new version.
#[pyfunction]
pub(crate) fn delete_found(
    py: Python<'_>,
    dataset: &Dataset,
    find: &Bound<'_, PyAny>,
    predicate: &str,
    conflict_retries: u32,
    retry_timeout: Duration,
) -> PyResult<(u64, Dataset)> {
    let mut dataset = dataset.get(py)?;
    let retries = ConflictRetries { count: conflict_retries, timeout: retry_timeout };
    let delete = move |find: Box<FindRows>| async move {
        let result = dataset.delete_found(&*find, predicate, retries).await;
        (result, dataset)
    };
    let (result, dataset) = run(find, delete)?;
    Ok((result.num_deleted_rows, Dataset::wrap(dataset)))
}

/// Updates the rows that a function finds in a version: number of rows and new version.
#[pyfunction]
pub(crate) fn update_found(
    py: Python<'_>,
    dataset: &Dataset,
    find: &Bound<'_, PyAny>,
    assignments: BTreeMap<String, String>,
    request: Given<UpdateRequest>,
) -> PyResult<(u64, Dataset)> {
    let (mut dataset, options) = (dataset.get(py)?, request.0.options(py)?);
    let assignments: Vec<_> = assignments.into_iter().collect();
    let update = move |find: Box<FindRows>| async move {
        let result = dataset.update_found(&*find, &assignments, options).await;
        (result, dataset)
    };
    let (result, dataset) = run(find, update)?;
    Ok((result.num_rows_updated, Dataset::wrap(dataset)))
}

/// Runs a verb whose rows a function finds, which the calling thread calls. What the function raised is raised again.
fn run<T: Send, F>(
    find: &Bound<'_, PyAny>,
    verb: impl FnOnce(Box<FindRows>) -> F,
) -> PyResult<(T, pennon_table::Dataset)>
where
    F: Future<Output = (Result<T>, pennon_table::Dataset)> + Send,
{
    let start = |caller: Caller<pennon_table::Dataset, Vec<RowAddress>>| {
        let done = verb(Box::new(move |version| caller.clone().ask(version).boxed()));
        async {
            let (result, dataset) = done.await;
            Ok((result?, dataset))
        }
    };
    runtime::run_answering(find.py(), start, |_, version| {
        row_addresses(&find.call1((Dataset::wrap(version),))?)
    })
}

/// The values of a `pyarrow.UInt64Array`.
fn row_addresses(addresses: &Bound<'_, PyAny>) -> PyResult<Vec<RowAddress>> {
    let data = ArrayData::from_pyarrow_bound(addresses)?;
    if data.data_type() != &DataType::UInt64 {
        return Err(PyTypeError::new_err(format!("addresses must be uint64, not {}", data.data_type())));
    }
    Ok(UInt64Array::from(data).values().iter().map(|&address| RowAddress(address)).collect())
}
