//! Last-updated-at versions of rows that change where they are.
//!
//! The sequence of a fragment that would take more than the limit in the manifest (see [`super::lineage`]) is one more
//! column of the file that the change writes anyway, and so is the next one of a fragment whose sequence is a column:
//! those in older files are tombstoned. All physical rows have their versions there, deleted ones too. The column is
//! written for the version after the one that was read. A commit that makes another one, because somebody was faster,
//! writes it anew before, alone in a file ([`write_versions`]); the column in the other file is tombstoned then.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::Schema as ArrowSchema;
use pennon_core::conflict::rebase::Rows;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{Fragment, LineageSource};
use pennon_core::schema::{Field, Metadata, Schema};
use pennon_core::{Error, FieldId, Result, Version};

use super::columns::{ColumnWriter, Columns};
use super::lineage::{self, InlineLimit};
use crate::scan::FragmentReader;
use crate::snapshot::Snapshot;
use crate::store::Durability;

/// Rows of a batch.
const BATCH_ROWS: u64 = 64 << 10;

/// Rows that change where they are, in a table with stable row ids.
#[derive(Debug, Clone)]
pub(crate) struct RowsInPlace {
    rows: Arc<Rows>,
    /// The version that the columns are for.
    version: Version,
    limit: InlineLimit,
}

impl RowsInPlace {
    /// Rows of a version whose change is committed right away; `None` without stable row ids. Errors: those of the
    /// config.
    pub(crate) fn of(snapshot: &Snapshot, rows: &Rows) -> Result<Option<Self>> {
        if !snapshot.manifest.has_stable_row_ids() {
            return Ok(None);
        }
        let limit = InlineLimit::of(&snapshot.manifest.config)?;
        Ok(Some(Self { rows: Arc::new(rows.clone()), version: snapshot.version().next(), limit }))
    }

    /// The version that columns in the new files are for.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The same rows in the commit of another version.
    pub(crate) fn for_version(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }

    /// The versions of a fragment, if they become a column.
    pub(super) fn column(&self, snapshot: &Arc<Snapshot>, fragment: &Fragment) -> Result<Option<Versions>> {
        let none = DeletionVector::empty();
        let changed = self.rows.get(&fragment.id).unwrap_or(&none);
        if !self.limit.is_exceeded_by(fragment, changed, self.version, &snapshot.manifest.schema)? {
            return Ok(None);
        }
        Versions::new(snapshot, fragment, changed.clone(), self.version).map(Some)
    }
}

/// The versions of a fragment after the change.
pub(super) struct Versions {
    /// Those before.
    before: FragmentReader,
    changed: DeletionVector,
    version: Version,
}

impl Versions {
    fn new(
        snapshot: &Arc<Snapshot>,
        fragment: &Fragment,
        changed: DeletionVector,
        version: Version,
    ) -> Result<Self> {
        let before = snapshot.manifest.fragment(fragment.id).cloned();
        let before = before.ok_or_else(|| Error::internal(format!("fragment {} is gone", fragment.id)))?;
        Ok(Self { before: FragmentReader::new(Arc::clone(snapshot), before, 0), changed, version })
    }

    /// The field of the column.
    pub(super) fn field() -> Field {
        lineage::Column::Updated.field()
    }

    /// A batch of physical rows, the first of which is `first`, with their versions.
    pub(super) fn add(&self, batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
        let end = first.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(u64::MAX));
        lineage::with_columns(batch, [(lineage::Column::Updated, self.values(first..end)?)])
    }

    fn values(&self, rows: Range<u64>) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(usize::try_from(rows.end - rows.start).unwrap_or_default());
        self.before.last_updated_of(std::slice::from_ref(&rows), &mut values)?;
        let mut at = rows.start;
        // Between the rows that stay lie those that changed.
        let stay = self.changed.live_ranges(rows.clone()).chain([rows.end..rows.end]);
        for Range { start, end } in stay {
            let place = |row: u64| usize::try_from(row - rows.start).unwrap_or(usize::MAX);
            if let Some(changed) = values.get_mut(place(at)..place(start)) {
                changed.fill(self.version.0);
            }
            at = end;
        }
        Ok(Arc::new(UInt64Array::from(values)))
    }
}

/// Fragments changed in place whose versions are columns, with these in new files, the last ones. `newest` is the version
/// before that of `rows`; its fragments are as they were when the change was made.
pub(crate) async fn write_versions(
    newest: Arc<Snapshot>,
    fragments: Vec<Fragment>,
    rows: &RowsInPlace,
    durability: Durability,
) -> Result<Vec<Fragment>> {
    let RowsInPlace { rows, version, .. } = rows.clone();
    crate::blocking(move || {
        let nothing = Schema { fields: Vec::new(), metadata: Metadata::new() };
        let columns =
            Columns { schema: nothing, replaced: vec![FieldId::ROW_LAST_UPDATED_AT], in_place: None };
        let file_version = newest.manifest.file_version;
        let mut writer = ColumnWriter::new(&newest.store, columns, file_version, durability)?;
        let none = DeletionVector::empty();
        for fragment in fragments {
            let changed = rows.get(&fragment.id).unwrap_or(&none).clone();
            let versions = Versions::new(&newest, &fragment, changed, version)?;
            let mut left = fragment.physical_rows;
            writer.begin(&fragment, Some(versions))?;
            while left > 0 {
                let batch = left.min(BATCH_ROWS);
                writer.append(&no_columns(batch)?)?;
                left -= batch;
            }
            writer.end()?;
        }
        writer.finish()
    })
    .await
}

fn no_columns(rows: u64) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(usize::try_from(rows).ok());
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::empty()), Vec::new(), &options)
        .map_err(|e| Error::internal(format!("{rows} rows without columns: {e}")))
}

/// Whether the versions of a fragment that was changed in place come as a column.
pub(crate) fn has_column(fragment: &Fragment) -> bool {
    fragment.last_updated_at == Some(LineageSource::Column)
}
