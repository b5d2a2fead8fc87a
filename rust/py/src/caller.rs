//! Questions that a future has for the thread that made the call, which alone runs Python code.

use std::future::Future;

use pennon_core::{Error, Result};
use pyo3::prelude::*;
use tokio::sync::{mpsc, oneshot};

use crate::runtime;

/// A question, and where its answer goes.
type Asked<Q, A> = (Q, oneshot::Sender<Result<A>>);

/// Where a future asks.
pub(crate) struct Caller<Q, A>(mpsc::Sender<Asked<Q, A>>);

impl<Q, A> Clone for Caller<Q, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q, A> Caller<Q, A> {
    /// Errors: what answering raised.
    pub(crate) async fn ask(self, question: Q) -> Result<A> {
        let gone = || Error::internal("the call is over, and nobody answers its questions");
        let (reply, answer) = oneshot::channel();
        self.0.send((question, reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// Runs a future to its end, and answers its questions. What an answer raised is raised again as it was.
pub(crate) fn run_answering<T: Send, Q: Send, A: Send, F>(
    py: Python<'_>,
    start: impl FnOnce(Caller<Q, A>) -> F,
    mut answer: impl FnMut(Python<'_>, Q) -> PyResult<A>,
) -> PyResult<T>
where
    F: Future<Output = Result<T>> + Send,
{
    let (ask, mut asked) = mpsc::channel::<Asked<Q, A>>(1);
    let future = start(Caller(ask));
    let mut raised = None;
    let result = runtime::run_serving(py, future, &mut asked, |py, (question, reply)| {
        let found = answer(py, question).map_err(|error| {
            let message = error.value(py).to_string();
            raised = Some(error);
            Error::invalid_input(message)
        });
        // Whoever asked may have failed meanwhile; the future then says why.
        let _ = reply.send(found);
    });
    match (result, raised) {
        (Err(_), Some(raised)) => Err(raised),
        (result, _) => result,
    }
}
