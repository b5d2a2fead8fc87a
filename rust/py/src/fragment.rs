//! `Fragment`: what a version says about one of its fragments; and the same as parts, both ways.
//!
//! Parts are dictionaries on the way out, the keyword arguments of `pennon.FragmentMetadata` and what is in it, and
//! the attributes of those objects on the way in.

use std::sync::Arc;

use bytes::Bytes;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{self, DeletionFileType, LineageSource};
use pennon_core::rows::RowIdSequence;
use pennon_core::{Error, FieldId, FragmentId, Result, Version};
use pyo3::prelude::*;

use crate::error::to_py;

/// One fragment of a table version.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct Fragment(pub(crate) Arc<manifest::Fragment>);

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
    fn parts(&self) -> FragmentParts {
        FragmentParts::from(self.0.as_ref())
    }
}

/// Row ids as a manifest has them.
#[pyfunction]
pub(crate) fn encode_row_ids(py: Python<'_>, row_ids: Vec<u64>) -> PyResult<Vec<u8>> {
    let sequence = py.detach(|| RowIdSequence::from_unique(&row_ids));
    Ok(sequence.map_err(|error| to_py(py, &error))?.encode().to_vec())
}

/// How many row ids a manifest has there.
#[pyfunction]
pub(crate) fn count_row_ids(py: Python<'_>, inline: Vec<u8>) -> PyResult<u64> {
    Ok(RowIdSequence::decode(&Bytes::from(inline)).map_err(|error| to_py(py, &error))?.len())
}

/// Row ids from what a manifest has.
#[pyfunction]
pub(crate) fn decode_row_ids(py: Python<'_>, inline: Vec<u8>) -> PyResult<Vec<u64>> {
    let sequence = RowIdSequence::decode(&Bytes::from(inline)).map_err(|error| to_py(py, &error))?;
    Ok(sequence.iter().collect())
}

/// A fragment.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct FragmentParts {
    id: u32,
    files: Vec<DataFileParts>,
    physical_rows: u64,
    deletion_file: Option<DeletionFileParts>,
    row_id_meta: Option<LineageParts>,
    created_at_version_meta: Option<LineageParts>,
    last_updated_at_version_meta: Option<LineageParts>,
    /// Encoded.
    overlays: Vec<Vec<u8>>,
}

/// A data file.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct DataFileParts {
    path: String,
    fields: Vec<i32>,
    column_indices: Vec<i32>,
    file_major_version: u32,
    file_minor_version: u32,
    file_size_bytes: Option<u64>,
    base_id: Option<u32>,
}

/// A deletion file.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct DeletionFileParts {
    read_version: u64,
    id: u64,
    file_type: String,
    num_deleted_rows: u64,
    base_id: Option<u32>,
}

/// A lineage sequence, encoded; without bytes it is a column of a data file.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct LineageParts {
    inline: Option<Vec<u8>>,
}

impl From<&manifest::Fragment> for FragmentParts {
    fn from(fragment: &manifest::Fragment) -> Self {
        Self {
            id: fragment.id.0,
            files: fragment.files.iter().map(Into::into).collect(),
            physical_rows: fragment.physical_rows,
            deletion_file: fragment.deletion.as_ref().map(Into::into),
            row_id_meta: fragment.row_ids.as_ref().map(Into::into),
            created_at_version_meta: fragment.created_at.as_ref().map(Into::into),
            last_updated_at_version_meta: fragment.last_updated_at.as_ref().map(Into::into),
            overlays: fragment.overlays.iter().map(|overlay| overlay.to_vec()).collect(),
        }
    }
}

impl TryFrom<FragmentParts> for manifest::Fragment {
    type Error = Error;

    fn try_from(parts: FragmentParts) -> Result<Self> {
        let files = parts.files.into_iter().map(manifest::DataFile::try_from).collect::<Result<_>>()?;
        Ok(Self {
            id: FragmentId(parts.id),
            deletion: parts.deletion_file.map(TryInto::try_into).transpose()?,
            row_ids: parts.row_id_meta.map(Into::into),
            created_at: parts.created_at_version_meta.map(Into::into),
            last_updated_at: parts.last_updated_at_version_meta.map(Into::into),
            overlays: parts.overlays.into_iter().map(Into::into).collect(),
            ..Self::new(files, parts.physical_rows)
        })
    }
}

impl From<&manifest::DataFile> for DataFileParts {
    fn from(file: &manifest::DataFile) -> Self {
        let (file_major_version, file_minor_version) = file.version.manifest_numbers();
        Self {
            path: file.path.clone(),
            fields: file.fields.iter().map(|id| id.0).collect(),
            column_indices: file.column_indices.to_vec(),
            file_major_version,
            file_minor_version,
            file_size_bytes: file.size,
            base_id: file.base_id,
        }
    }
}

impl TryFrom<DataFileParts> for manifest::DataFile {
    type Error = Error;

    fn try_from(parts: DataFileParts) -> Result<Self> {
        let version = FileVersion::from_manifest_numbers(parts.file_major_version, parts.file_minor_version);
        let version =
            version.map_err(|e| Error::invalid_input(format!("data file {:?}: {e}", parts.path)))?;
        Ok(Self {
            path: parts.path,
            fields: parts.fields.into_iter().map(FieldId).collect(),
            column_indices: parts.column_indices.into(),
            version,
            size: parts.file_size_bytes,
            base_id: parts.base_id,
        })
    }
}

impl From<&manifest::DeletionFile> for DeletionFileParts {
    fn from(file: &manifest::DeletionFile) -> Self {
        let file_type = match file.file_type {
            DeletionFileType::Arrow => "array",
            DeletionFileType::Bitmap => "bitmap",
        };
        Self {
            read_version: file.read_version.0,
            id: file.id,
            file_type: file_type.to_owned(),
            num_deleted_rows: file.num_deleted_rows,
            base_id: file.base_id,
        }
    }
}

impl TryFrom<DeletionFileParts> for manifest::DeletionFile {
    type Error = Error;

    fn try_from(parts: DeletionFileParts) -> Result<Self> {
        let file_type = match parts.file_type.as_str() {
            "array" => DeletionFileType::Arrow,
            "bitmap" => DeletionFileType::Bitmap,
            other => {
                let message = format!("file_type must be either 'array' or 'bitmap', got '{other}'");
                return Err(Error::invalid_input(message));
            }
        };
        Ok(Self {
            file_type,
            read_version: Version(parts.read_version),
            id: parts.id,
            num_deleted_rows: parts.num_deleted_rows,
            base_id: parts.base_id,
        })
    }
}

impl From<&LineageSource> for LineageParts {
    fn from(source: &LineageSource) -> Self {
        let inline = match source {
            LineageSource::Inline(bytes) => Some(bytes.to_vec()),
            LineageSource::Column => None,
        };
        Self { inline }
    }
}

impl From<LineageParts> for LineageSource {
    fn from(parts: LineageParts) -> Self {
        parts.inline.map_or(Self::Column, |bytes| Self::Inline(bytes.into()))
    }
}
