//! `Fragment`: what a version says about one of its fragments.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::manifest;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// One fragment of a table version.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Fragment(pub(crate) Arc<manifest::Fragment>);

/// A data file, as the keyword arguments of `pennon.fragment.DataFile`.
#[derive(IntoPyObject)]
pub(crate) struct DataFile {
    path: String,
    fields: Vec<i32>,
    column_indices: Vec<i32>,
    file_major_version: u32,
    file_minor_version: u32,
    file_size_bytes: Option<u64>,
    base_id: Option<u32>,
}

/// A deletion file, as the keyword arguments of `pennon.fragment.DeletionFile`.
#[derive(IntoPyObject)]
pub(crate) struct DeletionFile {
    read_version: u64,
    id: u64,
    file_type: &'static str,
    num_deleted_rows: u64,
    base_id: Option<u32>,
    name: String,
}

#[pymethods]
impl Fragment {
    #[getter]
    fn id(&self) -> u32 {
        self.0.id.0
    }

    #[getter]
    fn physical_rows(&self) -> u64 {
        self.0.physical_rows
    }

    #[getter]
    fn num_deletions(&self) -> u64 {
        self.0.deleted_rows()
    }

    #[getter]
    fn files(&self) -> Vec<DataFile> {
        let part = |file: &manifest::DataFile| {
            let (file_major_version, file_minor_version) = file.version.manifest_numbers();
            DataFile {
                path: file.path.clone(),
                fields: file.fields.iter().map(|id| id.0).collect(),
                column_indices: file.column_indices.to_vec(),
                file_major_version,
                file_minor_version,
                file_size_bytes: file.size,
                base_id: file.base_id,
            }
        };
        self.0.files.iter().map(part).collect()
    }

    /// The lineage sequences that are stored in the manifest, encoded.
    #[getter]
    fn inline_lineage<'py>(&self, py: Python<'py>) -> BTreeMap<&'static str, Bound<'py, PyBytes>> {
        let fragment = &self.0;
        let sequences = [
            ("row_ids", &fragment.row_ids),
            ("created_at", &fragment.created_at),
            ("last_updated_at", &fragment.last_updated_at),
        ];
        let inline = |(name, source): (_, &Option<manifest::LineageSource>)| match source {
            Some(manifest::LineageSource::Inline(bytes)) => Some((name, PyBytes::new(py, bytes))),
            _ => None,
        };
        sequences.into_iter().filter_map(inline).collect()
    }

    #[getter]
    fn deletion_file(&self) -> Option<DeletionFile> {
        let file = self.0.deletion.as_ref()?;
        Some(DeletionFile {
            read_version: file.read_version.0,
            id: file.id,
            file_type: match file.file_type {
                manifest::DeletionFileType::Arrow => "array",
                manifest::DeletionFileType::Bitmap => "bitmap",
            },
            num_deleted_rows: file.num_deleted_rows,
            base_id: file.base_id,
            name: file.file_name(self.0.id),
        })
    }
}
