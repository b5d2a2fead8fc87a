//! Errors to exceptions: one class of `pennon.errors` per kind.
//!
//! The classes are Python's own, because they inherit several builtins each.

use std::error::Error as _;

use pennon_core::{Error, ErrorKind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error.
pub(crate) fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    let class = match class(py, error) {
        Ok(class) => class,
        Err(failure) => return failure,
    };
    let mut message = error.to_string();
    if let Some(cause) = error.source().map(ToString::to_string).filter(|cause| !message.contains(cause)) {
        message = format!("{message}: {cause}");
    }
    let exception = match error.kind() {
        ErrorKind::Conflict { retryable } => PyErr::from_type(class, (message, retryable)),
        ErrorKind::CommitUnknown => {
            PyErr::from_type(class, (message, error.transaction().map(str::to_owned)))
        }
        _ => PyErr::from_type(class, (message,)),
    };
    match located(py, &exception, error) {
        Ok(()) => exception,
        Err(failure) => failure,
    }
}

/// The error of an argument whose type the call does not take, or whose value lies beyond it.
pub(crate) fn invalid_type(py: Python<'_>, message: String) -> PyErr {
    match named(py, "InvalidTypeError") {
        Ok(class) => PyErr::from_type(class, (message,)),
        Err(failure) => failure,
    }
}

/// Sets the file and the fragment that an error is about.
fn located(py: Python<'_>, exception: &PyErr, error: &Error) -> PyResult<()> {
    let exception = exception.value(py);
    if let Some(path) = error.path() {
        exception.setattr(intern!(py, "path"), path)?;
    }
    if let Some(id) = error.fragment() {
        exception.setattr(intern!(py, "fragment"), id.0)?;
    }
    Ok(())
}

fn class<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyType>> {
    let name = match error.kind() {
        ErrorKind::InvalidInput if error.is_repeated_row() => "RepeatedRowError",
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::AlreadyExists => "AlreadyExistsError",
        ErrorKind::SchemaMismatch => "SchemaMismatchError",
        ErrorKind::Conflict { .. } => "CommitConflictError",
        ErrorKind::CommitUnknown => "CommitUnknownError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Store => "StoreError",
        // Including kinds that are newer than this binding.
        _ => "InternalError",
    };
    named(py, name)
}

fn named<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("pennon.errors")?.getattr(name)?.cast_into()?)
}
