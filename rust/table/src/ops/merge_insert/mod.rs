//! Merge: a source of rows and a table are joined on keys, and each row is updated, inserted, deleted or left alone.
//!
//! | step | file |
//! |---|---|
//! | what is to be done, from clauses and schemas; pure | `plan.rs` |
//! | the source, read once and kept | `source.rs`, `spill.rs` |
//! | pairs of rows with equal keys | `sides.rs`, `keys.rs`, `table.rs`, `join.rs` |
//! | the same where the key is the row id | `by_id.rs` |
//! | what was found | `found.rs` |
//! | rows to write | `rows.rs`; `columns.rs` where they stay where they are |
//! | keys for those who commit meanwhile | `inserted.rs` |
//!
//! Of the table only the key columns and those of the condition are read for the join, other columns only of rows that
//! need them: those that match, if the source does not have the columns. Rows that are updated keep their ids; they are
//! written in the order of their ids, those that are inserted behind them. A merge that changes nothing makes a version
//! too.

mod by_id;
mod columns;
mod found;
mod inserted;
mod join;
mod keys;
mod plan;
mod rows;
mod sides;
mod source;
mod spill;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pennon_core::Result;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::schema::Metadata;
use pennon_core::transaction::Transaction;
use pennon_datafile::check_writable;
pub use plan::{MergeClauses, MergeWriteMode, WhenMatched, WhenUnmatchedTarget};

use self::found::Found;
use self::plan::{Matched, Plan, Step};
use self::rows::{Ordered, Replacement, Unmatched};
use self::sides::Columns;
use self::source::Source;
use crate::dataset::Dataset;
use crate::runtime::{Stopwatch, cancellation};
use crate::scan;
use crate::session::CreateOptions;
use crate::versions::snapshot::Snapshot;
use crate::write::moved::{self, Moves, Staged};
use crate::write::placement::Placement;
use crate::write::{BatchReader, Target, WriteOptions, deletions};

/// How a merge works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// Repetitions on the newest version after retryable conflicts.
    pub conflict_retries: u32,
    /// No repetition is begun after this time.
    pub retry_timeout: Duration,
    /// Bytes that the source may take before it goes to a temporary file, and that keys in memory may take before
    /// both sides of the join do.
    pub memory_limit: u64,
    /// Whether the source is in memory anyway, so that it need not go to a file.
    pub source_in_memory: bool,
    /// Version of the new data files with values; `None`: the table's.
    pub file_version: Option<FileVersion>,
    /// Which roots new fragments are written to. Files with columns of fragments that exist lie below the table's own.
    pub target: Target,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            conflict_retries: 10,
            retry_timeout: Duration::from_secs(30),
            memory_limit: 512 << 20,
            source_in_memory: false,
            file_version: None,
            target: Target::Own,
        }
    }
}

/// What a merge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeResult {
    /// Rows of the source that matched nothing and are rows of the table now.
    pub num_inserted_rows: u64,
    /// Rows of the table that have the values of the source now.
    pub num_updated_rows: u64,
    /// Rows that were there before and are not any more.
    pub num_deleted_rows: u64,
}

/// What was written for a merge.
struct Merged {
    staged: Staged,
    result: MergeResult,
    figures: Figures,
}

/// What a merge cost.
struct Figures {
    plan: Arc<Plan>,
    source_rows: u64,
    spilled: bool,
    target_rows: u64,
    matches: u64,
    join: Duration,
    write: Duration,
}

impl Dataset {
    /// The names of key columns as the table has them; those of the declared primary key if none are given.
    ///
    /// Errors: `InvalidInput` for columns that are not there and if there is no key.
    pub fn merge_keys(&self, on: &[String]) -> Result<Vec<String>> {
        plan::key_columns(self.schema(), on)
    }

    /// Merges a source into this table and moves to the new version.
    ///
    /// The source is read once and kept. Rows or keys that others change meanwhile lead to another try on the newest
    /// version, with the join done again.
    ///
    /// Errors: `InvalidInput` for clauses that do nothing, unknown keys, conditions that do not parse, two rows of the
    /// source for one row of the table ("Ambiguous merge inserts are prohibited ..."), a match where that is an error,
    /// null where none may be, and a source that fails; `SchemaMismatch` for a source that does not fit; retryable
    /// `Conflict` "Too many concurrent writers. ..." at the end of the tries. The table is as before then, and files
    /// that were written are removed.
    pub async fn merge_insert(
        &mut self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        let source = self.collect(source, clauses, options).await?;
        let attempt = |base: Self| {
            let source = &source;
            async move {
                let Merged { staged, result, .. } = base.stage_merge(source, clauses, options, true).await?;
                let change = staged.change(base.snapshot(), Metadata::new())?;
                let snapshot = Arc::clone(base.snapshot());
                Ok((super::publish(snapshot, change, base.commit_options()).await.into_result()?, result))
            }
        };
        let &MergeOptions { conflict_retries, retry_timeout, .. } = options;
        let (snapshot, result) = super::retrying(self, conflict_retries, retry_timeout, attempt).await?;
        self.move_to(snapshot);
        Ok(result)
    }

    /// Writes the files of [`Self::merge_insert`] and gives the transaction that would commit them on this version.
    pub async fn merge_insert_uncommitted(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<(Transaction, MergeResult)> {
        let source = self.collect(source, clauses, options).await?;
        let Merged { staged, result, .. } = self.stage_merge(&source, clauses, options, false).await?;
        Ok((staged.change(self.snapshot(), Metadata::new())?.transaction, result))
    }

    /// What a merge of a source with these columns, those of the table without any, would do: a line for each step.
    ///
    /// Errors: those of [`Self::merge_insert`] that follow from the clauses and columns.
    pub fn explain_merge_insert(
        &self,
        clauses: &MergeClauses,
        source: Option<&ArrowSchema>,
    ) -> Result<String> {
        let mut table: Vec<_> = self.arrow_schema().fields().iter().cloned().collect();
        if self.merge_keys(&clauses.on)? == [plan::ROW_ID] {
            table.push(Arc::new(Field::new(plan::ROW_ID, DataType::UInt64, true)));
        }
        let table = ArrowSchema::new(table);
        let plan = Plan::new(self.snapshot(), clauses, source.unwrap_or(&table))?;
        Ok(plan.explain(self.snapshot(), |_| String::new()))
    }

    /// As [`Self::explain_merge_insert`], with what doing it cost: files are written, and removed again.
    pub async fn analyze_merge_insert(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<String> {
        let source = self.collect(source, clauses, options).await?;
        let Merged { staged, result, figures } = self.stage_merge(&source, clauses, options, false).await?;
        let written = staged.update.new_fragments.iter().flat_map(|f| &f.files);
        let (files, bytes) = written.fold((0, 0), |(n, bytes), file| (n + 1, bytes + file.size.unwrap_or(0)));
        staged.change(self.snapshot(), Metadata::new())?.discard().await;
        let Figures { plan, source_rows, spilled, target_rows, matches, join, write } = figures;
        let MergeResult { num_inserted_rows, num_updated_rows, num_deleted_rows } = result;
        Ok(plan.explain(self.snapshot(), |step| match step {
            Step::Merge => format!(
                ", elapsed={write:?}, metrics=[bytes_written={bytes}, num_files_written={files}, \
                 num_inserted_rows={num_inserted_rows}, num_updated_rows={num_updated_rows}, \
                 num_deleted_rows={num_deleted_rows}]"
            ),
            Step::Join => format!(", elapsed={join:?}, metrics=[output_rows={matches}]"),
            Step::Target => format!(", metrics=[table_rows={target_rows}]"),
            Step::Source => format!(", metrics=[output_rows={source_rows}, spilled={spilled}]"),
            Step::Take => format!(", metrics=[output_rows={num_updated_rows}]"),
            Step::Unmatched => String::new(),
        }))
    }

    /// Reads a source, once it is known that it fits.
    async fn collect(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<Arc<Source>> {
        options.file_version.map_or(Ok(()), check_writable)?;
        let snapshot = self.snapshot();
        Plan::new(snapshot, clauses, &source.schema())?;
        Placement::new(&snapshot.store, self.session(), &self.manifest().base_paths, &options.target)?;
        let limit = if options.source_in_memory { u64::MAX } else { options.memory_limit };
        let (token, _guard) = cancellation();
        Ok(Arc::new(crate::runtime::blocking(move || Source::collect(source, limit, &token)).await?))
    }

    /// Joins a source with this version and writes what comes of it; `commits`: whether that is committed right away.
    async fn stage_merge(
        &self,
        source: &Arc<Source>,
        clauses: &MergeClauses,
        options: &MergeOptions,
        commits: bool,
    ) -> Result<Merged> {
        let snapshot = self.snapshot();
        let plan = Arc::new(Plan::new(snapshot, clauses, &source.schema)?);
        let started = Stopwatch::start();
        let found = find(snapshot, &plan, source, options.memory_limit).await?;
        let deleted = delete_unmatched(snapshot, &plan, &found).await?;
        let join = started.elapsed();
        let started = Stopwatch::start();
        let matches = found.matches;
        let num_unmatched = deleted.values().map(DeletionVector::len).sum::<u64>();
        let mut result = MergeResult { num_deleted_rows: num_unmatched, ..MergeResult::default() };
        let pairs = u64::try_from(found.pairs.len()).unwrap_or(u64::MAX);
        match &plan.matched {
            Matched::Update(_) => result.num_updated_rows = pairs,
            Matched::Delete => result.num_deleted_rows += pairs,
            Matched::Nothing | Matched::Fail => {}
        }
        if plan.insert {
            result.num_inserted_rows = source.rows.saturating_sub(found.source.len());
        }
        let durability = self.durability();
        let in_place = match clauses.write_mode {
            MergeWriteMode::RewriteColumns => true,
            MergeWriteMode::RewriteRows => false,
            MergeWriteMode::Auto => columns::pays(snapshot, &plan, &found.pairs),
        };
        let staged = if in_place {
            columns::write(snapshot, &plan, source, found.pairs, options, commits, durability).await?
        } else {
            let moves = moves(snapshot, &plan, source, found, deleted, options.memory_limit).await?;
            let MergeOptions { file_version, target, .. } = options.clone();
            let create = CreateOptions { file_version, ..CreateOptions::default() };
            let commit = self.commit_options().clone();
            let params = WriteOptions { target, create, commit, ..WriteOptions::default() };
            moved::write(snapshot, moves, &params).await?
        };
        let figures = Figures {
            plan,
            source_rows: source.rows,
            spilled: source.is_spilled(),
            target_rows: snapshot.manifest.live_rows(),
            matches,
            join,
            write: started.elapsed(),
        };
        Ok(Merged { staged, result, figures })
    }
}

/// The pairs of rows that match.
async fn find(snapshot: &Arc<Snapshot>, plan: &Arc<Plan>, source: &Arc<Source>, limit: u64) -> Result<Found> {
    let (snapshot, plan, source) = (Arc::clone(snapshot), Arc::clone(plan), Arc::clone(source));
    let (token, _guard) = cancellation();
    crate::runtime::blocking(move || {
        let mut found = Found::new(&plan, source.rows, snapshot.manifest.live_rows());
        let columns = Columns::of(&plan);
        if plan.by_row_id {
            by_id::find(&snapshot, &plan, &columns, &source, &token, &mut found)?;
        } else {
            join::find(&snapshot, &plan, &columns, &source, limit, &token, &mut found)?;
        }
        found.check(&plan, &source)?;
        Ok(found)
    })
    .await
}

/// Rows that only the table has and that are to go.
async fn delete_unmatched(snapshot: &Arc<Snapshot>, plan: &Plan, found: &Found) -> Result<RowsByFragment> {
    let Some(predicate) = &plan.delete_unmatched else { return Ok(RowsByFragment::new()) };
    let matched = deletions::by_fragment(found.targets());
    let all = scan::matches(Arc::clone(snapshot), None, predicate.clone()).await?;
    let unmatched = all.into_iter().map(|(id, rows)| match matched.get(&id) {
        Some(matched) => (id, rows.difference(matched)),
        None => (id, rows),
    });
    Ok(unmatched.filter(|(_, rows)| !rows.is_empty()).collect())
}

/// What is written.
async fn moves(
    snapshot: &Arc<Snapshot>,
    plan: &Arc<Plan>,
    source: &Arc<Source>,
    found: Found,
    mut deleted: RowsByFragment,
    limit: u64,
) -> Result<Moves> {
    let (snapshot, plan, source) = (Arc::clone(snapshot), Arc::clone(plan), Arc::clone(source));
    crate::runtime::blocking(move || {
        let Found { mut pairs, source: matched, .. } = found;
        let schema = Arc::clone(snapshot.arrow_schema());
        let matched = Arc::new(matched);
        let rows = deletions::by_fragment(pairs.iter().map(|pair| pair.target));
        let mut moved = RowsByFragment::new();
        match &plan.matched {
            Matched::Update(_) => moved = rows,
            _ => {
                for (id, rows) in rows {
                    let all = deleted.get(&id).map_or_else(|| rows.clone(), |known| known.union(&rows));
                    deleted.insert(id, all);
                }
                pairs.clear();
            }
        }
        found::in_order_of_ids(&snapshot, &mut pairs)?;
        let order = pairs.iter().map(|pair| pair.source).collect();
        let addresses = pairs.into_iter().map(|pair| pair.target).collect();
        let ordered = Ordered::new(&source, order, limit)?;
        let mut replacement =
            Replacement { schema: Arc::clone(&schema), addresses, next: 0, source: ordered };
        let mut columns: Vec<String> = plan.missing.iter().map(|field| field.name.clone()).collect();
        columns.push("_rowaddr".to_owned());
        let (mut inserted, mut inserted_keys) = (None, None);
        if plan.insert && matched.len() < source.rows {
            if !plan.by_row_id {
                inserted_keys = inserted::keys(&plan, &Columns::of(&plan), &source, &matched)?;
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
    })
    .await
}
