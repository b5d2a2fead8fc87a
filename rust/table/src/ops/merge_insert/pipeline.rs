//! A merge as steps, each of which consumes the one before.
//!
//! | step | gives |
//! |---|---|
//! | [`PlannedMerge::new`] | what is done, checked against a version |
//! | [`PlannedMerge::join`] | [`JoinedMerge`]: pairs of rows, and rows of the table alone that are deleted |
//! | [`JoinedMerge::stage`] | [`StagedMerge`]: files that were written, and the update that refers to them |
//! | [`StagedMerge::commit`] | the new version |
//!
//! The source is not part of the chain: a retry plans for the newer version ([`PlannedMerge::on`]) and joins it again.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::Schema as ArrowSchema;
use pennon_core::Result;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::schema::Metadata;
use pennon_core::transaction::KeyFilter;
use pennon_datafile::check_writable;

use super::found::{self, JoinResult};
use super::plan::{Matched, MergePlan};
use super::rows::{Ordered, Replacement, Unmatched};
use super::sides::JoinColumns;
use super::source::MergeSource;
use super::{
    MergeClauses, MergeOptions, MergeResult, MergeWriteMode, by_id, by_index, columns, inserted, join,
};
use crate::blobs;
use crate::dataset::Dataset;
use crate::expr::Expression;
use crate::runtime::{Stopwatch, blocking, cancellation};
use crate::scan;
use crate::session::CreateOptions;
use crate::versions::snapshot::Snapshot;
use crate::write::moved::{self, Moves, Staged};
use crate::write::placement::Placement;
use crate::write::staged::StagedChange;
use crate::write::{BatchReader, WriteOptions, WrittenFragments, deletions};

/// A merge into the version of a handle.
pub(super) struct PlannedMerge {
    base: Dataset,
    plan: Arc<MergePlan>,
    clauses: Arc<MergeClauses>,
    options: Arc<MergeOptions>,
}

impl PlannedMerge {
    /// Errors: those of [`MergePlan::new`]; `Unsupported` for the file version, `InvalidInput` for the target.
    pub(super) fn new(
        base: &Dataset,
        clauses: &MergeClauses,
        options: &MergeOptions,
        source: &ArrowSchema,
    ) -> Result<Self> {
        options.file_version.map_or(Ok(()), check_writable)?;
        let snapshot = base.snapshot();
        let plan = Arc::new(MergePlan::new(snapshot, clauses, source)?);
        Placement::new(&snapshot.store, base.session(), &snapshot.manifest.base_paths, &options.target)?;
        let (clauses, options) = (Arc::new(clauses.clone()), Arc::new(options.clone()));
        Ok(Self { base: base.clone(), plan, clauses, options })
    }

    /// The same merge into the version of another handle; a plan for the same version is kept.
    pub(super) fn on(&self, base: Dataset, source: &MergeSource) -> Result<Self> {
        let plan = if Arc::ptr_eq(base.snapshot(), self.base.snapshot()) {
            Arc::clone(&self.plan)
        } else {
            Arc::new(MergePlan::new(base.snapshot(), &self.clauses, &source.schema)?)
        };
        Ok(Self { base, plan, clauses: Arc::clone(&self.clauses), options: Arc::clone(&self.options) })
    }

    /// Reads a source to its end.
    pub(super) async fn read(&self, source: BatchReader) -> Result<Arc<MergeSource>> {
        let limit = if self.options.source_in_memory { u64::MAX } else { self.options.memory_limit };
        let source = blobs::without_addresses(source, self.base.schema());
        let (token, _guard) = cancellation();
        Ok(Arc::new(blocking(move || MergeSource::collect(source, limit, &token)).await?))
    }

    /// As [`Self::join`], of a part of the source: rows that only the table has are known to nobody yet.
    pub(super) async fn join_part(self, source: &Arc<MergeSource>) -> Result<JoinedMerge> {
        let watch = Stopwatch::start();
        let (found, source) = (self.find(source).await?, Arc::clone(source));
        Ok(JoinedMerge {
            merge: self,
            source,
            found,
            deleted: RowsByFragment::new(),
            elapsed: watch.elapsed(),
        })
    }

    /// Finds the rows that match.
    pub(super) async fn join(self, source: &Arc<MergeSource>) -> Result<JoinedMerge> {
        let watch = Stopwatch::start();
        let found = self.find(source).await?;
        let deleted = match &self.plan.delete_unmatched {
            Some(predicate) => {
                let matched = deletions::by_fragment(found.targets());
                unmatched_target(self.base.snapshot(), predicate, &matched).await?
            }
            None => RowsByFragment::new(),
        };
        Ok(JoinedMerge { merge: self, source: Arc::clone(source), found, deleted, elapsed: watch.elapsed() })
    }

    async fn find(&self, source: &Arc<MergeSource>) -> Result<JoinResult> {
        let (snapshot, plan) = (Arc::clone(self.base.snapshot()), Arc::clone(&self.plan));
        let indexed = match self.options.use_index {
            true => by_index::find(&snapshot, &plan, source).await?,
            false => None,
        };
        let (source, limit) = (Arc::clone(source), self.options.memory_limit);
        let (token, _guard) = cancellation();
        blocking(move || {
            let mut found = JoinResult::new(&plan, source.rows, snapshot.manifest.live_rows());
            let columns = JoinColumns::of(&plan);
            if plan.by_row_id {
                by_id::find(&snapshot, &plan, &columns, &source, &token, &mut found)?;
            } else {
                found.by_index = indexed.as_ref().map(|indexed| indexed.description().to_owned());
                join::find(&snapshot, &plan, &columns, &source, indexed, limit, &token, &mut found)?;
            }
            found.check(&plan, &source)?;
            Ok(found)
        })
        .await
    }
}

/// Rows that only the table has and for which a predicate is true.
pub(super) async fn unmatched_target(
    snapshot: &Arc<Snapshot>,
    predicate: &Expression,
    matched: &RowsByFragment,
) -> Result<RowsByFragment> {
    let all = scan::matches(Arc::clone(snapshot), None, predicate.clone(), false).await?;
    let unmatched = all.into_iter().map(|(id, rows)| match matched.get(&id) {
        Some(matched) => (id, rows.difference(matched)),
        None => (id, rows),
    });
    Ok(unmatched.filter(|(_, rows)| !rows.is_empty()).collect())
}

/// A merge whose rows were found.
pub(super) struct JoinedMerge {
    merge: PlannedMerge,
    source: Arc<MergeSource>,
    found: JoinResult,
    /// Rows that only the table has and that are deleted.
    deleted: RowsByFragment,
    elapsed: Duration,
}

impl JoinedMerge {
    /// Writes the files; `commits`: whether the merge is committed right away.
    pub(super) async fn stage(self, commits: bool) -> Result<StagedMerge> {
        let watch = Stopwatch::start();
        let (base, plan) = (self.merge.base.clone(), Arc::clone(&self.merge.plan));
        let result = self.result();
        let (source_rows, spilled) = (self.source.rows, self.source.is_spilled());
        let (matches, by_index, join) = (self.found.matches, self.found.by_index.clone(), self.elapsed);
        let staged = if self.rewrites_columns() { self.columns(commits).await? } else { self.rows().await? };
        let target_rows = base.manifest().live_rows();
        let write = watch.elapsed();
        let figures = Figures { plan, source_rows, spilled, target_rows, by_index, matches, join, write };
        Ok(StagedMerge { base, staged, result, figures })
    }

    /// Rows of the table that match, if that matters.
    pub(super) fn targets(&self) -> RowsByFragment {
        deletions::by_fragment(self.found.targets())
    }

    /// Rows of the table that change or go.
    pub(super) fn affected(&self) -> RowsByFragment {
        deletions::by_fragment(self.found.pairs.iter().map(|pair| pair.target))
    }

    pub(super) fn result(&self) -> MergeResult {
        let deleted = self.deleted.values().map(DeletionVector::len).sum::<u64>();
        let mut result = MergeResult { num_deleted_rows: deleted, ..MergeResult::default() };
        let pairs = u64::try_from(self.found.pairs.len()).unwrap_or(u64::MAX);
        match &self.merge.plan.matched {
            Matched::Update(_) => result.num_updated_rows = pairs,
            Matched::Delete => result.num_deleted_rows += pairs,
            Matched::Nothing | Matched::Fail => {}
        }
        if self.merge.plan.insert {
            result.num_inserted_rows = self.source.rows.saturating_sub(self.found.source.len());
        }
        result
    }

    fn rewrites_columns(&self) -> bool {
        match self.merge.clauses.write_mode {
            MergeWriteMode::RewriteColumns => true,
            MergeWriteMode::RewriteRows => false,
            // A change of columns in place cannot be committed with new ones.
            MergeWriteMode::Auto if self.merge.base.uncommitted_columns().is_some() => false,
            MergeWriteMode::Auto => {
                columns::pays(self.merge.base.snapshot(), &self.merge.plan, &self.found.pairs)
            }
        }
    }

    /// Changed columns of the fragments with a match.
    async fn columns(self, commits: bool) -> Result<Staged> {
        let PlannedMerge { base, plan, options, .. } = self.merge;
        let (snapshot, pairs) = (base.snapshot(), self.found.pairs);
        columns::write(snapshot, &plan, &self.source, pairs, &options, commits, base.durability()).await
    }

    /// Whole rows in new fragments.
    async fn rows(self) -> Result<Staged> {
        let Self { merge: PlannedMerge { base, plan, options, .. }, source, found, deleted, .. } = self;
        let (snapshot, limit) = (Arc::clone(base.snapshot()), options.memory_limit);
        let moves = blocking(move || moves(&snapshot, &plan, &source, found, deleted, limit, 1)).await?;
        let MergeOptions { file_version, target, .. } = options.as_ref().clone();
        let create = CreateOptions { file_version, ..CreateOptions::default() };
        let commit = base.commit_options().clone();
        let params = WriteOptions { target, create, commit, ..WriteOptions::default() };
        moved::write(base.snapshot(), moves, &params).await
    }
}

impl JoinedMerge {
    /// Writes whole rows for somebody else to commit, and gives the keys that are inserted. `shares`: how many parts the
    /// source has.
    pub(super) async fn write_part(
        self,
        params: &WriteOptions,
        shares: usize,
    ) -> Result<(WrittenFragments, Option<KeyFilter>)> {
        let Self { merge: PlannedMerge { base, plan, options, .. }, source, found, deleted, .. } = self;
        let (snapshot, limit) = (Arc::clone(base.snapshot()), options.memory_limit);
        let moves = move || moves(&snapshot, &plan, &source, found, deleted, limit, shares);
        let mut moves = blocking(moves).await?;
        let inserted = moves.inserted_keys.take();
        Ok((moved::write_fragments(base.snapshot(), moves, params).await?, inserted))
    }
}

/// What is written when whole rows are.
fn moves(
    snapshot: &Arc<Snapshot>,
    plan: &MergePlan,
    source: &Arc<MergeSource>,
    found: JoinResult,
    mut deleted: RowsByFragment,
    limit: u64,
    shares: usize,
) -> Result<Moves> {
    let JoinResult { mut pairs, source: matched, .. } = found;
    let schema = Arc::clone(&snapshot.manifest.schema);
    let matched = Arc::new(matched);
    let rows = deletions::by_fragment(pairs.iter().map(|pair| pair.target));
    let mut moved = RowsByFragment::new();
    if let Matched::Update(_) = &plan.matched {
        moved = rows;
    } else {
        for (id, rows) in rows {
            deletions::add(&mut deleted, id, &rows);
        }
        pairs.clear();
    }
    found::in_order_of_ids(snapshot, &mut pairs)?;
    let order = pairs.iter().map(|pair| pair.source).collect();
    let addresses = pairs.into_iter().map(|pair| pair.target).collect();
    let ordered = Ordered::new(source, order, limit)?;
    let mut replacement = Replacement { schema: Arc::clone(&schema), addresses, next: 0, source: ordered };
    let kept = plan.missing.iter().chain(&plan.partial);
    let mut columns: Vec<String> = kept.map(|field| field.name.clone()).collect();
    columns.push(scan::ROW_ADDRESS.to_owned());
    let (mut inserted, mut inserted_keys) = (None, None);
    if plan.insert && matched.len() < source.rows {
        if !plan.by_row_id {
            inserted_keys = inserted::keys(plan, &JoinColumns::of(plan), source, &matched, shares)?;
        }
        let rows = Unmatched { rows: source.batches()?, matched, schema };
        inserted = Some(Box::new(rows) as BatchReader);
    }
    Ok(Moves {
        moved,
        columns,
        changed: Box::new(move |read| replacement.apply(&read)),
        inserted,
        deleted,
        fields: moved::with_members(plan.changed()),
        inserted_keys,
    })
}

/// What was written for a merge.
pub(super) struct StagedMerge {
    base: Dataset,
    staged: Staged,
    pub(super) result: MergeResult,
    figures: Figures,
}

impl StagedMerge {
    /// Number and bytes of the files of new fragments.
    pub(super) fn new_files(&self) -> (u64, u64) {
        let files = self.staged.update.new_fragments.iter().flat_map(|fragment| &fragment.files);
        files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.size.unwrap_or(0)))
    }

    /// The change of the version it was joined with.
    pub(super) fn into_change(self) -> Result<StagedChange> {
        Ok(self.into_parts()?.1)
    }

    /// What it cost, and the change.
    pub(super) fn into_parts(self) -> Result<(Figures, StagedChange)> {
        let change = self.staged.change(self.base.snapshot(), Metadata::new())?;
        Ok((self.figures, change))
    }

    /// Errors: those of a commit.
    pub(super) async fn commit(self) -> Result<(Arc<Snapshot>, MergeResult)> {
        let (base, result) = (self.base.clone(), self.result);
        let change = self.into_change()?;
        let outcome = base.publish(change).await;
        Ok((outcome.into_result()?, result))
    }
}

/// What a merge cost.
pub(super) struct Figures {
    pub(super) plan: Arc<MergePlan>,
    pub(super) source_rows: u64,
    pub(super) spilled: bool,
    pub(super) target_rows: u64,
    /// Indices that found the keys.
    pub(super) by_index: Option<String>,
    pub(super) matches: u64,
    pub(super) join: Duration,
    pub(super) write: Duration,
}
