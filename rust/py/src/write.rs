//! Writes to the table at an address.

use pennon_table::CommitOptions;
use pyo3::prelude::*;

use crate::arrow::Input;
use crate::dataset::Dataset;
use crate::given::Given;
use crate::transaction::Transaction;
use crate::write_request::WriteRequest;

/// Writes batches to a table and gives the version that has them.
#[pyfunction]
pub(crate) fn write(
    py: Python<'_>,
    reader: Input,
    uri: &str,
    request: Given<WriteRequest>,
) -> PyResult<Dataset> {
    let params = request.0.options(py, CommitOptions::default())?;
    reader.run(py, |reader| pennon_table::Dataset::write(reader, uri, params)).map(Dataset::wrap)
}

/// Writes batches to files and gives the transaction that would commit them.
#[pyfunction]
pub(crate) fn write_uncommitted(
    py: Python<'_>,
    reader: Input,
    uri: &str,
    request: Given<WriteRequest>,
) -> PyResult<Transaction> {
    let params = request.0.options(py, CommitOptions::default())?;
    let write = |reader| pennon_table::Dataset::write_uncommitted(uri, reader, params);
    let transaction = reader.run(py, write)?;
    Transaction::wrap(py, transaction)
}
