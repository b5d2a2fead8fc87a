//! Calls in flight, blocking work and threads.
//!
//! Files are read, decoded and written on tokio's blocking threads, which the caller's runtime must have; see the
//! front page of the crate. Only what is brief is done where it is asked for. Everything that is started here inherits what
//! belongs to the thread that started it: its [`super::Env`], its scope of [`super::Metrics`] and its tracing span.

#![expect(clippy::disallowed_methods, reason = "the one place that asks the system")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use pennon_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::Span;

use super::env::{self, Env};
use super::limits::IN_FLIGHT;
use super::metrics::{self, Metrics};

/// What a thread hands on to the work it starts.
#[derive(Clone)]
struct Inherited {
    env: Option<Arc<dyn Env>>,
    metrics: Option<Arc<Metrics>>,
    span: Span,
}

impl Inherited {
    fn take() -> Self {
        Self { env: env::entered(), metrics: metrics::scope(), span: Span::current() }
    }

    fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _env = self.env.map(env::enter);
        let _metrics = self.metrics.map(Metrics::enter);
        self.span.in_scope(work)
    }
}

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
    let inherited = Inherited::take();
    if inherited.env.as_ref().is_some_and(|env| env.is_single_threaded()) {
        return work();
    }
    match tokio::task::spawn_blocking(move || inherited.run(work)).await {
        Ok(result) => result,
        Err(failure) if failure.is_panic() => resume_unwind(failure.into_panic()),
        Err(failure) => Err(Error::internal("the runtime was shut down during a call").with_source(failure)),
    }
}

/// Runs brief work on this thread, since another one would take longer to wake up, and other work on a blocking thread.
/// Brief work never waits for a remote store: a thread of the runtime cannot.
pub(crate) async fn blocking_unless<T: Send + 'static>(
    is_brief: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if is_brief { work() } else { blocking(work).await }
}

/// Waits for a future on a blocking thread, one that runs what was given to [`blocking`].
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let wait = || Handle::current().block_on(future);
    // What is asked for on one thread only runs on a thread of the runtime, which has to let go of it.
    if env::is_single_threaded() { tokio::task::block_in_place(wait) } else { wait() }
}

/// Runs work that waits on a blocking thread of the runtime, and does not wait for it; nobody does it where there is no
/// runtime.
pub(crate) fn detach_blocking(work: impl FnOnce() + Send + 'static) {
    let inherited = Inherited::take();
    if let Ok(runtime) = Handle::try_current() {
        drop(runtime.spawn_blocking(move || inherited.run(work)));
    }
}

/// What code of a library gives; if it panics, which is a fault of its, the message.
pub(crate) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
    })
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
    let inherited = Inherited::take();
    thread::Builder::new().name(name.to_owned()).spawn(move || inherited.run(work))
}

/// Runs work concurrently on this thread and on others, inside the caller's runtime if there is one. The number of a
/// thread is its argument, the results come in that order.
///
/// Errors: the first one; that of the system if it has no more threads, since the shares may wait for each other. A
/// panic goes on here.
pub(crate) fn concurrently<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (work, runtime, inherited) = (&work, &Handle::try_current().ok(), &Inherited::take());
    thread::scope(|scope| {
        let other = |number| {
            let share = move || {
                let _runtime = runtime.as_ref().map(Handle::enter);
                inherited.clone().run(|| work(number))
            };
            let refused = |error: io::Error| {
                Error::store(format!("no thread {number} of {threads}: {error}")).with_source(error)
            };
            thread::Builder::new().spawn_scoped(scope, share).map_err(refused)
        };
        let others = (1..threads).map(other).collect::<Result<Vec<_>>>()?;
        let mut results = vec![work(0)];
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        results.extend(others.into_iter().map(join));
        results.into_iter().collect()
    })
}

/// Does work of which each thread takes the next part: on this thread, and on as many others as the system gives.
///
/// Errors: the first one. A panic goes on here.
pub(crate) fn shared(threads: usize, work: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
    let (runtime, inherited) = (&Handle::try_current().ok(), &Inherited::take());
    thread::scope(|scope| {
        let other = |_| {
            let share = move || {
                let _runtime = runtime.as_ref().map(Handle::enter);
                inherited.clone().run(work)
            };
            thread::Builder::new().spawn_scoped(scope, share).ok()
        };
        let others: Vec<_> = (1..threads).filter_map(other).collect();
        let own = work();
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        others.into_iter().map(join).fold(own, Result::and)
    })
}

/// Does the same for each item, in order or on so many threads, this one included; see [`concurrently`].
///
/// Errors: that of an item; what others do meanwhile is waited for.
pub(crate) fn each_concurrently<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = threads.min(items.len());
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let share = |_| {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok(done) };
            match work(item) {
                Ok(result) => done.push((at, result)),
                Err(error) => {
                    // Nobody begins another one.
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let mut done: Vec<(usize, T)> = concurrently(threads, share)?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        for threads in [0, 1, 3, 500] {
            let doubled = each_concurrently(threads, &items, |n| Ok(n * 2)).unwrap();
            assert_eq!(doubled, items.iter().map(|n| n * 2).collect::<Vec<_>>());
            let failed = each_concurrently(threads, &items, |&n| match n {
                40 => Err(Error::internal("forty")),
                n => Ok(n),
            });
            assert_eq!(failed.unwrap_err().to_string(), Error::internal("forty").to_string());
        }
    }
}
