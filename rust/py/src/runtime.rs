//! The one tokio runtime of the process, and the way every call waits for it.
//!
//! While a call waits, the GIL is released; every [`SIGNAL_INTERVAL`] it is taken for a moment to let Python handle
//! signals, so that Ctrl-C drops the future and with it the work. A forked child has none of its parent's
//! threads, so it starts a runtime of its own.
//!
//! Invariant: [`RUNTIME`] is only locked while the GIL is held and never across a release of it. A fork therefore
//! never finds it locked.

use std::future::Future;
use std::pin::pin;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pennon_core::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::error::to_py;

const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Process that started the runtime, and the runtime.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// Runs a future to its end with the GIL released.
///
/// Raises what a signal handler raised meanwhile, `KeyboardInterrupt` for one; the future is dropped then.
pub(crate) fn run<T: Send>(py: Python<'_>, future: impl Future<Output = Result<T>> + Send) -> PyResult<T> {
    let runtime = runtime(py)?;
    let mut future = pin!(future);
    loop {
        let waited = py.detach(|| {
            let future = future.as_mut();
            runtime.block_on(async { tokio::time::timeout(SIGNAL_INTERVAL, future).await })
        });
        match waited {
            Ok(result) => return result.map_err(|error| to_py(py, &error)),
            Err(_) => py.check_signals()?,
        }
    }
}

fn runtime(_gil: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((pid, runtime)) = slot.as_ref()
        && *pid == process::id()
    {
        return Ok(Arc::clone(runtime));
    }
    let fresh = Builder::new_multi_thread().enable_all().thread_name("pennon").build();
    let fresh =
        Arc::new(fresh.map_err(|e| PyRuntimeError::new_err(format!("no threads could be started: {e}")))?);
    // Shutting down the parent's runtime would wait for threads that this process does not have.
    std::mem::forget(slot.replace((process::id(), Arc::clone(&fresh))));
    Ok(fresh)
}
