//! What happened to rows: the change feed, histories, restored rows.

use std::time::Duration;

use pennon_core::manifest::Timestamp;
use pennon_core::{RowId, Version};
use pennon_table::{ConflictRetries, FeedOptions, FeedPart, FeedPoint};
use pyo3::prelude::*;

use crate::arrow::{batch_to_py, schema_to_py};
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::given::Given;
use crate::reference::Reference;
use crate::runtime::run;
use crate::scan::Batches;

/// An end of a window: a version, or seconds and nanoseconds since 1970 in UTC.
pub(crate) enum Point {
    Version(Reference),
    Time(i64, u32),
}

impl<'py> FromPyObject<'_, 'py> for Point {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.extract::<(i64, u32)>() {
            Ok((seconds, nanos)) => Ok(Self::Time(seconds, nanos)),
            Err(_) => value.extract().map(Self::Version),
        }
    }
}

impl From<Point> for FeedPoint {
    fn from(point: Point) -> Self {
        match point {
            Point::Version(reference) => Self::Version(reference.0),
            Point::Time(seconds, nanos) => Self::Time(Timestamp { seconds, nanos }),
        }
    }
}

/// What a feed shows: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ChangesRequest {
    begin: Point,
    end: Option<Point>,
    columns: Option<Vec<String>>,
    columns_of: String,
    mode: String,
    images: String,
    drop_unchanged: bool,
    part: Option<(u32, u32)>,
}

/// Ids of the fragments that hold what was created or updated since an older version.
#[pyfunction]
pub(crate) fn fragments_since(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    older: u64,
) -> PyResult<Vec<u32>> {
    let dataset = dataset.get().get(py)?;
    let found = py.detach(|| dataset.fragments_since(Version(older)));
    Ok(found.into_iter().map(|id| id.0).collect())
}

#[pyfunction]
pub(crate) fn history<'py>(
    py: Python<'py>,
    dataset: &Bound<'_, Dataset>,
    row_id: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let dataset = dataset.get().get(py)?;
    let batch = run(py, dataset.history(RowId(row_id)))?;
    let schema = schema_to_py(py, &batch.schema())?;
    batch_to_py(&schema, batch)
}

/// The number of rows, and the table at the new version.
#[pyfunction]
pub(crate) fn restore_rows(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    row_ids: Vec<u64>,
    version: Reference,
    conflict_retries: u32,
    retry_timeout: Duration,
) -> PyResult<(u64, Dataset)> {
    let mut dataset = dataset.get().get(py)?;
    let ids: Vec<RowId> = row_ids.into_iter().map(RowId).collect();
    let retries = ConflictRetries { count: conflict_retries, timeout: retry_timeout };
    let rows = run(py, dataset.restore_rows(&ids, version.0, retries))?;
    Ok((rows, Dataset::wrap(dataset)))
}

#[pyfunction]
pub(crate) fn changes(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    request: Given<ChangesRequest>,
) -> PyResult<Batches> {
    let part = request.0.part.map(|(number, of)| FeedPart::new(number, of));
    let options = FeedOptions {
        columns: request.0.columns,
        columns_of: request.0.columns_of.parse().map_err(|error| to_py(py, &error))?,
        mode: request.0.mode.parse().map_err(|error| to_py(py, &error))?,
        images: request.0.images.parse().map_err(|error| to_py(py, &error))?,
        drop_unchanged: request.0.drop_unchanged,
        part: part.transpose().map_err(|error| to_py(py, &error))?,
    };
    let dataset = dataset.get().get(py)?;
    let feed = run(py, dataset.changes(request.0.begin.into(), request.0.end.map(Into::into), &options))?;
    let schema = schema_to_py(py, feed.schema())?.unbind();
    Ok(Batches::new(schema, feed.stream()))
}
