//! Values that are loaded once, when they are first needed or before.

use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

use pennon_core::Result;

use crate::runtime::waiting;

/// A value that one thread loads; others that need it meanwhile wait for it.
#[derive(Debug)]
pub(super) struct Loaded<T> {
    value: OnceLock<T>,
    loading: Mutex<()>,
}

impl<T> Default for Loaded<T> {
    fn default() -> Self {
        Self { value: OnceLock::new(), loading: Mutex::new(()) }
    }
}

impl<T> Loaded<T> {
    pub(super) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.get().is_some()
    }

    /// The value. Errors: those of loading it; the next call loads it again.
    pub(super) fn get_or_load(&self, load: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        // A panic while it is loaded leaves nothing half done.
        let _alone = match self.loading.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                waiting(|| self.loading.lock().unwrap_or_else(PoisonError::into_inner))
            }
        };
        match self.value.get() {
            Some(value) => Ok(value),
            None => load().map(|value| self.value.get_or_init(|| value)),
        }
    }
}
