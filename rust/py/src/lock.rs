//! `commit_lock`: a function that is given a version and gives a context manager, which a commit enters and leaves.
//!
//! Both happen on the thread that made the call, as all Python code does: a call that waits answers the requests of its
//! own commits. A manager that was entered is left, after an interruption too.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use pennon_core::{Error, Result, Version};
use pennon_table::{CommitLock, HeldLock};
use pyo3::intern;
use pyo3::prelude::*;

use crate::caller::{Asked, Caller};

tokio::task_local! {
    /// The thread that waits for the commit.
    pub(crate) static CALLER: Caller<Request, ()>;
}

/// A lock as the core takes it.
pub(crate) fn from_py(function: Py<PyAny>) -> Arc<dyn CommitLock> {
    Arc::new(PyLock(Arc::new(function)))
}

#[derive(Debug)]
struct PyLock(Arc<Py<PyAny>>);

struct Entered(Caller<Request, ()>);

/// What a commit asks the caller's thread to do.
pub(crate) enum Request {
    Enter(Arc<Py<PyAny>>, Version),
    Leave,
}

impl CommitLock for PyLock {
    fn acquire(&self, version: Version) -> BoxFuture<'static, Result<Box<dyn HeldLock>>> {
        let enter = Request::Enter(Arc::clone(&self.0), version);
        let caller = CALLER.try_with(Caller::clone);
        async move {
            let caller = caller.map_err(|e| {
                Error::internal("the commit was cancelled while its lock was taken").with_source(e)
            })?;
            caller.clone().ask(enter).await?;
            Ok(Box::new(Entered(caller)) as Box<dyn HeldLock>)
        }
        .boxed()
    }
}

impl HeldLock for Entered {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.ask(Request::Leave).boxed()
    }
}

/// The managers that one call has entered.
#[derive(Default)]
pub(crate) struct Managers {
    entered: Vec<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Managers {
    /// Does what a commit asked for; an exception is kept for the caller.
    pub(crate) fn answer(&mut self, py: Python<'_>, (request, reply): Asked<Request, ()>) {
        let done = match request {
            Request::Enter(function, version) => self.enter(py, function.bind(py), version),
            Request::Leave => self.leave(py),
        };
        let done = done.map_err(|error| {
            let message = error.to_string();
            self.raised = Some(error);
            Error::internal(message)
        });
        // Whoever asked may have been given up meanwhile.
        let _ = reply.send(done);
    }

    fn enter(&mut self, py: Python<'_>, function: &Bound<'_, PyAny>, version: Version) -> PyResult<()> {
        let manager = function.call1((version.0,))?;
        manager.call_method0(intern!(py, "__enter__"))?;
        self.entered.push(manager.unbind());
        Ok(())
    }

    fn leave(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(manager) = self.entered.pop() else { return Ok(()) };
        let nothing = (py.None(), py.None(), py.None());
        manager.bind(py).call_method1(intern!(py, "__exit__"), nothing).map(drop)
    }

    /// Leaves what an interruption left entered, and gives the exception to raise instead of an error of the commit.
    pub(crate) fn end(mut self, py: Python<'_>) -> Option<PyErr> {
        while !self.entered.is_empty() {
            if let Err(error) = self.leave(py) {
                self.raised.get_or_insert(error);
            }
        }
        self.raised
    }
}
