//! Requests in flight, blocking work and threads.
//!
//! Files are read, decoded and written on tokio's blocking threads, which the caller's runtime must have; see the
//! front page of the crate. Everything that is started here sees the [`super::Env`] of the thread that started it.

#![expect(clippy::disallowed_methods, reason = "the one place that asks the system")]

use std::io;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use pennon_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::env;

/// Requests to a store that are in flight at a time.
pub(crate) const IN_FLIGHT: usize = 16;

/// Waits for all results, in order, with some of the calls in flight at a time.
///
/// The calls are boxed: streams that borrow from their surroundings make futures that nobody can spawn.
pub(crate) async fn gather<T: Send>(calls: Vec<BoxFuture<'_, Result<T>>>) -> Result<Vec<T>> {
    futures::stream::iter(calls).buffered(IN_FLIGHT).try_collect().await
}

/// Runs work that waits for files or computes for long on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let inherited = env::entered();
    if inherited.as_ref().is_some_and(|env| env.is_single_threaded()) {
        return work();
    }
    let work = move || {
        let _entered = inherited.map(env::enter);
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) if failure.is_panic() => resume_unwind(failure.into_panic()),
        Err(failure) => Err(Error::internal("the runtime was shut down during a call").with_source(failure)),
    }
}

/// Starts a task of its own on the caller's runtime.
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

/// Starts a thread that the caller joins. Errors: those of the system, which may have no more threads.
pub(crate) fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    let inherited = env::entered();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _entered = inherited.map(env::enter);
        work()
    })
}

/// Runs work concurrently on this thread and on others, inside the caller's runtime if there is one. The number of a
/// thread is its argument, the results come in that order.
///
/// Errors: the first one; a panic goes on here.
pub(crate) fn concurrently<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (work, runtime, inherited) = (&work, &Handle::try_current().ok(), &env::entered());
    thread::scope(|scope| {
        let other = |number| {
            scope.spawn(move || {
                let _runtime = runtime.as_ref().map(Handle::enter);
                let _entered = inherited.clone().map(env::enter);
                work(number)
            })
        };
        let others: Vec<_> = (1..threads).map(other).collect();
        let mut results = vec![work(0)];
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        results.extend(others.into_iter().map(join));
        results.into_iter().collect()
    })
}
