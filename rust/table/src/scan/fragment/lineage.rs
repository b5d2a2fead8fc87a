//! Who the rows of a fragment are, wherever that is stored: in the manifest or in a data column (table format 4.7).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, UInt64Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use pennon_core::apply::Sequences;
use pennon_core::manifest::{Fragment, LineageSource};
use pennon_core::rows::{RowIdSequence, RowRanges, VersionSequence};
use pennon_core::{Error, FieldId, Result, RowAddress, RowId, Version};
use pennon_datafile::statistics::ColumnStatistics;

use super::{FragmentReader, clip};
use crate::scan::system_columns::System;
use crate::scan::units::array_rows;
use crate::versions::snapshot::Snapshot;

/// What is known of a system column of all physical rows.
#[derive(Debug)]
pub(in crate::scan) enum SystemValues<'a> {
    Unknown,
    Constant(u64),
    /// This number and those after it.
    From(u64),
    Runs(&'a VersionSequence),
    /// Bounds of a column.
    Statistics(Arc<ColumnStatistics>),
    Ids(&'a RowIdSequence),
}

/// What happened to a row in the version that is recorded of it.
#[derive(Debug, Clone, Copy)]
enum VersionOf {
    Creation,
    LastUpdate,
}

impl VersionOf {
    fn source(self, fragment: &Fragment) -> &Option<LineageSource> {
        match self {
            Self::Creation => &fragment.created_at,
            Self::LastUpdate => &fragment.last_updated_at,
        }
    }

    /// The versions in the manifest, if they are there.
    fn recorded(self, fragment: &Fragment) -> Result<Option<VersionSequence>> {
        match self {
            Self::Creation => fragment.created_at_sequence(),
            Self::LastUpdate => fragment.last_updated_at_sequence(),
        }
    }

    /// The field of the column with the versions.
    fn field(self) -> FieldId {
        match self {
            Self::Creation => FieldId::ROW_CREATED_AT,
            Self::LastUpdate => FieldId::ROW_LAST_UPDATED_AT,
        }
    }
}

impl FragmentReader {
    /// A system column of the rows of all ranges. Ranges hold live rows only, unless `deleted` says otherwise.
    pub(in crate::scan) fn system(
        &self,
        column: System,
        ranges: &RowRanges,
        deleted: bool,
    ) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(array_rows(ranges)?);
        match column {
            System::RowId if self.snapshot.manifest.has_stable_row_ids() => {
                self.row_ids(ranges, &mut values)?
            }
            System::RowId | System::RowAddress => self.addresses(ranges, &mut values),
            System::RowOffset => self.offsets(ranges, deleted, &mut values)?,
            System::CreatedAt => self.versions(VersionOf::Creation, ranges, &mut values)?,
            System::LastUpdatedAt => self.versions(VersionOf::LastUpdate, ranges, &mut values)?,
        }
        let nulls = match column {
            System::RowId | System::RowAddress if deleted => self.liveness(ranges)?,
            _ => None,
        };
        UInt64Array::try_new(values.into(), nulls)
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|e| Error::internal(format!("column {}: {e}", column.name())))
    }

    fn addresses(&self, ranges: &RowRanges, values: &mut Vec<u64>) {
        let base = RowAddress::new(self.fragment.id, 0).0;
        // Range by range, whose lengths are known.
        for range in ranges {
            values.extend((range.start..range.end).map(|offset| base | offset));
        }
    }

    /// The stable ids of all physical rows. Blocks on the store if they are column-backed.
    pub(crate) fn all_row_ids(&self) -> Result<RowIdSequence> {
        if let Some(LineageSource::Inline(_)) = &self.fragment.row_ids
            && let Some(ids) = self.fragment.row_id_sequence()?
        {
            return Ok(ids);
        }
        let mut ids = Vec::new();
        self.row_ids(&RowRanges::from(0..self.fragment.physical_rows), &mut ids)?;
        Ok(RowIdSequence::from_slice(&ids))
    }

    /// In which versions all physical rows were made and last changed. Blocks on the store if that is column-backed.
    pub(crate) fn all_versions(&self) -> Result<(VersionSequence, VersionSequence)> {
        Ok((self.all_of(VersionOf::Creation)?, self.all_of(VersionOf::LastUpdate)?))
    }

    /// In which versions a physical row was made and last changed. Blocks on the store if that is column-backed.
    ///
    /// Errors: `Corrupt` if that is not known of the row.
    pub(crate) fn versions_of(&self, offset: u64) -> Result<(Version, Version)> {
        let row = RowRanges::from(offset..offset.saturating_add(1));
        let version_in = |column| -> Result<Version> {
            let values = self.system(column, &row, true)?;
            let value = values.as_primitive_opt::<UInt64Type>().and_then(|v| v.values().first().copied());
            let missing =
                || Error::corrupt(format!("fragment {}: row {offset} has no versions", self.fragment.id));
            value.map(Version).ok_or_else(missing)
        };
        Ok((version_in(System::CreatedAt)?, version_in(System::LastUpdatedAt)?))
    }

    /// The position of a stable id among all physical rows. Blocks on the store if they are column-backed.
    pub(crate) fn position_of(&self, row: RowId) -> Result<Option<u64>> {
        Ok(self.all_row_ids()?.position(row))
    }

    /// In which version each physical row was last changed. Blocks on the store if that is column-backed.
    pub(crate) fn last_updated(&self) -> Result<VersionSequence> {
        self.all_of(VersionOf::LastUpdate)
    }

    /// Appends in which version each of these physical rows was last changed. Blocks on the store if that is column-backed.
    pub(crate) fn last_updated_of(&self, rows: &RowRanges, values: &mut Vec<u64>) -> Result<()> {
        self.versions(VersionOf::LastUpdate, rows, values)
    }

    fn all_of(&self, event: VersionOf) -> Result<VersionSequence> {
        let rows = self.fragment.physical_rows;
        if *event.source(&self.fragment) != Some(LineageSource::Column) {
            let recorded = event.recorded(&self.fragment)?;
            return Ok(recorded.unwrap_or_else(|| VersionSequence::unrecorded(rows)));
        }
        let mut versions = Vec::new();
        self.lineage_column(event.field(), &RowRanges::from(0..rows), &mut versions)?;
        let mut sequence = VersionSequence::default();
        for run in versions.chunk_by(|a, b| a == b) {
            let (Some(version), Ok(rows)) = (run.first(), u64::try_from(run.len())) else { continue };
            sequence.push(rows, Version(*version));
        }
        Ok(sequence)
    }

    fn row_ids(&self, ranges: &RowRanges, values: &mut Vec<u64>) -> Result<()> {
        if self.fragment.row_ids == Some(LineageSource::Column) {
            return self.lineage_column(FieldId::ROW_ID, ranges, values);
        }
        let sequence = self.inline_row_ids()?;
        ranges.iter().for_each(|range| sequence.extend_into(range, values));
        Ok(())
    }

    fn inline_row_ids(&self) -> Result<&RowIdSequence> {
        let missing = || {
            Error::corrupt(format!(
                "fragment {} has no row ids, though the table has stable row ids",
                self.fragment.id
            ))
        };
        self.row_ids.get_or_load(|| self.fragment.row_id_sequence()?.ok_or_else(missing))
    }

    /// What is known of a system column without making it. Blocks on the store if it is column-backed.
    pub(in crate::scan) fn system_values(&self, column: System) -> Result<SystemValues<'_>> {
        let fragment = &self.fragment;
        let stable = self.snapshot.manifest.has_stable_row_ids();
        let versions = |event: VersionOf| match event.source(fragment) {
            Some(LineageSource::Column) if stable => self.column_backed_values(event.field()),
            Some(_) if stable => Ok(SystemValues::Runs(self.sequence(event)?)),
            _ => Ok(SystemValues::Constant(VersionSequence::UNRECORDED.0)),
        };
        Ok(match column {
            System::RowOffset => SystemValues::Unknown,
            System::RowId if stable => match fragment.row_ids {
                Some(LineageSource::Column) => self.column_backed_values(FieldId::ROW_ID)?,
                _ => SystemValues::Ids(self.inline_row_ids()?),
            },
            System::RowId | System::RowAddress => SystemValues::From(RowAddress::new(fragment.id, 0).0),
            System::CreatedAt => versions(VersionOf::Creation)?,
            System::LastUpdatedAt => versions(VersionOf::LastUpdate)?,
        })
    }

    fn sequence(&self, event: VersionOf) -> Result<&VersionSequence> {
        let kept = match event {
            VersionOf::Creation => &self.created,
            VersionOf::LastUpdate => &self.updated,
        };
        let missing = || Error::internal(format!("versions of fragment {} vanished", self.fragment.id));
        kept.get_or_load(|| event.recorded(&self.fragment)?.ok_or_else(missing))
    }

    fn versions(&self, event: VersionOf, ranges: &RowRanges, values: &mut Vec<u64>) -> Result<()> {
        let source = event.source(&self.fragment);
        if !self.snapshot.manifest.has_stable_row_ids() || source.is_none() {
            values.resize(array_rows(ranges)?, VersionSequence::UNRECORDED.0);
            return Ok(());
        }
        if *source == Some(LineageSource::Column) {
            return self.lineage_column(event.field(), ranges, values);
        }
        let sequence = self.sequence(event)?;
        ranges.iter().for_each(|range| sequence.extend_into(range, values));
        Ok(())
    }

    fn column_backed_values(&self, field: FieldId) -> Result<SystemValues<'_>> {
        let (at, column) = self.find_lineage_column(field)?;
        let (file, open) = self.file(at)?;
        let found = open.reader.statistics(column).map_err(|e| self.within(file, e))?;
        // Statistics are about the rows of a file, and those are the rows of the fragment.
        let fits = open.reader.metadata().num_rows == self.fragment.physical_rows;
        Ok(found.filter(|_| fits).map_or(SystemValues::Unknown, SystemValues::Statistics))
    }

    /// File and column of column-backed lineage.
    fn find_lineage_column(&self, field: FieldId) -> Result<(usize, u32)> {
        let mut files = self.fragment.files.iter().enumerate();
        files.find_map(|(at, file)| Some((at, file.column_of(field)?))).ok_or_else(|| {
            Error::corrupt(format!(
                "fragment {}: no data file holds lineage column {field}",
                self.fragment.id
            ))
        })
    }

    fn lineage_column(&self, field: FieldId, ranges: &RowRanges, values: &mut Vec<u64>) -> Result<()> {
        let (at, column) = self.find_lineage_column(field)?;
        let (file, open) = self.file(at)?;
        values.extend(open.reader.read_u64_column(column, ranges).map_err(|e| self.within(file, e))?);
        Ok(())
    }

    fn offsets(&self, ranges: &RowRanges, deleted: bool, values: &mut Vec<u64>) -> Result<()> {
        let deletions = self.deletions()?;
        for range in ranges {
            let mut live = self.live_before + range.start - deletions.rank(clip(range.start));
            for offset in range {
                values.push(live);
                live += u64::from(!(deleted && deletions.contains(clip(offset))));
            }
        }
        Ok(())
    }

    fn liveness(&self, ranges: &RowRanges) -> Result<Option<NullBuffer>> {
        let deletions = self.deletions()?;
        if deletions.is_empty() {
            return Ok(None);
        }
        let mut live = BooleanBufferBuilder::new(array_rows(ranges)?);
        ranges.rows().for_each(|offset| live.append(!deletions.contains(clip(offset))));
        Ok(Some(NullBuffer::new(live.finish())))
    }
}

/// All lineage of a fragment, wherever it is stored: its row ids, if it has any. Blocks on the store.
///
/// Errors: `Corrupt` if something does not decode or has another length than the fragment.
pub(crate) fn lineage(snapshot: &Arc<Snapshot>, fragment: &Arc<Fragment>) -> Result<Option<RowIdSequence>> {
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    if snapshot.manifest.has_stable_row_ids() {
        reader.all_versions()?;
    }
    match &fragment.row_ids {
        Some(LineageSource::Column) => reader.all_row_ids().map(Some),
        _ => fragment.row_id_sequence(),
    }
}

/// A fragment with some of its lineage inline, wherever it is stored. Blocks on the store.
pub(crate) fn inline_lineage(
    snapshot: &Arc<Snapshot>,
    fragment: &Arc<Fragment>,
    sequences: Sequences,
) -> Result<Fragment> {
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    let inline = |bytes| Some(LineageSource::Inline(bytes));
    let mut read = fragment.edit();
    read.last_updated_at = inline(reader.last_updated()?.encode());
    if sequences == Sequences::All {
        read.created_at = inline(reader.all_of(VersionOf::Creation)?.encode());
        read.row_ids = inline(reader.all_row_ids()?.encode());
    }
    Ok(read)
}
