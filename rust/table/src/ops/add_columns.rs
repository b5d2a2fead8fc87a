//! New columns: from expressions over those that are there, from values in the order of the rows, or null.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow_schema::{ArrowError, SchemaRef};
use pennon_core::file::FileVersion;
use pennon_core::manifest::Fragment;
use pennon_core::schema::{Evolved, Field, LogicalType, Schema};
use pennon_core::{Error, FieldId, FragmentId, Result};
use pennon_datafile::{FileWriter, WriteOptions as FileOptions};
use tracing::instrument;

use crate::blobs::write as blobs;
use crate::dataset::Dataset;
use crate::json;
use crate::scan::{JsonHandling, Projection, Scan, ScanOptions};
use crate::write::columns::{self, ColumnFiles};
use crate::write::{BatchReader, fragments};

/// Where the values of new columns come from.
pub enum NewColumns {
    /// Name and SQL expression of each.
    Expressions(Vec<(String, String)>),
    /// The values of the live rows in their order, in batches of any size.
    Values(BatchReader),
    /// Null for every row there is: no file is written.
    Null(SchemaRef),
}

impl Dataset {
    /// Adds columns to all rows and moves to the new version. `batch_size` is the rows an expression sees at a time.
    ///
    /// Errors: `AlreadyExists` and `SchemaMismatch` for columns that are there, `InvalidInput` for names that cannot
    /// be, expressions that do not parse or cannot be computed, values of too many or too few rows, and null columns
    /// that may not be null; `Unsupported` for types that files of the table cannot have, this or `InvalidInput` for
    /// null structs without members; `Conflict` if others
    /// changed rows or columns meanwhile. The table is as before then, and the files of the attempt are removed.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn add_columns(&mut self, new: NewColumns, batch_size: Option<usize>) -> Result<()> {
        let fragments = self.manifest().fragments.decode_all().collect();
        let (written, schema) = self.write_columns(fragments, new, batch_size).await?;
        let preserves = super::evolve::preserves_nullability(self.schema(), &schema);
        self.commit_columns(schema, written, preserves).await
    }

    /// Writes the columns of one fragment without committing them: the fragment with its new file, and the schema to
    /// commit it with. Errors: those of [`Self::add_columns`]; `InvalidInput` if this version does not have the
    /// fragment.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn add_columns_in_fragment(
        &self,
        id: FragmentId,
        new: NewColumns,
        batch_size: Option<usize>,
    ) -> Result<(Fragment, Schema)> {
        let fragment = self.manifest().fragment(id).cloned().ok_or_else(|| {
            Error::invalid_input(format!("Fragment {id} is not in version {}", self.version()))
        })?;
        let (written, schema) = self.write_columns(vec![Arc::clone(&fragment)], new, batch_size).await?;
        Ok((written.into_iter().next().unwrap_or_else(|| fragment.as_ref().clone()), schema))
    }

    /// The fragments that got a file, and the new schema.
    pub(crate) async fn write_columns(
        &self,
        fragments: Vec<Arc<Fragment>>,
        new: NewColumns,
        batch_size: Option<usize>,
    ) -> Result<(Vec<Fragment>, Schema)> {
        let evolve = |new: &arrow_schema::Schema| self.with_new_columns(new);
        let (evolved, values) = match new {
            NewColumns::Null(new) => {
                let Evolved { schema, added } = evolve(&new)?;
                self.check_null_columns(&added)?;
                return Ok((Vec::new(), schema));
            }
            NewColumns::Values(reader) => {
                let failed = |e| Error::invalid_input(format!("Reading the data failed: {e}"));
                let reader = json::stored(reader);
                let evolved = evolve(&reader.schema())?;
                let values: columns::Values = Box::new(reader.map(move |batch| batch.map_err(failed)));
                (evolved, values)
            }
            NewColumns::Expressions(list) => {
                let scan = self.expressions(&fragments, list, batch_size)?;
                (evolve(scan.schema())?, columns::values(scan.stream()))
            }
        };
        let Evolved { schema, added } = evolved;
        if added.fields.is_empty() {
            return Ok((Vec::new(), schema));
        }
        let columns = ColumnFiles { schema: added, ..ColumnFiles::default() };
        let snapshot = Arc::clone(self.snapshot());
        Ok((columns::write(snapshot, fragments, columns, values, self.durability()).await?, schema))
    }
}

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

    /// As [`Self::with_new_columns`], of columns that expressions compute.
    pub(crate) fn with_expressions(
        &self,
        expressions: Vec<(String, String)>,
        batch_size: Option<usize>,
    ) -> Result<Evolved> {
        let scan = self.expressions(&[], expressions, batch_size)?;
        self.with_new_columns(scan.schema())
    }

    fn expressions(
        &self,
        fragments: &[Arc<Fragment>],
        expressions: Vec<(String, String)>,
        batch_size: Option<usize>,
    ) -> Result<Scan> {
        let options = ScanOptions {
            columns: Some(Projection::Expressions(expressions)),
            fragments: Some(fragments.iter().map(|f| f.id.into()).collect()),
            batch_size,
            json: JsonHandling::Stored,
            ..ScanOptions::default()
        };
        Scan::new(Arc::clone(self.snapshot()), &options)
    }
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
