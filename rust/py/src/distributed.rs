//! Writes and deletes whose work is done in other processes: what a worker runs, and the commits.

use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_data::ArrayData;
use arrow_pyarrow::FromPyArrow;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::schema::Metadata;
use pennon_core::{FragmentId, Result, RowAddress};
use pennon_table::{CommitOptions, FragmentRows, WrittenFragments};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arrow::Input;
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::fragment::Fragment;
use crate::runtime::run;
use crate::write::WriteRequest;

/// Fragment, number of rows, portable roaring bitmap of their offsets.
type Match<'py> = (u32, u64, Bound<'py, PyBytes>);

/// Writes the files of an append to this version without committing them.
#[pyfunction]
pub(crate) fn write_fragments<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    reader: Input,
    request: WriteRequest,
) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let dataset = dataset.get(py)?;
    let params = request.options(py, dataset.commit_options().clone())?;
    let written = reader.run(py, |reader| dataset.write_fragments(reader, &params))?;
    Ok((PyBytes::new(py, &written.encode()), written.rows))
}

/// Writes the files of a new or overwritten table without committing them.
#[pyfunction]
pub(crate) fn write_new_fragments<'py>(
    py: Python<'py>,
    uri: &str,
    reader: Input,
    request: WriteRequest,
) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let params = request.options(py, CommitOptions::default())?;
    let write = |reader| pennon_table::Dataset::write_new_fragments(uri, reader, &params);
    let written = reader.run(py, write)?;
    Ok((PyBytes::new(py, &written.encode()), written.rows))
}

/// Writes the live rows of some fragments into new ones without committing them.
#[pyfunction]
pub(crate) fn rewrite_fragments<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    fragments: Vec<u32>,
    request: WriteRequest,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Fragment>)> {
    let dataset = dataset.get(py)?;
    let params = request.options(py, dataset.commit_options().clone())?;
    let fragments: Vec<_> = fragments.into_iter().map(FragmentId).collect();
    let written = run(py, dataset.rewrite_fragments(&fragments, &params))?;
    let bytes = PyBytes::new(py, &written.encode());
    Ok((bytes, written.fragments.into_iter().map(|fragment| Fragment(Arc::new(fragment))).collect()))
}

/// Commits fragments as an append to this version.
#[pyfunction]
pub(crate) fn commit_append(
    py: Python<'_>,
    dataset: &Dataset,
    written: Vec<PyBackedBytes>,
    uuid: Option<String>,
) -> PyResult<Dataset> {
    let fragments = decode(&written).map_err(|error| to_py(py, &error))?;
    let fragments = fragments.into_iter().flat_map(|written| written.fragments).collect();
    let mut dataset = dataset.get(py)?;
    run(py, dataset.commit_append(fragments, uuid, Metadata::new()))?;
    Ok(Dataset::wrap(dataset))
}

/// Commits fragments as the whole content of a table; its mode says whether the table may exist.
#[pyfunction]
pub(crate) fn commit_new(
    py: Python<'_>,
    uri: &str,
    written: Vec<PyBackedBytes>,
    schema: &Bound<'_, PyAny>,
    uuid: Option<String>,
    request: WriteRequest,
) -> PyResult<Dataset> {
    let arrow = arrow_schema::Schema::from_pyarrow_bound(schema)?;
    let mode = request.mode(py)?;
    let params = request.transaction_options(py)?;
    let written = decode(&written).and_then(|parts| {
        let mut all = WrittenFragments::empty(&arrow, params.create.file_version)?;
        parts.into_iter().try_for_each(|part| all.extend(part))?;
        Ok(all)
    });
    let written = written.map_err(|error| to_py(py, &error))?;
    let commit = pennon_table::Dataset::commit_new(uri, written, mode, uuid, Metadata::new(), params);
    run(py, commit).map(Dataset::wrap)
}

/// The rows of some fragments for which a predicate is true.
#[pyfunction]
pub(crate) fn matching_rows<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    predicate: &str,
    fragments: Option<Vec<u32>>,
) -> PyResult<Vec<Match<'py>>> {
    let dataset = dataset.get(py)?;
    let fragments = fragments.map(|ids| ids.into_iter().map(FragmentId).collect());
    let found = run(py, dataset.matching_rows(predicate, fragments))?;
    Ok(found.into_iter().map(|part| (part.fragment.0, part.rows, PyBytes::new(py, &part.offsets))).collect())
}

/// Commits the deletion of rows that were found at this version: number of deleted rows and new version.
#[pyfunction]
pub(crate) fn commit_delete(
    py: Python<'_>,
    dataset: &Dataset,
    matches: Vec<(u32, u64, PyBackedBytes)>,
    predicate: &str,
    uuid: Option<String>,
) -> PyResult<(u64, Dataset)> {
    let part = |(fragment, rows, offsets): (u32, u64, PyBackedBytes)| FragmentRows {
        fragment: FragmentId(fragment),
        rows,
        offsets: offsets.to_vec(),
    };
    let matched = matches.into_iter().map(part).collect();
    let mut dataset = dataset.get(py)?;
    let result = run(py, dataset.commit_delete(matched, predicate, uuid))?;
    Ok((result.num_deleted_rows, Dataset::wrap(dataset)))
}

/// Deletes the rows at some addresses of this version: number of deleted rows and new version.
#[pyfunction]
pub(crate) fn delete_rows(
    py: Python<'_>,
    dataset: &Dataset,
    addresses: &Bound<'_, PyAny>,
    predicate: &str,
) -> PyResult<(u64, Dataset)> {
    let (addresses, mut dataset) = (row_addresses(addresses)?, dataset.get(py)?);
    let result = run(py, dataset.delete_rows(&addresses, predicate))?;
    Ok((result.num_deleted_rows, Dataset::wrap(dataset)))
}

/// The values of a `pyarrow.UInt64Array`.
pub(crate) fn row_addresses(addresses: &Bound<'_, PyAny>) -> PyResult<Vec<RowAddress>> {
    let data = ArrayData::from_pyarrow_bound(addresses)?;
    if data.data_type() != &DataType::UInt64 {
        return Err(PyTypeError::new_err(format!("addresses must be uint64, not {}", data.data_type())));
    }
    Ok(UInt64Array::from(data).values().iter().map(|&address| RowAddress(address)).collect())
}

fn decode(written: &[PyBackedBytes]) -> Result<Vec<WrittenFragments>> {
    let parts = written.iter().filter(|bytes| !bytes.is_empty());
    parts.map(|bytes| WrittenFragments::decode(Bytes::copy_from_slice(bytes))).collect()
}
