//! `Scan`, a planned read of one version, and `Batches`, its result as an iterator.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use pennon_core::{Error, FragmentId, Result};
use pennon_table::scan::{
    BatchStream, BlobHandling, DistanceRange, Filter, FirstRows, Metric, Nearest, Probes, Projection,
    ScanOptions,
};
use pyo3::prelude::*;

use crate::arrow::{ArrayElements, LastSchemas, batch_to_py};
use crate::error::to_py;
use crate::handle::Handle;
use crate::runtime::run;

/// Names of columns, or pairs of name and SQL expression.
#[derive(FromPyObject)]
pub(crate) enum ColumnSelection {
    #[pyo3(transparent)]
    Names(Vec<String>),
    #[pyo3(transparent)]
    Expressions(Vec<(String, String)>),
}

impl From<ColumnSelection> for Projection {
    fn from(columns: ColumnSelection) -> Self {
        match columns {
            ColumnSelection::Names(names) => Self::Names(names),
            ColumnSelection::Expressions(pairs) => Self::Expressions(pairs),
        }
    }
}

/// What a scan reads: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ScanRequest {
    columns: Option<ColumnSelection>,
    filter: Option<String>,
    limit: Option<u64>,
    offset: Option<u64>,
    batch_size: Option<usize>,
    batch_size_bytes: Option<usize>,
    strict_batch_size: bool,
    with_row_id: bool,
    with_row_address: bool,
    fragments: Option<Vec<u32>>,
    scan_in_order: bool,
    include_deleted_rows: bool,
    use_stats: bool,
    use_scalar_index: bool,
    fast_search: bool,
    strict_indices: bool,
    blob_handling: Option<String>,
    nearest: Option<NearestRequest>,
    first: Option<FirstRowsRequest>,
}

/// The first rows of an order: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct FirstRowsRequest {
    column: String,
    ascending: bool,
    nulls_first: bool,
    rows: u64,
}

impl From<FirstRowsRequest> for FirstRows {
    fn from(request: FirstRowsRequest) -> Self {
        let FirstRowsRequest { column, ascending, nulls_first, rows } = request;
        Self { column, descending: !ascending, nulls_first, rows }
    }
}

/// A search for the nearest vectors: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct NearestRequest {
    column: String,
    /// A `pyarrow.Array` of the elements of all vectors.
    q: ArrayElements,
    /// How many vectors, if it is a list of them.
    vectors: Option<usize>,
    k: Option<u64>,
    metric: Option<String>,
    use_index: bool,
    minimum_nprobes: Option<usize>,
    maximum_nprobes: Option<usize>,
    search_effort: Option<f64>,
    refine_factor: Option<u32>,
    ef: Option<usize>,
    distance_range: (Option<f32>, Option<f32>),
    prefilter: bool,
    disable_scoring_autoprojection: bool,
}

impl TryFrom<NearestRequest> for Nearest {
    type Error = Error;

    fn try_from(request: NearestRequest) -> Result<Self> {
        let (lower, upper) = request.distance_range;
        Ok(Self {
            column: request.column,
            query: request.q.0,
            vectors: request.vectors,
            k: request.k,
            metric: request.metric.map(|text| text.parse::<Metric>()).transpose()?,
            use_index: request.use_index,
            probes: Probes {
                minimum: request.minimum_nprobes,
                maximum: request.maximum_nprobes,
                effort: request.search_effort,
            },
            refine_factor: request.refine_factor,
            ef: request.ef,
            range: DistanceRange { lower, upper },
            prefilter: request.prefilter,
            without_distance: request.disable_scoring_autoprojection,
        })
    }
}

impl TryFrom<ScanRequest> for ScanOptions {
    type Error = Error;

    fn try_from(request: ScanRequest) -> Result<Self> {
        Ok(Self {
            columns: request.columns.map(Into::into),
            filter: request.filter.map(Filter::Sql),
            limit: request.limit,
            offset: request.offset,
            batch_size: request.batch_size,
            batch_bytes: request.batch_size_bytes,
            strict_batch_size: request.strict_batch_size,
            with_row_id: request.with_row_id,
            with_row_address: request.with_row_address,
            fragments: request.fragments.map(|ids| ids.into_iter().map(|id| FragmentId(id).into()).collect()),
            unordered: !request.scan_in_order,
            include_deleted_rows: request.include_deleted_rows,
            ignore_statistics: !request.use_stats,
            ignore_indices: !request.use_scalar_index,
            only_indexed: request.fast_search,
            strict_indices: request.strict_indices,
            first: request.first.map(Into::into),
            nearest: request.nearest.map(Nearest::try_from).transpose()?,
            blobs: BlobHandling::requested(request.blob_handling.as_deref())?,
            ..Self::default()
        })
    }
}

/// A planned read of one version.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Scan {
    handle: Handle,
    options: ScanOptions,
    schema: Py<PyAny>,
    pid: u32,
    scan: pennon_table::scan::Scan,
}

impl Scan {
    pub(crate) fn plan(
        py: Python<'_>,
        dataset: pennon_table::Dataset,
        request: ScanRequest,
        last_schemas: &LastSchemas,
    ) -> PyResult<Self> {
        let options = request.try_into().map_err(|error| to_py(py, &error))?;
        Self::of(py, dataset, options, last_schemas)
    }

    pub(crate) fn of(
        py: Python<'_>,
        dataset: pennon_table::Dataset,
        options: ScanOptions,
        last_schemas: &LastSchemas,
    ) -> PyResult<Self> {
        let scan = py.detach(|| dataset.scan(&options)).map_err(|error| to_py(py, &error))?;
        let schema = last_schemas.to_py(py, scan.schema())?.unbind();
        Ok(Self { handle: Handle::new(dataset), options, schema, pid: process::id(), scan })
    }

    /// The plan; made again only in a forked process, which opens the table again.
    fn planned(&self, py: Python<'_>) -> PyResult<pennon_table::scan::Scan> {
        if self.pid == process::id() {
            return Ok(self.scan.clone());
        }
        let dataset = self.handle.get(py)?;
        py.detach(|| dataset.scan(&self.options)).map_err(|error| to_py(py, &error))
    }
}

#[pymethods]
impl Scan {
    #[getter]
    fn schema(&self, py: Python<'_>) -> Py<PyAny> {
        self.schema.clone_ref(py)
    }

    fn batches(&self, py: Python<'_>) -> PyResult<Batches> {
        let stream = self.planned(py)?.stream();
        Ok(Batches::new(self.schema.clone_ref(py), stream))
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        let scan = self.planned(py)?;
        run(py, scan.count())
    }

    /// The plan with what executing it took, as text.
    fn analyze(&self, py: Python<'_>, only_count: bool) -> PyResult<String> {
        let scan = self.planned(py)?;
        run(py, async { scan.analyze(only_count).await.map(|analysis| analysis.to_string()) })
    }

    /// The plan as text.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let scan = self.planned(py)?;
        run(py, async { scan.explain().await })
    }
}

enum State {
    Idle(BatchStream),
    Busy,
    Done,
}

/// The batches of a scan.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Batches {
    schema: Py<PyAny>,
    pid: u32,
    state: Mutex<State>,
}

impl Batches {
    /// The batches of a stream, which all have that `pyarrow.Schema`.
    pub(crate) fn new(schema: Py<PyAny>, stream: BatchStream) -> Self {
        Self { schema, pid: process::id(), state: Mutex::new(State::Idle(stream)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the stream in a forked process: what it waits for belongs to threads of the parent.
    fn forget(&self) {
        std::mem::forget(std::mem::replace(&mut *self.state(), State::Done));
    }

    fn take(&self) -> Result<Option<BatchStream>> {
        if self.pid != process::id() {
            return Err(Error::unsupported("A scan cannot be continued in a forked process: begin it there"));
        }
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Busy) {
            State::Idle(stream) => Ok(Some(stream)),
            State::Busy => Err(Error::invalid_input("Another thread waits for the next batch already")),
            State::Done => {
                *state = State::Done;
                Ok(None)
            }
        }
    }
}

#[pymethods]
impl Batches {
    #[getter]
    fn schema(&self, py: Python<'_>) -> Py<PyAny> {
        self.schema.clone_ref(py)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.take().map_err(|error| to_py(py, &error))?;
        let Some(mut stream) = taken else { return Ok(None) };
        // At its end the stream is dropped in here, so that the call shows what was logged about it.
        let next = run(py, async move { Ok(stream.try_next().await?.map(|batch| (batch, stream))) });
        let (state, batch) = match next {
            Ok(Some((batch, stream))) => (State::Idle(stream), Ok(Some(batch))),
            Ok(None) => (State::Done, Ok(None)),
            Err(error) => (State::Done, Err(error)),
        };
        *self.state() = state;
        batch?.map(|batch| batch_to_py(self.schema.bind(py), batch)).transpose()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.pid != process::id() {
            self.forget();
            return Ok(());
        }
        let taken = self.take().map_err(|error| to_py(py, &error))?;
        let Some(stream) = taken else { return Ok(()) };
        *self.state() = State::Done;
        run(py, async move {
            drop(stream);
            Ok(())
        })
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if self.pid != process::id() {
            self.forget();
        }
    }
}
