//! The processors of a session, shared by threads that decode what a store sent.
//!
//! Scans of remote tables have as many threads as requests are in flight, since each of them waits for the store most of
//! the time. While it computes, a thread holds one of the [`processors`]; while it waits for the store, or for a value
//! that another thread loads, it gives it back. Nobody waits for a processor longer than [`PROCESSOR_PATIENCE`]: a
//! thread that waits without saying so slows the others down, and never stops them.

use std::cell::RefCell;
use std::time::Duration;
#[cfg(not(feature = "shuttle"))]
use std::{sync, thread_local};

use self::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "shuttle")]
use shuttle::{sync, thread_local};

use super::processors;

/// The longest that a thread waits for a processor.
const PROCESSOR_PATIENCE: Duration = Duration::from_secs(1);

/// Processors that threads hold.
#[derive(Debug, Default)]
pub(crate) struct Computing {
    held: Mutex<usize>,
    returned: Condvar,
}

thread_local! {
    /// Where the processor of this thread comes from, if it holds one.
    static PROCESSOR: RefCell<Option<Arc<Computing>>> = const { RefCell::new(None) };
}

/// Gives the processor of this thread back when it is dropped.
struct Returned;

impl Drop for Returned {
    fn drop(&mut self) {
        give_back();
    }
}

/// Takes the processor again when it is dropped.
struct Resumed(Option<Arc<Computing>>);

impl Drop for Resumed {
    fn drop(&mut self) {
        if let Some(computing) = self.0.take() {
            computing.take();
        }
    }
}

impl Computing {
    /// Does the work of this thread with a processor, for which it waits.
    pub(crate) fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        if PROCESSOR.with(|held| held.borrow().is_some()) {
            return work();
        }
        self.take();
        let _returned = Returned;
        work()
    }

    fn take(self: &Arc<Self>) {
        let is_full = |held: &mut usize| *held >= processors();
        let waited = self.returned.wait_timeout_while(self.held(), PROCESSOR_PATIENCE, is_full);
        let (mut held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *held += 1;
        drop(held);
        PROCESSOR.with(|held| *held.borrow_mut() = Some(Arc::clone(self)));
    }

    fn held(&self) -> MutexGuard<'_, usize> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the processor of this thread back, if it holds one.
fn give_back() -> Option<Arc<Computing>> {
    let computing = PROCESSOR.with(|held| held.borrow_mut().take())?;
    *computing.held() -= 1;
    computing.returned.notify_one();
    Some(computing)
}

/// Does what waits for something else than a processor, without one.
pub(crate) fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    let _resumed = Resumed(give_back());
    wait()
}

/// Under schedules that shuttle draws, where no wait ends by its patience: `make schedules`.
#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use shuttle::sync::atomic::{AtomicUsize, Ordering};
    use shuttle::thread;

    use super::*;

    /// More threads than processors, which wait for each other without them.
    #[test]
    fn nobody_misses_a_processor_that_was_returned() {
        let program = || {
            let computing = Arc::new(Computing::default());
            let (now, waited) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let threads = processors() + 2;
            let share = |_| {
                let (computing, now, waited) =
                    (Arc::clone(&computing), Arc::clone(&now), Arc::clone(&waited));
                thread::spawn(move || {
                    let compute = || {
                        assert!(now.fetch_add(1, Ordering::SeqCst) < processors());
                        thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    computing.run(|| {
                        compute();
                        waiting(|| {
                            waited.fetch_add(1, Ordering::SeqCst);
                            while waited.load(Ordering::SeqCst) < threads {
                                thread::yield_now();
                            }
                        });
                        compute();
                        computing.run(compute);
                    });
                })
            };
            let threads: Vec<_> = (0..threads).map(share).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*computing.held(), 0);
        };
        shuttle::check_random(program, 3_000);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::runtime::{Stopwatch, concurrently, thread};

    #[test]
    fn no_more_threads_compute_than_there_are_processors() {
        let computing = Arc::new(Computing::default());
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let compute = || {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::hint::black_box((0..1_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
            now.fetch_sub(1, Ordering::SeqCst);
        };
        let started = AtomicUsize::new(0);
        let threads = processors() + 6;
        let share = |_| {
            computing.run(|| {
                compute();
                // All of them wait for each other: so they wait without processors.
                waiting(|| {
                    started.fetch_add(1, Ordering::SeqCst);
                    while started.load(Ordering::SeqCst) < threads {
                        std::thread::yield_now();
                    }
                });
                compute();
                computing.run(compute);
            });
            Ok(())
        };
        let watch = Stopwatch::start();
        concurrently(threads, share).unwrap();
        assert!(most.into_inner() <= processors());
        assert!(watch.elapsed() < PROCESSOR_PATIENCE, "somebody waited for a processor that was free");
        assert_eq!(*computing.held(), 0);
    }

    #[test]
    fn a_thread_that_waits_with_its_processor_stops_nobody() {
        let computing = Arc::new(Computing::default());
        let started = AtomicUsize::new(0);
        let threads = processors() + 1;
        let share = |_| {
            computing.run(|| {
                started.fetch_add(1, Ordering::SeqCst);
                while started.load(Ordering::SeqCst) < threads {
                    std::thread::yield_now();
                }
            });
            Ok(())
        };
        concurrently(threads, share).unwrap();
        assert_eq!(*computing.held(), 0);
    }

    #[test]
    fn a_panic_gives_the_processor_back() {
        let computing = Arc::new(Computing::default());
        let panicking = Arc::clone(&computing);
        let failing = move || panicking.run(|| waiting(|| panic!("planted")));
        assert!(thread("failing", failing).unwrap().join().is_err());
        assert_eq!(*computing.held(), 0);
    }
}
