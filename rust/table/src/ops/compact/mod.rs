//! Compaction: rows of small or thinned fragments in few new ones (table format, section 9).
//!
//! | step | file |
//! |---|---|
//! | the options | `options.rs` |
//! | which fragments, and which together; pure | `plan.rs` |
//! | one task: rows read and rewritten | here: [`Dataset::compact_fragments`] |
//! | tasks that were done here or elsewhere, published | `publish.rs` |
//! | all of that on one machine, within a budget | `run.rs` |
//! | what it did | `report.rs` |
//!
//! In a table with stable row ids the rows of a task come out in the order of their ids, so a task has few ranges of ids
//! and its version runs merge. Rows stay what they are: ids and versions do not change, and the feed of changes is silent.
//! Deletes and updates that others commit meanwhile are carried over when the task is committed.
//!
//! Indices that name rows by their addresses are rewritten in the same commit (`index/remap.rs`); those that name ids cover
//! the new fragments as they are. An index that cannot be rewritten (full text) does not cover them any more in a table
//! with stable ids; without them the compaction of what it covers is refused, unless a note is left about where the rows went
//! (`defer_index_remap`).

mod options;
mod plan;
mod publish;
mod report;
mod run;

use std::sync::Arc;

pub use options::CompactionOptions;
use options::Settings;
use pennon_core::manifest::{Fragment, IndexMetadata};
use pennon_core::{Error, FragmentId, Result, Version};
pub use report::{CompactionMetrics, TableState};
use roaring::RoaringBitmap;
pub use run::CompactionReport;
use tracing::instrument;

use crate::dataset::Dataset;
use crate::indices::Coverage;
use crate::runtime::blocking;
use crate::session::CreateOptions;
use crate::versions::snapshot::Snapshot;
use crate::write::{WriteOptions, rewrite};

/// What one task did; nothing is committed.
#[derive(Debug, Clone, PartialEq)]
pub struct RewriteResult {
    /// The version that was read.
    pub read_version: Version,
    /// The fragments whose rows were read, as they were.
    pub original_fragments: Vec<Fragment>,
    /// The fragments that were written, without ids.
    pub new_fragments: Vec<Fragment>,
}

impl RewriteResult {
    /// What it is in numbers.
    pub fn metrics(&self) -> CompactionMetrics {
        CompactionMetrics::of(&self.original_fragments, &self.new_fragments)
    }
}

impl Dataset {
    /// What there is to compact at this version: the fragments of each task. Decodes none of them.
    ///
    /// Errors: `InvalidInput` for an invalid option; `Unsupported` if the table has no stable row ids and an index that
    /// cannot be rewritten covers fragments that would move, unless `defer_index_remap` is set, and for that option in a
    /// table with stable ids.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn plan_compaction(&self, options: &CompactionOptions) -> Result<Vec<Vec<FragmentId>>> {
        let settings = options.settings(&self.manifest().config)?;
        self.plan_within(&settings).await
    }

    async fn plan_within(&self, settings: &Settings) -> Result<Vec<Vec<FragmentId>>> {
        let indices = self.snapshot().indices().await?;
        let (read, known) = (Arc::clone(self.snapshot()), Arc::clone(&indices));
        let coverage = blocking(move || Coverage::of(&read, &known)).await?;
        let covered: Vec<RoaringBitmap> = user_indices(&indices).map(|i| coverage.fragments(i)).collect();
        let tasks = plan::plan(self.manifest().fragments.summaries(), &covered, settings);
        check_indices(self.snapshot(), &indices, tasks.iter().flatten().copied(), settings)?;
        Ok(tasks)
    }

    /// Does one task: rewrites the live rows of fragments of this version, and commits nothing.
    ///
    /// Errors: `InvalidInput` for fragments that this version does not have; those of reading and writing. Files that
    /// were written are removed then.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn compact_fragments(
        &self,
        fragments: &[FragmentId],
        options: &CompactionOptions,
    ) -> Result<RewriteResult> {
        let settings = options.settings(&self.manifest().config)?;
        self.compact_within(fragments, &settings).await
    }

    async fn compact_within(&self, fragments: &[FragmentId], settings: &Settings) -> Result<RewriteResult> {
        let find = |id: &FragmentId| Ok(self.manifest().require_fragment(*id)?.as_ref().clone());
        let original_fragments = fragments.iter().map(find).collect::<Result<Vec<_>>>()?;
        let live = original_fragments.iter().map(Fragment::live_rows).sum();
        let params = WriteOptions {
            max_rows_per_file: plan::rows_per_file(live, settings.target_rows),
            max_bytes_per_file: settings.max_bytes_per_file,
            create: CreateOptions { file_version: settings.file_version, ..CreateOptions::default() },
            commit: self.commit_options().clone(),
            ..WriteOptions::default()
        };
        let written = rewrite::live_rows(Arc::clone(self.snapshot()), fragments.to_vec(), &params).await?;
        Ok(RewriteResult {
            read_version: self.version(),
            original_fragments,
            new_fragments: written.fragments,
        })
    }
}

fn user_indices(indices: &[IndexMetadata]) -> impl Iterator<Item = &IndexMetadata> {
    indices.iter().filter(|index| !index.is_system())
}

/// Errors: `Unsupported` if the rows of these fragments cannot move without rewriting an index.
fn check_indices(
    snapshot: &Snapshot,
    indices: &[IndexMetadata],
    moved: impl Iterator<Item = FragmentId>,
    settings: &Settings,
) -> Result<()> {
    if snapshot.manifest.has_stable_row_ids() {
        return match settings.defer_index_remap {
            false => Ok(()),
            true => Err(Error::unsupported(
                "Cannot compact with defer_index_remap: the dataset uses stable row ids, so no index has to be remapped",
            )),
        };
    }
    if settings.defer_index_remap {
        return Ok(());
    }
    let moved: RoaringBitmap = moved.map(|id| id.0).collect();
    let covers = |index: &&IndexMetadata| index.fragments.as_ref().is_none_or(|f| !f.is_disjoint(&moved));
    for index in user_indices(indices).filter(covers).filter(|_| !moved.is_empty()) {
        if !super::index::follows_moves(index)? {
            return Err(Error::unsupported(format!(
                "Compaction would move rows that the index `{}` names by their addresses: the table has no stable row ids, \
                 and indices of this kind are not rewritten. Set defer_index_remap, which notes where the rows went, exclude \
                 the fragments that are indexed, or drop the index",
                index.name
            )));
        }
    }
    Ok(())
}
