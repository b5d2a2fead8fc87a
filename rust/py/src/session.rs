//! `Session`: caches that several tables share.

use std::sync::Arc;

use pennon_table::CacheSizes;
use pyo3::prelude::*;

use crate::forked::Forked;

/// Caches that are given to the tables that are opened with them. A forked child starts with empty ones.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Session {
    sizes: CacheSizes,
    shared: Forked<Arc<pennon_table::Session>>,
}

impl Session {
    pub(crate) fn wrap(session: Arc<pennon_table::Session>) -> Self {
        let sizes = CacheSizes { bytes: session.capacity() };
        Self { sizes, shared: Forked::new(session) }
    }

    /// The caches of this process.
    pub(crate) fn get(&self, _gil: Python<'_>) -> Arc<pennon_table::Session> {
        self.shared.get().unwrap_or_else(|| {
            let own = pennon_table::Session::new(self.sizes);
            self.shared.set(Arc::clone(&own));
            own
        })
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
