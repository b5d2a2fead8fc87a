//! Stable row ids for a table that was made without them.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::schema::Metadata;
use pennon_core::transaction::ASSIGNS_ROW_IDS;
use tracing::instrument;

use super::ConflictRetries;
use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{self, StagedChange};

impl Dataset {
    /// Gives the rows of a table without stable row ids such ids, and moves to the new version; a table that has them is left
    /// as it is.
    ///
    /// The ids are the addresses of the rows, which are their ids without stable row ids. So indices are kept, except that
    /// they do not cover fragments of which a compaction left them the old addresses (`defer_index_remap`). No data file is
    /// written: the commit costs as much as the list of fragments. Both versions of a row (created, last updated) are the
    /// one that is made. It cannot be undone: versions from before cannot be restored.
    ///
    /// Errors: `Unsupported` on a handle with columns that are not committed; `Conflict` if others commit all the time, or
    /// change the schema at that moment.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn migrate_to_stable_row_ids(&mut self) -> Result<()> {
        self.check_committed("migrate_to_stable_row_ids")?;
        let mut base = self.clone();
        if !self.version().is_detached() {
            base.checkout_latest().await?;
        }
        let attempt = |base: Self| async move { base.assign_row_ids().await };
        let snapshot = super::retrying(&base, ConflictRetries::default(), attempt).await?;
        self.move_to(snapshot);
        Ok(())
    }

    async fn assign_row_ids(&self) -> Result<Arc<Snapshot>> {
        if self.manifest().has_stable_row_ids() {
            return Ok(Arc::clone(self.snapshot()));
        }
        let merge = self.merge_of(self.schema().as_ref().clone(), Vec::new(), true);
        let properties = Metadata::from([(ASSIGNS_ROW_IDS.to_owned(), "addresses".to_owned())]);
        let transaction = staged::transaction(self.version(), None, properties, merge);
        self.publish(StagedChange::from(transaction)).await.into_result()
    }
}
