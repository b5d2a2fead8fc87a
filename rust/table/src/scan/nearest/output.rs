//! The columns of the rows that were found.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use arrow_select::take::take_record_batch;
use pennon_core::lengths::to_u64;
use pennon_core::schema::Field;
use pennon_core::{Error, Result, RowAddress};
use pennon_index::Neighbor;

use super::{DISTANCE, Nearest, QUERY_INDEX};
use crate::batches::batch_with_rows;
use crate::blobs::BlobHandling;
use crate::expr::Expression;
use crate::json::JsonHandling;
use crate::scan::plan::{input_row_bytes, reads_together};
use crate::scan::projection::{Input, Output, ValueForm, resolve, visible_schema};
use crate::scan::system_columns::System;
use crate::scan::{Filter, Projection, ScanOptions, TakeOptions, TakeRows, check_unique, take};
use crate::versions::snapshot::Snapshot;

/// A row of the result.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundRow {
    /// The number of its query.
    pub(super) query: i32,
    pub(super) neighbor: Neighbor,
}

/// How the result is made of the rows that were found.
#[derive(Debug)]
pub(super) struct NearestOutput {
    columns: Vec<Column>,
    /// What is taken of the table for them.
    taken: TakeOptions,
    /// The stored columns that this needs, and the bytes of a row of them, about.
    pub(super) fields: Vec<Field>,
    row_bytes: u64,
    /// What expressions and the filter need.
    blobs: BlobHandling,
    filter: Option<Expression>,
    pub(super) schema: SchemaRef,
}

#[derive(Debug)]
enum Column {
    /// A column of what is taken, by name.
    Taken(String),
    Distance,
    QueryIndex,
    /// An expression that needs the distance.
    Expression(Expression),
}

impl NearestOutput {
    /// Errors: those of planning a scan.
    pub(super) fn new(
        snapshot: &Snapshot,
        nearest: &Nearest,
        filter: Option<&Filter>,
        options: &ScanOptions,
        is_batch: bool,
    ) -> Result<Self> {
        let table = &*options.blobs.apply(&snapshot.manifest);
        let visible = || with_distance(&visible_schema(table));
        let mut named: Vec<(String, Column)> = Vec::new();
        // What a search finds hides columns of the table of that name.
        let of_table = |name: &&String| *name != DISTANCE && !(is_batch && *name == QUERY_INDEX);
        let taken = match &options.columns {
            None => {
                let names = table.fields.iter().map(|field| &field.name).filter(of_table);
                let names: Vec<String> = names.cloned().collect();
                named.extend(names.iter().map(|name| (name.clone(), Column::Taken(name.clone()))));
                Projection::Names(names)
            }
            Some(Projection::Names(names)) => {
                named.extend(names.iter().map(|name| match name.as_str() {
                    DISTANCE => (name.clone(), Column::Distance),
                    QUERY_INDEX if is_batch => (name.clone(), Column::QueryIndex),
                    _ => (name.clone(), Column::Taken(name.clone())),
                }));
                Projection::Names(names.iter().filter(of_table).cloned().collect())
            }
            Some(Projection::Expressions(list)) => {
                let (mut taken, visible) = (Vec::new(), visible());
                for (name, sql) in list {
                    let expression = Expression::parse(sql, &visible)?;
                    let column = if expression.columns().iter().any(|column| column == DISTANCE) {
                        Column::Expression(expression)
                    } else {
                        taken.push((name.clone(), sql.clone()));
                        Column::Taken(name.clone())
                    };
                    named.push((name.clone(), column));
                }
                // Without expressions there are no columns; without any given there are all.
                if taken.is_empty() { Projection::Names(Vec::new()) } else { Projection::Expressions(taken) }
            }
        };
        if is_batch && !named.iter().any(|(_, column)| matches!(column, Column::QueryIndex)) {
            named.insert(0, (QUERY_INDEX.to_owned(), Column::QueryIndex));
        }
        if !nearest.without_distance && !named.iter().any(|(name, _)| name == DISTANCE) {
            named.push((DISTANCE.to_owned(), Column::Distance));
        }
        for (wanted, system) in
            [(options.with_row_id, System::RowId), (options.with_row_address, System::RowAddress)]
        {
            let name = system.name().to_owned();
            if wanted {
                let at = named.iter().position(|(known, _)| *known == name);
                let column = at.map(|at| named.remove(at));
                named.push(column.unwrap_or_else(|| (name.clone(), Column::Taken(name))));
            }
        }
        check_unique(named.iter().map(|(name, _)| name.as_str()))?;
        let taken = TakeOptions {
            columns: Some(taken),
            with_row_id: options.with_row_id,
            with_row_address: options.with_row_address,
            blobs: options.blobs,
            json: options.json,
            ..TakeOptions::default()
        };
        let filter = match filter {
            None => None,
            Some(Filter::Expression(filter)) => Some(filter.clone()),
            Some(Filter::Sql(sql)) => Some(Expression::predicate(sql, &visible())?),
        };
        let form = ValueForm { blobs: taken.blobs, json: taken.json, members: taken.members };
        let appended = System::appended(taken.with_row_id, taken.with_row_address);
        let (input, of_table) = resolve(snapshot, taken.columns.as_ref(), &appended, None, form)?;
        let schema = schema_of(&of_table, &named)?;
        let row_bytes = input_row_bytes(snapshot, snapshot.manifest.fragments.ids().next(), &input);
        let columns = named.into_iter().map(|(_, column)| column).collect();
        let Input { fields, .. } = input;
        Ok(Self { columns, taken, fields, row_bytes, blobs: options.blobs, filter, schema })
    }

    /// Those of the rows for which the filter is true.
    pub(super) async fn kept(&self, snapshot: &Arc<Snapshot>, rows: Vec<FoundRow>) -> Result<Vec<FoundRow>> {
        let Some(filter) = &self.filter else { return Ok(rows) };
        let values = self.inputs(snapshot, &rows, filter.columns()).await?;
        let mask = filter.evaluate_mask(&values)?;
        Ok(rows.into_iter().zip(mask.values()).filter_map(|(row, kept)| kept.then_some(row)).collect())
    }

    /// What is taken of the table for rows, which ascend, of which some are in the result; `None` where that is better done
    /// once it is known for which.
    pub(super) async fn ahead(&self, snapshot: &Arc<Snapshot>, rows: Vec<RowAddress>) -> Option<TakenRows> {
        if rows.is_empty()
            || self.fields.is_empty()
            || !reads_together(snapshot, to_u64(rows.len()), self.row_bytes)
        {
            return None;
        }
        let columns = take(Arc::clone(snapshot), TakeRows::Addresses(rows.clone()), &self.taken).await;
        // What cannot be read is an error if it is needed.
        columns
            .ok()
            .filter(|columns| columns.num_rows() == rows.len())
            .map(|columns| TakenRows { rows, columns })
    }

    /// The result for some of the rows, in their order; `ahead` may have what is taken for them.
    pub(super) async fn batch(
        &self,
        snapshot: &Arc<Snapshot>,
        rows: &[FoundRow],
        ahead: Option<&TakenRows>,
    ) -> Result<RecordBatch> {
        let taken = match ahead.map(|ahead| ahead.of(rows)).transpose()?.flatten() {
            Some(taken) => taken,
            None => take(Arc::clone(snapshot), addresses(rows), &self.taken).await?,
        };
        if taken.num_rows() != rows.len() {
            return Err(Error::internal("a row that was found is gone"));
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(match column {
                Column::Taken(name) => {
                    let found = taken.column_by_name(name);
                    Arc::clone(found.ok_or_else(|| Error::internal(format!("{name} was not taken")))?)
                }
                Column::Distance => distances(rows),
                Column::QueryIndex => {
                    Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.query)))
                }
                Column::Expression(expression) => {
                    expression.evaluate(&self.inputs(snapshot, rows, expression.columns()).await?)?
                }
            });
        }
        batch_of(&self.schema, columns, rows.len())
    }

    /// Columns of rows that an expression needs.
    async fn inputs(
        &self,
        snapshot: &Arc<Snapshot>,
        rows: &[FoundRow],
        names: &[String],
    ) -> Result<RecordBatch> {
        let of_table: Vec<String> = names.iter().filter(|name| *name != DISTANCE).cloned().collect();
        let options = TakeOptions {
            columns: Some(Projection::Names(of_table)),
            blobs: self.blobs,
            json: JsonHandling::Stored,
            ..TakeOptions::default()
        };
        let taken = take(Arc::clone(snapshot), addresses(rows), &options).await?;
        let mut columns = taken.columns().to_vec();
        columns.push(distances(rows));
        batch_of(&Arc::new(with_distance(taken.schema_ref())), columns, rows.len())
    }
}

impl fmt::Display for NearestOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(filter) = &self.filter {
            write!(f, "filter {}, ", filter.sql())?;
        }
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        f.write_str(&names.join(", "))
    }
}

/// What was taken of the table for rows that may be in the result.
#[derive(Debug)]
pub(super) struct TakenRows {
    /// Ascending.
    rows: Vec<RowAddress>,
    columns: RecordBatch,
}

impl TakenRows {
    /// The columns of some rows, in their order; `None` unless all of them are there.
    fn of(&self, rows: &[FoundRow]) -> Result<Option<RecordBatch>> {
        let position = |row: &FoundRow| {
            let at = self.rows.binary_search(&RowAddress(row.neighbor.address)).ok()?;
            u32::try_from(at).ok()
        };
        let Some(positions) = rows.iter().map(position).collect::<Option<Vec<u32>>>() else {
            return Ok(None);
        };
        take_record_batch(&self.columns, &UInt32Array::from(positions))
            .map(Some)
            .map_err(|e| Error::internal(format!("the columns of nearest rows: {e}")))
    }
}

fn schema_of(of_table: &Output, columns: &[(String, Column)]) -> Result<SchemaRef> {
    let field = |(name, column): &(String, Column)| {
        Ok(match column {
            Column::Taken(name) => {
                let missing = |_| Error::internal(format!("{name} is not taken"));
                of_table.schema.field_with_name(name).cloned().map_err(missing)?
            }
            Column::Distance => distance_field(),
            Column::QueryIndex => ArrowField::new(QUERY_INDEX, DataType::Int32, false),
            Column::Expression(e) => ArrowField::new(name, e.data_type().clone(), e.nullable()),
        })
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ArrowSchema::new_with_metadata(fields, of_table.schema.metadata().clone())))
}

fn distance_field() -> ArrowField {
    ArrowField::new(DISTANCE, DataType::Float32, true)
}

/// The same columns and the distance, which hides one of its name.
fn with_distance(schema: &ArrowSchema) -> ArrowSchema {
    let others = schema.fields().iter().filter(|field| field.name() != DISTANCE).map(Arc::clone);
    ArrowSchema::new(others.chain([Arc::new(distance_field())]).collect::<Vec<_>>())
}

fn addresses(rows: &[FoundRow]) -> TakeRows {
    TakeRows::Addresses(rows.iter().map(|row| RowAddress(row.neighbor.address)).collect())
}

fn distances(rows: &[FoundRow]) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.neighbor.distance)))
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    batch_with_rows(Arc::clone(schema), columns, rows)
        .map_err(|e| Error::internal(format!("the columns of nearest rows: {e}")))
}
