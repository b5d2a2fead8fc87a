//! A request as Python hands it over.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::invalid_type;

/// What a call is given. A part that is not a value of its type, or lies beyond it, is an `InvalidTypeError` that names
/// the part, where PyO3 would name the struct of this crate.
pub(crate) struct Given<T>(pub(crate) T);

impl<'a, 'py, T> FromPyObject<'a, 'py> for Given<T>
where
    T: FromPyObject<'a, 'py, Error = PyErr>,
{
    type Error = PyErr;

    fn extract(request: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = request.py();
        T::extract(request).map(Self).map_err(|error| invalid(py, error).unwrap_or_else(|failure| failure))
    }
}

/// The error that names the innermost part; errors that are not about a part stay as they are.
fn invalid(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    let (mut part, mut found) = (None, error);
    while found.is_instance_of::<PyTypeError>(py) {
        let message = found.value(py).str()?.to_string();
        let Some(path) = message.strip_prefix("failed to extract field ") else { break };
        let Some(cause) = found.cause(py) else { break };
        part = path.rsplit('.').next().map(str::to_owned).or(part);
        found = cause;
    }
    let Some(part) = part else { return Ok(found) };
    let invalid = invalid_type(py, format!("{part}: {}", found.value(py).str()?));
    invalid.set_cause(py, Some(found));
    Ok(invalid)
}
