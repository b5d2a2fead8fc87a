//! The world that the processes of a history share, and what each of them sees of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pennon_core::manifest::Timestamp;
use pennon_table::runtime::{Env, Fault, Turns};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use uuid::Uuid;

/// Clock and randomness of a history.
#[derive(Debug)]
pub(super) struct World {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    elapsed: Duration,
    /// Commits that are neither ended nor waiting for a retry.
    busy: usize,
}

impl World {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let state = State { random: StdRng::seed_from_u64(seed), elapsed: Duration::ZERO, busy: 0 };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// 64 random bits.
    pub(super) fn random(&self) -> u64 {
        self.with(|state| state.random.next_u64())
    }

    /// A random number below another one.
    pub(super) fn below(&self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(1);
        usize::try_from(self.random() % end).unwrap_or(0)
    }

    /// True once in so many times.
    pub(super) fn one_in(&self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Lets time pass.
    pub(super) fn pass(&self, time: Duration) {
        self.with(|state| state.elapsed += time);
    }

    /// A commit begins; it ends when the guard is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.with(|state| state.busy += 1);
        Busy(Arc::clone(self))
    }

    /// Whether a commit is neither ended nor waiting for a retry.
    pub(super) fn is_busy(&self) -> bool {
        self.with(|state| state.busy > 0)
    }

    fn elapsed(&self) -> Duration {
        self.with(|state| state.elapsed)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A commit that has not ended.
pub(super) struct Busy(Arc<World>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.with(|state| state.busy -= 1);
    }
}

/// A commit that waits.
struct Asleep(Arc<World>);

impl Drop for Asleep {
    fn drop(&mut self) {
        self.0.with(|state| state.busy += 1);
    }
}

/// Gives others their turn, some times.
pub(super) async fn pause(times: usize) {
    let mut left = times;
    futures::future::poll_fn(|context| match left {
        0 => std::task::Poll::Ready(()),
        _ => {
            left -= 1;
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
}

/// What one process sees.
#[derive(Debug)]
pub(super) struct Process {
    world: Arc<World>,
    turns: Turns,
    fault: Option<Fault>,
}

impl Process {
    pub(super) fn new(world: &Arc<World>, fault: Option<Fault>) -> Arc<Self> {
        Arc::new(Self { world: Arc::clone(world), turns: Turns::default(), fault })
    }
}

impl Env for Process {
    fn now(&self) -> Timestamp {
        let elapsed = self.world.elapsed();
        let seconds = 1_700_000_000 + i64::try_from(elapsed.as_secs()).unwrap_or(0);
        Timestamp { seconds, nanos: elapsed.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        self.world.elapsed()
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.world.random(), self.world.random())
    }

    fn random(&self) -> u64 {
        self.world.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let world = Arc::clone(&self.world);
        async move {
            world.with(|state| state.busy -= 1);
            let _asleep = Asleep(Arc::clone(&world));
            pause(1 + world.below(60)).await;
            world.pass(duration);
        }
        .boxed()
    }

    fn is_single_threaded(&self) -> bool {
        true
    }

    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }
}
