//! Rows that are written in some processes and committed in another: what a job does with them.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::conflict::rebase::RowsByFragment;

use super::assign::Assignments;
use super::moves;
use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::{WriteOptions, WrittenFragments, moved};

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

    /// Commits fragments of [`Self::write_updated`] with the rows that go on in them, and moves to the new version. Their
    /// files stay whatever becomes of the commit. Idempotent by uuid.
    pub(crate) async fn commit_updated(
        &mut self,
        assignments: &[(String, String)],
        rows: RowsByFragment,
        written: Vec<WrittenFragments>,
        uuid: String,
    ) -> Result<()> {
        let assignments = Assignments::of_expressions(self.snapshot(), assignments)?;
        let fields = moved::with_members(assignments.fields());
        let fragments = written.into_iter().flat_map(|written| written.fragments).collect();
        let base = Arc::clone(self.snapshot());
        let staged = moved::stage(&base, rows, fragments, fields, self.durability()).await?;
        let change = staged.change_without_new(&base, uuid)?;
        let snapshot = crate::ops::publish(base, change, self.commit_options()).await.into_result()?;
        self.move_to(snapshot);
        Ok(())
    }
}
