//! Columns that change: their names and whether they may be null in the schema alone, their types by a new file for
//! each fragment.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use futures::TryStreamExt;
use pennon_core::schema::{Alteration, Altered, Evolved, Field, LogicalType, Schema};
use pennon_core::{Error, FieldId, Result};
use tracing::instrument;

use crate::batches::batch_with_rows;
use crate::dataset::Dataset;
use crate::json;
use crate::scan::{JsonHandling, Projection, Scan, ScanOptions};
use crate::write::columns::{self, ColumnFiles};

impl Dataset {
    /// Alters columns and moves to the new version.
    ///
    /// A column of another type is rewritten, under a new field id. Errors: `InvalidInput` for a column that is not
    /// there, a name that is taken, a type that its values cannot be cast to, a new type for a column with an index, a
    /// value that the new type cannot hold, and nulls in a column that shall not have any; `Conflict` if others changed
    /// columns, or for new types rows, meanwhile. The table is as before then.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn alter_columns(&mut self, alterations: &[Alteration]) -> Result<()> {
        let altered = self.schema().with_alterations(alterations, self.manifest().next_field_id())?;
        self.check_no_index(&altered).await?;
        for path in &altered.no_longer_nullable {
            self.check_no_nulls(path).await?;
        }
        let Altered { evolved: Evolved { schema, added }, casts, .. } = altered;
        // Appends of the old type must conflict, and this flag is what the reference looks at.
        let preserves = casts.is_empty() && super::evolve::preserves_nullability(self.schema(), &schema);
        if added.fields.is_empty() {
            return self.commit_schema(schema, preserves).await;
        }
        let casting = Casting::new(self.schema(), &added, casts)?;
        let options = ScanOptions {
            columns: Some(Projection::Names(
                casting.columns.iter().map(|(old, _)| old.name.clone()).collect(),
            )),
            json: JsonHandling::Stored,
            ..ScanOptions::default()
        };
        let scan = Scan::new(Arc::clone(self.snapshot()), &options)?;
        let values = columns::values(scan.stream());
        let values = Box::new(values.map(move |batch| casting.cast(&batch?)));
        let columns = ColumnFiles { schema: added, ..ColumnFiles::default() };
        let (snapshot, fragments) =
            (Arc::clone(self.snapshot()), self.manifest().fragments.decode_all().collect());
        let written = columns::write(snapshot, fragments, columns, values, self.durability()).await?;
        self.commit_columns(schema, written, preserves).await
    }

    /// An index knows the values of its columns as they were stored: with other ones it would have to go.
    async fn check_no_index(&self, altered: &Altered) -> Result<()> {
        let cast: Vec<FieldId> = altered.casts.values().copied().collect();
        if cast.is_empty() {
            return Ok(());
        }
        let touched = self.schema().touched_fields(&cast);
        for index in self.snapshot().indices().await?.iter() {
            let Some(id) = index.fields.iter().find(|id| touched.contains(id)) else { continue };
            let column = self.schema().path_of(*id).unwrap_or_else(|| format!("with field id {id}"));
            return Err(Error::invalid_input(format!(
                "Cannot cast column {column} to a new type: the index \"{}\" is on it and would be lost. Drop the index \
                 before the column is altered, and create it again afterwards",
                index.name
            )));
        }
        Ok(())
    }

    async fn check_no_nulls(&self, path: &str) -> Result<()> {
        let options = ScanOptions {
            columns: Some(Projection::Names(vec![path.to_owned()])),
            json: JsonHandling::Stored,
            ..ScanOptions::default()
        };
        let mut batches = Scan::new(Arc::clone(self.snapshot()), &options)?.stream();
        while let Some(batch) = batches.try_next().await? {
            if batch.columns().iter().any(|column| column.logical_null_count() > 0) {
                return Err(Error::invalid_input(format!(
                    "Column \"{path}\" contains NULL values and cannot be made non-nullable"
                )));
            }
        }
        Ok(())
    }
}

/// Makes the columns of the new files of those in the old ones.
struct Casting {
    /// Each column as it is, and what of it is new.
    columns: Vec<(Field, Field)>,
    casts: BTreeMap<FieldId, FieldId>,
    schema: SchemaRef,
}

impl Casting {
    fn new(old: &Schema, added: &Schema, casts: BTreeMap<FieldId, FieldId>) -> Result<Self> {
        let column = |new: &Field| {
            let id = casts.get(&new.id).copied().unwrap_or(new.id);
            let before = old.fields.iter().find(|field| field.id == id);
            let before =
                before.ok_or_else(|| Error::internal(format!("column {} has no source", new.name)))?;
            Ok((before.clone(), new.clone()))
        };
        let columns = added.fields.iter().map(column).collect::<Result<_>>()?;
        Ok(Self { columns, casts, schema: Arc::new(added.to_arrow()) })
    }

    fn cast(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let pairs = self.columns.iter().zip(batch.columns());
        let columns = pairs.map(|((old, new), array)| self.value(array, old, new)).collect::<Result<_>>()?;
        batch_with_rows(Arc::clone(&self.schema), columns, batch.num_rows())
            .map_err(|e| Error::invalid_input(format!("The values do not fit the new types: {e}")))
    }

    fn value(&self, array: &ArrayRef, old: &Field, new: &Field) -> Result<ArrayRef> {
        if old.id != new.id {
            if new.logical_type == LogicalType::Json {
                return json::stored_values(&old.name, array);
            }
            // A value that does not fit is an error, not null.
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            return cast_with_options(array, &new.data_type(), &strict)
                .map_err(|e| Error::invalid_input(format!("Casting column \"{}\": {e}", old.name)));
        }
        let members =
            array.as_struct_opt().ok_or_else(|| Error::internal(format!("{} is not a struct", old.name)))?;
        let mut children = Vec::with_capacity(new.children.len());
        for child in &new.children {
            let id = self.casts.get(&child.id).copied().unwrap_or(child.id);
            let found = old.children.iter().zip(members.columns()).find(|(field, _)| field.id == id);
            let (before, values) =
                found.ok_or_else(|| Error::internal(format!("member {} has no source", child.name)))?;
            children.push(self.value(values, before, child)?);
        }
        let fields = ArrowSchema::new(new.children.iter().map(Field::to_arrow).collect::<Vec<_>>()).fields;
        StructArray::try_new(fields, children, members.nulls().cloned())
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|e| Error::invalid_input(format!("Casting column \"{}\": {e}", old.name)))
    }
}
