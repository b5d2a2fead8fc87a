//! Delete by predicate: deletion vectors for matching rows, whole fragments dropped when nothing is left.
//!
//! The same three steps serve one process and a cluster ([`crate::jobs`]): find the matching offsets of each fragment,
//! merge them with what was deleted before and write deletion files, commit. Data files are not touched. A predicate
//! that matches nothing makes a version too.

use std::sync::Arc;

use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Metadata;
use pennon_core::{FragmentId, Result};
use tracing::instrument;

use super::{ConflictRetries, FindRows};
use crate::dataset::Dataset;
use crate::scan;
use crate::versions::snapshot::Snapshot;
use crate::write::deletions;

/// What a delete did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteResult {
    /// Rows that were there before and are not any more.
    pub num_deleted_rows: u64,
}

impl Dataset {
    /// Deletes the rows for which a predicate is true and moves to the new version.
    ///
    /// Rows that others change meanwhile lead to another try on the newest version. Errors: `InvalidInput` or
    /// `NotFound` for the predicate, retryable `Conflict` "Too many concurrent writers. ..." at the end of the tries.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn delete(&mut self, predicate: &str, retries: ConflictRetries) -> Result<DeleteResult> {
        let attempt = |base: Self| async move { base.delete_once(predicate).await };
        self.retry(retries, attempt).await
    }

    /// Deletes all rows of the newest version and moves to the new one. Errors: those of [`Self::delete`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn truncate(&mut self) -> Result<()> {
        let mut newest = self.clone();
        newest.checkout_latest().await?;
        newest.delete("true", ConflictRetries::default()).await?;
        *self = newest;
        Ok(())
    }

    /// Deletes the rows that are found in some other way, and moves to the new version; `predicate` is the text that the
    /// history shows.
    ///
    /// As in [`Self::delete`], rows are found again on the newest version after a conflict. Errors: those of `find` and
    /// of a delete; `InvalidInput` for rows that cannot be there.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn delete_found(
        &mut self,
        find: &FindRows,
        predicate: &str,
        retries: ConflictRetries,
    ) -> Result<DeleteResult> {
        let attempt = |base: Self| async move {
            let rows = deletions::by_fragment(find(base.clone()).await?);
            base.delete_rows(rows, predicate).await
        };
        self.retry(retries, attempt).await
    }

    async fn delete_once(&self, predicate: &str) -> Result<(Arc<Snapshot>, DeleteResult)> {
        let rows = scan::table_predicate(self.snapshot(), predicate)?;
        if rows.constant() == Some(true) {
            let manifest = self.manifest();
            let deleted_fragment_ids = manifest.fragments.ids().collect();
            let result = DeleteResult { num_deleted_rows: manifest.live_rows() };
            let removal = self.publish_removal(deleted_fragment_ids, predicate, Metadata::new());
            return Ok((removal.await?, result));
        }
        let matching = scan::matches(Arc::clone(self.snapshot()), None, rows, false).await?;
        self.delete_rows(matching, predicate).await
    }

    async fn delete_rows(
        &self,
        rows: RowsByFragment,
        predicate: &str,
    ) -> Result<(Arc<Snapshot>, DeleteResult)> {
        let deleted = self.publish_deletion(rows, predicate, None, Metadata::new()).await?;
        let (snapshot, num_deleted_rows) = deleted;
        Ok((snapshot, DeleteResult { num_deleted_rows }))
    }

    /// Deletes the rows of one fragment for which a predicate is true without committing that.
    ///
    /// Gives the fragment with its new deletion file, as it is if no row is deleted, `None` if no row is left. Errors:
    /// `InvalidInput` or `NotFound` for the predicate, `InvalidInput` if this version does not have the fragment.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn delete_in_fragment(&self, id: FragmentId, predicate: &str) -> Result<Option<Fragment>> {
        let rows = match self.manifest().fragment(id) {
            Some(_) => self.matching_rows(predicate, Some(vec![id.into()])).await?.into_values().next(),
            None => None,
        };
        self.delete_rows_of(id, rows.unwrap_or_default()).await
    }

    /// As [`Self::delete_in_fragment`], for rows by their offsets in the fragment.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn delete_offsets(&self, id: FragmentId, offsets: &[u32]) -> Result<Option<Fragment>> {
        self.delete_rows_of(id, offsets.iter().copied().collect()).await
    }

    async fn delete_rows_of(&self, id: FragmentId, rows: DeletionVector) -> Result<Option<Fragment>> {
        let merged = deletions::merge(self.snapshot(), RowsByFragment::from([(id, rows)])).await?;
        if !merged.removed.is_empty() {
            return Ok(None);
        }
        let written = deletions::write(self.snapshot(), merged.vectors, None, self.durability()).await?;
        let unchanged = || self.manifest().fragment(id).map(|fragment| fragment.as_ref().clone());
        Ok(written.into_iter().next().or_else(unchanged))
    }
}
