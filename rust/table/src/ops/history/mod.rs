//! History: every version of one row.
//!
//! | file | what |
//! |---|---|
//! | `states` | the row in one version; which versions are looked at at all |
//! | `walk` | from version to version, backwards |
//!
//! A row says in which version it was last updated: that is the next one to look at. Where it was deleted is found by
//! bisection, because between two restores a row is first not there, then alive, then dead. Which versions restored
//! something is read from the first bytes of each manifest. So the cost is that of the changes of the row, and some
//! microseconds for each version of the table.

mod states;
mod walk;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, TimeUnit};
use arrow_select::concat::concat;
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result, RowId, Version};

use self::states::Place;
use crate::commit::load;
use crate::dataset::Dataset;
use crate::snapshot::Snapshot;

/// Under which property of a transaction its writer's message is.
const MESSAGE: &str = "__lance_commit_message";

/// What happened to a row in a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Update,
    Delete,
}

impl Kind {
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
struct Change {
    kind: Kind,
    version: Version,
    /// The version itself, if it was not cleaned up.
    commit: Option<Arc<Snapshot>>,
    /// The row after the change, in the first version that is left of those with it.
    place: Option<Place>,
}

impl Dataset {
    /// Every change of a row up to this version, oldest first.
    ///
    /// The columns are `_change_type` (`insert`, `update`, `delete`), `_commit_version`, `_commit_timestamp`,
    /// `_operation`, `_commit_message`, `_rowaddr`, then those of the table, values matched by field id. What is not
    /// known is null: of a deleted row its address and values, of a version that was cleaned up the time, operation and
    /// message. A deletion in one of those shows at the next version that is left. Changes without a trace in the
    /// lineage do not show.
    ///
    /// Errors: `InvalidInput` for a table without stable row ids, an id that no row ever had, and a column of the table
    /// with the name of one of ours.
    pub async fn history(&self, row: RowId) -> Result<RecordBatch> {
        let snapshot = self.snapshot();
        if !snapshot.manifest.has_stable_row_ids() {
            return Err(Error::invalid_input(
                "history requires stable row ids: nothing tells an updated row from a deleted and a new one",
            ));
        }
        if row.0 >= snapshot.manifest.next_row_id {
            return Err(Error::invalid_input(format!(
                "no row of version {} or before has row id {row}: the next new one is {}",
                snapshot.version(),
                snapshot.manifest.next_row_id
            )));
        }
        let changes = walk::changes(snapshot, row).await?;
        let mut about = Vec::with_capacity(changes.len());
        for change in &changes {
            about.push(About::of(change).await?);
        }
        let table = Arc::clone(snapshot);
        crate::blocking(move || batch(&table, &changes, &about)).await
    }
}

/// What a commit says of itself.
#[derive(Default)]
struct About {
    time: Option<Timestamp>,
    operation: Option<String>,
    message: Option<String>,
}

impl About {
    async fn of(change: &Change) -> Result<Self> {
        let Some(commit) = &change.commit else { return Ok(Self::default()) };
        let transaction = load::transaction(commit).await?;
        Ok(Self {
            time: Some(commit.manifest.timestamp),
            message: transaction.as_ref().and_then(|t| t.properties.get(MESSAGE).cloned()),
            operation: transaction.map(|t| t.operation.name().to_owned()),
        })
    }
}

fn batch(table: &Arc<Snapshot>, changes: &[Change], about: &[About]) -> Result<RecordBatch> {
    let rows = changes.len();
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let micros =
        |time: Timestamp| time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos / 1000));
    let times: TimestampMicrosecondArray = about.iter().map(|about| about.time.map(micros)).collect();
    let addresses: UInt64Array =
        changes.iter().map(|change| change.place.as_ref().map(|place| place.address.0)).collect();
    let operations: StringArray = about.iter().map(|about| about.operation.as_deref()).collect();
    let messages: StringArray = about.iter().map(|about| about.message.as_deref()).collect();
    let mut fields = vec![
        ArrowField::new("_change_type", DataType::Utf8, false),
        ArrowField::new("_commit_version", DataType::UInt64, false),
        ArrowField::new("_commit_timestamp", time, true),
        ArrowField::new("_operation", DataType::Utf8, true),
        ArrowField::new("_commit_message", DataType::Utf8, true),
        ArrowField::new("_rowaddr", DataType::UInt64, true),
    ];
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(changes.iter().map(|change| change.kind.name()))),
        Arc::new(UInt64Array::from_iter_values(changes.iter().map(|change| change.version.0))),
        Arc::new(times.with_timezone("UTC")),
        Arc::new(operations),
        Arc::new(messages),
        Arc::new(addresses),
    ];
    let selected = crate::scan::NullableFields::of(&table.manifest.schema.fields);
    if let Some(twice) = selected.fields().iter().find(|f| fields.iter().any(|ours| *ours.name() == f.name)) {
        return Err(Error::invalid_input(format!(
            "Column {} has the name of a column of histories",
            twice.name
        )));
    }
    let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(rows); selected.fields().len()];
    for change in changes {
        let arrays = match &change.place {
            Some(place) => place.read(&selected)?,
            None => selected.fields().iter().map(|field| new_null_array(&field.data_type(), 1)).collect(),
        };
        parts.iter_mut().zip(arrays).for_each(|(parts, array)| parts.push(array));
    }
    for (field, parts) in selected.fields().iter().zip(parts) {
        let parts: Vec<&dyn arrow_array::Array> = parts.iter().map(AsRef::as_ref).collect();
        columns.push(match parts.is_empty() {
            true => new_null_array(&field.data_type(), 0),
            false => concat(&parts).map_err(|e| Error::internal(format!("values of a history: {e}")))?,
        });
        fields.push(field.to_arrow());
    }
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)
        .map_err(|e| Error::internal(format!("a history: {e}")))
}
