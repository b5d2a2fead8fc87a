//! How far a long step is, for whoever started it.
//!
//! Whoever wants to know runs the step in [`observed`]; the step counts, and waits each time until it was heard: an
//! observer that fails ends the step.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use pennon_core::Result;

tokio::task_local! {
    static OBSERVED: Arc<Observed>;
}

/// What a step has done, and all that it has to do as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
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
