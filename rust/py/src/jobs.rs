//! Jobs: a plan, its tasks and their results, each picklable by way of its JSON.

use std::collections::BTreeMap;

use arrow_pyarrow::FromPyArrow;
use pennon_core::schema::Metadata;
use pennon_core::{Error, Result};
use pennon_table::jobs::{self, Division, NewTable, Work};
use pennon_table::{CommitOptions, TransactionOptions, WriteMode, WrittenFragments};
use pyo3::prelude::*;

use crate::arrow::Input;
use crate::compaction::{self, OptionParts};
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::given::Given;
use crate::merge_insert::{Counts, counts};
use crate::runtime::run;
use crate::scan::Scan;
use crate::verify;
use crate::write_request::WriteRequest;

/// A job that is divided into tasks.
#[pyclass(frozen, module = "pennon._native", name = "JobPlan")]
pub(crate) struct JobPlan(jobs::JobPlan);

/// A part of a job.
#[pyclass(frozen, module = "pennon._native", name = "JobTask")]
pub(crate) struct Task(jobs::Task);

/// What a task did.
#[pyclass(frozen, module = "pennon._native", name = "JobResult")]
pub(crate) struct TaskResult(jobs::TaskResult);

/// The number of workers, and bytes that a task for them is worth.
type Workers = (usize, Option<u64>);

/// By the number of tasks, or by their bytes and the number of workers.
fn division(tasks: Option<usize>, bytes: Option<u64>, workers: Option<Workers>) -> Result<Division> {
    match (tasks, bytes, workers) {
        (None, None, None) => Ok(Division::Auto),
        (Some(tasks), None, None) => Ok(Division::Tasks(tasks)),
        (None, Some(bytes), None) => Ok(Division::Bytes(bytes)),
        (None, bytes, Some((workers, least_bytes))) => Ok(Division::workers(workers, bytes, least_bytes)),
        (Some(_), ..) => Err(Error::invalid_input(
            "A job is divided by the number of tasks, or by their bytes and the number of workers, not by both",
        )),
    }
}

/// The values of results, which other processes may have made.
fn results(results: Vec<PyRef<'_, TaskResult>>) -> Vec<jobs::TaskResult> {
    results.iter().map(|result| result.0.clone()).collect()
}

#[pymethods]
impl JobPlan {
    /// Divides work on a version, given as JSON.
    #[staticmethod]
    #[pyo3(name = "plan")]
    fn new_plan(
        py: Python<'_>,
        dataset: &Dataset,
        work: &str,
        tasks: Option<usize>,
        bytes: Option<u64>,
        workers: Option<Workers>,
    ) -> PyResult<Self> {
        let dataset = dataset.get(py)?;
        let plan = async {
            let division = division(tasks, bytes, workers)?;
            dataset.plan_work(Work::from_json(work)?, division).await
        };
        run(py, plan).map(Self)
    }

    /// Divides the compaction of a version.
    #[staticmethod]
    fn compaction(py: Python<'_>, dataset: &Dataset, parts: Given<OptionParts>) -> PyResult<Self> {
        let dataset = dataset.get(py)?;
        let options = compaction::options(py, parts.0)?;
        run(py, dataset.plan_compaction_job(options)).map(Self)
    }

    /// Divides the making of a table, or of its whole content. The mode of the request says whether it may exist.
    #[staticmethod]
    fn new_table(
        py: Python<'_>,
        uri: &str,
        schema: &Bound<'_, PyAny>,
        tasks: Option<usize>,
        request: Given<WriteRequest>,
    ) -> PyResult<Self> {
        let arrow = arrow_schema::Schema::from_pyarrow_bound(schema)?;
        let must_create = request.0.mode(py)? == WriteMode::Create;
        let config = request.0.config.clone();
        let create = request.0.transaction_options(py, CommitOptions::default())?.create;
        let plan = || {
            let empty = WrittenFragments::empty(&arrow, create.file_version)?;
            let table = NewTable { empty, create, must_create, config };
            jobs::JobPlan::new_table(uri, table, division(tasks, None, None)?)
        };
        plan().map(Self).map_err(|error| to_py(py, &error))
    }

    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        jobs::JobPlan::from_json(text).map(Self).map_err(|error| to_py(py, &error))
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.0.to_json().map_err(|error| to_py(py, &error))
    }

    #[getter]
    fn uri(&self) -> &str {
        &self.0.pin().uri
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.pin().version.0
    }

    #[getter]
    fn uuid(&self) -> &str {
        &self.0.pin().uuid
    }

    #[getter]
    fn work(&self) -> &'static str {
        self.0.work().name()
    }

    #[getter]
    fn num_tasks(&self) -> Option<usize> {
        self.0.num_tasks()
    }

    fn task(&self, py: Python<'_>, number: usize) -> PyResult<Task> {
        self.0.task(number).map(Task).map_err(|error| to_py(py, &error))
    }

    /// Publishes results: number of rows, the same one by one (inserted, updated, deleted) of a merge or of changes of
    /// rows, the report of a verification, and new version.
    fn commit(
        &self,
        py: Python<'_>,
        dataset: Option<&Dataset>,
        done: Vec<PyRef<'_, TaskResult>>,
        properties: BTreeMap<String, String>,
        request: Given<WriteRequest>,
    ) -> PyResult<(u64, Option<Counts>, Option<verify::Parts>, Dataset)> {
        let dataset = dataset.map(|dataset| dataset.get(py)).transpose()?;
        let properties: Metadata = properties.into_iter().collect();
        let handle = dataset.as_ref().map(|dataset| dataset.commit_options().clone()).unwrap_or_default();
        let options: TransactionOptions = request.0.transaction_options(py, handle)?;
        let report = run(py, self.0.commit(dataset.as_ref(), results(done), properties, options))?;
        let verified = report.verified.map(Into::into);
        Ok((report.num_rows, report.merged.map(counts), verified, Dataset::wrap(report.dataset)))
    }

    /// The same job on another version of the table.
    fn renew(
        &self,
        py: Python<'_>,
        read: &Dataset,
        newest: &Dataset,
        done: Vec<PyRef<'_, TaskResult>>,
    ) -> PyResult<Self> {
        let (read, newest, done) = (read.get(py)?, newest.get(py)?, results(done));
        py.detach(|| self.0.renew(&read, &newest, done)).map(Self).map_err(|error| to_py(py, &error))
    }
}

#[pymethods]
impl Task {
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        jobs::Task::from_json(text).map(Self).map_err(|error| to_py(py, &error))
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.0.to_json().map_err(|error| to_py(py, &error))
    }

    #[getter]
    fn uri(&self) -> &str {
        &self.0.pin.uri
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.pin.version.0
    }

    #[getter]
    fn uuid(&self) -> &str {
        &self.0.pin.uuid
    }

    #[getter]
    fn work(&self) -> &'static str {
        self.0.work.name()
    }

    #[getter]
    fn number(&self) -> usize {
        self.0.number
    }

    #[getter]
    fn of(&self) -> Option<usize> {
        self.0.of
    }

    /// Fragment, and positions among its live rows unless it is the whole of it.
    #[getter]
    fn slices(&self) -> Vec<(u32, Option<(u64, u64)>)> {
        let rows = |slice: &jobs::FragmentSlice| slice.rows.as_ref().map(|rows| (rows.start, rows.end));
        self.0.slices.iter().map(|slice| (slice.fragment.0, rows(slice))).collect()
    }

    /// Its rows, of a scan.
    fn scan(&self, py: Python<'_>, dataset: &Dataset) -> PyResult<Scan> {
        let pinned = self.0.pin.pinned(&dataset.get(py)?);
        let planned = pinned.and_then(|pinned| Ok((self.0.scan_options(&pinned)?, pinned)));
        let (options, pinned) = planned.map_err(|error| to_py(py, &error))?;
        Scan::of(py, pinned, options, dataset.last_schemas())
    }

    /// Runs it on the table at its version.
    fn run(&self, py: Python<'_>, dataset: &Dataset) -> PyResult<TaskResult> {
        let dataset = dataset.get(py)?;
        run(py, self.0.run(&dataset)).map(TaskResult)
    }

    /// Writes the rows it is given; of all rows of a merge's source those that are its own.
    fn write(
        &self,
        py: Python<'_>,
        dataset: Option<&Dataset>,
        reader: Input,
        all_rows: bool,
        request: Given<WriteRequest>,
    ) -> PyResult<TaskResult> {
        let dataset = dataset.map(|dataset| dataset.get(py)).transpose()?;
        let handle = dataset.as_ref().map(|dataset| dataset.commit_options().clone());
        let options = request.0.options(py, handle.unwrap_or_default())?;
        let write = |reader| async {
            let reader = match &dataset {
                Some(dataset) if all_rows => self.0.part_of(dataset, reader)?,
                _ => reader,
            };
            self.0.write(dataset.as_ref(), reader, options).await
        };
        reader.run(py, write).map(TaskResult)
    }
}

#[pymethods]
impl TaskResult {
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        jobs::TaskResult::from_json(text).map(Self).map_err(|error| to_py(py, &error))
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.0.to_json().map_err(|error| to_py(py, &error))
    }

    #[getter]
    fn number(&self) -> usize {
        self.0.number()
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.num_rows()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Path and bytes of each.
    #[getter]
    fn files(&self) -> Vec<(String, u64)> {
        self.0.files().iter().map(|file| (file.path.clone(), file.bytes)).collect()
    }
}
