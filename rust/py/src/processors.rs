//! How many processors the core computes on.

use std::num::NonZeroUsize;

use pyo3::prelude::*;

#[pyfunction]
pub(crate) fn cpu_count() -> usize {
    pennon_table::processors()
}

#[pyfunction]
pub(crate) fn set_cpu_count(count: NonZeroUsize) {
    pennon_table::set_processors(count);
}
