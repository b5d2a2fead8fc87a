//! New columns: from expressions over those that are there, from values in the order of the rows, or null.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use pennon_core::manifest::Fragment;
use pennon_core::schema::{Evolved, Schema};
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::json;
use crate::scan::{JsonHandling, Projection, Scan, ScanOptions};
use crate::write::BatchReader;
use crate::write::columns::{self, ColumnFiles};

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
    /// null structs without members; `Conflict` if others changed rows or columns meanwhile. The table is as before
    /// then, and the files of the attempt are removed.
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
        let fragment = self.manifest().require_fragment(id)?;
        let (written, schema) = self.write_columns(vec![Arc::clone(fragment)], new, batch_size).await?;
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
