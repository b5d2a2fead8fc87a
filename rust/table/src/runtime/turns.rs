//! Commits of one process to one table take turns.
//!
//! Of several attempts in flight at a time one wins and the others are made again, so within one process they only take
//! the processor from each other. Nothing depends on turns: other processes do not see them, a commit that waited too
//! long goes ahead, and a forked child, whose parent's locks may be held by threads it does not have, takes none.

use std::collections::HashMap;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{Mutex as TurnLock, OwnedMutexGuard};

/// Longer than any commit to a local disk takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
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
