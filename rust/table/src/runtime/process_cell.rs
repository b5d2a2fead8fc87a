//! A value that all of a process shares, such as a map, and that a forked child can use.
//!
//! Invariant: a lock that is held is not waited for: in a forked child nobody may ever give it back. Whoever does not
//! get it after a few tries does without. A child starts with an empty value: what another thread of its parent was doing
//! with a value at the time of the fork is never finished there.

use std::process;
use std::sync::{Mutex, TryLockError};
use std::thread::yield_now;

/// Tries to get the lock, which others hold for microseconds.
const TRIES: usize = 256;

/// A value of this process.
pub(crate) struct ProcessCell<T>(Mutex<Option<(u32, T)>>);

impl<T: Default> ProcessCell<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Works with the value; `None` if the lock is not to be had. What is taken out is better dropped by the caller: it may
    /// take a while.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        for _ in 0..TRIES {
            let mut slot = match self.0.try_lock() {
                Ok(slot) => slot,
                // A panic while the lock is held can only lose entries of a map.
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    yield_now();
                    continue;
                }
            };
            let own = process::id();
            if slot.as_ref().is_some_and(|(pid, _)| *pid != own) {
                std::mem::forget(slot.take());
            }
            let (_, value) = slot.get_or_insert_with(|| (own, T::default()));
            return Some(work(value));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_lock_that_is_never_given_back_is_not_waited_for() {
        static MAP: ProcessCell<HashMap<String, u8>> = ProcessCell::new();
        assert_eq!(MAP.with(|map| map.insert("a".to_owned(), 1)), Some(None));
        let held = MAP.0.lock().unwrap();
        assert_eq!(MAP.with(|map| map.len()), None);
        drop(held);
        assert_eq!(MAP.with(|map| map.len()), Some(1));
    }

    #[test]
    fn another_process_starts_with_nothing() {
        static MAP: ProcessCell<HashMap<String, u8>> = ProcessCell::new();
        *MAP.0.lock().unwrap() = Some((process::id() + 1, HashMap::from([("a".to_owned(), 1)])));
        assert_eq!(MAP.with(|map| map.len()), Some(0));
    }
}
