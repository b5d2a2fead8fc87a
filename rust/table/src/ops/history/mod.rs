//! History: every version of one row.
//!
//! | file | what |
//! |---|---|
//! | `states` | the row in one version; which versions are looked at at all |
//! | `walk` | from version to version, backwards |
//!
//! The lineage of a row has the version of its last update: that is the next one to look at, and there only the
//! fragments that are not the same in the version before. Where it was deleted is found by bisection, because between
//! two restores a row is first not there, then alive, then dead. Which versions restored something is read from the
//! first bytes of each manifest. So the cost is that of the changes of the row, and some microseconds for each version
//! of the table.

mod states;
mod walk;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, TimeUnit};
use arrow_select::concat::concat;
use futures::channel::mpsc;
use futures::{FutureExt, StreamExt, TryStreamExt};
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result, RowAddress, RowId, Version};
use tracing::instrument;

use self::states::RowLocation;
use crate::dataset::Dataset;
use crate::json;
use crate::ops::field_trail::TracedColumns;
use crate::versions::load;
use crate::versions::snapshot::Snapshot;

/// Under which property of a transaction its writer's message is.
const MESSAGE: &str = "__lance_commit_message";

/// Changes whose values are read concurrently.
const IN_FLIGHT: usize = 8;

/// What happened to a row in a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Insert,
    Update,
    Delete,
}

impl ChangeKind {
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// A change of a row.
#[derive(Debug, Clone)]
struct RowChange {
    kind: ChangeKind,
    version: Version,
    /// The version itself, if it was not cleaned up.
    commit: Option<Arc<Snapshot>>,
    /// The row after the change, in the first version that is left of those with it; `None` after a delete, and of an insert
    /// whose values were changed since in a version that was cleaned up.
    location: Option<RowLocation>,
}

impl Dataset {
    /// Every change of a row up to this version, oldest first.
    ///
    /// The columns are `_change_type` (`insert`, `update`, `delete`), `_commit_version`, `_commit_timestamp`,
    /// `_operation`, `_commit_message`, `_rowaddr`, then those of the table, matched as in a change feed. What is not
    /// known is null: of a deleted row its address and values, of a version that is not there the time, operation and
    /// message. A deletion in one of those shows at the next version that is left.
    ///
    /// Of what happened before the oldest version, that of a branch or clone too, two changes are known: the insert and the
    /// last update. If there was an update, the values that were inserted are not known. Changes without a trace in the
    /// lineage do not show.
    ///
    /// Errors: `NotFound` for an id that no row ever had; `InvalidInput` for a table without stable row ids, and a column
    /// of the table with the name of one of ours.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn history(&self, row: RowId) -> Result<RecordBatch> {
        let snapshot = self.snapshot();
        if !snapshot.manifest.has_stable_row_ids() {
            return Err(Error::invalid_input(
                "history requires stable row ids, which migrate_to_stable_row_ids gives: without them an updated row cannot be \
                 distinguished from a deleted and a new one",
            ));
        }
        if row.0 >= snapshot.manifest.next_row_id {
            return Err(Error::not_found(format!(
                "no row of version {} or before has row id {row}: the next new one is {}",
                snapshot.version(),
                snapshot.manifest.next_row_id
            )));
        }
        let selected = Arc::new(TracedColumns::new(snapshot, &snapshot.manifest.schema.fields));
        let columns = columns(&selected)?;
        // Values of changes are read while the walk continues.
        let (found, changes) = mpsc::channel(IN_FLIGHT);
        let values = Arc::clone(&selected);
        let read = changes.map(move |change| HistoryRow::of(change, Arc::clone(&values)).boxed());
        let read = read.buffered(IN_FLIGHT).try_collect::<Vec<_>>();
        let ((), mut rows) = futures::try_join!(walk::changes(snapshot, row, found), read)?;
        rows.reverse();
        json::shown_batch(batch(columns, &selected, &rows)?)
    }
}

/// The columns of a history. Errors: `InvalidInput` if one of the table has such a name.
fn columns(selected: &TracedColumns) -> Result<Vec<ArrowField>> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        ArrowField::new("_change_type", DataType::Utf8, false),
        ArrowField::new("_commit_version", DataType::UInt64, false),
        ArrowField::new("_commit_timestamp", time, true),
        ArrowField::new("_operation", DataType::Utf8, true),
        ArrowField::new("_commit_message", DataType::Utf8, true),
        ArrowField::new("_rowaddr", DataType::UInt64, true),
    ];
    if let Some(clash) = selected.fields().iter().find(|f| fields.iter().any(|ours| *ours.name() == f.name)) {
        return Err(Error::invalid_input(format!(
            "Column {} has the name of a column of histories",
            clash.name
        )));
    }
    fields.extend(selected.fields().iter().map(pennon_core::schema::Field::to_arrow));
    Ok(fields)
}

/// One row of the result.
struct HistoryRow {
    kind: ChangeKind,
    version: Version,
    address: Option<RowAddress>,
    commit: CommitInfo,
    values: Vec<ArrayRef>,
}

impl HistoryRow {
    async fn of(change: RowChange, selected: Arc<TracedColumns>) -> Result<Self> {
        let RowChange { kind, version, commit, location } = change;
        let commit = CommitInfo::of(commit.as_deref()).await?;
        let address = location.as_ref().map(|location| location.address);
        let values = match location {
            Some(location) => {
                let present = selected.in_version(&location.snapshot).await?;
                crate::runtime::blocking(move || location.read(selected.fields(), &present)).await?
            }
            None => selected.fields().iter().map(|field| new_null_array(&field.data_type(), 1)).collect(),
        };
        Ok(Self { kind, version, address, commit, values })
    }
}

/// What the history shows of a commit.
#[derive(Default)]
struct CommitInfo {
    time: Option<Timestamp>,
    operation: Option<String>,
    message: Option<String>,
}

impl CommitInfo {
    async fn of(commit: Option<&Snapshot>) -> Result<Self> {
        let Some(commit) = commit else { return Ok(Self::default()) };
        let transaction = load::transaction(commit).await?;
        Ok(Self {
            time: Some(commit.manifest.timestamp),
            message: transaction.as_ref().and_then(|t| t.properties.get(MESSAGE).cloned()),
            operation: transaction.map(|t| t.operation.name().to_owned()),
        })
    }
}

fn batch(fields: Vec<ArrowField>, selected: &TracedColumns, rows: &[HistoryRow]) -> Result<RecordBatch> {
    let micros =
        |time: Timestamp| time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos / 1000));
    let times: TimestampMicrosecondArray = rows.iter().map(|row| row.commit.time.map(micros)).collect();
    let addresses: UInt64Array = rows.iter().map(|row| row.address.map(|address| address.0)).collect();
    let operations: StringArray = rows.iter().map(|row| row.commit.operation.as_deref()).collect();
    let messages: StringArray = rows.iter().map(|row| row.commit.message.as_deref()).collect();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.kind.name()))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.version.0))),
        Arc::new(times.with_timezone("UTC")),
        Arc::new(operations),
        Arc::new(messages),
        Arc::new(addresses),
    ];
    for (at, field) in selected.fields().iter().enumerate() {
        let parts: Vec<&dyn Array> =
            rows.iter().filter_map(|row| row.values.get(at)).map(AsRef::as_ref).collect();
        columns.push(match parts.is_empty() {
            true => new_null_array(&field.data_type(), 0),
            false => concat(&parts).map_err(|e| Error::internal(format!("values of a history: {e}")))?,
        });
    }
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)
        .map_err(|e| Error::internal(format!("a history: {e}")))
}
