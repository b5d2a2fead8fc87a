//! `Tags`: names of versions.

use std::collections::BTreeMap;

use pennon_core::manifest::Timestamp;
use pennon_table::RefOrder;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::handle::Handle;
use crate::reference::Reference;
use crate::runtime::run;

/// The tags of a table.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Tags(pub(crate) Handle);

/// A tag; times are seconds and nanoseconds since 1970, UTC.
#[derive(IntoPyObject)]
pub(crate) struct Tag {
    branch: Option<String>,
    version: u64,
    created_at: Option<(i64, u32)>,
    updated_at: Option<(i64, u32)>,
    manifest_size: u64,
    metadata: BTreeMap<String, String>,
}

impl From<pennon_table::Tag> for Tag {
    fn from(tag: pennon_table::Tag) -> Self {
        let time = |at: Timestamp| (at.seconds, at.nanos);
        Self {
            branch: tag.branch,
            version: tag.version.0,
            created_at: tag.created_at.map(time),
            updated_at: tag.updated_at.map(time),
            manifest_size: tag.manifest_size,
            metadata: tag.metadata,
        }
    }
}

#[pymethods]
impl Tags {
    fn list(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Tag>> {
        let tags = self.0.get(py)?.tags();
        let listed = run(py, tags.list())?;
        Ok(listed.into_iter().map(|(name, tag)| (name, tag.into())).collect())
    }

    fn list_ordered(&self, py: Python<'_>, order: &str) -> PyResult<Vec<(String, Tag)>> {
        let order: RefOrder = order.parse().map_err(|error| to_py(py, &error))?;
        let tags = self.0.get(py)?.tags();
        let listed = run(py, tags.list_ordered(order))?;
        Ok(listed.into_iter().map(|(name, tag)| (name, tag.into())).collect())
    }

    fn get_version(&self, py: Python<'_>, tag: &str) -> PyResult<u64> {
        let tags = self.0.get(py)?.tags();
        Ok(run(py, tags.get_version(tag))?.0)
    }

    fn create(&self, py: Python<'_>, tag: &str, reference: Option<Reference>) -> PyResult<()> {
        let tags = self.0.get(py)?.tags();
        run(py, tags.create(tag, reference.map(|r| r.0)))
    }

    fn update(&self, py: Python<'_>, tag: &str, reference: Option<Reference>) -> PyResult<()> {
        let tags = self.0.get(py)?.tags();
        run(py, tags.update(tag, reference.map(|r| r.0)))
    }

    fn delete(&self, py: Python<'_>, tag: &str) -> PyResult<()> {
        let tags = self.0.get(py)?.tags();
        run(py, tags.delete(tag))
    }

    fn replace_metadata(
        &self,
        py: Python<'_>,
        tag: &str,
        metadata: BTreeMap<String, String>,
    ) -> PyResult<()> {
        let tags = self.0.get(py)?.tags();
        run(py, tags.replace_metadata(tag, metadata))
    }
}
