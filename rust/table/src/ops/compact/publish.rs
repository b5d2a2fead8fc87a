//! Commits what tasks did: ids for the new fragments, then one rewrite.

use std::sync::Arc;

use pennon_core::manifest::{Fragment, FragmentReuse, ReuseGroup};
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Operation, ReserveFragments, Rewrite, RewriteGroup};
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use super::options::Settings;
use super::{CompactionMetrics, CompactionOptions, RewriteResult, check_indices, user_indices};
use crate::commit::CommitOutcome;
use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{self, StagedChange};

impl Dataset {
    /// Commits the results of tasks on top of the newest version, in two versions as the reference does, and moves there.
    ///
    /// Rows that others deleted or updated meanwhile are deleted in the new fragments. Errors: retryable `Conflict` if
    /// others changed the columns of the old fragments or compacted them, and with `defer_index_remap` if they changed
    /// rows of them; `InvalidInput` for results of other tables. The files of the results stay: they may be committed
    /// again.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn commit_compaction(
        &mut self,
        rewrites: Vec<RewriteResult>,
        options: &CompactionOptions,
    ) -> Result<CompactionMetrics> {
        let settings = options.settings(&self.manifest().config)?;
        let done = self.commit_rewrites(&rewrites, &settings).await.into_result()?;
        self.move_to(done);
        Ok(rewrites.iter().map(RewriteResult::metrics).sum())
    }

    /// Commits results on top of the newest version. Their files stay, whatever the outcome.
    pub(super) async fn commit_rewrites(
        &self,
        rewrites: &[RewriteResult],
        settings: &Settings,
    ) -> CommitOutcome {
        match self.stage_rewrites(rewrites, settings).await {
            Ok(Some((base, change))) => crate::ops::publish(base, change, self.commit_options()).await,
            Ok(None) => CommitOutcome::Committed(Arc::clone(self.snapshot()), Ok(())),
            Err(error) => CommitOutcome::NotCommitted(error),
        }
    }

    /// The change that replaces old fragments by new ones, and the version it is committed on, in which the new
    /// fragments have their ids; `None` without results.
    async fn stage_rewrites(
        &self,
        rewrites: &[RewriteResult],
        settings: &Settings,
    ) -> Result<Option<(Arc<Snapshot>, StagedChange)>> {
        let Some(read_version) = rewrites.iter().map(|rewrite| rewrite.read_version).min() else {
            return Ok(None);
        };
        let mut newest = self.clone();
        newest.checkout_latest().await?;
        let indices = newest.snapshot().indices().await?;
        let old = rewrites.iter().flat_map(|rewrite| &rewrite.original_fragments);
        check_indices(newest.snapshot(), &indices, old.map(|f| f.id), settings)?;
        let mut groups: Vec<RewriteGroup> = rewrites
            .iter()
            .map(|rewrite| RewriteGroup {
                old_fragments: rewrite.original_fragments.clone(),
                new_fragments: rewrite.new_fragments.iter().map(Fragment::edit).collect(),
            })
            .collect();
        let reserved = newest.reserve_ids(&mut groups).await?;
        let covered = |id: FragmentId| {
            user_indices(&indices).any(|index| index.fragments.as_ref().is_some_and(|f| f.contains(id.0)))
        };
        let is_covered = groups.iter().flat_map(|group| &group.old_fragments).any(|f| covered(f.id));
        // The reference notes all moves of a commit, or none.
        let reuse = if settings.defer_index_remap && is_covered {
            let mut moves = Vec::with_capacity(groups.len());
            for group in &groups {
                moves.push(moves_of(&reserved, group).await?);
            }
            Some(FragmentReuse { dataset_version: reserved.version(), groups: moves })
        } else {
            None
        };
        let rewrite = Operation::Rewrite(Rewrite { groups, rewritten_indices: Vec::new() });
        let transaction = staged::transaction(read_version, None, Metadata::new(), rewrite);
        Ok(Some((reserved, StagedChange { reuse, ..StagedChange::from(transaction) })))
    }

    /// Gives the new fragments ids that no other transaction will get.
    async fn reserve_ids(&self, groups: &mut [RewriteGroup]) -> Result<Arc<Snapshot>> {
        let new = || groups.iter().map(|group| group.new_fragments.len()).sum::<usize>();
        let count =
            u32::try_from(new()).map_err(|_| Error::unsupported("all 2^32 fragment ids are used up"))?;
        if count == 0 {
            return Ok(Arc::clone(self.snapshot()));
        }
        let reserve = Operation::ReserveFragments(ReserveFragments { num_fragments: count });
        let transaction = staged::transaction(self.version(), None, Metadata::new(), reserve);
        let base = Arc::clone(self.snapshot());
        let reserved = crate::ops::publish(base, StagedChange::from(transaction), self.commit_options())
            .await
            .into_result()?;
        let last = reserved.manifest.max_fragment_id.and_then(|max| max.checked_sub(count - 1));
        let first = last.ok_or_else(|| Error::internal("ids that were reserved are not there"))?;
        let fragments = groups.iter_mut().flat_map(|group| &mut group.new_fragments);
        for (id, fragment) in (first..).zip(fragments) {
            fragment.id = FragmentId(id);
        }
        Ok(reserved)
    }
}

/// Which rows of a group moved, and where to.
async fn moves_of(snapshot: &Arc<Snapshot>, group: &RewriteGroup) -> Result<ReuseGroup> {
    let mut vectors = Vec::with_capacity(group.old_fragments.len());
    for fragment in &group.old_fragments {
        vectors.push(snapshot.deletion_vector(fragment).await?);
    }
    let old = group.old_fragments.iter().cloned().zip(vectors.iter().map(AsRef::as_ref)).collect();
    Ok(ReuseGroup::new(old, group.new_fragments.clone()))
}
