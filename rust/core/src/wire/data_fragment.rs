//! `DataFragment`, `DataFile` and `DeletionFile` <-> [`Fragment`], [`DataFile`], [`DeletionFile`]
//! (table format 2.4 to 2.6).
//!
//! Row addresses have 32 bits for the fragment and 32 for the offset, so larger ids and row counts are refused.

use bytes::Bytes;
use prost::Message;

use super::table::data_fragment::{CreatedAtVersionSequence, LastUpdatedAtVersionSequence, RowIdSequence};
use super::{decode_message, table};
use crate::file::FileVersion;
use crate::manifest::paths::check_inside;
use crate::manifest::{DataFile, DeletionFile, DeletionFileType, Fragment, LineageSource};
use crate::{Error, FieldId, FragmentId, Result, Version};

/// More rows than this have no address.
pub(super) const MAX_PHYSICAL_ROWS: u64 = 1 << 32;

impl Fragment {
    /// Decodes one entry of a manifest's fragment list and keeps its bytes (table format 2.4).
    ///
    /// Errors: `Corrupt` naming the fragment and the rule; `Unsupported` for lineage in external files and for
    /// data files of an unknown version.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let wire: table::DataFragment = decode_message("fragment", bytes.clone())?;
        let mut fragment = Self::try_from(wire)?;
        fragment.encoded = Some(bytes);
        Ok(fragment)
    }

    /// The bytes of the fragment as a manifest holds them: those it was decoded from, if it was not changed.
    pub fn encode(&self) -> Bytes {
        match &self.encoded {
            Some(bytes) => bytes.clone(),
            None => table::DataFragment::from(self).encode_to_vec().into(),
        }
    }

    /// The same fragment with its encoding kept, so that later versions splice it.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.encoded = Some(self.encode());
        self
    }
}

pub(super) fn decode_fragment_id(id: u64) -> Result<FragmentId> {
    match u32::try_from(id) {
        Ok(id) => Ok(FragmentId(id)),
        Err(_) => Err(Error::corrupt(format!("fragment id {id} does not fit 32 bits"))),
    }
}

impl TryFrom<table::DataFragment> for Fragment {
    type Error = Error;

    fn try_from(wire: table::DataFragment) -> Result<Self> {
        let id = decode_fragment_id(wire.id)?;
        decode_parts(id, wire).map_err(|e| e.at(format!("fragment {id}")))
    }
}

fn decode_parts(id: FragmentId, wire: table::DataFragment) -> Result<Fragment> {
    if wire.physical_rows > MAX_PHYSICAL_ROWS {
        return Err(Error::corrupt(format!(
            "{} physical rows, at most 2^32 have an address",
            wire.physical_rows
        )));
    }
    let deletion = wire.deletion_file.map(DeletionFile::try_from).transpose()?;
    let deleted = deletion.as_ref().map_or(0, |d| d.num_deleted_rows);
    // Without a number of rows the data files have to be asked.
    let is_counted = wire.physical_rows > 0 || wire.files.is_empty();
    if is_counted && deleted > wire.physical_rows {
        return Err(Error::corrupt(format!(
            "{deleted} deleted rows of {} physical rows",
            wire.physical_rows
        )));
    }
    let external = |what: &str| {
        Err(Error::unsupported(format!("its {what} are in an external file, a form no current writer uses")))
    };
    let row_ids = match wire.row_id_sequence {
        None => None,
        Some(RowIdSequence::InlineRowIds(bytes)) => Some(LineageSource::Inline(bytes)),
        Some(RowIdSequence::RowIdsColumn(_)) => Some(LineageSource::Column),
        Some(RowIdSequence::ExternalRowIds(_)) => return external("row ids"),
    };
    let last_updated_at = match wire.last_updated_at_version_sequence {
        None => None,
        Some(LastUpdatedAtVersionSequence::InlineLastUpdatedAtVersions(bytes)) => {
            Some(LineageSource::Inline(bytes))
        }
        Some(LastUpdatedAtVersionSequence::LastUpdatedAtVersionsColumn(_)) => Some(LineageSource::Column),
        Some(LastUpdatedAtVersionSequence::ExternalLastUpdatedAtVersions(_)) => {
            return external("last-updated-at versions");
        }
    };
    let created_at = match wire.created_at_version_sequence {
        None => None,
        Some(CreatedAtVersionSequence::InlineCreatedAtVersions(bytes)) => Some(LineageSource::Inline(bytes)),
        Some(CreatedAtVersionSequence::CreatedAtVersionsColumn(_)) => Some(LineageSource::Column),
        Some(CreatedAtVersionSequence::ExternalCreatedAtVersions(_)) => {
            return external("created-at versions");
        }
    };
    Ok(Fragment {
        id,
        files: wire.files.into_iter().map(DataFile::try_from).collect::<Result<_>>()?,
        deletion,
        physical_rows: wire.physical_rows,
        row_ids,
        last_updated_at,
        created_at,
        overlays: wire.overlays,
        clustering_id: wire.clustering_id,
        encoded: None,
    })
}

impl From<&Fragment> for table::DataFragment {
    fn from(fragment: &Fragment) -> Self {
        let column = table::StoredAsColumn {};
        Self {
            id: fragment.id.0.into(),
            files: fragment.files.iter().map(table::DataFile::from).collect(),
            deletion_file: fragment.deletion.as_ref().map(table::DeletionFile::from),
            physical_rows: fragment.physical_rows,
            overlays: fragment.overlays.clone(),
            clustering_id: fragment.clustering_id,
            row_id_sequence: fragment.row_ids.as_ref().map(|source| match source {
                LineageSource::Inline(bytes) => RowIdSequence::InlineRowIds(bytes.clone()),
                LineageSource::Column => RowIdSequence::RowIdsColumn(column),
            }),
            last_updated_at_version_sequence: fragment.last_updated_at.as_ref().map(|source| match source {
                LineageSource::Inline(bytes) => {
                    LastUpdatedAtVersionSequence::InlineLastUpdatedAtVersions(bytes.clone())
                }
                LineageSource::Column => LastUpdatedAtVersionSequence::LastUpdatedAtVersionsColumn(column),
            }),
            created_at_version_sequence: fragment.created_at.as_ref().map(|source| match source {
                LineageSource::Inline(bytes) => {
                    CreatedAtVersionSequence::InlineCreatedAtVersions(bytes.clone())
                }
                LineageSource::Column => CreatedAtVersionSequence::CreatedAtVersionsColumn(column),
            }),
        }
    }
}

impl TryFrom<table::DataFile> for DataFile {
    type Error = Error;

    fn try_from(wire: table::DataFile) -> Result<Self> {
        check_inside(&wire.path)?;
        let version = FileVersion::from_manifest_numbers(wire.file_major_version, wire.file_minor_version)
            .map_err(|e| e.at(format!("data file {:?}", wire.path)))?;
        // Files of version 0.1 have no column indices.
        let no_indices = version == FileVersion::Legacy && wire.column_indices.is_empty();
        if wire.column_indices.len() != wire.fields.len() && !no_indices {
            return Err(Error::corrupt(format!(
                "data file {:?}: {} column indices for {} fields",
                wire.path,
                wire.column_indices.len(),
                wire.fields.len()
            )));
        }
        Ok(Self {
            path: wire.path,
            fields: wire.fields.into_iter().map(FieldId).collect(),
            column_indices: wire.column_indices.into(),
            version,
            size: (wire.file_size_bytes != 0).then_some(wire.file_size_bytes),
            base_id: wire.base_id,
        })
    }
}

impl From<&DataFile> for table::DataFile {
    fn from(file: &DataFile) -> Self {
        let (major, minor) = file.version.manifest_numbers();
        Self {
            path: file.path.clone(),
            fields: file.fields.iter().map(|f| f.0).collect(),
            column_indices: file.column_indices.to_vec(),
            file_major_version: major,
            file_minor_version: minor,
            file_size_bytes: file.size.unwrap_or(0),
            base_id: file.base_id,
        }
    }
}

impl TryFrom<table::DeletionFile> for DeletionFile {
    type Error = Error;

    fn try_from(wire: table::DeletionFile) -> Result<Self> {
        use table::deletion_file::DeletionFileType as Wire;
        let file_type = match Wire::try_from(wire.file_type) {
            Ok(Wire::ArrowArray) => DeletionFileType::Arrow,
            Ok(Wire::Bitmap) => DeletionFileType::Bitmap,
            Err(_) => {
                return Err(Error::unsupported(format!(
                    "deletion file type {} is not known (known: 0 Arrow, 1 bitmap)",
                    wire.file_type
                )));
            }
        };
        Ok(Self {
            file_type,
            read_version: Version(wire.read_version),
            id: wire.id,
            num_deleted_rows: wire.num_deleted_rows,
            base_id: wire.base_id,
        })
    }
}

impl From<&DeletionFile> for table::DeletionFile {
    fn from(file: &DeletionFile) -> Self {
        use table::deletion_file::DeletionFileType as Wire;
        let file_type = match file.file_type {
            DeletionFileType::Arrow => Wire::ArrowArray,
            DeletionFileType::Bitmap => Wire::Bitmap,
        };
        Self {
            file_type: file_type.into(),
            read_version: file.read_version.0,
            id: file.id,
            num_deleted_rows: file.num_deleted_rows,
            base_id: file.base_id,
        }
    }
}
