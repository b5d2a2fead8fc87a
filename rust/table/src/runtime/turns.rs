//! Commits of one process to one table take turns.
//!
//! Of several attempts in flight at a time one wins and the others are made again, so within one process they only take
//! the processor from each other. Nothing depends on turns: other processes do not see them, a commit that waited too
//! long goes ahead, and a forked child, whose parent's locks may be held by threads it does not have, takes none.

use std::collections::HashMap;
use std::process;
#[cfg(not(feature = "shuttle"))]
use std::sync;
use std::time::Duration;

use self::sync::atomic::{AtomicU32, Ordering};
use self::sync::{Mutex, PoisonError};
#[cfg(feature = "shuttle")]
use shuttle::sync;
// The locks of tokio want this one.
use std::sync::{Arc, Weak};

use futures::future::{Either, select};
use tokio::sync::{Mutex as TurnLock, OwnedMutexGuard};

/// Longer than any commit to a local disk takes.
pub(crate) const TURN_PATIENCE: Duration = Duration::from_secs(1);
/// Locks of tables that nobody commits to any more are dropped when there are this many.
const MANY: usize = 64;

/// The turns of one process, by table.
#[derive(Debug, Default)]
pub struct Turns {
    /// The process whose commits take turns: the first one that commits.
    owner: AtomicU32,
    locks: Mutex<HashMap<String, Weak<TurnLock<()>>>>,
}

impl Turns {
    /// Waits for the turn of a commit to the table at that root, until `patience` completes. The turn ends when the
    /// guard is dropped.
    pub(crate) async fn take(
        &self,
        root: &str,
        patience: impl Future<Output = ()>,
    ) -> Option<OwnedMutexGuard<()>> {
        let process = process::id();
        let owner = self.owner.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
        if owner.is_err_and(|owner| owner != process) {
            return None;
        }
        let lock = self.lock(root);
        match lock.try_lock_owned() {
            Ok(turn) => Some(turn),
            Err(_) => {
                let waited = Box::pin(self.lock(root).lock_owned());
                match select(waited, Box::pin(patience)).await {
                    Either::Left((turn, _)) => Some(turn),
                    Either::Right(_) => None,
                }
            }
        }
    }

    fn lock(&self, root: &str) -> Arc<TurnLock<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(root).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= MANY {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(TurnLock::new(()));
        locks.insert(root.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

/// Under schedules that shuttle draws: `make schedules`.
#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use shuttle::future::{block_on, spawn, yield_now};
    use shuttle::rand::{Rng, thread_rng};
    use shuttle::sync::atomic::AtomicUsize;

    use super::*;

    /// Some wait to the end, some until their patience ends, some are cancelled while they wait.
    #[test]
    fn one_at_a_time_has_the_turn_of_a_table_and_nobody_waits_for_ever() {
        let program = || {
            let turns = Arc::new(Turns::default());
            let holders: Arc<[AtomicUsize; 2]> = Arc::default();
            let commit = |number: usize| {
                let (turns, holders) = (Arc::clone(&turns), Arc::clone(&holders));
                let patience = thread_rng().gen_range(0..4);
                spawn(async move {
                    let table = number % 2;
                    let root = ["a", "b"][table];
                    let turn = match patience {
                        0 => turns.take(root, std::future::ready(())).await,
                        1 => turns.take(root, yield_now()).await,
                        2 => {
                            let _ = select(
                                Box::pin(turns.take(root, std::future::pending())),
                                Box::pin(yield_now()),
                            )
                            .await;
                            None
                        }
                        _ => Some(turns.take(root, std::future::pending()).await.unwrap()),
                    };
                    if turn.is_some() {
                        assert_eq!(holders[table].fetch_add(1, Ordering::SeqCst), 0);
                        yield_now().await;
                        holders[table].fetch_sub(1, Ordering::SeqCst);
                    }
                })
            };
            let commits: Vec<_> = (0..7).map(commit).collect();
            commits.into_iter().for_each(|commit| block_on(commit).unwrap());
            assert!(block_on(turns.take("a", std::future::ready(()))).is_some());
        };
        shuttle::check_random(program, 3_000);
        shuttle::check_pct(program, 3_000, 3);
    }
}
