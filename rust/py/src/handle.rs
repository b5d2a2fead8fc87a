//! A table handle that several Python threads share and that survives a fork: a child process opens the table again.

use pennon_table::{ConnectOptions, Dataset, OpenOptions, VersionRef};
use pyo3::prelude::*;

use crate::error::to_py;
use crate::forked::Forked;
use crate::runtime;

/// The current version of a Python object.
#[derive(Debug)]
pub(crate) struct Handle(Forked<Dataset>);

impl Handle {
    pub(crate) fn new(dataset: Dataset) -> Self {
        Self(Forked::new(dataset))
    }

    /// The handle as it is now, opened again after a fork.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Dataset> {
        if let Some(dataset) = self.0.get() {
            return Ok(dataset);
        }
        let (uri, options, columns) = self.0.look(|parent| {
            let options = OpenOptions {
                version: Some(VersionRef::Number(parent.version().0)),
                connect: ConnectOptions {
                    storage_options: parent.storage_options().clone(),
                    ..ConnectOptions::default()
                },
                commit: parent.commit_options().clone(),
                ..OpenOptions::default()
            };
            (parent.uri().to_owned(), options, parent.uncommitted_columns().cloned())
        });
        let mut fresh = runtime::run(py, Dataset::open(&uri, options))?;
        if let Some(columns) = columns {
            fresh = fresh.with_columns(columns).map_err(|error| to_py(py, &error))?;
        }
        self.set(fresh.clone());
        Ok(fresh)
    }

    /// What the handle says without touching the store: usable on either side of a fork.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Dataset) -> T) -> T {
        self.0.look(at)
    }

    /// Moves to another version.
    pub(crate) fn set(&self, dataset: Dataset) {
        self.0.set(dataset);
    }
}
