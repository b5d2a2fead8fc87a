//! `Session`: caches that several tables share.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use pennon_table::CacheSizes;
use pyo3::prelude::*;

/// Caches that are given to the tables that are opened with them. A forked child starts with empty ones: the locks of
/// its parent's may have been held by a thread that the child does not have.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Session {
    sizes: CacheSizes,
    /// With the process that made it.
    shared: Mutex<(u32, Arc<pennon_table::Session>)>,
}

impl Session {
    pub(crate) fn wrap(session: Arc<pennon_table::Session>) -> Self {
        let sizes = CacheSizes { bytes: session.capacity() };
        Self { sizes, shared: Mutex::new((process::id(), session)) }
    }

    /// The caches of this process. The lock is held only while the GIL is.
    pub(crate) fn get(&self, _gil: Python<'_>) -> Arc<pennon_table::Session> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.0 != process::id() {
            let own = (process::id(), pennon_table::Session::new(self.sizes));
            std::mem::forget(std::mem::replace(&mut *shared, own));
        }
        Arc::clone(&shared.1)
    }
}

#[pymethods]
impl Session {
    #[new]
    fn new(cache_bytes: Option<usize>) -> Self {
        let sizes = cache_bytes.map_or_else(CacheSizes::default, |bytes| CacheSizes { bytes });
        Self::wrap(pennon_table::Session::new(sizes))
    }

    /// Bytes that are kept.
    fn size_bytes(&self, py: Python<'_>) -> usize {
        self.get(py).bytes()
    }

    /// Bytes that are kept at most.
    #[getter]
    fn capacity(&self) -> usize {
        self.sizes.bytes
    }

    fn is_same_as(&self, py: Python<'_>, other: &Self) -> bool {
        Arc::ptr_eq(&self.get(py), &other.get(py))
    }
}
