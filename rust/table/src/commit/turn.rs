//! Commits of one process to one table take turns.
//!
//! Of several attempts that are under way at a time one wins and the others are done again, so on one machine they only
//! take the processor from each other. Nothing depends on turns: other processes do not know of them, a commit that
//! waited too long goes ahead, and a forked child, whose parent's locks may be held by threads it does not have, takes
//! none.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use crate::store::Store;

/// Two tables that share a lock only wait for each other now and then.
const LOCKS: usize = 64;
/// Longer than any commit to a local disk takes.
const PATIENCE: Duration = Duration::from_secs(1);

static TURNS: [Mutex<()>; LOCKS] = [const { Mutex::const_new(()) }; LOCKS];
/// The process whose commits take turns: the first one that commits.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Waits for the turn of a commit, which ends when what is given is dropped.
pub(super) async fn take(store: &Store) -> Option<MutexGuard<'static, ()>> {
    let process = process::id();
    let owner = OWNER.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
    if owner.is_err_and(|owner| owner != process) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    store.root().hash(&mut hasher);
    let at = usize::try_from(hasher.finish() >> 32).ok()? % LOCKS;
    tokio::time::timeout(PATIENCE, TURNS.get(at)?.lock()).await.ok()
}
