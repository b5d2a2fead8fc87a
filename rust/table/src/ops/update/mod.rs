//! Update: new values for columns of matching rows.
//!
//! | file | what |
//! |---|---|
//! | `assign.rs` | how new values are made of a row |
//! | `given.rs` | new values that come with row ids or addresses |
//! | `changes.rs` | rows that are deleted, updated and inserted as somebody else decided |
//! | `choose.rs` | rows or columns: the rule |
//! | `in_place.rs` | columns rewritten |
//! | `fragment.rs` | the same for one fragment, from other data, without a commit |
//! | `parts.rs` | rows written in some processes and committed in another |
//!
//! Rows that are rewritten come in the order of their ids and are deleted where they were; they keep their ids and
//! the versions that made them. First only the columns of the predicate are read, then those of the rows that match,
//! without what is assigned and not looked at. Expressions see the rows as they were. A predicate that matches nothing
//! makes a version too. In both ways the last-updated-at version moves for the rows whose update was executed, and for
//! no others.

mod assign;
mod changes;
mod choose;
mod fragment;
mod given;
mod in_place;
mod parts;

use std::sync::Arc;

use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::schema::{Field, Metadata};
use pennon_core::transaction::UpdateMode;
use pennon_core::{Result, RowId};
use pennon_datafile::check_writable;
use tracing::instrument;

use self::assign::Assignments;
pub(crate) use self::changes::{ChangeColumns, check_changes};
use self::choose::Cost;
pub use self::fragment::UpdatedFragment;
use self::given::Given;
pub(crate) use self::parts::check_assignments;
use super::{ConflictRetries, FindRows};
use crate::blobs;
use crate::dataset::Dataset;
use crate::scan;
use crate::session::CreateOptions;
use crate::versions::snapshot::Snapshot;
use crate::write::in_place::RowsInPlace;
use crate::write::moved::{self, Moves, Staged};
use crate::write::{BatchReader, WriteOptions, deletions};

/// How an update is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// What follows on conflicts with other writers.
    pub retries: ConflictRetries,
    /// Version of the new data files with values; `None`: the table's.
    pub file_version: Option<FileVersion>,
    /// What is rewritten. `None`: columns if more than half of the rows of the fragments with a match match and rows
    /// would take at least twice the bytes and 64 KiB more, else rows.
    pub mode: Option<UpdateMode>,
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateResult {
    /// Rows whose update was executed, whether their values changed or not.
    pub num_rows_updated: u64,
}

impl Dataset {
    /// Gives columns of the rows for which a predicate is true, of all rows without one, new values and moves to the
    /// new version.
    ///
    /// An assignment is a column and an SQL expression over the row as it was; system columns may be used. Values are
    /// cast to the type of the column. Rows that others change meanwhile lead to another try on the newest version.
    ///
    /// Errors: `InvalidInput` for no assignments, an unknown column, an expression or predicate that does not parse, a
    /// value that cannot be computed or cast, null for a column that must not be; retryable `Conflict` "Too many
    /// concurrent writers. ..." at the end of the tries. The table is as before then, and files that were written are
    /// removed.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update(
        &mut self,
        assignments: &[(String, String)],
        predicate: Option<&str>,
        options: UpdateOptions,
    ) -> Result<UpdateResult> {
        let attempt = |base: Self| async move {
            // What is wrong with them is found before anything is read.
            let assignments = Assignments::of_expressions(base.snapshot(), assignments)?;
            let rows = base.matching_rows(predicate.unwrap_or("true"), None).await?;
            base.change_rows(assignments, rows, options).await
        };
        self.retry(options.retries, attempt).await
    }

    /// [`Self::update`] of rows that are found in some other way; deleted ones are left out.
    ///
    /// Errors: in addition those of `find`, and `InvalidInput` for rows that cannot be there.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_found(
        &mut self,
        find: &FindRows,
        assignments: &[(String, String)],
        options: UpdateOptions,
    ) -> Result<UpdateResult> {
        let attempt = |base: Self| async move {
            let assignments = Assignments::of_expressions(base.snapshot(), assignments)?;
            let rows = deletions::by_fragment(find(base.clone()).await?);
            let rows = deletions::merge(base.snapshot(), rows).await?.affected;
            base.change_rows(assignments, rows, options).await
        };
        self.retry(options.retries, attempt).await
    }

    /// Gives columns of the rows with some ids new values and moves to the new version.
    ///
    /// The data has a column `_rowid` of type uint64, in any order, and the columns that get new values, which are cast
    /// to the types of the table. It is held in memory; nothing of the table is read to find the rows but row ids.
    /// Errors: `NotFound` for ids that no row has, saying how many and the first; `InvalidInput` for ids that come
    /// twice; else those of [`Self::update`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_rows(&mut self, data: BatchReader, options: UpdateOptions) -> Result<UpdateResult> {
        let data = blobs::without_addresses(data, self.schema());
        let table = Arc::clone(self.snapshot().arrow_schema());
        let given = Arc::new(crate::runtime::blocking(move || Given::read(data, &table)).await?);
        let attempt = |base: Self| {
            let given = Arc::clone(&given);
            async move {
                let assignments = Assignments::of_rows(base.snapshot(), Arc::clone(&given))?;
                let rows = base.rows_with_ids(given).await?;
                base.change_rows(assignments, rows, options).await
            }
        };
        self.retry(options.retries, attempt).await
    }

    async fn rows_with_ids(&self, given: Arc<Given>) -> Result<RowsByFragment> {
        let snapshot = Arc::clone(self.snapshot());
        let (ids, found) = crate::runtime::blocking(move || {
            let ids: Vec<RowId> = given.keys().iter().copied().map(RowId).collect();
            let found = scan::find_ids(&snapshot, &ids)?;
            Ok((ids, found))
        })
        .await?;
        scan::check_found(self.snapshot(), &ids, &found)?;
        Ok(deletions::by_fragment(found.into_iter().flatten()))
    }

    /// Writes new values of rows, live ones of this version, and commits them.
    async fn change_rows(
        &self,
        assignments: Assignments,
        rows: RowsByFragment,
        options: UpdateOptions,
    ) -> Result<(Arc<Snapshot>, UpdateResult)> {
        if let Some(version) = options.file_version {
            check_writable(version)?;
        }
        let num_rows_updated = rows.values().map(DeletionVector::len).sum();
        let staged = match self.mode(&assignments, &rows, options)? {
            UpdateMode::RewriteRows => self.stage_rows(assignments, rows, options).await?,
            UpdateMode::RewriteColumns => {
                let in_place = RowsInPlace::of(self.snapshot(), &rows)?;
                let file_version = options.file_version;
                in_place::write(self.snapshot(), rows, assignments, in_place, file_version, self.durability())
                    .await?
            }
        };
        let change = staged.change(self.snapshot(), Metadata::new())?;
        let snapshot = self.publish(change).await.into_result()?;
        Ok((snapshot, UpdateResult { num_rows_updated }))
    }

    async fn stage_rows(
        &self,
        assignments: Assignments,
        rows: RowsByFragment,
        options: UpdateOptions,
    ) -> Result<Staged> {
        let params = WriteOptions {
            create: CreateOptions { file_version: options.file_version, ..CreateOptions::default() },
            commit: self.commit_options().clone(),
            ..WriteOptions::default()
        };
        moved::write(self.snapshot(), moves(assignments, rows), &params).await
    }

    /// Whether rows or columns are rewritten. Errors: `Unsupported` if columns cannot be though they must.
    fn mode(
        &self,
        assignments: &Assignments,
        rows: &RowsByFragment,
        options: UpdateOptions,
    ) -> Result<UpdateMode> {
        let assigned: Vec<Field> = assignments.fields().cloned().collect();
        let manifest = self.manifest();
        let fragments: Vec<_> = rows.keys().filter_map(|id| manifest.fragment(*id)).collect();
        let fits = || fragments.iter().try_for_each(|fragment| choose::check_columns(fragment));
        match options.mode {
            Some(UpdateMode::RewriteColumns) => fits().map(|()| UpdateMode::RewriteColumns),
            Some(UpdateMode::RewriteRows) => Ok(UpdateMode::RewriteRows),
            // A change of columns in place cannot be committed with new ones.
            None if self.uncommitted_columns().is_some() => Ok(UpdateMode::RewriteRows),
            None if assigned.iter().any(Field::has_blobs) => Ok(UpdateMode::RewriteRows),
            None => {
                let bytes = |fields: &[Field]| scan::stored_row_bytes(&fragments, fields);
                let cost = Cost {
                    matched: rows.values().map(DeletionVector::len).sum(),
                    rows: fragments.iter().map(|f| f.physical_rows).sum(),
                    assigned: bytes(&assigned),
                    all: bytes(&manifest.schema.fields),
                };
                Ok(if fits().is_ok() { cost.mode() } else { UpdateMode::RewriteRows })
            }
        }
    }
}

/// Whole rows with new values.
fn moves(assignments: Assignments, rows: RowsByFragment) -> Moves {
    Moves {
        moved: rows,
        columns: assignments.columns(),
        fields: moved::with_members(assignments.fields()),
        changed: Box::new(move |batch| assignments.apply(&batch)),
        inserted: None,
        deleted: RowsByFragment::new(),
        inserted_keys: None,
    }
}
