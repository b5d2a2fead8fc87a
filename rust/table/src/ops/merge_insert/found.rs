//! What a join found: the pairs that matter, and which rows matched at all.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result, RowAddress};
use roaring::RoaringTreemap;

use super::plan::{Matched, MergePlan, ROW_ID};
use super::source::MergeSource;
use crate::scan;
use crate::versions::snapshot::Snapshot;

/// A row of the table and the row of the source that matches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) target: RowAddress,
    pub(super) source: u64,
}

/// Which rows of a source match: a bit for each.
pub(super) struct MatchedRows(Vec<u64>);

impl MatchedRows {
    /// None of so many rows yet.
    pub(super) fn new(rows: u64) -> Self {
        Self(vec![0; usize::try_from(rows.div_ceil(64)).unwrap_or(usize::MAX)])
    }

    /// Has no effect on a row that the source does not have.
    pub(super) fn insert(&mut self, row: u64) {
        if let Some(word) = usize::try_from(row / 64).ok().and_then(|word| self.0.get_mut(word)) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn contains(&self, row: u64) -> bool {
        let word = usize::try_from(row / 64).ok().and_then(|word| self.0.get(word));
        word.is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// How many they are.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Matches of a merge.
pub(super) struct JoinResult {
    /// Pairs that are updated or deleted.
    pub(super) pairs: Vec<Pair>,
    /// Rows of the source that match, if that matters.
    pub(super) source: MatchedRows,
    /// Rows of the table that match, if that matters.
    target: RoaringTreemap,
    /// All pairs, those for which the condition does not hold too.
    pub(super) matches: u64,
    /// The indices that found the keys.
    pub(super) by_index: Option<String>,
    wanted: Wanted,
    /// Rows of the table: more pairs than these are ambiguous.
    table_rows: usize,
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    pairs: bool,
    target: bool,
    none: bool,
}

impl JoinResult {
    pub(super) fn new(plan: &MergePlan, source_rows: u64, table_rows: u64) -> Self {
        let wanted = Wanted {
            pairs: matches!(plan.matched, Matched::Update(_) | Matched::Delete),
            target: plan.delete_unmatched.is_some(),
            none: matches!(plan.matched, Matched::Fail),
        };
        let table_rows = usize::try_from(table_rows).unwrap_or(usize::MAX);
        let source = MatchedRows::new(if plan.insert { source_rows } else { 0 });
        Self {
            pairs: Vec::new(),
            source,
            target: RoaringTreemap::new(),
            matches: 0,
            by_index: None,
            wanted,
            table_rows,
        }
    }

    /// Notes a pair of rows with equal keys; says whether to continue.
    pub(super) fn add(&mut self, source: u64, target: u64, passes: bool) -> bool {
        self.matches += 1;
        self.source.insert(source);
        if self.wanted.target {
            self.target.insert(target);
        }
        if self.wanted.none || (self.wanted.pairs && passes) {
            self.pairs.push(Pair { target: RowAddress(target), source });
        }
        !self.wanted.none && self.pairs.len() <= self.table_rows
    }

    /// The rows of the table that match.
    pub(super) fn targets(&self) -> impl Iterator<Item = RowAddress> + '_ {
        self.target.iter().map(RowAddress)
    }

    /// Errors: `InvalidInput` if a row of the table has two rows of the source, or one where it must not.
    pub(super) fn check(&mut self, plan: &MergePlan, source: &MergeSource) -> Result<()> {
        if let Some(pair) = self.pairs.first().filter(|_| self.wanted.none) {
            return Err(Error::invalid_input(format!(
                "Merge insert failed: found matching row with key values: {}",
                key_of(plan, source, pair.source)?
            )));
        }
        self.pairs.sort_unstable_by_key(|pair| (pair.target, pair.source));
        let mut neighbours = self.pairs.windows(2);
        if let Some([_, duplicate]) = neighbours.find(|pair| matches!(pair, [a, b] if a.target == b.target)) {
            return Err(Error::repeated_row(format!(
                "Ambiguous merge inserts are prohibited: multiple source rows match the same target row on ({}). \
                 Please ensure each target row is matched by at most one source row.",
                key_of(plan, source, duplicate.source)?
            )));
        }
        Ok(())
    }
}

/// The key of a row of the source, for messages.
fn key_of(plan: &MergePlan, source: &MergeSource, row: u64) -> Result<String> {
    let mut names: Vec<&str> = plan.on.iter().map(|field| field.name.as_str()).collect();
    if plan.by_row_id {
        names.push(ROW_ID);
    }
    for numbered in source.batches()? {
        let (first, batch) = numbered?;
        if row < first + to_u64(batch.num_rows()) {
            let at = usize::try_from(row - first).unwrap_or(usize::MAX);
            let values = names.iter().map(|name| format!("{name} = {}", value(&batch, name, at)));
            return Ok(values.collect::<Vec<_>>().join(", "));
        }
    }
    Err(Error::internal(format!("row {row} of the source is not there")))
}

fn value(batch: &RecordBatch, name: &str, row: usize) -> String {
    let column = batch.column_by_name(name);
    let options = FormatOptions::default().with_null("null");
    let formatter = column.and_then(|column| ArrayFormatter::try_new(column.as_ref(), &options).ok());
    formatter.map_or_else(|| "?".to_owned(), |formatter| formatter.value(row).to_string())
}

/// Puts pairs, which are in the order of their addresses, in that of their row ids, if there are stable ones.
pub(super) fn in_order_of_ids(snapshot: &Arc<Snapshot>, pairs: &mut Vec<Pair>) -> Result<()> {
    if pairs.is_empty() || !snapshot.manifest.has_stable_row_ids() {
        return Ok(());
    }
    let addresses: Vec<RowAddress> = pairs.iter().map(|pair| pair.target).collect();
    let ids = scan::row_id_index(snapshot)?.index.row_ids(&addresses)?;
    if ids.is_sorted() {
        return Ok(());
    }
    let mut by_id: Vec<_> = ids.into_iter().zip(std::mem::take(pairs)).collect();
    by_id.sort_unstable_by_key(|(id, _)| *id);
    pairs.extend(by_id.into_iter().map(|(_, pair)| pair));
    Ok(())
}
