//! A merge whose source is divided: each part is joined and written in some process, and one commits them all.
//!
//! Rows of the source with equal keys must be in one part. Then every row of the table matches in one part at most, so
//! what the parts find can be put together; if it cannot, two parts changed one row.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema as ArrowSchema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::schema::Metadata;
use pennon_core::transaction::KeyFilter;
use pennon_core::{Error, Result};

use super::pipeline::{PlannedMerge, unmatched_target};
use super::plan::MergePlan;
use super::sides::{JoinColumns, column};
use super::{MergeClauses, MergeOptions, MergeResult, MergeWriteMode, plan};
use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::inserted_keys::{self, not_null};
use crate::write::moved::{self, WrittenMoves};
use crate::write::{BatchReader, WriteOptions, WrittenFragments, deletions, table_types};

/// What was found and written of one part.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MergedPart {
    /// Rows of the table that match, if rows that only the table has are deleted.
    pub(crate) matched: RowsByFragment,
    /// Keys that are inserted.
    pub(crate) inserted_keys: Option<KeyFilter>,
    /// Numbers of rows, without those that only the table has.
    pub(crate) counts: MergeResult,
}

/// Errors: those of a merge that follow from its clauses and columns; `InvalidInput` for one that rewrites columns.
pub(crate) fn check_merge(snapshot: &Snapshot, clauses: &MergeClauses, source: &ArrowSchema) -> Result<()> {
    if clauses.write_mode == MergeWriteMode::RewriteColumns {
        return Err(Error::invalid_input(
            "A merge that processes share writes whole rows: write_mode 'rewrite_columns' was asked for",
        ));
    }
    plan_of(snapshot, clauses, source).map(drop)
}

/// The rows of a source whose keys belong to one of so many parts: the same for whoever asks.
///
/// Errors: those of [`check_merge`]; reading it gives errors for keys that cannot be hashed.
pub(crate) fn part_of(
    snapshot: &Snapshot,
    clauses: &MergeClauses,
    source: BatchReader,
    number: usize,
    of: usize,
) -> Result<BatchReader> {
    let plan = plan_of(snapshot, clauses, &source.schema())?;
    let keys = (!plan.by_row_id).then(|| JoinColumns::of(&plan));
    Ok(Box::new(PartOf { source, keys, number, of: of.max(1) }))
}

/// What a merge of a source with these columns does.
fn plan_of(snapshot: &Snapshot, clauses: &MergeClauses, source: &ArrowSchema) -> Result<MergePlan> {
    MergePlan::new(snapshot, clauses, &table_types::converted_schema(source, snapshot.arrow_schema()))
}

struct PartOf {
    source: BatchReader,
    /// Those of the table; `None` if the key is the row id.
    keys: Option<JoinColumns>,
    number: usize,
    of: usize,
}

impl PartOf {
    fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keys = match &self.keys {
            Some(keys) => keys.keys_of(batch)?,
            None => vec![column(batch, plan::ROW_ID)?],
        };
        let of = u64::try_from(self.of).unwrap_or(u64::MAX);
        let not_null = not_null(&keys);
        let hashes = inserted_keys::hashes_of(&keys, 0..batch.num_rows())?;
        // What lies under a null may differ from one reader of the source to the next.
        let part = |(row, hash): (usize, u64)| match &not_null {
            Some(not_null) if !not_null.is_valid(row) => 0,
            _ => hash % of,
        };
        let parts = hashes.into_iter().enumerate().map(part);
        let mine = parts.map(|part| usize::try_from(part).is_ok_and(|part| part == self.number));
        let mine = BooleanArray::from(mine.collect::<Vec<bool>>());
        filter_record_batch(batch, &mine)
            .map_err(|e| Error::internal(format!("the rows of part {}: {e}", self.number)))
    }
}

impl Iterator for PartOf {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.source.next()?;
        let rows = |batch| self.rows(&batch).map_err(|e| ArrowError::ExternalError(Box::new(e)));
        Some(batch.and_then(rows))
    }
}

impl RecordBatchReader for PartOf {
    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }
}

impl Dataset {
    /// Joins a part of a source with this version and writes its rows to new fragments: the rows of the table that go or
    /// go on in them, what else was found, and the fragments. `shares`: the number of parts.
    ///
    /// Errors: those of [`Self::merge_insert`] about rows and columns. Files that were written are removed then.
    pub(crate) async fn write_merged(
        &self,
        source: BatchReader,
        clauses: &MergeClauses,
        options: &MergeOptions,
        params: &WriteOptions,
        shares: usize,
    ) -> Result<(RowsByFragment, MergedPart, WrittenFragments)> {
        let source = table_types::converted(source, self.snapshot().arrow_schema());
        let planned = PlannedMerge::new(self, clauses, options, &source.schema())?;
        let source = planned.read(source).await?;
        let joined = planned.join_part(&source).await?;
        let (rows, matched, counts) = (joined.affected(), joined.targets(), joined.result());
        let (written, inserted_keys) = joined.write_part(params, shares).await?;
        Ok((rows, MergedPart { matched, inserted_keys, counts }, written))
    }

    /// Commits all parts, and moves to the new version. Their files stay whatever becomes of the commit. Idempotent by
    /// uuid.
    ///
    /// Errors: `InvalidInput` if two parts changed one row; those of a commit.
    pub(crate) async fn commit_merged(
        &mut self,
        clauses: &MergeClauses,
        source: &ArrowSchema,
        parts: Vec<(RowsByFragment, MergedPart, WrittenFragments)>,
        uuid: String,
        properties: Metadata,
    ) -> Result<MergeResult> {
        let base = Arc::clone(self.snapshot());
        let plan = plan_of(&base, clauses, source)?;
        let mut rows = RowsByFragment::new();
        let mut counts = MergeResult::default();
        let (mut matched, mut keys, mut fragments) = (RowsByFragment::new(), Vec::new(), Vec::new());
        for (part_rows, part, written) in parts {
            deletions::add_disjoint(&mut rows, part_rows).map_err(|e| {
                e.at("Ambiguous merge inserts are prohibited: rows of the source with equal keys must be in one task")
            })?;
            part.matched
                .iter()
                .for_each(|(id, part_matched)| deletions::add(&mut matched, *id, part_matched));
            keys.extend(part.inserted_keys);
            fragments.extend(written.fragments);
            counts = [counts, part.counts].into_iter().sum();
        }
        if let Some(predicate) = &plan.delete_unmatched {
            let unmatched = unmatched_target(&base, predicate, &matched).await?;
            counts.num_deleted_rows += unmatched.values().map(DeletionVector::len).sum::<u64>();
            unmatched.iter().for_each(|(id, unmatched)| deletions::add(&mut rows, *id, unmatched));
        }
        let fields = moved::with_members(plan.changed());
        let inserted_keys = inserted_keys::union(keys);
        let moves = WrittenMoves { rows, new_fragments: fragments, fields, inserted_keys };
        self.commit_moves(moves, uuid, properties).await?;
        Ok(counts)
    }
}
