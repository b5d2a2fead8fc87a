//! What is known of a fragment without decoding it: enough for totals, flags, look-ups and plans.

use super::{Fragment, LineageSource};
use crate::file::FileVersion;
use crate::{FieldId, FragmentId};

/// What a fragment is, without its files and its lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentSummary {
    /// Its id.
    pub id: FragmentId,
    /// Rows in each data file, deleted ones counted.
    pub physical_rows: u64,
    /// Deleted rows.
    pub deleted_rows: u64,
    /// Bytes of its data files, of those whose size is recorded.
    pub file_bytes: u64,
    /// Number of its data files.
    pub data_files: u32,
    /// Bytes of its row ids in the manifest.
    pub row_id_bytes: u32,
    /// Bytes of its created-at and last-updated-at versions in the manifest.
    pub version_bytes: u32,
    /// The largest field id of its data files; [`FieldId::NO_PARENT`] if there is none.
    pub max_field_id: FieldId,
    pub(crate) versions: FileVersions,
    /// Whether it has a deletion file.
    pub has_deletions: bool,
    /// Whether its rows have stable ids.
    pub has_row_ids: bool,
    /// Whether some of its lineage is in data columns.
    pub has_lineage_columns: bool,
    /// Whether it has overlay files.
    pub has_overlays: bool,
    /// Whether some file has version 0.1.
    pub has_legacy_files: bool,
}

/// File versions of some data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileVersions {
    /// There are no files.
    None,
    /// All have this one.
    One(FileVersion),
    /// They have several.
    Several,
}

impl FileVersions {
    pub(crate) fn and(self, version: FileVersion) -> Self {
        match self {
            Self::None => Self::One(version),
            Self::One(known) if known == version => self,
            _ => Self::Several,
        }
    }

    /// Whether some file has another version.
    pub(crate) fn differ_from(self, version: FileVersion) -> bool {
        !matches!(self, Self::None) && self != Self::One(version)
    }
}

impl FragmentSummary {
    pub(crate) fn of(fragment: &Fragment) -> Self {
        let lineage = [&fragment.row_ids, &fragment.created_at, &fragment.last_updated_at];
        let [row_ids, created, updated] = lineage.map(|source| match source {
            Some(LineageSource::Inline(bytes)) => saturating(bytes.len()),
            _ => 0,
        });
        let files = || fragment.files.iter();
        let fields = files().flat_map(|file| file.fields.iter().copied());
        Self {
            id: fragment.id,
            physical_rows: fragment.physical_rows,
            deleted_rows: fragment.deleted_rows(),
            file_bytes: files().filter_map(|file| file.size).fold(0, u64::saturating_add),
            data_files: saturating(fragment.files.len()),
            row_id_bytes: row_ids,
            version_bytes: created.saturating_add(updated),
            max_field_id: fields.fold(FieldId::NO_PARENT, Ord::max),
            versions: files().fold(FileVersions::None, |found, file| found.and(file.version)),
            has_deletions: fragment.deletion.is_some(),
            has_row_ids: fragment.row_ids.is_some(),
            has_lineage_columns: lineage.into_iter().any(|source| *source == Some(LineageSource::Column)),
            has_overlays: !fragment.overlays.is_empty(),
            has_legacy_files: files().any(|file| file.version == FileVersion::Legacy),
        }
    }

    /// Whether some file has a later version than 0.1.
    pub(crate) fn has_other_than_legacy_files(&self) -> bool {
        self.versions.differ_from(FileVersion::Legacy)
    }

    /// Number of rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        self.physical_rows.saturating_sub(self.deleted_rows)
    }

    /// Whether its files have to be asked how many rows it has, or how many are deleted.
    pub(crate) fn is_uncounted(&self) -> bool {
        let rows_unknown = self.physical_rows == 0 && self.versions != FileVersions::None;
        rows_unknown || (self.has_deletions && self.deleted_rows == 0)
    }
}

/// A length of at most 32 bits: a message of a manifest is below 4 GiB.
pub(crate) fn saturating(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
