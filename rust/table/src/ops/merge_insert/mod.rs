//! Merge: a source of rows and a table are joined on keys, and each row is updated, inserted, deleted or left alone.
//!
//! | step | file |
//! |---|---|
//! | the steps as a chain, up to the commit | `pipeline.rs` |
//! | what is to be done, from clauses and schemas; pure | `plan.rs` |
//! | the source, read once and kept | `source.rs`, `../spill.rs` |
//! | pairs of rows with equal keys | `sides.rs`, `keys.rs`, `table.rs`, `join.rs` |
//! | the same where the key is the row id | `by_id.rs` |
//! | rows of the table that may match, by indices over keys | `by_index.rs` |
//! | the pairs that matter, and which rows matched | `found.rs` |
//! | rows to write | `rows.rs`; `columns.rs` where they keep their addresses |
//! | keys for conflict checks of concurrent merges | `inserted.rs` |
//! | a source in parts, written by several processes and committed by one | `parts.rs` |
//!
//! For the join only the key columns of the table and those of the condition are read; where an index over a key pays,
//! only of the rows that it finds. Other columns are read only of rows that need them: those that match, if the source
//! does not have the columns. Rows that are updated keep their ids; they are
//! written in the order of their ids, those that are inserted behind them. A merge that changes nothing makes a version
//! too.

mod by_id;
mod by_index;
mod columns;
mod found;
mod inserted;
mod join;
mod keys;
pub(crate) mod parts;
mod pipeline;
mod plan;
mod rows;
mod sides;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::iter::Sum;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use pennon_core::Result;
use pennon_core::file::FileVersion;
use pennon_core::transaction::Transaction;
pub use plan::{MergeClauses, MergeWriteMode, WhenMatched, WhenUnmatchedTarget};
use tracing::instrument;

use self::pipeline::{Figures, PlannedMerge, StagedMerge};
use self::plan::{MergePlan, Step};
use super::ConflictRetries;
use crate::dataset::Dataset;
use crate::write::{BatchReader, Target, table_types};

/// How a merge works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// What follows on conflicts with other writers.
    pub retries: ConflictRetries,
    /// Bytes that the source may take before it goes to a temporary file, and that keys in memory may take before
    /// both sides of the join do. Keys may take 64 KiB in any case: files of a few rows cost more than they save.
    pub memory_limit: u64,
    /// Whether the source is in memory anyway, so that it need not go to a file.
    pub source_in_memory: bool,
    /// Version of the new data files with values; `None`: the table's.
    pub file_version: Option<FileVersion>,
    /// Whether indices over key columns may find the rows that match.
    pub use_index: bool,
    /// Which roots new fragments are written to. Files with columns of fragments that exist lie below the table's own.
    pub target: Target,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            retries: ConflictRetries::default(),
            memory_limit: 512 << 20,
            source_in_memory: false,
            file_version: None,
            use_index: true,
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

impl MergeResult {
    /// All of them.
    pub fn num_rows(&self) -> u64 {
        self.num_inserted_rows + self.num_updated_rows + self.num_deleted_rows
    }
}

impl Sum for MergeResult {
    fn sum<I: Iterator<Item = Self>>(results: I) -> Self {
        results.fold(Self::default(), |all, other| Self {
            num_inserted_rows: all.num_inserted_rows + other.num_inserted_rows,
            num_updated_rows: all.num_updated_rows + other.num_updated_rows,
            num_deleted_rows: all.num_deleted_rows + other.num_deleted_rows,
        })
    }
}

impl Dataset {
    /// The names of key columns as the table has them; those of the declared primary key if none are given.
    ///
    /// Errors: `InvalidInput` for unknown columns and if there is no key.
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
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn merge_insert(
        &mut self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        let source = table_types::converted(source, self.snapshot().arrow_schema());
        let planned = PlannedMerge::new(self, clauses, options, &source.schema())?;
        let source = planned.read(source).await?;
        let attempt = |base: Self| {
            let (planned, source) = (&planned, &source);
            async move { planned.on(base, source)?.join(source).await?.stage(true).await?.commit().await }
        };
        self.retry(options.retries, attempt).await
    }

    /// Writes the files of [`Self::merge_insert`] and gives the transaction that would commit them on this version.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn merge_insert_uncommitted(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<(Transaction, MergeResult)> {
        let staged = self.stage_merge(source, clauses, options).await?;
        let result = staged.result;
        Ok((self.completed(staged.into_change()?.into_transaction().await?)?, result))
    }

    /// What a merge of a source with these columns, those of the table without any, would do: a line for each step.
    ///
    /// Errors: those of [`Self::merge_insert`] that follow from the clauses and columns.
    pub async fn explain_merge_insert(
        &self,
        clauses: &MergeClauses,
        source: Option<&ArrowSchema>,
        options: &MergeOptions,
    ) -> Result<String> {
        let mut table: Vec<_> = self.arrow_schema().fields().iter().cloned().collect();
        if self.merge_keys(&clauses.on)? == [plan::ROW_ID] {
            table.push(Arc::new(Field::new(plan::ROW_ID, DataType::UInt64, true)));
        }
        let table = ArrowSchema::new(table);
        let source = table_types::converted_schema(source.unwrap_or(&table), self.snapshot().arrow_schema());
        let plan = MergePlan::new(self.snapshot(), clauses, &source)?;
        let indices = if options.use_index { by_index::explain(self.snapshot(), &plan).await? } else { None };
        Ok(plan.explain(self.snapshot(), indices.as_deref(), |_| String::new()))
    }

    /// As [`Self::explain_merge_insert`], with what doing it cost: files are written, and removed again.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn analyze_merge_insert(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<String> {
        let staged = self.stage_merge(source, clauses, options).await?;
        let (files, bytes) = staged.new_files();
        let MergeResult { num_inserted_rows, num_updated_rows, num_deleted_rows } = staged.result;
        let (figures, change) = staged.into_parts()?;
        change.discard().await;
        let Figures { plan, source_rows, spilled, target_rows, by_index, matches, join, write } = figures;
        Ok(plan.explain(self.snapshot(), by_index.as_deref(), |step| match step {
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

    /// Reads a source, joins it with this version and writes the files, none of which is committed.
    async fn stage_merge(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
    ) -> Result<StagedMerge> {
        let source = table_types::converted(source, self.snapshot().arrow_schema());
        let planned = PlannedMerge::new(self, clauses, options, &source.schema())?;
        let source = planned.read(source).await?;
        planned.join(&source).await?.stage(false).await
    }
}
