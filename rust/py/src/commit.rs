//! Commits of transactions.

use std::collections::HashMap;
use std::time::Duration;

use pennon_core::{Result, Version};
use pennon_table::ops::commit::CommitMode;
use pennon_table::{CommitOptions, ConnectOptions, CreateOptions, TransactionOptions};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::error::to_py;
use crate::given::Given;
use crate::lock;
use crate::runtime::run;
use crate::transaction::TransactionObject;

/// How to commit: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CommitRequest {
    storage_options: HashMap<String, String>,
    durability: String,
    max_retries: u32,
    timeout: Duration,
    enable_stable_row_ids: bool,
    enable_v2_manifest_paths: bool,
    detached: bool,
    commit_lock: Option<Py<PyAny>>,
}

impl CommitRequest {
    fn options(self, py: Python<'_>, dataset: Option<&Dataset>) -> PyResult<TransactionOptions> {
        let dataset = dataset.map(|dataset| dataset.get(py)).transpose()?;
        let session = dataset.as_ref().map(|dataset| dataset.session().clone());
        let held = dataset.and_then(|dataset| dataset.commit_options().lock.clone());
        Ok(TransactionOptions {
            connect: ConnectOptions {
                storage_options: self.storage_options,
                session,
                ..ConnectOptions::default()
            },
            commit: CommitOptions {
                durability: self.durability.parse().map_err(|error| to_py(py, &error))?,
                max_retries: self.max_retries,
                timeout: self.timeout,
                lock: self.commit_lock.map(lock::from_py).or(held),
            },
            create: CreateOptions {
                enable_stable_row_ids: self.enable_stable_row_ids,
                enable_v2_manifest_paths: self.enable_v2_manifest_paths,
                file_version: None,
            },
        })
    }
}

/// Commits a transaction to the table at an address, whose caches a dataset may share.
#[pyfunction]
pub(crate) fn commit(
    py: Python<'_>,
    uri: &str,
    dataset: Option<&Dataset>,
    transaction: TransactionObject,
    request: Given<CommitRequest>,
) -> PyResult<Dataset> {
    let mode = CommitMode::of(request.0.detached, transaction.read_version.map(Version));
    let options = request.0.options(py, dataset)?;
    let transaction: Result<_> = transaction.try_into();
    let transaction = transaction.map_err(|error| to_py(py, &error))?;
    let handle = dataset.map(|dataset| dataset.get(py)).transpose()?;
    if let Some(handle) = handle.as_ref().filter(|handle| handle.uncommitted_columns().is_some()) {
        return run(py, handle.commit_on(transaction, mode, options.commit)).map(Dataset::wrap);
    }
    let commit = pennon_table::Dataset::commit_as(uri, transaction, mode, options, handle.as_ref());
    run(py, commit).map(Dataset::wrap)
}
