//! Rows that are written in some processes and committed in another: what a job does with them.

use pennon_core::Result;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::manifest::Fragment;
use pennon_core::schema::{Field, Metadata};
use pennon_core::transaction::{Operation, Update, UpdateMode};

use super::assign::Assignments;
use super::moves;
use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::moved::{self, WrittenMoves};
use crate::write::{WriteOptions, WrittenFragments};

/// Errors: `InvalidInput` for no assignments, an unknown column or an expression that does not parse.
pub(crate) fn check_assignments(snapshot: &Snapshot, assignments: &[(String, String)]) -> Result<()> {
    Assignments::of_expressions(snapshot, assignments).map(drop)
}

impl Dataset {
    /// Writes whole rows of this version with new values to new fragments. Errors: those of [`Self::update`].
    pub(crate) async fn write_updated(
        &self,
        assignments: &[(String, String)],
        rows: RowsByFragment,
    ) -> Result<WrittenFragments> {
        let assignments = Assignments::of_expressions(self.snapshot(), assignments)?;
        let params = WriteOptions { commit: self.commit_options().clone(), ..WriteOptions::default() };
        moved::write_fragments(self.snapshot(), moves(assignments, rows), &params).await
    }

    /// Fields by their names. Errors: `InvalidInput` for a name that there is not.
    pub(crate) fn fields_of(&self, names: &[String]) -> Result<Vec<&Field>> {
        let schema = self.schema();
        names.iter().map(|name| schema.field(name).ok_or_else(|| schema.unknown_column(name))).collect()
    }

    /// Commits fragments that got new files of some columns, with the rows whose values changed, and moves to the new
    /// version. Their files stay whatever becomes of the commit. Idempotent by uuid.
    ///
    /// Errors: `InvalidInput` for an unknown column; those of a commit.
    pub(crate) async fn commit_columns_by_key(
        &mut self,
        columns: &[String],
        rows: RowsByFragment,
        fragments: Vec<Fragment>,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let update = Update {
            updated_fragments: fragments,
            fields_modified: moved::with_members(self.fields_of(columns)?),
            mode: UpdateMode::RewriteColumns,
            updated_offset_bitmaps: moved::offset_bitmaps(&rows),
            ..Update::default()
        };
        self.commit_operation(Operation::Update(update), Some(uuid), properties).await
    }

    /// Commits fragments of [`Self::write_updated`] with the rows that go on in them, and moves to the new version. Their
    /// files stay whatever becomes of the commit. Idempotent by uuid.
    pub(crate) async fn commit_updated(
        &mut self,
        assignments: &[(String, String)],
        rows: RowsByFragment,
        written: Vec<WrittenFragments>,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let assignments = Assignments::of_expressions(self.snapshot(), assignments)?;
        let fields = moved::with_members(assignments.fields());
        let new_fragments = written.into_iter().flat_map(|written| written.fragments).collect();
        let moves = WrittenMoves { rows, new_fragments, fields, inserted_keys: None };
        self.commit_moves(moves, uuid, properties).await
    }
}
