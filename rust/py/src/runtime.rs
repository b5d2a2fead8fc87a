//! The one tokio runtime of the process, and the way every call waits for it.
//!
//! While a call waits, the GIL is released; every [`SIGNAL_INTERVAL`] it is taken for a moment to let Python handle
//! signals, so that Ctrl-C drops the future and with it the work. A forked child has none of its parent's
//! threads, so it starts a runtime of its own.
//!
//! Invariant: [`RUNTIME`] is only locked while the GIL is held and never across a release of it. A fork therefore
//! never finds it locked.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pennon_core::{Error, Result};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::caller::{Asked, Caller};
use crate::error::to_py;
use crate::lock::{self, CALLER, Managers};
use crate::logging;

const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Process that started the runtime, and the runtime.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// Runs a future to its end with the GIL released.
///
/// Raises what a signal handler raised meanwhile, `KeyboardInterrupt` for one; the future is dropped then.
pub(crate) fn run<T: Send>(py: Python<'_>, future: impl Future<Output = Result<T>> + Send) -> PyResult<T> {
    let (_, mut requests) = mpsc::channel::<Infallible>(1);
    run_serving(py, future, &mut requests, |_, request| match request {})
}

/// As [`run`], and meanwhile the calling thread answers with the GIL held what the future's threads ask for, and enters
/// and leaves the locks of commits.
///
/// So no other thread ever runs Python code: an exception, Ctrl-C included, arrives in the call that the user made,
/// and nothing holds on to the interpreter when it shuts down.
fn run_serving<T: Send, R: Send>(
    py: Python<'_>,
    future: impl Future<Output = Result<T>> + Send,
    requests: &mut mpsc::Receiver<R>,
    mut answer: impl FnMut(Python<'_>, R),
) -> PyResult<T> {
    logging::take_level(py)?;
    let (caller, mut locks) = Caller::new();
    let mut managers = Managers::default();
    let result = {
        let future = CALLER.scope(caller, future);
        serve(py, future, requests, &mut answer, &mut locks, &mut managers)
    };
    logging::deliver(py);
    match (result, managers.end(py)) {
        (Err(_), Some(raised)) => Err(raised),
        (result, _) => result,
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
    let (caller, mut asked) = Caller::new();
    let future = start(caller);
    let mut raised = None;
    let result = run_serving(py, future, &mut asked, |py, (question, reply)| {
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

fn serve<T: Send, R: Send>(
    py: Python<'_>,
    future: impl Future<Output = Result<T>> + Send,
    requests: &mut mpsc::Receiver<R>,
    answer: &mut impl FnMut(Python<'_>, R),
    locks: &mut mpsc::Receiver<Asked<lock::Request, ()>>,
    managers: &mut Managers,
) -> PyResult<T> {
    enum Event<T, R> {
        Done(Result<T>),
        Asked(R),
        Lock(Asked<lock::Request, ()>),
    }
    let runtime = runtime(py)?;
    let mut future = pin!(future);
    // A future that is ready at once, such as reading a few rows of a local file, needs no task.
    let at_once = py.detach(|| {
        let _inside = runtime.enter();
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    });
    if let Poll::Ready(result) = at_once {
        return result.map_err(|error| to_py(py, &error));
    }
    loop {
        let event = py.detach(|| {
            let event = async {
                tokio::select! {
                    result = future.as_mut() => Event::Done(result),
                    Some(request) = requests.recv() => Event::Asked(request),
                    Some(request) = locks.recv() => Event::Lock(request),
                }
            };
            runtime.block_on(async { tokio::time::timeout(SIGNAL_INTERVAL, event).await })
        });
        match event {
            Ok(Event::Done(result)) => return result.map_err(|error| to_py(py, &error)),
            Ok(Event::Asked(request)) => answer(py, request),
            Ok(Event::Lock(request)) => managers.answer(py, request),
            Err(_) => {
                logging::deliver(py);
                py.check_signals()?;
            }
        }
    }
}

fn runtime(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    // Making the error runs Python code, which must not wait for the slot.
    of_this_process()
        .map_err(|error| to_py(py, &Error::internal(format!("no threads could be started: {error}"))))
}

fn of_this_process() -> io::Result<Arc<Runtime>> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((pid, runtime)) = slot.as_ref()
        && *pid == process::id()
    {
        return Ok(Arc::clone(runtime));
    }
    let fresh = Arc::new(Builder::new_multi_thread().enable_all().thread_name("pennon").build()?);
    // Shutting down the parent's runtime would wait for threads that this process does not have.
    std::mem::forget(slot.replace((process::id(), Arc::clone(&fresh))));
    Ok(fresh)
}
