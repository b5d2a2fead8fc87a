//! Reading rows: scans with projection, filter and limit, and takes of single rows.
//!
//! | part | file |
//! |---|---|
//! | what a scan reads: columns, filter, rows of each fragment; pure | `plan.rs` |
//! | which columns it gives and what has to be read for them; pure | `projection.rs` |
//! | limits, units of work, rows that a mask selects; pure | `units.rs` |
//! | a filter made ready for all fragments | `filter.rs` |
//! | row ids, addresses, offsets and versions as columns | `system_columns.rs` |
//! | the files and the lineage of one fragment | `fragment/` |
//! | which fragments a filter can match, by row ids | `narrow.rs` |
//! | which rows of a fragment a filter can match | `prune.rs` |
//! | which indices of the table answer a filter | `index_plan.rs` |
//! | which rows a filter matches, by indices of the table | `index_search.rs`, `index_matches.rs` |
//! | how many rows those are | `index_count.rs` |
//! | where the rows are that an index names | `index_rows.rs` |
//! | values that an index has of the rows that it found | `index_values.rs` |
//! | the first rows of an order, by an index | `first_rows.rs` |
//! | columns of rows of a fragment | `read.rs` |
//! | plan -> units; one unit -> batches; units -> stream | `execute.rs`, `stream.rs` |
//! | what executing a plan took | `metrics.rs`, `analyze.rs` |
//! | rows whose vectors are nearest to a query | `nearest/` |
//! | rows by position, address or id, and blobs of rows | `take.rs` |
//! | row id to row address | `row_index.rs` |
//! | the rows a predicate matches, and where they may be | `matches.rs` |
//!
//! Invariant: a deleted row never reaches a decoder. Deletion vectors become ranges of live rows before anything
//! is read; a vector that cannot be read is an error.

mod analyze;
mod brief;
mod execute;
mod filter;
mod first_rows;
mod fragment;
mod index_count;
mod index_matches;
mod index_plan;
mod index_rows;
mod index_search;
mod index_values;
mod matches;
mod metrics;
mod narrow;
mod nearest;
mod other_version;
mod plan;
mod projection;
mod prune;
mod read;
mod row_index;
mod stream;
mod system_columns;
mod take;
#[cfg(test)]
mod tests;
mod units;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

pub use analyze::ScanAnalysis;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
pub use first_rows::FirstRows;
pub(crate) use fragment::{FragmentReader, Needs, NeedsDeletions, inline_lineage, lineage, prepare};
use futures::TryStreamExt;
use futures::stream::BoxStream;
pub(crate) use index_matches::IndexMatches;
pub(crate) use index_plan::explain_condition;
pub(crate) use index_rows::covered_rows;
pub(crate) use index_search::matches_of;
pub use matches::matches;
pub(crate) use matches::spans;
use metrics::ScanMetrics;
use nearest::NearestPlan;
pub use nearest::{Nearest, Probes};
pub(crate) use other_version::{Continuity, NullableFields, id_in_version};
use pennon_core::lengths::to_u64;
use pennon_core::{Error, FragmentId, Result};
pub use pennon_index::{DistanceRange, Metric};
pub use plan::{IndexUse, ScanPlan};
pub use projection::table_predicate;
pub(crate) use projection::{Input, predicate, visible_schema};
pub(crate) use row_index::{ids_of_live_rows, row_id_index};
pub use system_columns::system_fields;
pub(crate) use system_columns::{ROW_ADDRESS, ROW_ID};
use take::find_ascending_ids;
pub use take::{Missing, TakeOptions, TakeRows, read_blob, take, take_blobs};
pub(crate) use take::{check_found, find_ids};
pub(crate) use units::stored_row_bytes;

pub use crate::blobs::BlobHandling;
pub use crate::blobs::read::Blob;
use crate::expr::Expression;
pub use crate::json::JsonHandling;
use crate::versions::snapshot::Snapshot;

/// Rows per batch when nothing else is asked for.
pub const DEFAULT_BATCH_SIZE: usize = 8192;

/// Batches of a scan. Poll it inside a tokio runtime; dropping it stops the work.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// The columns of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projection {
    /// Columns by name, in this order: table columns, paths of nested fields (`point.x` gives a column of that
    /// name) and system columns.
    Names(Vec<String>),
    /// Name and SQL expression of each column.
    Expressions(Vec<(String, String)>),
}

/// What paths of nested fields give.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Members {
    /// A column each, named like the path.
    #[default]
    Apart,
    /// Structs with the members that were named, in the order of the table.
    InStructs,
}

impl std::str::FromStr for Members {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "apart" => Ok(Self::Apart),
            "in_structs" => Ok(Self::InStructs),
            _ => Err(Error::invalid_input(format!(
                "members is {text:?}, expected \"apart\" or \"in_structs\""
            ))),
        }
    }
}

/// The rows of a result: those for which a predicate over columns of the table and system columns is true.
#[derive(Debug, Clone)]
pub enum Filter {
    /// SQL text.
    Sql(String),
    /// A predicate that was made before, by [`Expression::predicate`].
    Expression(Expression),
}

impl From<&str> for Filter {
    fn from(sql: &str) -> Self {
        Self::Sql(sql.to_owned())
    }
}

/// A fragment, or some of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentSlice {
    /// The fragment.
    pub fragment: FragmentId,
    /// Positions among its live rows; all of them if not given.
    pub rows: Option<Range<u64>>,
}

impl From<FragmentId> for FragmentSlice {
    fn from(fragment: FragmentId) -> Self {
        Self { fragment, rows: None }
    }
}

impl FragmentSlice {
    /// The positions among so many live rows. Errors: `InvalidInput` if there are fewer.
    pub(crate) fn positions(&self, live: u64) -> Result<Range<u64>> {
        match &self.rows {
            None => Ok(0..live),
            Some(rows) if rows.start <= rows.end && rows.end <= live => Ok(rows.clone()),
            Some(rows) => Err(Error::invalid_input(format!(
                "Rows {} to {} of fragment {} were asked for; it has {live}",
                rows.start, rows.end, self.fragment
            ))),
        }
    }
}

/// What a scan reads.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// The columns; all of the table if not given.
    pub columns: Option<Projection>,
    /// All rows if not given.
    pub filter: Option<Filter>,
    /// Only the rows whose vectors are nearest to a query, the nearest first.
    pub nearest: Option<Nearest>,
    /// Only the first rows of an order are needed, by whoever sorts what the scan gives: it may leave out others where an
    /// index knows them. Not together with a limit or an offset.
    pub first: Option<FirstRows>,
    /// At most so many rows, after the filter and the offset.
    pub limit: Option<u64>,
    /// Without the first rows, after the filter.
    pub offset: Option<u64>,
    /// At most so many rows per batch; [`DEFAULT_BATCH_SIZE`] if not given.
    pub batch_size: Option<usize>,
    /// At most about so many bytes per batch, but at least one row.
    pub batch_bytes: Option<usize>,
    /// Every batch but the last has exactly `batch_size` rows.
    pub strict_batch_size: bool,
    /// Adds `_rowid` at the end.
    pub with_row_id: bool,
    /// Adds `_rowaddr` at the end.
    pub with_row_address: bool,
    /// Only these fragments or parts of them, in this order.
    pub fragments: Option<Vec<FragmentSlice>>,
    /// Batches may come in any order.
    pub unordered: bool,
    /// Deleted rows too, with null `_rowid` and `_rowaddr`. The row id must be among the columns.
    pub include_deleted_rows: bool,
    /// Reads all rows, also those that statistics say a filter cannot match.
    pub ignore_statistics: bool,
    /// Answers the filter without the indices of the table.
    pub ignore_indices: bool,
    /// Only rows that indices found: fragments that the indices of the filter do not cover are left out. Without an index
    /// that answers the filter it has no effect.
    pub only_indexed: bool,
    /// An index that would be used is an error if its files are missing, damaged or of a newer version; else the rows that
    /// it covers are scanned.
    pub strict_indices: bool,
    /// What blob columns read as.
    pub blobs: BlobHandling,
    /// What JSON columns read as.
    pub json: JsonHandling,
    /// Units of work in flight or waiting to be fetched; follows the number of cores if not given.
    pub readahead: Option<usize>,
    /// Rows of a unit of work, at most: fewer take less memory. Follows the size of rows if not given.
    pub unit_rows: Option<u64>,
}

/// A planned scan. Cheap to clone: the plan is made once, however often it is executed.
#[derive(Debug, Clone)]
pub struct Scan {
    plan: Arc<ScanPlan>,
    /// The search among the rows of the plan, if there is one.
    nearest: Option<Arc<NearestPlan>>,
}

impl Scan {
    /// Decides what to read. Nothing is read yet.
    ///
    /// Errors: `InvalidInput` for unknown or repeated columns, a filter that does not parse or is not boolean,
    /// fragments that are not in the version, a batch size of 0, and a search whose column has no vectors or whose query
    /// does not fit these.
    pub fn new(snapshot: Arc<Snapshot>, options: &ScanOptions) -> Result<Self> {
        let Some(nearest) = &options.nearest else {
            return Ok(Self { plan: Arc::new(ScanPlan::new(snapshot, options)?), nearest: None });
        };
        let nearest = Arc::new(NearestPlan::new(snapshot, nearest, options)?);
        Ok(Self { plan: Arc::clone(&nearest.candidates), nearest: Some(nearest) })
    }

    /// The same of rows that indices found, in fragments that these cover: without the filter, which is true for them.
    /// Not for a scan with a limit.
    pub(crate) fn among(self, found: Arc<IndexMatches>) -> Self {
        Self { plan: Arc::new(self.plan.among(found)), ..self }
    }

    /// What was decided; printed, a tree. Of a search, the scan of what is looked at.
    pub fn plan(&self) -> &ScanPlan {
        &self.plan
    }

    /// The plan as text, with the indices that answer its filter. Reads which indices there are, and nothing else.
    pub async fn explain(&self) -> Result<String> {
        let scan = plan::WithIndices(&self.plan, &self.plan.index_use().await?).to_string();
        match &self.nearest {
            None => Ok(scan),
            Some(nearest) => Ok(nearest.explain().await? + &scan),
        }
    }

    /// The columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        self.nearest.as_ref().map_or_else(|| self.plan.schema(), |nearest| nearest.schema())
    }

    /// The rows. Needs a tokio runtime.
    pub fn stream(self) -> BatchStream {
        self.batches(Arc::default())
    }

    fn batches(&self, metrics: Arc<ScanMetrics>) -> BatchStream {
        match &self.nearest {
            None => stream::batches(Arc::clone(&self.plan), metrics),
            Some(nearest) => Arc::clone(nearest).stream(metrics),
        }
    }

    /// Number of rows of the result; reads nothing where the manifest knows, else only what the filter needs.
    pub async fn count(self) -> Result<u64> {
        if let Some(nearest) = &self.nearest {
            return nearest.count().await;
        }
        if let Some(rows) = self.plan.known_rows() {
            return Ok(rows);
        }
        if let Some(filter) = self.plan.filter_of_all()
            && let Some(rows) = index_count::count(&self.plan.snapshot, filter).await?
        {
            return Ok(rows);
        }
        let mut batches = stream::batches(Arc::new(self.plan.counting()), Arc::default());
        let mut rows = 0_u64;
        while let Some(batch) = batches.try_next().await? {
            rows = rows.saturating_add(to_u64(batch.num_rows()));
        }
        Ok(rows)
    }

    /// Reads all rows, or only counts them, and gives what that took instead of them. Needs a tokio runtime.
    pub async fn analyze(&self, only_count: bool) -> Result<ScanAnalysis> {
        if !only_count || self.nearest.is_some() {
            return analyze::run(Arc::clone(&self.plan), |metrics| self.batches(metrics)).await;
        }
        let plan = Arc::new(self.plan.counting());
        analyze::run(Arc::clone(&plan), |metrics| stream::batches(plan, metrics)).await
    }
}

/// Errors: `InvalidInput` for a name that two columns of a result have.
pub(crate) fn check_unique<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut known = HashSet::new();
    match names.into_iter().find(|name| !known.insert(*name)) {
        Some(name) => Err(Error::invalid_input(format!("Duplicate column name: {name}"))),
        None => Ok(()),
    }
}
