//! A state of one process, which a forked child does not go on with.
//!
//! Invariant: the lock is held only while the GIL is, and never across a call. The locks inside the parent's state may
//! have been held by a thread that the child does not have: the child makes its own, and does not even drop that one.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A state, and the process that made it.
#[derive(Debug)]
pub(crate) struct Forked<T>(Mutex<(u32, T)>);

impl<T> Forked<T> {
    pub(crate) fn new(state: T) -> Self {
        Self(Mutex::new((process::id(), state)))
    }

    /// The state of this process, unless only a parent has one.
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        let held = self.lock();
        (held.0 == process::id()).then(|| held.1.clone())
    }

    /// What the state says that takes no lock of its own: usable on either side of a fork.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&T) -> R) -> R {
        at(&self.lock().1)
    }

    pub(crate) fn set(&self, state: T) {
        let old = std::mem::replace(&mut *self.lock(), (process::id(), state));
        if old.0 != process::id() {
            std::mem::forget(old);
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u32, T)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
