//! Record batches and schemas across the border: pyarrow in, pyarrow out, no copy of values.

use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray, make_array,
};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::{ArrowError, DataType, Fields, Schema, SchemaRef};
use pennon_core::Result;
use pennon_table::BatchReader;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{ffi, intern};

use crate::caller::Caller;
use crate::runtime;
use crate::sliced::batch_from_py;

/// A `pyarrow.Schema`.
pub(crate) fn schema_to_py<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyAny>> {
    schema.to_pyarrow(py)
}

/// The two schemas that were converted last, the newer one first: a search needs the table's and that of its result, and
/// of a take of one row, converting a schema would be a fifth.
///
/// Invariant: as in [`crate::handle`], the lock is held only while the GIL is, and never across a call.
#[derive(Debug, Default)]
pub(crate) struct LastSchemas(Mutex<[Option<SchemaInBoth>; 2]>);

/// A schema of Arrow and of pyarrow.
type SchemaInBoth = (SchemaRef, Py<PyAny>);

impl LastSchemas {
    /// A `pyarrow.Schema`.
    pub(crate) fn to_py<'py>(&self, py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyAny>> {
        if let Some((_, converted)) = self.lock().iter().flatten().find(|(last, _)| last == schema) {
            return Ok(converted.bind(py).clone());
        }
        let converted = schema_to_py(py, schema)?;
        let newest = Some((Arc::clone(schema), converted.clone().unbind()));
        let oldest = {
            let [first, second] = &mut *self.lock();
            mem::replace(second, mem::replace(first, newest))
        };
        drop(oldest);
        Ok(converted)
    }

    fn lock(&self) -> MutexGuard<'_, [Option<SchemaInBoth>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a type of fields is an extension type: what pyarrow has for it depends on what is registered by then.
pub(crate) fn has_extension_types(fields: &Fields) -> bool {
    fields.iter().any(|field| {
        field.extension_type_name().is_some()
            || match field.data_type() {
                DataType::Struct(members) => has_extension_types(members),
                DataType::List(item)
                | DataType::LargeList(item)
                | DataType::FixedSizeList(item, _)
                | DataType::Map(item, _) => has_extension_types(&Fields::from(vec![Arc::clone(item)])),
                _ => false,
            }
    })
}

/// A `pyarrow.Array` without members.
pub(crate) struct ArrayElements(pub(crate) ArrayRef);

impl<'py> FromPyObject<'_, 'py> for ArrayElements {
    type Error = PyErr;

    fn extract(array: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(make_array(ArrayData::from_pyarrow_bound(&array)?)))
    }
}

static RECORD_BATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A `pyarrow.RecordBatch` with the given `pyarrow.Schema`, which must be the batch's own.
pub(crate) fn batch_to_py<'py>(
    schema: &Bound<'py, PyAny>,
    batch: RecordBatch,
) -> PyResult<Bound<'py, PyAny>> {
    let py = schema.py();
    let array = FFI_ArrowArray::new(&StructArray::from(batch).to_data());
    let class = RECORD_BATCH.import(py, "pyarrow", "RecordBatch")?;
    // Pyarrow takes the content over and marks the struct as released, which makes its drop do nothing.
    class.call_method1(intern!(py, "_import_from_c"), (&raw const array as ffi::Py_uintptr_t, schema))
}

/// A `pyarrow.RecordBatchReader`, whose batches may come from Python code of the user's; or a `pyarrow.Table`.
pub(crate) struct Input {
    rows: InputRows,
    schema: SchemaRef,
}

enum InputRows {
    Reader(Py<PyAny>),
    /// A list, that of a table: no Python code is needed to get them.
    Batches(Py<PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Input {
    type Error = PyErr;

    fn extract(reader: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let schema = Schema::from_pyarrow_bound(&reader.getattr(intern!(reader.py(), "schema"))?)?;
        let schema = Arc::new(schema);
        let rows = match reader.getattr_opt(intern!(reader.py(), "to_batches"))? {
            Some(batches) => InputRows::Batches(batches.call0()?.unbind()),
            None => InputRows::Reader(reader.to_owned().unbind()),
        };
        Ok(Self { rows, schema })
    }
}

impl Input {
    /// Runs what consumes the batches. An exception that their producer raised is raised again as it was.
    pub(crate) fn run<T: Send, F>(self, py: Python<'_>, consume: impl FnOnce(BatchReader) -> F) -> PyResult<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let reader = match self.rows {
            InputRows::Batches(list) => {
                let batches =
                    list.bind(py).try_iter()?.map(|batch| batch_from_py(&batch?, Some(&self.schema)));
                let batches = batches.collect::<PyResult<Vec<_>>>()?;
                drop(list);
                let batches = batches.into_iter().map(Ok);
                return runtime::run(py, consume(Box::new(RecordBatchIterator::new(batches, self.schema))));
            }
            InputRows::Reader(reader) => reader,
        };
        let schema = Arc::clone(&self.schema);
        let start = |caller| consume(Box::new(Requested { caller, schema }));
        runtime::run_answering(py, start, |py, ()| read(reader.bind(py), &self.schema))
    }
}

fn read(reader: &Bound<'_, PyAny>, schema: &SchemaRef) -> PyResult<Option<RecordBatch>> {
    match reader.call_method0(intern!(reader.py(), "read_next_batch")) {
        Ok(batch) => batch_from_py(&batch, Some(schema)).map(Some),
        Err(end) if end.is_instance_of::<PyStopIteration>(reader.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The batches of an [`Input`] as another thread sees them: each is asked for from the thread that made the call.
struct Requested {
    caller: Caller<(), Option<RecordBatch>>,
    schema: SchemaRef,
}

impl Iterator for Requested {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.caller.ask_blocking(()).map_err(|error| ArrowError::ComputeError(error.to_string())).transpose()
    }
}

impl RecordBatchReader for Requested {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
