//! What columns get new values and how these are made of a row: by expressions, or from rows that are given.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema};
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, Result};

use super::given::Given;
use crate::batches::batch_with_rows;
use crate::blobs;
use crate::expr::Expression;
use crate::json;
use crate::scan;
use crate::versions::snapshot::Snapshot;
use crate::write::members;

/// Expressions for columns, checked against a version.
pub(super) struct Assignments {
    table: Arc<Schema>,
    /// One for each column of the table that gets new values, by its place.
    expressions: Vec<Option<Expression>>,
    /// What the expressions are over, if not over the row itself.
    given: Option<Arc<Given>>,
}

impl Assignments {
    /// From an SQL expression for each column, whose name may be in back ticks. Errors: `InvalidInput`.
    pub(super) fn of_expressions(snapshot: &Snapshot, list: &[(String, String)]) -> Result<Self> {
        let table = &snapshot.manifest.schema;
        let visible = scan::visible_schema(table);
        let list = list.iter().map(|(path, sql)| {
            let name = table.column_by_path(path).map_or(path, |column| &column.name);
            (name.as_str(), sql.as_str())
        });
        Self::plan(snapshot, list, &visible, None)
    }

    /// From rows that are given. Errors: `InvalidInput`.
    pub(super) fn of_rows(snapshot: &Snapshot, given: Arc<Given>) -> Result<Self> {
        let schema = given.schema();
        Self::named(snapshot, &schema, given.key(), Some(Arc::clone(&given)))
    }

    /// From columns of the table, as they are in rows. Errors: `InvalidInput`.
    pub(super) fn of_columns(snapshot: &Snapshot, columns: &ArrowSchema) -> Result<Self> {
        Self::named(snapshot, columns, "", None)
    }

    /// From the columns of the same names, except for one.
    fn named(
        snapshot: &Snapshot,
        schema: &ArrowSchema,
        except: &str,
        given: Option<Arc<Given>>,
    ) -> Result<Self> {
        let columns =
            schema.fields().iter().map(|field| field.name().as_str()).filter(|name| *name != except);
        let list: Vec<_> = columns.map(|name| (name, format!("`{}`", name.replace('`', "``")))).collect();
        let list = list.iter().map(|(name, sql)| (*name, sql.as_str()));
        Self::plan(snapshot, list, schema, given)
    }

    fn plan<'a>(
        snapshot: &Snapshot,
        list: impl Iterator<Item = (&'a str, &'a str)>,
        input: &ArrowSchema,
        given: Option<Arc<Given>>,
    ) -> Result<Self> {
        let table = Arc::clone(&snapshot.manifest.schema);
        let mut expressions: Vec<Option<Expression>> = vec![None; table.fields.len()];
        for (column, sql) in list {
            let at = table.fields.iter().position(|field| field.name == *column);
            let at = at.ok_or_else(|| unknown_column(&table, column))?;
            let (Some(field), Some(slot)) = (table.fields.get(at), expressions.get_mut(at)) else { continue };
            // A struct that is given changes the members that it has, and the others stay.
            let values = given.as_ref().and_then(|_| input.column_with_name(column));
            let wanted = match values {
                Some((_, values)) => members::narrowed(field, values.data_type()),
                None => field.to_arrow(),
            };
            let expression = expression_for(&Arc::new(wanted), sql, input);
            if slot.replace(expression.map_err(|e| e.at(format!("column {column}")))?).is_some() {
                return Err(Error::invalid_input(format!("Column '{column}' is assigned twice")));
            }
        }
        if expressions.iter().all(Option::is_none) {
            return Err(Error::invalid_input("No updates provided: at least one column must get a value"));
        }
        Ok(Self { table, expressions, given })
    }

    /// The fields that get new values, in the order of the table.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.pairs().filter(|(_, expression)| expression.is_some()).map(|(field, _)| field)
    }

    /// The columns that new values are made of.
    pub(super) fn needed(&self) -> Vec<String> {
        if let Some(given) = &self.given {
            let keep = self.pairs().filter(|(field, expression)| {
                expression.as_ref().is_some_and(|e| members::keeps_members(field, e.data_type()))
            });
            let keep = keep.map(|(field, _)| field.name.clone());
            return [given.key().to_owned()].into_iter().chain(keep).collect();
        }
        let mut needed = Vec::new();
        for name in self.expressions.iter().flatten().flat_map(Expression::columns) {
            if !needed.contains(name) {
                needed.push(name.clone());
            }
        }
        needed
    }

    /// The columns that whole rows are made of: those that stay, and what the others need.
    pub(super) fn columns(&self) -> Vec<String> {
        let stay = self.pairs().filter(|(_, expression)| expression.is_none());
        let mut columns: Vec<String> = stay.map(|(field, _)| field.name.clone()).collect();
        for name in self.needed() {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        columns
    }

    fn pairs(&self) -> impl Iterator<Item = (&Field, &Option<Expression>)> {
        self.table.fields.iter().zip(&self.expressions)
    }

    /// The new values of rows of which [`Self::needed`] was read, in the order of [`Self::fields`].
    pub(super) fn values(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let given;
        let mut input = rows;
        if let Some(rows_given) = &self.given {
            let ids =
                rows.column_by_name(rows_given.key()).and_then(|ids| ids.as_primitive_opt::<UInt64Type>());
            let ids = ids.ok_or_else(|| Error::internal("row ids or addresses were not read"))?;
            given = rows_given.rows_for(ids.values())?;
            input = &given;
        }
        let mut values = Vec::new();
        for (field, expression) in self.pairs() {
            let Some(expression) = expression else { continue };
            let mut array = expression.evaluate(input).map_err(|e| e.at(format!("column {}", field.name)))?;
            blobs::check_computed(field, &array, input, &self.table)?;
            let arrow = Arc::new(members::narrowed(field, array.data_type()));
            if json::has_json(&arrow) {
                array = json::stored_like(&arrow, &array)?;
            }
            array = members::complete(field, &array, rows.column_by_name(&field.name))
                .map_err(|e| Error::internal(format!("members of column {}: {e}", field.name)))?;
            if !field.nullable && array.null_count() > 0 {
                return Err(Error::invalid_input(format!(
                    "Column '{}' is declared as non-nullable but contains null values",
                    field.name
                )));
            }
            values.push(array);
        }
        Ok(values)
    }

    /// Rows of which [`Self::columns`] was read with their new values.
    pub(super) fn apply(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let kept = |field: &Field| {
            let column = rows.column_by_name(&field.name).cloned();
            column.ok_or_else(|| Error::internal(format!("column {} was not read", field.name)))
        };
        self.with_others(rows, kept)
    }

    /// Whole rows of those that only have the columns that get values; the others are null.
    ///
    /// Errors: `InvalidInput` for another column that must not be null.
    pub(super) fn full_rows(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        self.with_others(rows, |field| {
            if field.nullable {
                return Ok(new_null_array(&field.data_type(), rows.num_rows()));
            }
            Err(Error::invalid_input(format!(
                "Column '{}' is declared as non-nullable, and rows that are inserted do not have it",
                field.name
            )))
        })
    }

    fn with_others(
        &self,
        rows: &RecordBatch,
        other: impl Fn(&Field) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut values = self.values(rows)?.into_iter();
        let mut fields = Vec::with_capacity(self.table.fields.len());
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.table.fields.len());
        for (field, expression) in self.pairs() {
            let array = match expression {
                Some(_) => values.next().ok_or_else(|| Error::internal("a column has no new values"))?,
                None => other(field)?,
            };
            fields.push(ArrowField::new(&field.name, array.data_type().clone(), field.nullable));
            columns.push(array);
        }
        batch(fields, columns, rows.num_rows())
    }
}

/// A batch of columns that were just made.
pub(super) fn batch(fields: Vec<ArrowField>, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    batch_with_rows(Arc::new(ArrowSchema::new(fields)), columns, rows)
        .map_err(|e| Error::internal(format!("new values of {rows} rows: {e}")))
}

fn unknown_column(table: &Schema, name: &str) -> Error {
    if table.column_by_path(name).is_none() && table.field_by_path(name).is_some() {
        return Error::invalid_input(format!(
            "Nested column references are not yet supported. Referenced: {name}; assign the whole column"
        ));
    }
    let valid = table.unknown_column(name);
    Error::invalid_input(format!("Column '{name}' does not exist in dataset schema: {valid}"))
}

/// The values of a column. JSON is made of text, or given in its binary form, as other JSON columns are.
fn expression_for(field: &FieldRef, sql: &str, input: &ArrowSchema) -> Result<Expression> {
    let data_type = field.data_type();
    if !json::has_json(field) {
        return Expression::parse_as(sql, input, data_type);
    }
    let expression = Expression::parse(sql, input)?;
    let found = expression.data_type();
    match json::given_type(field, found) {
        Some(given) if given == *found => Ok(expression),
        Some(given) => Expression::parse_as(sql, input, &given),
        None if *data_type == DataType::LargeBinary => Err(Error::invalid_input(format!(
            "JSON cannot be made of values of type {found}: give its text, as in CAST({sql} AS VARCHAR)"
        ))),
        None => Err(Error::invalid_input(format!(
            "JSON in a column of type {data_type} cannot be made of values of type {found}: give its text"
        ))),
    }
}
