//! Update: new values for columns of matching rows.
//!
//! Rows that match are written anew, in the order of their ids, and deleted where they were; they keep their ids and
//! the versions that made them. First only the columns of the predicate are read, then those of the rows that match,
//! without what is assigned and not looked at. Expressions see the rows as they were. A predicate that matches nothing
//! makes a version too.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use pennon_core::conflict::rebase::Rows;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::schema::{Field, Metadata, Schema, unknown_field};
use pennon_core::{Error, FieldId, Result, RowAddress};
use pennon_datafile::check_writable;

use crate::commit::CommitParams;
use crate::dataset::Dataset;
use crate::expr::Expression;
use crate::scan;
use crate::snapshot::Snapshot;
use crate::write::moved::{self, Moves};
use crate::write::{WriteParams, deletions};

/// How an update is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Repetitions on the newest version after retryable conflicts.
    pub conflict_retries: u32,
    /// No repetition is begun after this time.
    pub retry_timeout: Duration,
    /// Version of the new data files; `None`: the table's.
    pub file_version: Option<FileVersion>,
}

impl Default for UpdateOptions {
    fn default() -> Self {
        Self { conflict_retries: 10, retry_timeout: Duration::from_secs(30), file_version: None }
    }
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateResult {
    /// Rows whose update was executed, whether their values changed or not.
    pub num_rows_updated: u64,
}

impl Dataset {
    /// Gives columns of the rows for which a predicate is true, of all rows without one, new values and moves to the
    /// new version.
    ///
    /// An assignment is a column and an SQL expression over the row as it was; system columns may be used. Values are
    /// cast to the type of the column. Rows that others change meanwhile lead to another try on the newest version.
    ///
    /// Errors: `InvalidInput` for no assignments, an unknown column, an expression or predicate that does not parse, a
    /// value that cannot be computed or cast, null for a column that must not be; retryable `Conflict` "Too many
    /// concurrent writers. ..." at the end of the tries. The table is as before then, and files that were written are
    /// removed.
    pub async fn update(
        &mut self,
        assignments: &[(String, String)],
        predicate: Option<&str>,
        options: UpdateOptions,
    ) -> Result<UpdateResult> {
        let attempt = |base: Self| async move {
            let rows = base.rows_to_update(assignments, predicate).await?;
            base.update_once(assignments, rows, options).await
        };
        let UpdateOptions { conflict_retries, retry_timeout, .. } = options;
        let (snapshot, result) = super::retrying(self, conflict_retries, retry_timeout, attempt).await?;
        self.move_to(snapshot);
        Ok(result)
    }

    /// [`Self::update`] of rows of this version by address, whoever chose them; deleted ones are left out.
    ///
    /// Errors: in addition `InvalidInput` for rows that cannot be there, retryable `Conflict` if somebody changed the
    /// same rows since this version: find the rows again then.
    pub async fn update_at(
        &self,
        rows: &[RowAddress],
        assignments: &[(String, String)],
        options: UpdateOptions,
    ) -> Result<(Self, UpdateResult)> {
        let rows = deletions::by_fragment(rows.iter().copied());
        let rows = deletions::merge(self.snapshot(), rows).await?.affected;
        let (snapshot, result) = self.update_once(assignments, rows, options).await?;
        Ok((Self::at(snapshot, self.durability()), result))
    }

    async fn rows_to_update(
        &self,
        assignments: &[(String, String)],
        predicate: Option<&str>,
    ) -> Result<Rows> {
        // What is wrong with them is found before anything is read.
        Assignments::plan(self.snapshot(), assignments)?;
        let predicate = scan::table_predicate(self.snapshot(), predicate.unwrap_or("true"))?;
        let matching = scan::matches(Arc::clone(self.snapshot()), None, predicate).await?;
        Ok(matching.into_iter().collect())
    }

    async fn update_once(
        &self,
        assignments: &[(String, String)],
        rows: Rows,
        options: UpdateOptions,
    ) -> Result<(Arc<Snapshot>, UpdateResult)> {
        if let Some(version) = options.file_version {
            check_writable(version)?;
        }
        let assignments = Assignments::plan(self.snapshot(), assignments)?;
        let num_rows_updated = rows.values().map(DeletionVector::len).sum();
        let moves = Moves {
            moved: rows,
            columns: assignments.columns.clone(),
            fields: assignments.fields.clone(),
            changed: Box::new(move |batch| assignments.apply(&batch)),
            inserted: None,
            deleted: Rows::new(),
            inserted_keys: None,
        };
        let params = WriteParams {
            file_version: options.file_version,
            durability: self.durability(),
            ..WriteParams::default()
        };
        let staged = moved::write(self.snapshot(), moves, &params).await?;
        let (change, files) = staged.change(self.snapshot(), None, Metadata::new());
        let params = CommitParams { durability: self.durability(), ..CommitParams::default() };
        let snapshot = super::publish_files(Arc::clone(self.snapshot()), change, &params, files).await?;
        Ok((snapshot, UpdateResult { num_rows_updated }))
    }
}

/// Expressions for columns, checked against a version.
struct Assignments {
    table: Arc<Schema>,
    /// One for each column of the table that gets new values, by its place.
    expressions: Vec<Option<Expression>>,
    /// The columns to read: those that stay, and what the expressions look at.
    columns: Vec<String>,
    /// The fields that change.
    fields: Vec<FieldId>,
}

impl Assignments {
    fn plan(snapshot: &Snapshot, list: &[(String, String)]) -> Result<Self> {
        let table = Arc::clone(&snapshot.manifest.schema);
        if list.is_empty() {
            return Err(Error::invalid_input("No updates provided: at least one column must get a value"));
        }
        let visible = scan::visible_schema(&snapshot.manifest.schema);
        let mut expressions: Vec<Option<Expression>> = vec![None; table.fields.len()];
        for (column, sql) in list {
            let at = table.fields.iter().position(|field| field.name == *column);
            let at = at.ok_or_else(|| unknown_column(&table, column))?;
            let (Some(field), Some(slot)) = (table.fields.get(at), expressions.get_mut(at)) else { continue };
            check_assignable(field)?;
            let expression = Expression::parse_as(sql, &visible, &field.data_type());
            if slot.replace(expression.map_err(|e| e.at(format!("column {column}")))?).is_some() {
                return Err(Error::invalid_input(format!("Column '{column}' is assigned twice")));
            }
        }
        let pairs = || table.fields.iter().zip(&expressions);
        let mut columns: Vec<String> =
            pairs().filter(|(_, e)| e.is_none()).map(|(field, _)| field.name.clone()).collect();
        for name in expressions.iter().flatten().flat_map(Expression::columns) {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        let assigned = pairs().filter(|(_, e)| e.is_some()).map(|(field, _)| field);
        let fields = moved::with_members(assigned);
        Ok(Self { table, expressions, columns, fields })
    }

    /// The rows with their new values.
    fn apply(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut fields = Vec::with_capacity(self.table.fields.len());
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.table.fields.len());
        for (field, expression) in self.table.fields.iter().zip(&self.expressions) {
            let array = match expression {
                Some(expression) => expression.evaluate(rows)?,
                None => {
                    let array = rows.column_by_name(&field.name).cloned();
                    array.ok_or_else(|| Error::internal(format!("column {} was not read", field.name)))?
                }
            };
            if !field.nullable && array.null_count() > 0 {
                return Err(Error::invalid_input(format!(
                    "Column '{}' is declared as non-nullable but contains null values",
                    field.name
                )));
            }
            fields.push(ArrowField::new(&field.name, array.data_type().clone(), field.nullable));
            columns.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)
            .map_err(|e| Error::internal(format!("new values of {} rows: {e}", rows.num_rows())))
    }
}

fn unknown_column(table: &Schema, name: &str) -> Error {
    if table.field_by_path(name).is_some() {
        return Error::invalid_input(format!(
            "Nested column references are not yet supported. Referenced: {name}; assign the whole column"
        ));
    }
    let valid = unknown_field(name, table.fields.iter().map(|f| f.name.as_str()));
    Error::invalid_input(format!("Column '{name}' does not exist in dataset schema: {valid}"))
}

/// JSON is stored in a binary form that this release does not make of text.
fn check_assignable(field: &Field) -> Result<()> {
    match field.metadata.get("ARROW:extension:name").map(String::as_str) {
        Some("lance.json" | "arrow.json") => {
            Err(Error::unsupported(format!("field `{}`: JSON text cannot be written yet", field.name)))
        }
        _ => field.children.iter().try_for_each(check_assignable),
    }
}
