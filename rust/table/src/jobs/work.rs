//! What a job does, as plain values.

use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use pennon_core::schema::{Metadata, Schema};
use pennon_core::{Error, Result};

use super::divide::Unit;
use crate::blobs::BlobHandling;
use crate::dataset::Dataset;
use crate::ops::compact::CompactionOptions;
use crate::ops::merge_insert::parts::check_merge;
use crate::ops::merge_insert::{MergeClauses, MergeOptions};
use crate::ops::update::{ChangeColumns, check_assignments, check_changes};
use crate::scan::{self, Filter, FragmentSlice, Projection, ScanOptions};
use crate::session::CreateOptions;
use crate::write::WrittenFragments;

/// What is done to a table, task by task.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Rows are read. There is nothing to commit.
    Scan(Arc<ScanWork>),
    /// Rows that the tasks are given are added.
    Append,
    /// Rows that the tasks are given become the whole content of a table, which may be new.
    Overwrite(Arc<NewTable>),
    /// Rows for which a predicate is true are deleted.
    Delete {
        /// SQL.
        predicate: Arc<str>,
    },
    /// Columns of rows get new values; the rows are written to new fragments and keep their ids.
    Update {
        /// Column and SQL expression over the row as it was.
        assignments: Arc<[(String, String)]>,
        /// SQL; all rows without one.
        predicate: Option<Arc<str>>,
    },
    /// Rows that the tasks are given are merged with those of the table: rows with equal keys are given to one task.
    Merge(Arc<MergeWork>),
    /// Rows are deleted, updated and inserted as the tasks are told, each row of the table by one task.
    ChangeRows(Arc<ChangeWork>),
    /// All rows get new columns, in a new file for each fragment.
    AddColumns(Arc<ColumnsWork>),
    /// Columns of rows with a key that other data has get the values of that data, in a new file for each fragment.
    UpdateColumns(Arc<JoinWork>),
    /// Every page of the data files is decoded, to find damage. There is nothing to commit.
    Verify,
    /// Rows of small or thinned fragments are written to few new ones: see [`Dataset::plan_compaction_job`].
    Compact(Arc<CompactionOptions>),
}

/// Changes of rows that somebody else decides: an engine that evaluates conditions and values of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeWork {
    /// What each task reads to decide, of rows that no other task reads; `None` if changes are found in another way:
    /// tasks are as many as there will be then, or as the division says.
    pub scan: Option<ScanWork>,
    /// The columns of the changes that tasks are given: `_rowaddr`, `_change_type` if it is needed, and those of the
    /// table that get values.
    pub changes: SchemaRef,
    /// The columns that updates give values; `None`: all that are there. Inserted rows have all of them.
    pub updates: Option<Vec<String>>,
    /// Columns whose values in inserted rows the transaction names: of two jobs that insert one key at a time, one fails
    /// with a conflict.
    pub keys: Vec<String>,
    /// Whether rows match where these values are the same. Otherwise other rows match too, as by a cast, and each row that
    /// others insert meanwhile is a conflict.
    pub exact_keys: bool,
    /// What the history shows of a job that only deletes rows, as that of a delete.
    pub predicate: Option<String>,
}

impl ChangeWork {
    pub(super) fn columns(&self) -> ChangeColumns<'_> {
        ChangeColumns {
            all: &self.changes,
            updates: self.updates.as_deref(),
            keys: &self.keys,
            exact_keys: self.exact_keys,
        }
    }
}

/// Where the values of new columns come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnsWork {
    /// SQL over the row.
    Expressions {
        /// Name and expression of each.
        expressions: Vec<(String, String)>,
        /// Rows that an expression sees at a time.
        batch_size: Option<usize>,
    },
    /// Tasks are given the columns, for the live rows that they read, in their order.
    Values(SchemaRef),
    /// Tasks are each given all of other data with a key; rows without a match get null.
    Join(JoinWork),
}

impl ColumnsWork {
    /// The schema of the table with these columns.
    pub(super) fn new_schema(&self, dataset: &Dataset) -> Result<Schema> {
        let evolved = match self {
            Self::Expressions { expressions, batch_size } => {
                dataset.with_expressions(expressions.clone(), *batch_size)
            }
            Self::Values(schema) => dataset.with_new_columns(schema),
            Self::Join(join) => {
                let others = join.source.fields().iter().filter(|field| *field.name() != join.right_on);
                dataset.with_new_columns(&ArrowSchema::new(others.cloned().collect::<Vec<_>>()))
            }
        };
        Ok(evolved?.schema)
    }
}

/// Data that has a key in common with the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinWork {
    /// The key in the table, `_rowid` and `_rowaddr` included.
    pub left_on: String,
    /// The key in the data.
    pub right_on: String,
    /// The columns of the data, which each task is given all of.
    pub source: SchemaRef,
}

impl JoinWork {
    /// The columns besides the key.
    pub(super) fn columns(&self) -> Vec<String> {
        let others = self.source.fields().iter().filter(|field| *field.name() != self.right_on);
        others.map(|field| field.name().clone()).collect()
    }

    fn check(&self, dataset: &Dataset) -> Result<()> {
        let key =
            ScanWork { columns: Some(Projection::Names(vec![self.left_on.clone()])), ..ScanWork::default() };
        dataset.scan(&key.options(None))?;
        if self.source.column_with_name(&self.right_on).is_none() || self.source.fields().len() < 2 {
            return Err(Error::invalid_input(format!(
                "The data must have the key column {} and others; found {}",
                self.right_on,
                self.source.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
            )));
        }
        Ok(())
    }
}

/// A merge, as [`Dataset::merge_insert`] does it; whole rows are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeWork {
    /// What becomes of which rows.
    pub clauses: MergeClauses,
    /// The columns of the rows that tasks are given.
    pub source: SchemaRef,
    /// See [`MergeOptions::memory_limit`], for one task.
    pub memory_limit: Option<u64>,
}

impl MergeWork {
    pub(super) fn options(&self) -> MergeOptions {
        let default = MergeOptions::default();
        MergeOptions { memory_limit: self.memory_limit.unwrap_or(default.memory_limit), ..default }
    }
}

/// What a scan reads; see [`ScanOptions`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanWork {
    /// The columns; all of the table if not given.
    pub columns: Option<Projection>,
    /// SQL; all rows if not given.
    pub filter: Option<String>,
    /// Rows per batch, at most.
    pub batch_size: Option<usize>,
    /// Bytes per batch, about, at most.
    pub batch_bytes: Option<usize>,
    /// Adds `_rowid` at the end.
    pub with_row_id: bool,
    /// Adds `_rowaddr` at the end.
    pub with_row_address: bool,
    /// What blob columns read as; without it as [`BlobHandling::Descriptions`].
    pub blob_handling: Option<BlobHandling>,
}

impl ScanWork {
    pub(super) fn options(&self, slices: Option<Vec<FragmentSlice>>) -> ScanOptions {
        ScanOptions {
            columns: self.columns.clone(),
            filter: self.filter.clone().map(Filter::Sql),
            batch_size: self.batch_size,
            batch_bytes: self.batch_bytes,
            with_row_id: self.with_row_id,
            with_row_address: self.with_row_address,
            blobs: self.blob_handling.unwrap_or(BlobHandling::Descriptions),
            fragments: slices,
            ..ScanOptions::default()
        }
    }
}

/// A table that a job makes, or the whole content of one that is there.
#[derive(Debug, Clone)]
pub struct NewTable {
    /// No rows, with the schema that all tasks write.
    pub empty: WrittenFragments,
    /// How it is laid out.
    pub create: CreateOptions,
    /// Whether there must be no table yet.
    pub must_create: bool,
    /// Entries of its config.
    pub config: Metadata,
}

impl Eq for NewTable {}

impl PartialEq for NewTable {
    fn eq(&self, other: &Self) -> bool {
        (&self.empty.schema, self.create, self.must_create, &self.config)
            == (&other.empty.schema, other.create, other.must_create, &other.config)
    }
}

impl Work {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scan(_) => "scan",
            Self::Append => "append",
            Self::Overwrite(_) => "overwrite",
            Self::Delete { .. } => "delete",
            Self::Update { .. } => "update",
            Self::Merge(_) => "merge",
            Self::ChangeRows(_) => "change_rows",
            Self::AddColumns(_) => "add_columns",
            Self::UpdateColumns(_) => "update_columns",
            Self::Verify => "verify",
            Self::Compact(_) => "compact",
        }
    }

    /// Errors: `InvalidInput` or `NotFound` for what is wrong with it, without reading a row.
    pub(super) fn check(&self, dataset: &Dataset) -> Result<()> {
        match self {
            Self::Scan(scan) => dataset.scan(&scan.options(None)).map(drop),
            Self::Append | Self::Overwrite(_) => Ok(()),
            Self::Delete { predicate } => scan::table_predicate(dataset.snapshot(), predicate).map(drop),
            Self::Update { assignments, predicate } => {
                check_assignments(dataset.snapshot(), assignments)?;
                let predicate = predicate.as_deref().unwrap_or("true");
                scan::table_predicate(dataset.snapshot(), predicate).map(drop)
            }
            Self::Merge(merge) => check_merge(dataset.snapshot(), &merge.clauses, &merge.source),
            Self::ChangeRows(work) => {
                if let Some(scan) = &work.scan {
                    dataset.scan(&scan.options(None))?;
                }
                check_changes(dataset.snapshot(), &work.columns())
            }
            Self::AddColumns(columns) => match columns.as_ref() {
                ColumnsWork::Join(join) => {
                    join.check(dataset)?;
                    columns.new_schema(dataset).map(drop)
                }
                ColumnsWork::Expressions { .. } | ColumnsWork::Values(_) => {
                    columns.new_schema(dataset).map(drop)
                }
            },
            Self::UpdateColumns(join) => {
                join.check(dataset)?;
                dataset.fields_of(&join.columns()).map(drop)
            }
            Self::Verify | Self::Compact(_) => Ok(()),
        }
    }

    /// What of a fragment one task has at least.
    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::AddColumns(_) | Self::UpdateColumns(_) | Self::Verify | Self::Compact(_) => Unit::Fragment,
            Self::Scan(_) => Unit::Row,
            _ => Unit::Part,
        }
    }

    /// The key column whose values are row addresses, which rows lose when they move.
    pub(super) fn address_key(&self, dataset: &Dataset) -> Option<&str> {
        let key = match self {
            Self::Merge(merge) => match merge.clauses.on.as_slice() {
                [key] => key,
                _ => return None,
            },
            Self::UpdateColumns(join) => &join.left_on,
            Self::AddColumns(columns) => match columns.as_ref() {
                ColumnsWork::Join(join) => &join.left_on,
                ColumnsWork::Expressions { .. } | ColumnsWork::Values(_) => return None,
            },
            _ => return None,
        };
        let is_address =
            key == scan::ROW_ADDRESS || (key == scan::ROW_ID && !dataset.manifest().has_stable_row_ids());
        is_address.then_some(key)
    }

    pub(super) fn wrong_job_call(&self, call: &str) -> Error {
        Error::invalid_input(format!("A job of kind {} cannot {call}", self.name()))
    }

    pub(super) fn wrong_call(&self, call: &str) -> Error {
        Error::invalid_input(format!("A task of a job of kind {} cannot {call}", self.name()))
    }
}
