//! References to versions: a number, a tag, or a pair of branch and version.

use pennon_table::VersionRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::invalid_type;

/// A version as Python names it.
#[derive(Debug)]
pub(crate) struct Reference(pub(crate) VersionRef);

impl<'py> FromPyObject<'_, 'py> for Reference {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(tag) = value.extract::<String>() {
            return Ok(Self(VersionRef::Tag(tag)));
        }
        if let Ok((branch, version)) = value.extract::<(Option<String>, Option<Self>)>() {
            return Ok(Self(VersionRef::Branch(branch, version.map(|v| Box::new(v.0)))));
        }
        value.extract::<u64>().map(|number| Self(VersionRef::Number(number))).map_err(|error| {
            if !error.is_instance_of::<PyTypeError>(value.py()) {
                return error;
            }
            let found = value.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
            let message = format!(
                "version must be an int, a tag (str) or a tuple of branch and version, found {found} {value:?}"
            );
            invalid_type(value.py(), message)
        })
    }
}
