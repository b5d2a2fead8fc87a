//! Last-updated-at versions of rows that change in place.
//!
//! The sequence of a fragment that would take more than the limit in the manifest (see [`super::lineage`]) becomes a
//! column, and so does the next one of a fragment whose sequence is a column. It is alone in a data file: the next
//! change replaces the whole file, and when other columns are dropped, no file is kept of which only an unused column
//! is left (`validate` of the reference complains of such files). All physical rows have their versions
//! there, deleted ones too.
//!
//! Invariant: a column is committed as the version that it was written for, the one after the version that was read. A
//! commit that makes another one, because another writer was faster, writes it again first ([`write_again`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DataFile, Fragment, LineageSource};
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Metadata, Schema};
use pennon_core::{Error, FieldId, FragmentId, Result, Version};
use tokio::runtime::Handle;

use super::column_writer::ColumnWriter;
use super::lineage::{Column, InlineLimit};
use crate::runtime::{CancellationToken, cancellation, check};
use crate::scan::FragmentReader;
use crate::store::Durability;
use crate::versions::snapshot::Snapshot;

/// Rows of a batch.
const BATCH_ROWS: u64 = 64 << 10;

/// Rows that change in place, in a table with stable row ids.
#[derive(Debug, Clone)]
pub(crate) struct RowsInPlace {
    rows: Arc<RowsByFragment>,
    /// The version that columns are written for.
    version: Version,
    limit: InlineLimit,
}

impl RowsInPlace {
    /// Rows of a version whose change is committed right away; `None` without stable row ids. Errors: those of the
    /// config.
    pub(crate) fn of(snapshot: &Snapshot, rows: &RowsByFragment) -> Result<Option<Self>> {
        if !snapshot.manifest.has_stable_row_ids() {
            return Ok(None);
        }
        let limit = InlineLimit::of(&snapshot.manifest.config)?;
        Ok(Some(Self { rows: Arc::new(rows.clone()), version: snapshot.version().next(), limit }))
    }

    /// The same rows in the commit of another version.
    pub(crate) fn for_version(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }

    /// The version that columns were written for.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Those of these fragments whose versions become columns.
    fn of_columns(&self, table: &Schema, fragments: &[Arc<Fragment>]) -> Result<Vec<Fragment>> {
        let mut found = Vec::new();
        for fragment in fragments {
            let none = DeletionVector::empty();
            let changed = self.rows.get(&fragment.id).unwrap_or(&none);
            if self.limit.is_exceeded_by(fragment, changed, self.version, table)? {
                found.push(fragment.edit());
            }
        }
        Ok(found)
    }

    /// Writes columns of fragments that are as they were in the version before. Blocks on the store.
    fn write(
        &self,
        before: &Arc<Snapshot>,
        fragments: Vec<Fragment>,
        durability: Durability,
        token: &CancellationToken,
    ) -> Result<ColumnWriter> {
        let schema = Schema { fields: vec![Column::Updated.field()], metadata: Metadata::new() };
        let (version, replaced) =
            (before.manifest.version_of_new_files()?, vec![FieldId::ROW_LAST_UPDATED_AT]);
        let mut writer = ColumnWriter::new(&before.store, schema, replaced, version, durability)?;
        let none = DeletionVector::empty();
        for fragment in fragments {
            let current = before.manifest.fragment(fragment.id).cloned();
            let current =
                current.ok_or_else(|| Error::internal(format!("fragment {} was removed", fragment.id)))?;
            let reader = FragmentReader::new(Arc::clone(before), current, 0);
            let changed = self.rows.get(&fragment.id).unwrap_or(&none);
            writer.begin(&fragment)?;
            let mut start = 0;
            while start < fragment.physical_rows {
                check(token)?;
                let end = start.saturating_add(BATCH_ROWS).min(fragment.physical_rows);
                writer.append(&self.batch(&reader, changed, start..end)?)?;
                start = end;
            }
            writer.end()?;
        }
        Ok(writer)
    }

    /// The versions of physical rows after the change.
    fn batch(
        &self,
        before: &FragmentReader,
        changed: &DeletionVector,
        rows: Range<u64>,
    ) -> Result<RecordBatch> {
        let mut values = Vec::with_capacity(usize::try_from(rows.end - rows.start).unwrap_or_default());
        before.last_updated_of(&RowRanges::from(rows.clone()), &mut values)?;
        let mut at = rows.start;
        // Between the rows that are kept are those that changed.
        for kept in changed.live_ranges(rows.clone()).chain([rows.end..rows.end]) {
            let index = |row: u64| usize::try_from(row - rows.start).unwrap_or(usize::MAX);
            if let Some(changed) = values.get_mut(index(at)..index(kept.start)) {
                changed.fill(self.version.0);
            }
            at = kept.end;
        }
        let values: ArrayRef = Arc::new(UInt64Array::from(values));
        let field = ArrowField::new(Column::Updated.name(), values.data_type().clone(), false);
        RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![values])
            .map_err(|e| Error::internal(format!("last-updated-at versions: {e}")))
    }
}

/// Writes columns of fragments with [`super::columns`], and meanwhile those of versions; gives the fragments with all
/// their new files. Blocks on the store.
pub(super) fn write_with_versions(
    rows: &RowsInPlace,
    snapshot: &Arc<Snapshot>,
    fragments: &[Arc<Fragment>],
    durability: Durability,
    token: &CancellationToken,
    columns: impl FnOnce() -> Result<ColumnWriter>,
) -> Result<Vec<Fragment>> {
    let apart = rows.of_columns(&snapshot.manifest.schema, fragments)?;
    let runtime = Handle::current();
    let (columns, versions) = thread::scope(|scope| {
        let write = || {
            // Sinks of object stores upload there.
            let _context = runtime.enter();
            rows.write(snapshot, apart.clone(), durability, token)
        };
        let spawn = || thread::Builder::new().name("pennon-versions".into()).spawn_scoped(scope, write);
        let thread = (!apart.is_empty()).then(spawn).transpose();
        let thread = thread.map_err(|e| Error::store("no thread to write versions").with_source(e))?;
        let columns = columns();
        let versions =
            thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok::<_, Error>((columns?, versions.transpose()?))
    })?;
    let versions = versions.map_or(Ok(Vec::new()), ColumnWriter::finish)?;
    let mut files: BTreeMap<FragmentId, DataFile> =
        versions.into_iter().filter_map(|mut f| Some((f.id, f.files.pop()?))).collect();
    let mut written = match columns.finish() {
        Ok(written) => written,
        Err(error) => {
            snapshot.store.discard(files.values().map(|file| format!("data/{}", file.path)).collect());
            return Err(error);
        }
    };
    for fragment in &mut written {
        match files.remove(&fragment.id) {
            Some(file) => {
                fragment.files.push(file);
                fragment.last_updated_at = Some(LineageSource::Column);
            }
            // The commit makes them inline.
            None => fragment.last_updated_at = fragment.last_updated_at.take().filter(|at| !is_column(at)),
        }
    }
    Ok(written)
}

/// Fragments that were changed in place, with columns of versions in new files, the last ones, in place of those they
/// have. `newest` is the version before that of `rows`; its fragments are as they were when the change was made.
pub(crate) async fn write_again(
    newest: Arc<Snapshot>,
    fragments: Vec<Fragment>,
    rows: RowsInPlace,
    durability: Durability,
) -> Result<Vec<Fragment>> {
    let (token, _guard) = cancellation();
    crate::runtime::blocking(move || rows.write(&newest, fragments, durability, &token)?.finish()).await
}

/// Whether the versions of a fragment that was changed in place come as a column.
pub(crate) fn has_column(fragment: &Fragment) -> bool {
    fragment.last_updated_at.as_ref().is_some_and(is_column)
}

fn is_column(source: &LineageSource) -> bool {
    *source == LineageSource::Column
}
