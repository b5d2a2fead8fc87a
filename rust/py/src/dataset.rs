//! `Dataset`: a table at one version, which changing methods move to the version they made.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use pennon_core::manifest::Timestamp;
use pennon_core::transaction::MapUpdate;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId, Version};
use pennon_table::scan::{BlobHandling, JsonHandling, TakeOptions, TakeRows};
use pennon_table::{
    CacheSizes, CommitOptions, CommitStatus, ConflictRetries, ConnectOptions, OpenOptions, VersionInfo,
};
use pyo3::exceptions::{PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{Input, LastSchemas, batch_to_py, has_extension_types, schema_to_py};
use crate::blob::Blob;
use crate::error::to_py;
use crate::fragment::{DataFileParts, Fragment, FragmentParts};
use crate::given::Given;
use crate::handle::Handle;
use crate::lock;
use crate::metrics::CountersParts;
use crate::reference::Reference;
use crate::runtime::run;
use crate::scan::{ColumnSelection, Scan, ScanRequest};
use crate::schema::SchemaParts;
use crate::session::Session;
use crate::tags::Tags;
use crate::transaction::{Transaction, TransactionObject};
use crate::write_request::WriteRequest;

/// New values by key; a key with `None` goes away.
type Updates = BTreeMap<String, Option<String>>;

/// A table at one version, and its schemas that were converted last, which copies share.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Dataset(Handle, Arc<LastSchemas>);

/// A version; the time is seconds and nanoseconds since 1970, UTC.
#[derive(IntoPyObject)]
pub(crate) struct VersionEntry {
    version: u64,
    timestamp: (i64, u32),
    metadata: BTreeMap<String, String>,
}

impl From<VersionInfo> for VersionEntry {
    fn from(info: VersionInfo) -> Self {
        let timestamp = (info.timestamp.seconds, info.timestamp.nanos);
        Self { version: info.version.0, timestamp, metadata: info.metadata }
    }
}

/// How a table is opened: a dictionary with all of these keys; the time is seconds and nanoseconds since 1970, UTC.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OpenRequest {
    version: Option<Reference>,
    asof: Option<(i64, u32)>,
    storage_options: HashMap<String, String>,
    durability: String,
    cache_bytes: Option<usize>,
    session: Option<Py<Session>>,
    commit_lock: Option<Py<PyAny>>,
    commit_timeout: Option<Duration>,
    max_retries: Option<u32>,
}

/// Numbers of rows: a `bytes` with 64 bits of each. A list would be converted number by number.
pub(crate) struct Numbers(Vec<u64>);

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(words: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let bytes = words.cast::<PyBytes>()?;
        let (words, rest) = bytes.as_bytes().as_chunks();
        if !rest.is_empty() {
            return Err(PyValueError::new_err("numbers of rows have 8 bytes each"));
        }
        Ok(Self(words.iter().map(|number| u64::from_ne_bytes(*number)).collect()))
    }
}

/// Which rows a take reads.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TakeRequest {
    by: String,
    rows: Numbers,
    columns: Option<ColumnSelection>,
    members: String,
    with_row_id: bool,
    with_row_address: bool,
    ignore_deletions: bool,
    missing: String,
    blob_handling: Option<String>,
}

impl TakeRequest {
    fn split(self) -> Result<(TakeRows, TakeOptions)> {
        let rows = rows(&self.by, self.rows)?;
        let options = TakeOptions {
            columns: self.columns.map(Into::into),
            members: self.members.parse()?,
            with_row_id: self.with_row_id,
            with_row_address: self.with_row_address,
            ignore_deletions: self.ignore_deletions,
            missing: self.missing.parse()?,
            blobs: BlobHandling::requested(self.blob_handling.as_deref())?,
            json: JsonHandling::Text,
        };
        Ok((rows, options))
    }
}

fn rows(by: &str, Numbers(rows): Numbers) -> Result<TakeRows> {
    match by {
        "address" => Ok(TakeRows::Addresses(rows.into_iter().map(RowAddress).collect())),
        "id" => Ok(TakeRows::Ids(rows.into_iter().map(RowId).collect())),
        "position" => Ok(TakeRows::Positions(rows)),
        other => Err(Error::invalid_input(format!(
            "by is {other:?}; expected \"position\", \"id\" or \"address\""
        ))),
    }
}

impl Dataset {
    pub(crate) fn wrap(dataset: pennon_table::Dataset) -> Self {
        Self(Handle::new(dataset), Arc::default())
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<pennon_table::Dataset> {
        self.0.get(py)
    }

    pub(crate) fn last_schemas(&self) -> &LastSchemas {
        &self.1
    }

    pub(crate) fn move_to(&self, dataset: pennon_table::Dataset) {
        self.0.set(dataset);
    }
}

#[pymethods]
impl Dataset {
    #[staticmethod]
    fn open(py: Python<'_>, uri: &str, request: Given<OpenRequest>) -> PyResult<Self> {
        let defaults = CommitOptions::default();
        let options = OpenOptions {
            version: request.0.version.map(|reference| reference.0),
            asof: request.0.asof.map(|(seconds, nanos)| Timestamp { seconds, nanos }),
            connect: ConnectOptions {
                storage_options: request.0.storage_options,
                cache: request.0.cache_bytes.map_or_else(CacheSizes::default, |bytes| CacheSizes { bytes }),
                session: request.0.session.map(|session| session.get().get(py)),
                ..ConnectOptions::default()
            },
            commit: CommitOptions {
                durability: request.0.durability.parse().map_err(|error| to_py(py, &error))?,
                max_retries: request.0.max_retries.unwrap_or(defaults.max_retries),
                timeout: request.0.commit_timeout.unwrap_or(defaults.timeout),
                lock: request.0.commit_lock.map(lock::from_py),
            },
        };
        let dataset = run(py, pennon_table::Dataset::open(uri, options))?;
        warn_of_corruption(py, &dataset)?;
        Ok(Self::wrap(dataset))
    }

    #[staticmethod]
    fn drop_table(
        py: Python<'_>,
        uri: &str,
        storage_options: HashMap<String, String>,
        ignore_not_found: bool,
    ) -> PyResult<()> {
        run(py, pennon_table::Dataset::drop_table(uri, &storage_options, ignore_not_found))
    }

    /// Durability, retries and timeout of commits through the handle.
    #[getter]
    fn commit_settings(&self) -> (&'static str, u32, Duration) {
        self.0.look(|dataset| {
            let options = dataset.commit_options();
            (options.durability.name(), options.max_retries, options.timeout)
        })
    }

    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        Ok(Session::wrap(Arc::clone(self.get(py)?.session())))
    }

    /// What the session of this handle counted.
    fn counters(&self) -> CountersParts {
        self.0.look(|dataset| dataset.session().metrics().counters().into())
    }

    /// The version that committed a transaction, and whether one is known not to have.
    fn commit_status(&self, py: Python<'_>, uuid: &str) -> PyResult<(Option<u64>, bool)> {
        let dataset = self.get(py)?;
        Ok(match run(py, dataset.commit_status(uuid))? {
            CommitStatus::Committed(version) => (Some(version.0), true),
            CommitStatus::NotCommitted => (None, true),
            CommitStatus::Unknown => (None, false),
        })
    }

    #[getter]
    fn uri(&self) -> String {
        self.0.look(|dataset| dataset.uri().to_owned())
    }

    #[getter]
    fn absolute_uri(&self) -> String {
        self.0.look(|dataset| dataset.absolute_uri().to_owned())
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.look(|dataset| dataset.version().0)
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.look(|dataset| dataset.manifest().live_rows())
    }

    #[getter]
    fn has_stable_row_ids(&self) -> bool {
        self.0.look(|dataset| dataset.manifest().has_stable_row_ids())
    }

    #[getter]
    fn data_storage_version(&self) -> String {
        self.0.look(|dataset| dataset.manifest().file_version.to_string())
    }

    #[getter]
    fn max_field_id(&self) -> i32 {
        self.0.look(|dataset| dataset.schema().max_field_id().0)
    }

    #[getter]
    fn storage_options(&self) -> HashMap<String, String> {
        self.0.look(|dataset| dataset.storage_options().clone())
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.get(py)?.arrow_schema();
        if has_extension_types(schema.fields()) {
            schema_to_py(py, &schema)
        } else {
            self.1.to_py(py, &schema)
        }
    }

    /// Columns that the next change of rows commits.
    #[getter]
    fn uncommitted_columns<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let columns = self.0.look(|dataset| dataset.uncommitted_columns().cloned());
        columns.map(|columns| schema_to_py(py, &columns)).transpose()
    }

    #[getter]
    fn lance_schema(&self) -> SchemaParts {
        self.0.look(|dataset| dataset.schema().as_ref().clone().into())
    }

    #[getter]
    fn schema_metadata(&self) -> BTreeMap<String, String> {
        self.0.look(|dataset| dataset.schema().metadata.clone())
    }

    #[getter]
    fn config(&self) -> BTreeMap<String, String> {
        self.0.look(|dataset| dataset.manifest().config.clone())
    }

    #[getter]
    fn table_metadata(&self) -> BTreeMap<String, String> {
        self.0.look(|dataset| dataset.manifest().table_metadata.clone())
    }

    #[getter]
    fn fragments(&self) -> Vec<Fragment> {
        self.0.look(|dataset| dataset.manifest().fragments.decode_all().map(Fragment).collect())
    }

    /// The same version as an object of its own.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self(Handle::new(self.get(py)?), Arc::clone(&self.1)))
    }

    fn fragment(&self, id: u32) -> Option<Fragment> {
        self.0.look(|dataset| dataset.manifest().fragment(FragmentId(id)).map(|f| Fragment(Arc::clone(f))))
    }

    #[getter]
    fn tags(&self, py: Python<'_>) -> PyResult<Tags> {
        Ok(Tags(Handle::new(self.get(py)?)))
    }

    fn scan(&self, py: Python<'_>, request: Given<ScanRequest>) -> PyResult<Scan> {
        Scan::plan(py, self.get(py)?, request.0, &self.1)
    }

    fn take<'py>(&self, py: Python<'py>, request: Given<TakeRequest>) -> PyResult<Bound<'py, PyAny>> {
        let (rows, options) = request.0.split().map_err(|error| to_py(py, &error))?;
        let dataset = self.get(py)?;
        let batch = run(py, dataset.take(rows, &options))?;
        let schema = self.1.to_py(py, &batch.schema())?;
        batch_to_py(&schema, batch)
    }

    fn take_blobs(
        &self,
        py: Python<'_>,
        column: &str,
        by: &str,
        rows: Numbers,
    ) -> PyResult<Vec<(u64, Option<Blob>)>> {
        let dataset = self.get(py)?;
        let rows = self::rows(by, rows).map_err(|error| to_py(py, &error))?;
        let found = run(py, dataset.take_blobs(column, rows))?;
        Ok(found.into_iter().map(|(address, blob)| (address.0, blob.map(Blob))).collect())
    }

    fn count_rows(&self, py: Python<'_>, filter: Option<&str>) -> PyResult<u64> {
        let dataset = self.get(py)?;
        run(py, dataset.count_rows(filter))
    }

    fn latest_version(&self, py: Python<'_>) -> PyResult<u64> {
        let dataset = self.get(py)?;
        Ok(run(py, dataset.latest_version())?.0)
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<VersionEntry>> {
        let dataset = self.get(py)?;
        Ok(run(py, dataset.versions())?.into_iter().map(Into::into).collect())
    }

    fn version_info(&self) -> VersionEntry {
        self.0.look(|dataset| dataset.version_info().into())
    }

    fn checkout(&self, py: Python<'_>, version: Reference) -> PyResult<Self> {
        let dataset = self.get(py)?;
        run(py, dataset.checkout(version.0)).map(Self::wrap)
    }

    fn read_transaction(&self, py: Python<'_>, version: u64) -> PyResult<Option<Transaction>> {
        let dataset = self.get(py)?;
        let found = run(py, dataset.read_transaction(Version(version)))?;
        found.map(|transaction| Transaction::wrap(py, transaction)).transpose()
    }

    fn get_transactions(&self, py: Python<'_>, recent: usize) -> PyResult<Vec<Option<Transaction>>> {
        let dataset = self.get(py)?;
        let found = run(py, dataset.get_transactions(recent))?;
        let wrap = |found: Option<_>| found.map(|transaction| Transaction::wrap(py, transaction)).transpose();
        found.into_iter().map(wrap).collect()
    }

    fn validate(&self, py: Python<'_>) -> PyResult<()> {
        let dataset = self.get(py)?;
        run(py, dataset.validate())
    }

    fn checkout_latest(&self, py: Python<'_>) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        run(py, dataset.checkout_latest())?;
        warn_of_corruption(py, &dataset)?;
        self.0.set(dataset);
        Ok(())
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        run(py, dataset.restore())?;
        self.0.set(dataset);
        Ok(())
    }

    fn truncate(&self, py: Python<'_>) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        run(py, dataset.truncate())?;
        self.0.set(dataset);
        Ok(())
    }

    fn insert(&self, py: Python<'_>, reader: Input, request: Given<WriteRequest>) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        let params = request.0.options(py, dataset.commit_options().clone())?;
        reader.run(py, |reader| dataset.insert(reader, params))?;
        self.0.set(dataset);
        Ok(())
    }

    fn delete(
        &self,
        py: Python<'_>,
        predicate: &str,
        conflict_retries: u32,
        retry_timeout: Duration,
    ) -> PyResult<u64> {
        let mut dataset = self.get(py)?;
        let retries = ConflictRetries { count: conflict_retries, timeout: retry_timeout };
        let result = run(py, dataset.delete(predicate, retries))?;
        self.0.set(dataset);
        Ok(result.num_deleted_rows)
    }

    /// `part` is `config`, `table` or `schema`.
    fn update_map(&self, py: Python<'_>, part: &str, updates: Updates, replace: bool) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        let update = MapUpdate { entries: updates, replace };
        match part {
            "config" => run(py, dataset.update_config(update))?,
            "table" => run(py, dataset.update_table_metadata(update))?,
            "schema" => run(py, dataset.update_schema_metadata(update))?,
            other => {
                let message = format!("part is {other:?}; expected \"config\", \"table\" or \"schema\"");
                return Err(to_py(py, &Error::invalid_input(message)));
            }
        }
        self.0.set(dataset);
        Ok(())
    }

    fn update_field_metadata(
        &self,
        py: Python<'_>,
        updates: BTreeMap<String, Updates>,
        replace: bool,
    ) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        let update = |(path, entries)| (path, MapUpdate { entries, replace });
        run(py, dataset.update_field_metadata(updates.into_iter().map(update).collect()))?;
        self.0.set(dataset);
        Ok(())
    }

    fn migrate_manifest_paths_v2(&self, py: Python<'_>) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        run(py, dataset.migrate_manifest_paths_v2())?;
        self.0.set(dataset);
        Ok(())
    }

    fn migrate_to_stable_row_ids(&self, py: Python<'_>) -> PyResult<()> {
        let mut dataset = self.get(py)?;
        run(py, dataset.migrate_to_stable_row_ids())?;
        self.0.set(dataset);
        Ok(())
    }

    fn insert_uncommitted(
        &self,
        py: Python<'_>,
        reader: Input,
        request: Given<WriteRequest>,
    ) -> PyResult<Transaction> {
        let dataset = self.get(py)?;
        let params = request.0.options(py, dataset.commit_options().clone())?;
        let transaction = reader.run(py, |reader| dataset.insert_uncommitted(reader, params))?;
        Transaction::wrap(py, transaction)
    }

    /// A transaction on this version with the columns that are not committed.
    fn completed(&self, py: Python<'_>, transaction: TransactionObject) -> PyResult<Transaction> {
        let dataset = self.get(py)?;
        let transaction: Result<_> = transaction.try_into();
        let completed = transaction.and_then(|transaction| dataset.completed(transaction));
        Transaction::wrap(py, completed.map_err(|error| to_py(py, &error))?)
    }

    /// A data file that was written elsewhere, and the number of its rows.
    fn describe_file(
        &self,
        py: Python<'_>,
        path: &str,
        base_id: Option<u32>,
    ) -> PyResult<(DataFileParts, u64)> {
        let dataset = self.get(py)?;
        let (file, rows) = run(py, dataset.describe_file(path, base_id))?;
        Ok(((&file).into(), rows))
    }

    fn delete_in_fragment(
        &self,
        py: Python<'_>,
        fragment: u32,
        predicate: &str,
    ) -> PyResult<Option<FragmentParts>> {
        let dataset = self.get(py)?;
        let left = run(py, dataset.delete_in_fragment(FragmentId(fragment), predicate))?;
        Ok(left.as_ref().map(Into::into))
    }

    fn delete_offsets(
        &self,
        py: Python<'_>,
        fragment: u32,
        offsets: Vec<u32>,
    ) -> PyResult<Option<FragmentParts>> {
        let dataset = self.get(py)?;
        let left = run(py, dataset.delete_offsets(FragmentId(fragment), &offsets))?;
        Ok(left.as_ref().map(Into::into))
    }
}

/// Says loudly that newer versions cannot be read.
fn warn_of_corruption(py: Python<'_>, dataset: &pennon_table::Dataset) -> PyResult<()> {
    let Some(corruption) = dataset.corruption() else { return Ok(()) };
    let text = CString::new(corruption.replace('\0', "")).map_err(PyValueError::new_err)?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 2)
}
