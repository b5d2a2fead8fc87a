//! A fragment: a horizontal slice of the table with its files and its row lineage (table format 2.4).
//!
//! Lineage sequences stay bytes until they are read: opening a table of 10,000 fragments decodes none.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{DataFile, DeletionFile};
use crate::rows::{RowIdSequence, VersionSequence};
use crate::schema::{Field, Schema};
use crate::{FieldId, FragmentId, Result};

/// Where a lineage sequence of a fragment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineageSource {
    /// Encoded in the manifest.
    Inline(Bytes),
    /// A column of one of the fragment's data files (table format 4.7).
    Column,
}

/// One fragment of a table version.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragment {
    /// Its id; 0 in a transaction means not assigned yet.
    pub id: FragmentId,
    /// Its data files; together they hold the columns.
    pub files: Vec<DataFile>,
    /// Its deletion file, if rows are deleted.
    pub deletion: Option<DeletionFile>,
    /// Rows in each data file, deleted ones counted.
    pub physical_rows: u64,
    /// Stable ids of all physical rows.
    pub row_ids: Option<LineageSource>,
    /// Version in which each physical row was last changed.
    pub last_updated_at: Option<LineageSource>,
    /// Version in which each physical row was created.
    pub created_at: Option<LineageSource>,
    /// Overlay files, encoded, kept as found (needs flag 64).
    pub overlays: Vec<Bytes>,
    /// Field 15, kept as found.
    pub clustering_id: u64,
    /// The bytes this fragment was decoded from. An unchanged fragment is written with them again, so that
    /// fields this release does not know survive. Changing a fragment clears them (see [`Self::edit`]).
    pub encoded: Option<Bytes>,
}

impl Fragment {
    /// A new, unassigned fragment.
    pub fn new(files: Vec<DataFile>, physical_rows: u64) -> Self {
        Self {
            id: FragmentId(0),
            files,
            deletion: None,
            physical_rows,
            row_ids: None,
            last_updated_at: None,
            created_at: None,
            overlays: Vec::new(),
            clustering_id: 0,
            encoded: None,
        }
    }

    /// A copy to change: without the kept bytes.
    #[must_use]
    pub fn edit(&self) -> Self {
        Self { encoded: None, ..self.clone() }
    }

    /// Number of deleted rows.
    pub fn deleted_rows(&self) -> u64 {
        self.deletion.as_ref().map_or(0, |d| d.num_deleted_rows)
    }

    /// Number of rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        self.physical_rows.saturating_sub(self.deleted_rows())
    }

    /// The base paths that its files name.
    pub(crate) fn base_ids(&self) -> impl Iterator<Item = u32> {
        let deletion = self.deletion.as_ref().and_then(|deletion| deletion.base_id);
        self.files.iter().filter_map(|file| file.base_id).chain(deletion)
    }

    /// The first field that may not be null and that no data file has: then its rows cannot be read.
    pub fn missing_field<'a>(&self, schema: &'a Schema) -> Option<&'a Field> {
        // A file that lists no fields holds all of them.
        if !self.overlays.is_empty() || self.files.iter().any(|file| file.fields.is_empty()) {
            return None;
        }
        let stored: BTreeSet<FieldId> =
            self.files.iter().flat_map(|file| file.fields.iter().copied()).collect();
        schema.fields.iter().find_map(|field| missing(field, &stored))
    }

    /// The inline row ids, decoded and checked against the number of physical rows.
    ///
    /// `None` if the fragment has none. Errors: `Unsupported` if they are in a data column, `Corrupt` if
    /// they do not decode or their number is wrong.
    pub fn row_id_sequence(&self) -> Result<Option<RowIdSequence>> {
        let Some(bytes) = self.inline(&self.row_ids, "row ids")? else { return Ok(None) };
        let sequence =
            RowIdSequence::decode(bytes).map_err(|e| e.at(format!("row ids of fragment {}", self.id)))?;
        self.check_length("row ids", sequence.len())?;
        Ok(Some(sequence))
    }

    /// The row ids; `None` if there are none, or if they are in a data column. Errors: `Corrupt`.
    pub fn inline_row_ids(&self) -> Result<Option<RowIdSequence>> {
        if self.row_ids == Some(LineageSource::Column) { Ok(None) } else { self.row_id_sequence() }
    }

    /// The inline created-at versions; errors as for [`Self::row_id_sequence`].
    pub fn created_at_sequence(&self) -> Result<Option<VersionSequence>> {
        self.versions(&self.created_at, "created-at versions")
    }

    /// The inline last-updated-at versions; errors as for [`Self::row_id_sequence`].
    pub fn last_updated_at_sequence(&self) -> Result<Option<VersionSequence>> {
        self.versions(&self.last_updated_at, "last-updated-at versions")
    }

    fn versions(&self, source: &Option<LineageSource>, what: &str) -> Result<Option<VersionSequence>> {
        let Some(bytes) = self.inline(source, what)? else { return Ok(None) };
        let sequence =
            VersionSequence::decode(bytes).map_err(|e| e.at(format!("{what} of fragment {}", self.id)))?;
        self.check_length(what, sequence.len())?;
        Ok(Some(sequence))
    }

    fn inline<'a>(&self, source: &'a Option<LineageSource>, what: &str) -> Result<Option<&'a Bytes>> {
        match source {
            None => Ok(None),
            Some(LineageSource::Inline(bytes)) => Ok(Some(bytes)),
            Some(LineageSource::Column) => Err(crate::Error::unsupported(format!(
                "fragment {}: its {what} are stored in a data column (feature flag 2048)",
                self.id
            ))),
        }
    }

    fn check_length(&self, what: &str, found: u64) -> Result<()> {
        if found == self.physical_rows {
            return Ok(());
        }
        Err(crate::Error::corrupt(format!(
            "fragment {}: {found} {what} for {} physical rows",
            self.id, self.physical_rows
        )))
    }
}

fn missing<'a>(field: &'a Field, stored: &BTreeSet<FieldId>) -> Option<&'a Field> {
    if !field.children.iter().any(|child| is_stored(child, stored)) {
        // A column of its own has all of a packed struct.
        return (!field.nullable && !stored.contains(&field.id)).then_some(field);
    }
    field.children.iter().find_map(|child| missing(child, stored))
}

fn is_stored(field: &Field, stored: &BTreeSet<FieldId>) -> bool {
    stored.contains(&field.id) || field.children.iter().any(|child| is_stored(child, stored))
}
