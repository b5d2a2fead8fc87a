//! Record batches and schemas across the border: pyarrow in, pyarrow out, no copy of values.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pennon_core::Result;
use pennon_table::BatchReader;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::{ffi, intern};

use crate::runtime;

/// A `pyarrow.Schema`.
pub(crate) fn schema_to_py<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyAny>> {
    schema.to_pyarrow(py)
}

/// A `pyarrow.RecordBatch` with the given `pyarrow.Schema`, which must be the batch's own.
pub(crate) fn batch_to_py<'py>(
    schema: &Bound<'py, PyAny>,
    batch: RecordBatch,
) -> PyResult<Bound<'py, PyAny>> {
    let py = schema.py();
    let array = FFI_ArrowArray::new(&StructArray::from(batch).to_data());
    let class = py.import(intern!(py, "pyarrow"))?.getattr(intern!(py, "RecordBatch"))?;
    // Pyarrow takes the content over and marks the struct as released, which makes its drop do nothing.
    class.call_method1(intern!(py, "_import_from_c"), (&raw const array as ffi::Py_uintptr_t, schema))
}

/// Batches that a `pyarrow.RecordBatchReader` produces, possibly by running Python code of the user's.
pub(crate) struct Input {
    reader: Py<PyAny>,
    schema: SchemaRef,
    failure: Arc<Mutex<Option<PyErr>>>,
}

impl<'py> FromPyObject<'_, 'py> for Input {
    type Error = PyErr;

    fn extract(reader: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let schema = Schema::from_pyarrow_bound(&reader.getattr(intern!(reader.py(), "schema"))?)?;
        Ok(Self { reader: reader.to_owned().unbind(), schema: Arc::new(schema), failure: Arc::default() })
    }
}

impl Input {
    /// Runs what consumes the batches. An exception that their producer raised is raised again as it was.
    pub(crate) fn run<T: Send, F>(self, py: Python<'_>, consume: impl FnOnce(BatchReader) -> F) -> PyResult<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let failure = Arc::clone(&self.failure);
        let result = runtime::run(py, consume(Box::new(self)));
        let raised = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (result, raised) {
            (Err(_), Some(raised)) => Err(raised),
            (result, _) => result,
        }
    }

    fn fail(&self, error: PyErr) -> ArrowError {
        let message = error.to_string();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        ArrowError::ComputeError(message)
    }
}

impl Iterator for Input {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| match self.reader.bind(py).call_method0(intern!(py, "read_next_batch")) {
            Ok(batch) => Some(RecordBatch::from_pyarrow_bound(&batch).map_err(|error| self.fail(error))),
            Err(end) if end.is_instance_of::<PyStopIteration>(py) => None,
            Err(error) => Some(Err(self.fail(error))),
        })
    }
}

impl RecordBatchReader for Input {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
