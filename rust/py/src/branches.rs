//! `Branches`, and the making of branches and clones.

use std::collections::{BTreeMap, HashMap};

use pennon_table::RefOrder;
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::error::to_py;
use crate::handle::Handle;
use crate::operation::BasePathParts;
use crate::reference::Reference;
use crate::runtime::run;

/// The branches of a table.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Branches(Handle);

/// A branch; the time is in seconds since 1970.
#[derive(IntoPyObject)]
pub(crate) struct Branch {
    parent_branch: Option<String>,
    branch_identifier: Vec<(u64, String)>,
    parent_version: u64,
    create_at: u64,
    manifest_size: u64,
    metadata: BTreeMap<String, String>,
}

impl From<pennon_table::Branch> for Branch {
    fn from(branch: pennon_table::Branch) -> Self {
        Self {
            parent_branch: branch.parent_branch,
            branch_identifier: branch.identifier,
            parent_version: branch.parent_version.0,
            create_at: branch.created_at,
            manifest_size: branch.manifest_size,
            metadata: branch.metadata,
        }
    }
}

#[pymethods]
impl Branches {
    #[new]
    fn new(py: Python<'_>, dataset: &Bound<'_, Dataset>) -> PyResult<Self> {
        Ok(Self(Handle::new(dataset.get().get(py)?)))
    }

    fn list(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Branch>> {
        let branches = self.0.get(py)?.branches();
        let listed = run(py, branches.list())?;
        Ok(listed.into_iter().map(|(name, branch)| (name, branch.into())).collect())
    }

    fn list_ordered(&self, py: Python<'_>, order: &str) -> PyResult<Vec<(String, Branch)>> {
        let order: RefOrder = order.parse().map_err(|error| to_py(py, &error))?;
        let branches = self.0.get(py)?.branches();
        let listed = run(py, branches.list_ordered(order))?;
        Ok(listed.into_iter().map(|(name, branch)| (name, branch.into())).collect())
    }

    fn delete(&self, py: Python<'_>, branch: &str) -> PyResult<()> {
        let branches = self.0.get(py)?.branches();
        run(py, branches.delete(branch))
    }

    fn replace_metadata(
        &self,
        py: Python<'_>,
        branch: &str,
        metadata: BTreeMap<String, String>,
    ) -> PyResult<()> {
        let branches = self.0.get(py)?.branches();
        run(py, branches.replace_metadata(branch, metadata))
    }

    /// Name of the branch of this handle, `None` on main.
    #[getter]
    fn current(&self) -> Option<String> {
        self.0.look(|dataset| dataset.manifest().branch.clone())
    }
}

/// Makes a branch.
#[pyfunction]
pub(crate) fn create_branch(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    branch: &str,
    reference: Option<Reference>,
) -> PyResult<Dataset> {
    let dataset = dataset.get().get(py)?;
    run(py, dataset.create_branch(branch, reference.map(|r| r.0))).map(Dataset::wrap)
}

/// Makes a table from a version of another one, with the same files or with copies.
#[pyfunction]
pub(crate) fn clone_table(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    target: &str,
    reference: Reference,
    storage_options: HashMap<String, String>,
    shallow: bool,
) -> PyResult<Dataset> {
    let dataset = dataset.get().get(py)?;
    if shallow {
        return run(py, dataset.shallow_clone(target, reference.0, &storage_options)).map(Dataset::wrap);
    }
    run(py, dataset.deep_clone(target, reference.0, &storage_options)).map(Dataset::wrap)
}

/// A root that files of a table may lie under.
#[derive(IntoPyObject)]
pub(crate) struct BasePath {
    path: String,
    name: Option<String>,
    is_dataset_root: bool,
    id: u32,
}

/// Roots that files of a table may lie under.
#[pyfunction]
pub(crate) fn base_paths(py: Python<'_>, dataset: &Bound<'_, Dataset>) -> PyResult<Vec<BasePath>> {
    let dataset = dataset.get().get(py)?;
    let bases = dataset.manifest().base_paths.iter().map(|base| BasePath {
        path: base.path.clone(),
        name: base.name.clone(),
        is_dataset_root: base.is_dataset_root,
        id: base.id,
    });
    Ok(bases.collect())
}

/// Registers base paths and moves to the version that has them.
#[pyfunction]
pub(crate) fn add_bases(
    py: Python<'_>,
    dataset: &Bound<'_, Dataset>,
    bases: Vec<BasePathParts>,
    properties: BTreeMap<String, String>,
) -> PyResult<()> {
    let mut moved = dataset.get().get(py)?;
    let bases: Vec<_> = bases.into_iter().map(Into::into).collect();
    run(py, moved.add_bases(&bases, properties))?;
    dataset.get().move_to(moved);
    Ok(())
}

/// Numbers of all versions.
#[pyfunction]
pub(crate) fn version_refs(py: Python<'_>, dataset: &Bound<'_, Dataset>) -> PyResult<Vec<u64>> {
    let dataset = dataset.get().get(py)?;
    Ok(run(py, dataset.version_refs())?.into_iter().map(|version| version.0).collect())
}
