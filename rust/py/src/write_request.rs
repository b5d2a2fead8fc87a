//! The options that all ways of writing share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pennon_core::Result;
use pennon_table::write::{BlobParams, ExternalBlobs};
use pennon_table::{
    CommitOptions, ConnectOptions, CreateOptions, Target, TransactionOptions, WriteMode, WriteOptions,
};
use pyo3::prelude::*;

use crate::error::to_py;
use crate::lock;
use crate::operation::BasePathParts;
use crate::session::Session;

/// Options of a write: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct WriteRequest {
    mode: String,
    max_rows_per_file: u64,
    max_bytes_per_file: u64,
    max_page_bytes: Option<usize>,
    data_storage_version: Option<String>,
    enable_stable_row_ids: bool,
    enable_v2_manifest_paths: bool,
    pub(crate) config: BTreeMap<String, String>,
    initial_bases: Vec<BasePathParts>,
    target_bases: Option<Vec<String>>,
    target_all_bases: Option<bool>,
    commit_message: Option<String>,
    transaction_properties: BTreeMap<String, String>,
    storage_options: HashMap<String, String>,
    durability: Option<String>,
    external_blob_mode: String,
    allow_external_blob_outside_bases: bool,
    blob_pack_file_size_threshold: Option<u64>,
    commit_lock: Option<Py<PyAny>>,
    commit_timeout: Option<Duration>,
    max_retries: Option<u32>,
    session: Option<Py<Session>>,
}

impl WriteRequest {
    pub(crate) fn mode(&self, py: Python<'_>) -> PyResult<WriteMode> {
        self.mode.parse().map_err(|error| to_py(py, &error))
    }

    /// The options; how to commit is what the request says, and else that of a handle.
    pub(crate) fn options(self, py: Python<'_>, handle: CommitOptions) -> PyResult<WriteOptions> {
        let session = self.session.as_ref().map(|session| session.get().get(py));
        self.convert(handle, session).map_err(|error| to_py(py, &error))
    }

    /// The options of a transaction; how to commit is what the request says, and else that of a handle.
    pub(crate) fn transaction_options(
        self,
        py: Python<'_>,
        handle: CommitOptions,
    ) -> PyResult<TransactionOptions> {
        let WriteOptions { connect, commit, create, .. } = self.options(py, handle)?;
        Ok(TransactionOptions { connect, commit, create })
    }

    fn convert(
        self,
        handle: CommitOptions,
        session: Option<Arc<pennon_table::Session>>,
    ) -> Result<WriteOptions> {
        let external = ExternalBlobs::of(&self.external_blob_mode, self.allow_external_blob_outside_bases)?;
        let target = Target::from_options(self.target_bases, self.target_all_bases)?;
        Ok(WriteOptions {
            mode: self.mode.parse()?,
            max_rows_per_file: self.max_rows_per_file,
            max_bytes_per_file: self.max_bytes_per_file,
            max_page_bytes: self.max_page_bytes,
            config: self.config,
            initial_bases: self.initial_bases.into_iter().map(Into::into).collect(),
            target,
            commit_message: self.commit_message,
            properties: self.transaction_properties,
            blobs: BlobParams { pack_file_bytes: self.blob_pack_file_size_threshold, external },
            connect: ConnectOptions {
                storage_options: self.storage_options,
                session,
                ..ConnectOptions::default()
            },
            commit: CommitOptions {
                durability: self.durability.map_or(Ok(handle.durability), |text| text.parse())?,
                lock: self.commit_lock.map(lock::from_py).or(handle.lock),
                max_retries: self.max_retries.unwrap_or(handle.max_retries),
                timeout: self.commit_timeout.unwrap_or(handle.timeout),
            },
            create: CreateOptions {
                enable_stable_row_ids: self.enable_stable_row_ids,
                enable_v2_manifest_paths: self.enable_v2_manifest_paths,
                file_version: self.data_storage_version.map(|version| version.parse()).transpose()?,
            },
            ..WriteOptions::default()
        })
    }
}
