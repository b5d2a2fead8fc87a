//! A table handle that several Python threads share and that survives a fork.
//!
//! Invariant: the lock is held only while the GIL is, and never across a call. A child process opens the table
//! again: the locks inside the parent's handle may have been held by a thread that the child does not have.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pennon_table::{ConnectOptions, Dataset, OpenOptions, VersionRef};
use pyo3::prelude::*;

use crate::error::to_py;
use crate::runtime;

#[derive(Debug)]
struct State {
    pid: u32,
    dataset: Dataset,
}

/// The current version of a Python object.
#[derive(Debug)]
pub(crate) struct Handle(Mutex<State>);

impl Handle {
    pub(crate) fn new(dataset: Dataset) -> Self {
        Self(Mutex::new(State { pid: process::id(), dataset }))
    }

    /// The handle as it is now, opened again after a fork.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Dataset> {
        let (uri, options, columns) = {
            let state = self.lock();
            if state.pid == process::id() {
                return Ok(state.dataset.clone());
            }
            let options = OpenOptions {
                version: Some(VersionRef::Number(state.dataset.version().0)),
                connect: ConnectOptions {
                    storage_options: state.dataset.storage_options().clone(),
                    ..ConnectOptions::default()
                },
                commit: state.dataset.commit_options().clone(),
                ..OpenOptions::default()
            };
            (state.dataset.uri().to_owned(), options, state.dataset.uncommitted_columns().cloned())
        };
        let mut fresh = runtime::run(py, Dataset::open(&uri, options))?;
        if let Some(columns) = columns {
            fresh = fresh.with_columns(columns).map_err(|error| to_py(py, &error))?;
        }
        self.set(fresh.clone());
        Ok(fresh)
    }

    /// What the handle says without touching the store: usable on either side of a fork.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Dataset) -> T) -> T {
        at(&self.lock().dataset)
    }

    /// Moves to another version.
    pub(crate) fn set(&self, dataset: Dataset) {
        let mut state = self.lock();
        let old = std::mem::replace(&mut *state, State { pid: process::id(), dataset });
        if old.pid != process::id() {
            std::mem::forget(old);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
