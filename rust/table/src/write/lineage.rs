//! Who the rows of a new fragment are, and where that is stored.
//!
//! Sequences go into the manifest. One that would take more than a limit there becomes a column of the data file (table
//! format 4.7):
//!
//! | sequence | field id | column |
//! |---|---|---|
//! | row ids | -3 | `_rowid` |
//! | created-at versions | -4 | `_row_created_at_version` |
//! | last-updated-at versions | -5 | `_row_last_updated_at_version` |
//!
//! | config `lance.row_lineage.spill` | limit |
//! |---|---|
//! | not set | 64 KiB |
//! | `true` | 204,800 bytes, as in the reference |
//! | `false` | none |
//!
//! `lance.row_lineage.inline_max_bytes` is another limit for the first two.
//!
//! Rows whose ids are known when they are written have such columns: in compactions, and rows that an update or a merge
//! moves, whose last-updated-at version is one number. When rows change in place, the last-updated-at versions of the
//! fragment are columns, in a file of their own ([`super::in_place`]). Always in the manifest: rows that come, whose
//! ids and versions are given out at the commit, each a range; last-updated-at versions that are one number; those
//! after changes in place of a transaction that somebody else commits, which make those of a column inline; all of rows
//! that are restored, because conflicts between two that restore the same rows show there.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{Fragment, LineageSource};
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::schema::{CarriedKeys, Field, LogicalType, Metadata, Schema};
use pennon_core::{Error, FieldId, Result, Version};

const SPILL: &str = "lance.row_lineage.spill";
const INLINE_MAX_BYTES: &str = "lance.row_lineage.inline_max_bytes";
/// The limit of the reference if it is on and the config does not say.
const REFERENCE_INLINE_MAX_BYTES: usize = 204_800;
/// The ids of 100,000 scattered rows among 1 M take twice as much, those of 10,000 a third. A manifest is read and written
/// again by every commit.
const DEFAULT_INLINE_MAX_BYTES: usize = 64 << 10;

/// A run of versions takes at least so many bytes.
const LEAST_RUN_BYTES: usize = 10;

/// The identity of some rows, in their order. What is `None` is given out at the commit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lineage {
    pub(crate) ids: Option<RowIdSequence>,
    pub(crate) created: Option<VersionSequence>,
    pub(crate) updated: Option<VersionSequence>,
}

impl Lineage {
    /// Adds that of the rows that follow.
    pub(super) fn append(&mut self, other: Self) {
        fn versions(to: &mut Option<VersionSequence>, from: Option<VersionSequence>) {
            if let Some(from) = from {
                to.get_or_insert_default().append(&from);
            }
        }
        if let Some(ids) = other.ids {
            self.ids.get_or_insert_default().append(ids);
        }
        versions(&mut self.created, other.created);
        versions(&mut self.updated, other.updated);
    }

    /// That of the rows at these positions.
    pub(super) fn slice(&self, rows: Range<u64>) -> Self {
        Self {
            ids: self.ids.as_ref().map(|ids| ids.slice(rows.clone())),
            created: self.created.as_ref().map(|versions| versions.slice(rows.clone())),
            updated: self.updated.as_ref().map(|versions| versions.slice(rows.clone())),
        }
    }
}

/// How large a sequence in the manifest may be; `None`: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InlineLimit(Option<usize>);

impl InlineLimit {
    /// Everything stays in the manifest.
    pub(crate) const NONE: Self = Self(None);

    /// What the config of a table says. Errors: `InvalidInput` for invalid values.
    pub(crate) fn of(config: &Metadata) -> Result<Self> {
        let wrong = |key: &str, value: &str, expected: &str| {
            Error::invalid_input(format!("table config {key} is {value:?}, expected {expected}"))
        };
        let limit = match config.get(SPILL) {
            None => DEFAULT_INLINE_MAX_BYTES,
            Some(text) if text.eq_ignore_ascii_case("true") => REFERENCE_INLINE_MAX_BYTES,
            Some(text) if text.eq_ignore_ascii_case("false") => return Ok(Self::NONE),
            Some(text) => return Err(wrong(SPILL, text, "true or false")),
        };
        let Some(text) = config.get(INLINE_MAX_BYTES) else { return Ok(Self(Some(limit))) };
        let bytes = text.parse().map_err(|_| wrong(INLINE_MAX_BYTES, text, "a number of bytes"))?;
        Ok(Self(Some(bytes)))
    }

    /// Whether the last-updated-at versions of a fragment become a column when rows of it change in place. Those that
    /// are a column stay one, unless all rows change.
    pub(super) fn is_exceeded_by(
        self,
        fragment: &Fragment,
        changed: &DeletionVector,
        version: Version,
        table: &Schema,
    ) -> Result<bool> {
        let Some(limit) = self.0.filter(|_| table.field(Column::Updated.name()).is_none()) else {
            return Ok(false);
        };
        let rows = fragment.physical_rows;
        if changed.count_in(0..rows) == rows {
            return Ok(false);
        }
        // Each range is at least one run.
        if fragment.last_updated_at == Some(LineageSource::Column)
            || changed.ranges().nth(limit / LEAST_RUN_BYTES).is_some()
        {
            return Ok(true);
        }
        let before = fragment.last_updated_at_sequence()?;
        let before = before.unwrap_or_else(|| VersionSequence::unrecorded(rows));
        Ok(before.with(changed, version).encode().len() > limit)
    }

    /// The sequences of a file that become columns of it.
    ///
    /// A table may have a column of such a name; then the sequence is kept in the manifest.
    pub(super) fn lineage_columns(self, lineage: &Lineage, table: &Schema) -> LineageColumns {
        let Some(limit) = self.0 else { return LineageColumns::default() };
        let large = |encoded: Option<usize>| encoded.is_some_and(|bytes| bytes > limit);
        let becomes_column = |column: Column, encoded| large(encoded) && table.field(column.name()).is_none();
        let versions = |of: &Option<VersionSequence>| of.as_ref().map(|versions| versions.encode().len());
        let encoded = [
            (Column::Ids, lineage.ids.as_ref().map(|ids| ids.encode().len())),
            (Column::Created, versions(&lineage.created)),
            (Column::Updated, versions(&lineage.updated)),
        ];
        LineageColumns(
            encoded.into_iter().filter(|(c, bytes)| becomes_column(*c, *bytes)).map(|(c, _)| c).collect(),
        )
    }
}

/// A sequence as a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Ids,
    Created,
    Updated,
}

impl Column {
    fn id(self) -> FieldId {
        match self {
            Self::Ids => FieldId::ROW_ID,
            Self::Created => FieldId::ROW_CREATED_AT,
            Self::Updated => FieldId::ROW_LAST_UPDATED_AT,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ids => "_rowid",
            Self::Created => "_row_created_at_version",
            Self::Updated => "_row_last_updated_at_version",
        }
    }

    pub(super) fn field(self) -> Field {
        Field {
            id: self.id(),
            name: self.name().to_owned(),
            nullable: false,
            logical_type: LogicalType::UInt64,
            children: Vec::new(),
            metadata: Metadata::new(),
            unenforced_primary_key: false,
            carried: CarriedKeys::default(),
        }
    }

    /// The values of some rows.
    fn values(self, lineage: &Lineage, rows: Range<u64>) -> ArrayRef {
        let mut values = Vec::new();
        match self {
            Self::Ids => lineage.ids.iter().for_each(|ids| ids.extend_into(rows.clone(), &mut values)),
            Self::Created => lineage.created.iter().for_each(|v| v.extend_into(rows.clone(), &mut values)),
            Self::Updated => lineage.updated.iter().for_each(|v| v.extend_into(rows.clone(), &mut values)),
        }
        Arc::new(UInt64Array::from(values))
    }
}

/// The sequences of one file that are columns of it.
#[derive(Debug, Clone, Default)]
pub(super) struct LineageColumns(Vec<Column>);

impl LineageColumns {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of the columns.
    pub(super) fn fields(&self) -> Vec<Field> {
        self.0.iter().map(|column| column.field()).collect()
    }

    /// A batch with these columns; its rows are those of the lineage from `first` on.
    pub(super) fn add(&self, batch: RecordBatch, lineage: &Lineage, first: u64) -> Result<RecordBatch> {
        if self.0.is_empty() {
            return Ok(batch);
        }
        let end = first.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(u64::MAX));
        let schema = batch.schema();
        let mut fields = schema.fields().to_vec();
        let mut columns = batch.columns().to_vec();
        for column in &self.0 {
            let values = column.values(lineage, first..end);
            fields.push(Arc::new(ArrowField::new(column.name(), values.data_type().clone(), false)));
            columns.push(values);
        }
        let schema = ArrowSchema::new_with_metadata(fields, schema.metadata().clone());
        RecordBatch::try_new(Arc::new(schema), columns)
            .map_err(|e| Error::internal(format!("adding lineage columns: {e}")))
    }

    /// Gives a fragment its lineage.
    pub(super) fn assign(&self, fragment: &mut Fragment, lineage: &Lineage) {
        let source = |column, inline: Option<bytes::Bytes>| match inline {
            Some(_) if self.0.contains(&column) => Some(LineageSource::Column),
            inline => inline.map(LineageSource::Inline),
        };
        fragment.row_ids = source(Column::Ids, lineage.ids.as_ref().map(RowIdSequence::encode));
        fragment.created_at = source(Column::Created, lineage.created.as_ref().map(VersionSequence::encode));
        fragment.last_updated_at =
            source(Column::Updated, lineage.updated.as_ref().map(VersionSequence::encode));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_decides_what_stays_inline() {
        let limit = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            InlineLimit::of(&pairs.collect::<Metadata>()).unwrap().0
        };
        assert_eq!(limit(&[]), Some(65_536));
        assert_eq!(limit(&[(INLINE_MAX_BYTES, "7")]), Some(7));
        assert_eq!(limit(&[(SPILL, "TRUE")]), Some(204_800));
        assert_eq!(limit(&[(SPILL, "true"), (INLINE_MAX_BYTES, "0")]), Some(0));
        assert_eq!(limit(&[(SPILL, "False"), (INLINE_MAX_BYTES, "0")]), None);
    }
}
