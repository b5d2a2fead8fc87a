//! The commit of other columns: of another schema over the same files, or of a new file for each fragment.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::manifest::Fragment;
use pennon_core::schema::{Metadata, Schema};
use pennon_core::transaction::{Merge, Operation, Project};

use crate::dataset::Dataset;
use crate::write::staged::{self, StagedChange};

impl Dataset {
    /// Commits another schema over the same files and moves to the new version.
    pub(super) async fn commit_schema(&mut self, schema: Schema, preserves_nullability: bool) -> Result<()> {
        self.commit_change(Operation::Project(Project { schema, preserves_nullability })).await
    }

    /// Commits another schema, with all fragments, of which some have a new file as their last, and moves to the new
    /// version. Removes these files if that is not to be.
    pub(super) async fn commit_columns(
        &mut self,
        schema: Schema,
        written: Vec<Fragment>,
        preserves_nullability: bool,
    ) -> Result<()> {
        let merge = self.merge_of(schema, written, preserves_nullability);
        self.commit_change(merge).await
    }

    /// As [`Self::commit_columns`], of files that others wrote: they stay whatever becomes of the commit. Idempotent by
    /// uuid.
    pub(crate) async fn commit_written_columns(
        &mut self,
        schema: Schema,
        written: Vec<Fragment>,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let preserves = preserves_nullability(self.schema(), &schema);
        self.commit_theirs(self.merge_of(schema, written, preserves), uuid, properties).await
    }

    /// All fragments, of which some have a new file as their last, under another schema.
    fn merge_of(&self, schema: Schema, written: Vec<Fragment>, preserves_nullability: bool) -> Operation {
        let mut fragments: Vec<Fragment> =
            self.manifest().fragments.decode_all().map(Arc::unwrap_or_clone).collect();
        for new in written {
            if let Ok(at) = fragments.binary_search_by_key(&new.id, |f| f.id)
                && let Some(fragment) = fragments.get_mut(at)
            {
                *fragment = new;
            }
        }
        Operation::Merge(Merge { fragments, schema, preserves_nullability })
    }

    /// Commits an operation whose files others wrote, which keep them, and moves to the new version.
    pub(super) async fn commit_theirs(
        &mut self,
        operation: Operation,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let transaction = staged::transaction(self.version(), Some(uuid), properties, operation);
        self.publish_change(StagedChange::from(transaction)).await
    }

    async fn commit_change(&mut self, operation: Operation) -> Result<()> {
        let transaction = staged::transaction(self.version(), None, Metadata::new(), operation);
        let change = StagedChange::staged(self.snapshot(), transaction)?;
        self.publish_change(change).await
    }

    async fn publish_change(&mut self, change: StagedChange) -> Result<()> {
        let base = Arc::clone(self.snapshot());
        let snapshot = super::publish(base, change, self.commit_options()).await.into_result()?;
        self.move_to(snapshot);
        Ok(())
    }
}

/// Whether no column of the old schema that may hold nulls is forbidden them in the new one, and no new column is.
pub(super) fn preserves_nullability(before: &Schema, after: &Schema) -> bool {
    let may_hold_nulls = |id| before.field_by_id(id).is_none_or(|field| field.nullable);
    after.depth_first().all(|field| field.nullable || !may_hold_nulls(field.id))
}
