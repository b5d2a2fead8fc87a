//! `Blob`: the bytes of one value, read when they are asked for.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::runtime::run;

/// A blob that was found and not read.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Blob(pub(crate) pennon_table::scan::Blob);

#[pymethods]
impl Blob {
    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let blob = self.0.clone();
        let bytes = run(py, pennon_table::scan::read_blob(blob, start..end))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
