//! How far a long step is, for whoever started it.
//!
//! Whoever wants to know runs the step in [`observed`]; the step counts, and waits each time until it was heard: an
//! observer that fails ends the step.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, Either, select};
use pennon_core::{Error, Result};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::blocking;

tokio::task_local! {
    static OBSERVED: Arc<Observed>;
}

/// What a step has done, and all that it has to do as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// What is done now, of a step with several stages that count again from 0.
    pub stage: &'static str,
    /// Parts of the step that are done: tasks of a compaction, files of a cleanup.
    pub tasks: u64,
    /// All of them.
    pub of_tasks: Option<u64>,
    /// Fragments that were read whole.
    pub fragments: u64,
    /// All of them.
    pub of_fragments: Option<u64>,
    /// Rows that were read.
    pub rows: u64,
    /// All of them.
    pub of_rows: Option<u64>,
    /// Bytes that were written, or removed.
    pub bytes: u64,
}

/// Hears how far a step is. What it fails with ends the step.
pub type Observer = dyn Fn(StepCounts) -> BoxFuture<'static, Result<()>> + Send + Sync;

struct Observed {
    observer: Box<Observer>,
    counts: Mutex<StepCounts>,
}

/// Runs a step for somebody who wants to know how far it is.
pub async fn observed<T>(observer: Box<Observer>, step: impl Future<Output = T>) -> T {
    let counts = Mutex::default();
    OBSERVED.scope(Arc::new(Observed { observer, counts }), step).await
}

/// Counts, and tells the observer, if there is one. Errors: those of the observer.
pub(crate) async fn advance(change: impl FnOnce(&mut StepCounts)) -> Result<()> {
    let Ok(observed) = OBSERVED.try_with(Arc::clone) else { return Ok(()) };
    let counts = {
        let mut counts = observed.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        *counts
    };
    (observed.observer)(counts).await
}

/// Where blocking work counts.
#[derive(Debug, Clone)]
pub(crate) struct StepCounter(UnboundedSender<StepChange>);

type StepChange = Box<dyn FnOnce(&mut StepCounts) + Send>;

impl StepCounter {
    /// Counts. Errors: `Internal` if nobody waits for the work any more, so that it ends; nobody sees that error.
    pub(crate) fn count(&self, change: impl FnOnce(&mut StepCounts) + Send + 'static) -> Result<()> {
        let gone = |_| Error::internal("work that nobody waits for any more");
        self.0.send(Box::new(change)).map_err(gone)
    }
}

/// Runs blocking work that counts. After the observer failed, or this future was dropped, the work ends when it counts next.
/// Gives the error of the observer apart: the work may have come to its end before.
pub(crate) async fn blocking_counted<T: Send + 'static>(
    work: impl FnOnce(&StepCounter) -> Result<T> + Send + 'static,
) -> (Result<T>, Result<()>) {
    let (tell, mut changes) = unbounded_channel::<StepChange>();
    let mut work = pin!(blocking(move || work(&StepCounter(tell))));
    loop {
        let next = match select(pin!(changes.recv()), work.as_mut()).await {
            Either::Left((change, _)) => Ok(change),
            Either::Right((result, _)) => Err(result),
        };
        match next {
            Ok(Some(change)) => {
                if let Err(error) = advance(change).await {
                    drop(changes);
                    return (work.await, Err(error));
                }
            }
            Ok(None) => return (work.await, Ok(())),
            Err(result) => {
                while let Ok(change) = changes.try_recv() {
                    if let Err(error) = advance(change).await {
                        return (result, Err(error));
                    }
                }
                return (result, Ok(()));
            }
        }
    }
}
