//! Another schema: checks of new columns, and the commits of another schema over the same files or of a new file for each
//! fragment.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow_schema::ArrowError;
use pennon_core::file::FileVersion;
use pennon_core::manifest::Fragment;
use pennon_core::schema::{Evolved, Field, LogicalType, Metadata, Schema};
use pennon_core::transaction::{Merge, Operation, Project};
use pennon_core::{Error, FieldId, Result};
use pennon_datafile::{FileWriter, WriteOptions as FileOptions};

use crate::blobs::write as blobs;
use crate::dataset::Dataset;
use crate::write::fragments;
use crate::write::staged::{self, StagedChange};

impl Dataset {
    /// The schema with new columns, and these alone. Errors: `AlreadyExists` and `SchemaMismatch` for columns that are
    /// there, `InvalidInput` for names that cannot be, `Unsupported` for blobs that new files of the table cannot hold.
    pub(crate) fn with_new_columns(&self, new: &arrow_schema::Schema) -> Result<Evolved> {
        // Files of version 0.1 have columns only that are null.
        let version = self.manifest().version_of_new_files().unwrap_or(FileVersion::Legacy);
        let new = fragments::schema_of(new, version)?;
        let evolved = self.schema().with_columns(&new, self.manifest().next_field_id())?;
        blobs::stored_schema(&evolved.added, version)?;
        Ok(evolved)
    }

    /// Checks new columns that are null in all rows. Errors: `InvalidInput` if they may not be null; `Unsupported` for types
    /// that new files of the table cannot have, this or `InvalidInput` for structs without members whose nulls they cannot
    /// hold: no row could be written again.
    pub(super) fn check_null_columns(&self, added: &Schema) -> Result<()> {
        all_nullable(&added.fields, self.manifest().next_field_id())?;
        let Ok(version) = self.manifest().version_of_new_files() else { return Ok(()) };
        let mut stored = blobs::stored_schema(added, version)?;
        let options = FileOptions { version, ..FileOptions::default() };
        FileWriter::try_new(std::io::sink(), stored.clone(), options)?;
        if self.manifest().live_rows() == 0 || !added.fields.iter().any(has_empty_struct) {
            return Ok(());
        }
        stored.fields.retain(has_empty_struct);
        let first = self.manifest().next_field_id();
        stored.fields.iter_mut().for_each(allow_nulls);
        let nulls = stored.fields.iter().map(|field| null_value(field, first)).collect::<Result<_, _>>();
        let nulls = nulls.and_then(|nulls| RecordBatch::try_new(Arc::new(stored.to_arrow()), nulls));
        let nulls = nulls.map_err(|e| Error::internal(format!("a row of nulls: {e}")))?;
        let mut writer = FileWriter::try_new(std::io::sink(), stored, options)?;
        writer.write(&nulls)?;
        writer.finish().map(drop)
    }

    /// Commits another schema over the same files and moves to the new version.
    pub(super) async fn commit_schema(&mut self, schema: Schema, preserves_nullability: bool) -> Result<()> {
        self.commit_with_files(Operation::Project(Project { schema, preserves_nullability })).await
    }

    /// Commits another schema, with all fragments, of which some have a new file as their last, and moves to the new
    /// version. Removes these files if that is not to be.
    pub(super) async fn commit_columns(
        &mut self,
        schema: Schema,
        written: Vec<Fragment>,
        preserves_nullability: bool,
    ) -> Result<()> {
        let merge = self.merge_of(schema, written, preserves_nullability);
        self.commit_with_files(merge).await
    }

    /// As [`Self::commit_columns`], of files that others wrote: they stay whatever becomes of the commit. Idempotent by
    /// uuid.
    pub(crate) async fn commit_written_columns(
        &mut self,
        schema: Schema,
        written: Vec<Fragment>,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let preserves = preserves_nullability(self.schema(), &schema);
        let merge = self.merge_of(schema, written, preserves);
        self.commit_operation(merge, Some(uuid), properties).await
    }

    /// All fragments, of which some have a new file as their last, under another schema.
    pub(super) fn merge_of(
        &self,
        schema: Schema,
        written: Vec<Fragment>,
        preserves_nullability: bool,
    ) -> Operation {
        let mut fragments: Vec<Fragment> =
            self.manifest().fragments.decode_all().map(Arc::unwrap_or_clone).collect();
        for new in written {
            if let Ok(at) = fragments.binary_search_by_key(&new.id, |f| f.id)
                && let Some(fragment) = fragments.get_mut(at)
            {
                *fragment = new;
            }
        }
        Operation::Merge(Merge { fragments, schema, preserves_nullability })
    }

    /// Commits an operation that owns its new files, and moves to the new version.
    async fn commit_with_files(&mut self, operation: Operation) -> Result<()> {
        let transaction = staged::transaction(self.version(), None, Metadata::new(), operation);
        let change = StagedChange::staged(self.snapshot(), transaction)?;
        self.commit_change(change).await
    }
}

/// Whether no column of the old schema that may hold nulls is forbidden them in the new one, and no new column is.
pub(super) fn preserves_nullability(before: &Schema, after: &Schema) -> bool {
    let may_hold_nulls = |id| before.field_by_id(id).is_none_or(|field| field.nullable);
    after.depth_first().all(|field| field.nullable || !may_hold_nulls(field.id))
}

/// A value of each new field that is null, and of structs that were there one that is not.
fn null_value(field: &Field, first: FieldId) -> Result<ArrayRef, ArrowError> {
    if field.id >= first || field.logical_type != LogicalType::Struct {
        return Ok(new_null_array(&field.data_type(), 1));
    }
    let members = field.children.iter().map(|child| null_value(child, first)).collect::<Result<_, _>>()?;
    let fields = field.children.iter().map(Field::to_arrow).collect();
    Ok(Arc::new(StructArray::try_new(fields, members, None)?))
}

fn has_empty_struct(field: &Field) -> bool {
    field.children.iter().any(has_empty_struct)
        || field.logical_type == LogicalType::Struct && field.children.is_empty()
}

fn allow_nulls(field: &mut Field) {
    field.nullable = true;
    if field.logical_type == LogicalType::Struct {
        field.children.iter_mut().for_each(allow_nulls);
    }
}

fn all_nullable(fields: &[Field], first: FieldId) -> Result<()> {
    fields.iter().try_for_each(|field| match field.id >= first {
        true if field.nullable => Ok(()),
        true => Err(Error::invalid_input(format!(
            "All-null columns must be nullable, but field '{}' is not.",
            field.name
        ))),
        false => all_nullable(&field.children, first),
    })
}
