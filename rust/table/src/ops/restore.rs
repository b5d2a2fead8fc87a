//! Restore: an older version's content becomes the newest version. Nothing is lost, counters go on.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Operation, Restore};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::versions::resolve;
use crate::write::staged::{self, StagedChange};

impl Dataset {
    /// Makes this version the newest one by a new commit, and moves to it. Errors: `Unsupported` on a handle with columns
    /// that are not committed; `NotFound` for a version that a cleanup removed.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn restore(&mut self) -> Result<()> {
        self.check_committed("Restore")?;
        let newest = resolve::newest(&self.snapshot().store, self.session(), Some(self.snapshot())).await?;
        let operation = Operation::Restore(Restore { version: self.version() });
        let transaction = staged::transaction(newest.version(), None, Metadata::new(), operation);
        let snapshot = super::publish(newest, StagedChange::from(transaction), self.commit_options())
            .await
            .into_result()?;
        self.move_to(Arc::clone(&snapshot));
        Ok(())
    }
}
