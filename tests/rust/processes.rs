//! Processes with clocks and randomness of their own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pennon_core::manifest::Timestamp;
use pennon_table::Env;
use pennon_table::runtime::Turns;

/// A process whose clock goes on by a millisecond with each look at it, that never really waits, and whose random numbers
/// are the largest ones.
#[derive(Debug, Default)]
pub struct Patient {
    /// Seconds of the wall clock after a moment in 2023.
    pub seconds: AtomicI64,
    looks: AtomicU64,
    turns: Turns,
    pub waited: Mutex<Vec<Duration>>,
}

impl Env for Patient {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 1_700_000_000 + self.seconds.load(Ordering::Relaxed), nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        let waited: Duration = self.waited.lock().unwrap().iter().sum();
        waited + Duration::from_millis(self.looks.fetch_add(1, Ordering::Relaxed))
    }

    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }

    fn random(&self) -> u64 {
        // Names of files are made of them.
        u64::MAX - self.looks.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.waited.lock().unwrap().push(duration);
        tokio::task::yield_now().boxed()
    }

    fn is_single_threaded(&self) -> bool {
        false
    }

    fn turns(&self) -> &Turns {
        &self.turns
    }
}
