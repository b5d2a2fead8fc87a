//! Fragments, data files and deletion files of a simulated table: their transactions are real, the data is not there.

use bytes::Bytes;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{DataFile, DeletionFile, Fragment, LineageSource, Manifest};
use pennon_core::rows::RowIdSequence;
use pennon_core::schema::Schema;
use pennon_core::{Error, FieldId, FragmentId, Result};
use pennon_datafile::deletion_file;
use uuid::Uuid;

/// A data file of some fields, to be put at `data/<path>`.
pub(super) fn data_file(uuid: Uuid, fields: &[FieldId]) -> DataFile {
    DataFile {
        path: pennon_core::manifest::naming::data_file_name(uuid.as_bytes()),
        fields: fields.into(),
        column_indices: (0..).take(fields.len()).collect(),
        version: FileVersion::STABLE,
        size: Some(4),
        base_id: None,
    }
}

/// What a data file holds.
pub(super) const DATA: Bytes = Bytes::from_static(b"data");

/// The fields of a schema that have columns.
pub(super) fn fields(schema: &Schema) -> Vec<FieldId> {
    schema.fields.iter().map(|field| field.id).collect()
}

/// The ids of all physical rows of a fragment.
pub(super) fn row_ids(fragment: &Fragment) -> Result<Vec<u64>> {
    match &fragment.row_ids {
        Some(LineageSource::Inline(bytes)) => Ok(RowIdSequence::decode(bytes)?.iter().collect()),
        _ => Err(Error::internal(format!("fragment {} has no row ids", fragment.id))),
    }
}

/// The path of a fragment's deletion file below the table's root.
pub(super) fn deletion_path(id: FragmentId, deletion: &DeletionFile) -> String {
    format!("_deletions/{}", deletion.file_name(id))
}

/// The deleted offsets of a fragment, whose deletion file `read` gives.
pub(super) fn deleted(
    fragment: &Fragment,
    read: impl FnOnce(&str) -> Option<Bytes>,
) -> Result<DeletionVector> {
    let Some(deletion) = &fragment.deletion else { return Ok(DeletionVector::empty()) };
    let path = deletion_path(fragment.id, deletion);
    let bytes = read(&path).ok_or_else(|| Error::corrupt(format!("{path} is not there")))?;
    deletion_file::decode(deletion.file_type, &bytes, deletion.num_deleted_rows)
}

/// The live rows of a version: fragment, offset and id.
pub(super) fn live_rows(
    manifest: &Manifest,
    read: impl Fn(&str) -> Option<Bytes>,
) -> Result<Vec<(FragmentId, u32, u64)>> {
    let mut rows = Vec::new();
    for fragment in manifest.fragments.decode_all() {
        let deleted = deleted(&fragment, &read)?;
        for (offset, id) in (0..).zip(row_ids(&fragment)?) {
            if !deleted.contains(offset) {
                rows.push((fragment.id, offset, id));
            }
        }
    }
    Ok(rows)
}
