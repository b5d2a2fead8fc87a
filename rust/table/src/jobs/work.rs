//! What a job does, as plain values.

use std::sync::Arc;

use pennon_core::{Error, Result};

use crate::blobs::BlobHandling;
use crate::dataset::Dataset;
use crate::ops::update::check_assignments;
use crate::scan::{self, Filter, FragmentSlice, Projection, ScanOptions};
use crate::session::CreateOptions;
use crate::write::WrittenFragments;

/// What is done to a table, task by task.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What blob columns read as, by its name; without one as [`BlobHandling::Mixed`].
    pub blob_handling: Option<String>,
}

impl ScanWork {
    pub(super) fn options(&self, slices: Option<Vec<FragmentSlice>>) -> Result<ScanOptions> {
        Ok(ScanOptions {
            columns: self.columns.clone(),
            filter: self.filter.clone().map(Filter::Sql),
            batch_size: self.batch_size,
            batch_bytes: self.batch_bytes,
            with_row_id: self.with_row_id,
            with_row_address: self.with_row_address,
            blobs: self.blob_handling.as_deref().map_or(Ok(BlobHandling::Mixed), str::parse)?,
            fragments: slices,
            ..ScanOptions::default()
        })
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
}

impl Eq for NewTable {}

impl PartialEq for NewTable {
    fn eq(&self, other: &Self) -> bool {
        (&self.empty.schema, self.create, self.must_create)
            == (&other.empty.schema, other.create, other.must_create)
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
        }
    }

    /// Errors: `InvalidInput` or `NotFound` for what is wrong with it, without reading a row.
    pub(super) fn check(&self, dataset: &Dataset) -> Result<()> {
        match self {
            Self::Scan(scan) => dataset.scan(&scan.options(None)?).map(drop),
            Self::Append | Self::Overwrite(_) => Ok(()),
            Self::Delete { predicate } => scan::table_predicate(dataset.snapshot(), predicate).map(drop),
            Self::Update { assignments, predicate } => {
                check_assignments(dataset.snapshot(), assignments)?;
                let predicate = predicate.as_deref().unwrap_or("true");
                scan::table_predicate(dataset.snapshot(), predicate).map(drop)
            }
        }
    }

    pub(super) fn wrong_call(&self, call: &str) -> Error {
        Error::invalid_input(format!("A task of a job of kind {} cannot {call}", self.name()))
    }
}
