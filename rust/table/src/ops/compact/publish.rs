//! Commits what tasks did: ids for the new fragments, then one rewrite.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use pennon_core::manifest::{Fragment, FragmentReuse, fragment_ids_used_up};
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Operation, ReserveFragments, Rewrite, RewriteGroup};
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use super::options::Settings;
use super::{CompactionMetrics, CompactionOptions, RewriteResult, check_indices, user_indices};
use crate::commit::{CommitOutcome, CommitStatus};
use crate::dataset::Dataset;
use crate::ops::index::{RemappedIndices, moves_of, remap};
use crate::versions::snapshot::Snapshot;
use crate::versions::{VersionRef, load};
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
        let done = self.commit_rewrites(&rewrites, None, &settings).await.into_result()?;
        self.move_to(done);
        Ok(rewrites.iter().map(RewriteResult::metrics).sum())
    }

    /// As [`Self::commit_compaction`], once: again with the same uuid it moves to the version that the first time made.
    pub(crate) async fn commit_compaction_once(
        &mut self,
        rewrites: Vec<RewriteResult>,
        options: &CompactionOptions,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        if let CommitStatus::Committed(version) = self.commit_status(&uuid).await? {
            *self = self.checkout(VersionRef::Number(version.0)).await?;
            return Ok(());
        }
        let settings = options.settings(&self.manifest().config)?;
        let Some((base, mut change)) = self.stage_rewrites(&rewrites, None, &settings).await? else {
            return Ok(());
        };
        (change.transaction.uuid, change.transaction.properties) = (uuid, properties);
        let done = crate::ops::publish(base, change, self.commit_options()).await.into_result()?;
        self.move_to(done);
        Ok(())
    }

    /// Commits results on top of the newest version, or of the one that reserved enough ids for them. Their files stay,
    /// whatever the outcome.
    pub(super) async fn commit_rewrites(
        &self,
        rewrites: &[RewriteResult],
        reserved: Option<ReservedIds>,
        settings: &Settings,
    ) -> CommitOutcome {
        match self.stage_rewrites(rewrites, reserved, settings).await {
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
        reserved: Option<ReservedIds>,
        settings: &Settings,
    ) -> Result<Option<(Arc<Snapshot>, StagedChange)>> {
        let Some(read_version) = rewrites.iter().map(|rewrite| rewrite.read_version).min() else {
            return Ok(None);
        };
        let count = rewrites.iter().map(|rewrite| rewrite.new_fragments.len()).sum::<usize>();
        let reserved = reserved.filter(|reserved| reserved.ids.len() >= count);
        let newest = match &reserved {
            Some(reserved) => Arc::clone(&reserved.version),
            None => {
                let mut newest = self.clone();
                newest.checkout_latest().await?;
                Arc::clone(newest.snapshot())
            }
        };
        let indices = newest.indices().await?;
        for rewrite in rewrites {
            check_origin(&newest, rewrite).await?;
        }
        let old = rewrites.iter().flat_map(|rewrite| &rewrite.original_fragments);
        check_indices(&newest, &indices, old.map(|f| f.id), settings)?;
        check_row_ids(&newest, rewrites)?;
        let reserved = match reserved {
            Some(reserved) => reserved,
            None => self.reserve_ids(newest, count).await?,
        };
        check_row_ids(&reserved.version, rewrites)?;
        let mut groups: Vec<RewriteGroup> = rewrites
            .iter()
            .map(|rewrite| RewriteGroup {
                old_fragments: rewrite.original_fragments.clone(),
                new_fragments: rewrite.new_fragments.iter().map(Fragment::edit).collect(),
            })
            .collect();
        let fragments = groups.iter_mut().flat_map(|group| &mut group.new_fragments);
        for (id, fragment) in reserved.ids.zip(fragments) {
            fragment.id = FragmentId(id);
        }
        let reserved = reserved.version;
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
        let remapped = match &reuse {
            Some(_) => RemappedIndices::default(),
            None => remap(&reserved, &indices, &groups, self.durability()).await?,
        };
        let rewrite = Operation::Rewrite(Rewrite { groups, rewritten_indices: remapped.entries });
        let transaction = staged::transaction(read_version, None, Metadata::new(), rewrite);
        let files = remapped.files;
        Ok(Some((reserved, StagedChange { reuse, files, ..StagedChange::from(transaction) })))
    }

    /// Reserves so many ids in a version that follows the newest one.
    pub(super) async fn reserve_ids(&self, newest: Arc<Snapshot>, count: usize) -> Result<ReservedIds> {
        let count = u32::try_from(count).map_err(|_| fragment_ids_used_up())?;
        if count == 0 {
            return Ok(ReservedIds { version: newest, ids: 0..0 });
        }
        let reserve = Operation::ReserveFragments(ReserveFragments { num_fragments: count });
        let transaction = staged::transaction(newest.version(), None, Metadata::new(), reserve);
        let version = crate::ops::publish(newest, StagedChange::from(transaction), self.commit_options())
            .await
            .into_result()?;
        let max = version.manifest.max_fragment_id;
        let first = max.and_then(|max| max.checked_sub(count - 1));
        match (first, max.and_then(|max| max.checked_add(1))) {
            (Some(first), Some(end)) => Ok(ReservedIds { version, ids: first..end }),
            _ => Err(Error::internal("ids that were reserved are not there")),
        }
    }
}

/// The new files of a result are in the table or branch where its task was done. Errors: `InvalidInput` if the
/// fragments that it read are of another one.
async fn check_origin(newest: &Snapshot, rewrite: &RewriteResult) -> Result<()> {
    let locations = |fragment: &Fragment| -> BTreeSet<(String, Option<u32>)> {
        fragment.files.iter().map(|file| (file.path.clone(), file.base_id)).collect()
    };
    let is_of = |snapshot: &Snapshot| {
        rewrite.original_fragments.iter().all(|original| {
            let found = snapshot.manifest.fragment(original.id);
            found.is_some_and(|found| locations(found) == locations(original))
        })
    };
    if is_of(newest) {
        return Ok(());
    }
    // Fragments that were changed or replaced since then are a conflict, which the commit finds.
    let (version, scheme) = (rewrite.read_version, newest.source().scheme);
    match load::load_version(&newest.store, newest.session(), version, scheme).await {
        Ok(read) if is_of(&read) => Ok(()),
        Err(error) if !error.is_not_found() => Err(error),
        // Nothing tells whose fragments these were: they are not there any more.
        Err(_) => Ok(()),
        Ok(_) => Err(Error::invalid_input(format!(
            "The result of a compaction is of fragments that version {version} does not have: its task was done for another \
             table or branch, which has its files"
        ))),
    }
}

/// Errors: retryable `Conflict` if the table got stable row ids since a task read it.
fn check_row_ids(snapshot: &Snapshot, rewrites: &[RewriteResult]) -> Result<()> {
    let mut fragments = rewrites.iter().flat_map(|rewrite| &rewrite.original_fragments);
    if snapshot.manifest.has_stable_row_ids() && fragments.any(|fragment| fragment.row_ids.is_none()) {
        return Err(Error::retryable_conflict(format!(
            "the table has stable row ids in version {}, and had none when a task of the compaction read it",
            snapshot.version()
        )));
    }
    Ok(())
}

/// Ids of fragments that no other transaction gets.
#[derive(Debug)]
pub(super) struct ReservedIds {
    /// The version that reserved them.
    version: Arc<Snapshot>,
    ids: Range<u32>,
}
