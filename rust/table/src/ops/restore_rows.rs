//! Rows are restored as an older version has them, under the ids they have.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::schema::{Field, Metadata, Schema};
use pennon_core::{Error, FieldId, FragmentId, Result, RowAddress, RowId, Version};
use tracing::instrument;

use super::field_trail::FieldTrail;
use super::{ConflictRetries, RESTORED_ROWS};
use crate::batches::batch_with_rows;
use crate::dataset::Dataset;
use crate::scan;
use crate::versions::VersionRef;
use crate::versions::snapshot::Snapshot;
use crate::write::moved::{self, Moves};
use crate::write::{WriteOptions, deletions};

impl Dataset {
    /// Brings back rows as a version has them and moves to the new version; gives their number.
    ///
    /// They keep their ids and the versions that made them, and count as updated. Of rows that live now the values of
    /// then replace those of now. Columns that the version does not have become null. Ids that are repeated count
    /// once. Another writer who changes the same rows meanwhile leads to another try on the newest version.
    ///
    /// Errors: `NotFound` for ids that do not live in the version, saying how many and the first, and for the version;
    /// `InvalidInput` for a table without stable row ids, for columns that must not be null and were not there, and for
    /// ids that only another branch has given out; `Unsupported` for columns that had another type, or whose field id a
    /// column of another name had that may be another one. The table is as before then.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn restore_rows(
        &mut self,
        ids: &[RowId],
        version: VersionRef,
        retries: ConflictRetries,
    ) -> Result<u64> {
        let old = self.find(version).await?;
        let mut base = self.clone();
        if old.version() > base.version() {
            // A version that does not know the rows cannot tell whether they are alive.
            base.checkout_latest().await?;
        }
        let attempt = |base: Self| {
            let old = Arc::clone(&old);
            async move { base.restore_rows_once(ids, &old).await }
        };
        let (snapshot, rows) = super::retrying(&base, retries, attempt).await?;
        self.move_to(snapshot);
        Ok(rows)
    }

    /// Restores rows of one fragment as an older version has them, once: what another writer did to them is not undone.
    ///
    /// Errors: `InvalidInput` if one of them is not alive in the fragment, retryable `Conflict` if somebody changes them.
    pub(super) async fn restore_lost_rows(
        &self,
        ids: &[RowId],
        fragment: FragmentId,
        version: Version,
    ) -> Result<()> {
        let addresses = find(self.snapshot(), &Arc::new(ids.to_vec())).await?;
        let is_there = |address: &Option<RowAddress>| address.is_some_and(|at| at.fragment() == fragment);
        if !addresses.iter().all(is_there) {
            return Err(Error::invalid_input(format!(
                "rows of fragment {fragment} were changed by another writer since the repair was planned: repair again"
            )));
        }
        let old = self.find(VersionRef::Number(version.0)).await?;
        self.restore_rows_once(ids, &old).await.map(drop)
    }

    async fn restore_rows_once(&self, ids: &[RowId], old: &Arc<Snapshot>) -> Result<(Arc<Snapshot>, u64)> {
        let now = self.snapshot();
        if !now.manifest.has_stable_row_ids() {
            return Err(Error::invalid_input(
                "restore_rows requires stable row ids, which migrate_to_stable_row_ids gives: rows of this table have no identity \
                 that outlives them",
            ));
        }
        if !old.manifest.has_stable_row_ids() {
            return Err(Error::invalid_input(format!(
                "version {} is from before the table had stable row ids: which of its rows have these ids is not recorded",
                old.version()
            )));
        }
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let ids = Arc::new(ids);
        let (then, alive) = (find(old, &ids).await?, find(now, &ids).await?);
        let missing: Vec<RowId> =
            ids.iter().zip(&then).filter(|(_, address)| address.is_none()).map(|(id, _)| *id).collect();
        if let Some(first) = missing.first() {
            return Err(Error::not_found(format!(
                "{} of {} row ids do not live in version {}, the first is {first}",
                missing.len(),
                ids.len(),
                old.version()
            )));
        }
        if let Some(id) = ids.iter().find(|id| id.0 >= now.manifest.next_row_id) {
            return Err(Error::invalid_input(format!(
                "row {id} of version {} was made on another branch: the next new row of this one gets id {}",
                old.version(),
                now.manifest.next_row_id
            )));
        }
        let table = Arc::clone(&now.manifest.schema);
        let has_another_name = |field: &&Field| {
            let then = old.manifest.schema.fields.iter().find(|other| other.id == field.id);
            then.is_some_and(|then| then.name != field.name)
        };
        let renamed = table.fields.iter().filter(has_another_name);
        let renamed = moved::with_members(renamed).into_iter().collect();
        let reused = FieldTrail::default().maybe_reused(old, now, renamed).await?;
        let sources = sources(&old.manifest.schema, &table, &reused, old.version())?;
        let schema = Arc::clone(now.arrow_schema());
        let columns = sources.iter().flatten().cloned().collect();
        let changed = move |rows: RecordBatch| {
            let count = rows.num_rows();
            let column = |(source, field): (&Option<String>, &Arc<arrow_schema::Field>)| match source {
                None => Ok(new_null_array(field.data_type(), count)),
                Some(name) => {
                    let missing = || Error::internal(format!("column {name} was not read"));
                    rows.column_by_name(name).cloned().ok_or_else(missing)
                }
            };
            let arrays = sources.iter().zip(schema.fields()).map(column).collect::<Result<_>>()?;
            batch_with_rows(Arc::clone(&schema), arrays, count).map_err(|e| {
                Error::invalid_input(format!("rows of an older version do not fit the table: {e}"))
            })
        };
        let moves = Moves {
            moved: by_fragment(then),
            columns,
            changed: Box::new(changed),
            inserted: None,
            deleted: by_fragment(alive),
            fields: moved::with_members(&table.fields),
            inserted_keys: None,
        };
        let params = WriteOptions { commit: self.commit_options().clone(), ..WriteOptions::default() };
        let staged = moved::write_from(now, Some(old), moves, &params).await?;
        let properties = Metadata::from([(RESTORED_ROWS.to_owned(), old.version().to_string())]);
        let change = staged.change(now, properties)?;
        let snapshot = self.publish(change).await.into_result()?;
        Ok((snapshot, u64::try_from(ids.len()).unwrap_or(u64::MAX)))
    }
}

fn by_fragment(rows: Vec<Option<RowAddress>>) -> RowsByFragment {
    deletions::by_fragment(rows.into_iter().flatten())
}

/// Where rows live in a version.
async fn find(snapshot: &Arc<Snapshot>, ids: &Arc<Vec<RowId>>) -> Result<Vec<Option<RowAddress>>> {
    let (snapshot, ids) = (Arc::clone(snapshot), Arc::clone(ids));
    crate::runtime::blocking(move || scan::find_ids(&snapshot, &ids)).await
}

/// The name of each column in an older version; `None` where that does not have it.
///
/// `reused`: fields of another name that may be others there, and members of such.
fn sources(old: &Schema, new: &Schema, reused: &[FieldId], version: Version) -> Result<Vec<Option<String>>> {
    let source = |field: &Field| match old.fields.iter().find(|other| other.id == field.id) {
        Some(other) if moved::with_members([field]).iter().any(|id| reused.contains(id)) => {
            Err(Error::unsupported(format!(
                "column {} has the field id that column {} had in version {version}, and may be another one: rows \
                 cannot be brought back",
                field.name, other.name
            )))
        }
        Some(other) if is_same(field, other) => Ok(Some(other.name.clone())),
        Some(_) => Err(Error::unsupported(format!(
            "column {} had another type or other members in version {version}: rows cannot be brought back",
            field.name
        ))),
        None if old.field(&field.name).is_some() => Err(Error::unsupported(format!(
            "column {} had another type in version {version}, or was another column: rows cannot be brought back",
            field.name
        ))),
        None if field.nullable => Ok(None),
        None => Err(Error::invalid_input(format!(
            "column {} may not be null, and version {version} does not have it",
            field.name
        ))),
    };
    new.fields.iter().map(source).collect()
}

fn is_same(left: &Field, right: &Field) -> bool {
    (left.id, &left.logical_type, left.children.len())
        == (right.id, &right.logical_type, right.children.len())
        && left
            .children
            .iter()
            .zip(&right.children)
            .all(|(left, right)| left.name == right.name && is_same(left, right))
}
