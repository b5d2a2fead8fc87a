//! Questions that a future has for the thread that made the call, which alone runs Python code.

use pennon_core::{Error, Result};
use tokio::sync::{mpsc, oneshot};

/// A question, and where its answer goes.
pub(crate) type Asked<Q, A> = (Q, oneshot::Sender<Result<A>>);

/// Where a future asks.
pub(crate) struct Caller<Q, A>(mpsc::Sender<Asked<Q, A>>);

impl<Q, A> Clone for Caller<Q, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q, A> Caller<Q, A> {
    /// One whose questions arrive at the receiver.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Asked<Q, A>>) {
        let (ask, asked) = mpsc::channel(1);
        (Self(ask), asked)
    }

    /// Errors: what answering raised.
    pub(crate) async fn ask(self, question: Q) -> Result<A> {
        let (reply, answer) = oneshot::channel();
        self.0.send((question, reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// [`Self::ask`], waiting on this thread, which is none of the runtime's own.
    pub(crate) fn ask_blocking(&self, question: Q) -> Result<A> {
        let (reply, answer) = oneshot::channel();
        self.0.blocking_send((question, reply)).map_err(|_| gone())?;
        answer.blocking_recv().map_err(|_| gone())?
    }
}

fn gone() -> Error {
    Error::internal("the call is over, and nobody answers its questions")
}
