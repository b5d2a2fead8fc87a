//! Clock, ids, randomness and waiting: all that makes two runs of the same calls differ.
//!
//! Like tokio's `Handle`, the environment is that of the thread: [`enter`] sets it until the guard is dropped, and
//! blocking work and threads that are started below inherit it. Where none was entered it is the process's own.
//! A simulation enters one that is made from a seed, and a whole run with several writers can be repeated from that
//! number.

#![expect(clippy::disallowed_methods, reason = "the one place that asks the system")]

use std::cell::RefCell;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use pennon_core::manifest::Timestamp;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::faults::Fault;
use super::turns::Turns;

/// What a process has of its own.
pub trait Env: fmt::Debug + Send + Sync {
    /// The time by the wall clock.
    fn now(&self) -> Timestamp;

    /// The time since some moment in the past; never goes back.
    fn monotonic(&self) -> Duration;

    /// A uuid that nobody else has.
    fn uuid(&self) -> Uuid;

    /// 64 random bits.
    fn random(&self) -> u64;

    /// Completes after that time.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Whether blocking work runs on the thread that asks for it, so that only the order of polls decides what happens.
    fn is_single_threaded(&self) -> bool;

    /// The turns of this process's commits.
    fn turns(&self) -> &Turns;

    /// A mistake that the commit loop makes on purpose, see [`Fault`].
    fn fault(&self) -> Option<Fault> {
        None
    }
}

thread_local! {
    static ENTERED: RefCell<Option<Arc<dyn Env>>> = const { RefCell::new(None) };
}

/// Leaves the environment that was entered when it is dropped.
#[must_use = "the environment is left when the guard is dropped"]
#[derive(Debug)]
pub struct Entered {
    before: Option<Arc<dyn Env>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.with(|entered| *entered.borrow_mut() = self.before.take());
    }
}

/// Makes an environment that of this thread, until the guard is dropped.
pub fn enter(env: Arc<dyn Env>) -> Entered {
    Entered { before: ENTERED.with(|entered| entered.borrow_mut().replace(env)) }
}

/// The environment that was entered on this thread.
pub(super) fn entered() -> Option<Arc<dyn Env>> {
    ENTERED.with(|entered| entered.borrow().clone())
}

/// Whether a fault is planted. Where no environment was entered that costs the look at a thread-local variable.
pub(crate) fn is_planted(fault: Fault) -> bool {
    planted() == Some(fault)
}

/// The fault that is planted.
pub(crate) fn planted() -> Option<Fault> {
    entered()?.fault()
}

/// Whether only the order of polls may decide what happens: see [`Env::is_single_threaded`].
pub(crate) fn is_single_threaded() -> bool {
    entered().is_some_and(|env| env.is_single_threaded())
}

/// The environment of this thread.
pub(crate) fn current() -> Arc<dyn Env> {
    entered().unwrap_or_else(|| Arc::clone(system()))
}

/// The time by the wall clock.
pub(crate) fn now() -> Timestamp {
    current().now()
}

/// The time by the wall clock, for texts.
pub(crate) fn utc_now() -> DateTime<Utc> {
    let now = now();
    DateTime::from_timestamp(now.seconds, now.nanos).unwrap_or_default()
}

/// A uuid that nobody else has.
pub(crate) fn uuid() -> Uuid {
    current().uuid()
}

/// 64 random bits.
pub(crate) fn random() -> u64 {
    current().random()
}

/// A random number below another one, which is not 0.
pub(crate) fn random_below(end: u32) -> u32 {
    let scaled = (u128::from(random()) * u128::from(end)) >> 64;
    u32::try_from(scaled).unwrap_or(0)
}

/// Completes after that time.
pub(crate) async fn sleep(duration: Duration) {
    let sleep = current().sleep(duration);
    sleep.await;
}

/// [`sleep`] for that time and up to as much again, at random, so that those who failed together do not come together;
/// not at all where nothing can wake the caller.
pub(crate) async fn pause(duration: Duration) {
    if can_sleep() {
        let millis = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        sleep(duration + Duration::from_millis(u64::from(random_below(millis.max(1))))).await;
    }
}

/// What comes of a future within that time; waits for as long as it takes where nothing can wake the caller.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    if !can_sleep() {
        return Some(future.await);
    }
    match select(pin!(future), sleep_at_need(limit)).await {
        Either::Left((result, _)) => Some(result),
        Either::Right(_) => None,
    }
}

/// A sleep that begins when it is first asked whether it is over.
fn sleep_at_need(duration: Duration) -> BoxFuture<'static, ()> {
    async move { sleep(duration).await }.boxed()
}

/// Whether there is a clock that wakes: one of a runtime, or a simulated one.
fn can_sleep() -> bool {
    Handle::try_current().is_ok() || entered().is_some()
}

/// Time since a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Duration,
}

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self { started: current().monotonic() }
    }

    /// What has passed since.
    pub(crate) fn elapsed(&self) -> Duration {
        current().monotonic().saturating_sub(self.started)
    }
}

/// The environment of the process itself.
#[derive(Debug)]
struct System {
    started: Instant,
    turns: Turns,
}

fn system() -> &'static Arc<dyn Env> {
    static SYSTEM: OnceLock<Arc<dyn Env>> = OnceLock::new();
    SYSTEM.get_or_init(|| Arc::new(System { started: Instant::now(), turns: Turns::default() }))
}

impl Env for System {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is one that was never set: the first moment is as good as any.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Timestamp { seconds, nanos: since.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn random(&self) -> u64 {
        rand::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }

    fn is_single_threaded(&self) -> bool {
        false
    }

    fn turns(&self) -> &Turns {
        &self.turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_stay_below_their_end_and_reach_it() {
        let drawn: Vec<u32> = (0..2000).map(|_| random_below(3)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&2)));
    }
}
