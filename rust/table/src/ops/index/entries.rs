//! What goes into the files of a segment: sorted runs of values. So many bytes of them are kept in memory; when there are
//! more, those are merged into one run in a temporary file.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use pennon_core::{Error, Result};
use pennon_index::{RowSet, SortedPieces, SortedRun, merge_pieces, merge_runs};

use crate::spill::{BATCH_ROWS, Spilled, Writer};

/// Bytes of sorted runs that are kept in memory.
pub(super) const KEPT: usize = 512 << 20;

/// What goes into the files of a segment.
#[derive(Debug)]
pub(super) struct Entries {
    kept: Vec<SortedRun>,
    kept_bytes: usize,
    limit: usize,
    spilled: Vec<Spilled>,
    /// Of lists: the rows whose list is null.
    pub(super) null_lists: RowSet,
}

impl Entries {
    /// None, of which later so many bytes are kept in memory.
    pub(super) fn new(limit: usize) -> Self {
        let (kept, spilled) = (Vec::new(), Vec::new());
        Self { kept, kept_bytes: 0, limit, spilled, null_lists: RowSet::new() }
    }

    /// Adds a run. Blocks on a temporary file if there are too many bytes of them. Errors: `Store` if there is no room for
    /// it.
    pub(super) fn add(&mut self, run: SortedRun) -> Result<()> {
        self.kept_bytes += run.values().get_array_memory_size() + run.rows().get_array_memory_size();
        self.kept.push(run);
        if self.kept_bytes > self.limit { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let Some(first) = self.kept.first() else { return Ok(()) };
        let schema = Arc::new(Schema::new(vec![
            Field::new("values", first.values().data_type().clone(), true),
            Field::new("rows", DataType::UInt64, false),
        ]));
        let mut writer = Writer::new(&schema)?;
        merge_runs(&self.kept, BATCH_ROWS, &mut |run| {
            let columns = vec![Arc::clone(run.values()), Arc::new(run.rows().clone()) as _];
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
            writer.write(&batch.map_err(|e| Error::internal(format!("sorted values: {e}")))?)
        })?;
        self.spilled.push(writer.finish()?);
        self.kept.clear();
        self.kept_bytes = 0;
        Ok(())
    }

    /// Gives all values in one order, so many at a time. Blocks on temporary files.
    pub(super) fn merge(
        &self,
        batch_rows: usize,
        give: &mut dyn FnMut(SortedRun) -> Result<()>,
    ) -> Result<()> {
        let mut runs: Vec<SortedPieces<'_>> = Vec::with_capacity(self.kept.len() + self.spilled.len());
        for file in &self.spilled {
            runs.push(Box::new(file.read()?.map(|batch| run_of(&batch?))));
        }
        let kept = self.kept.iter();
        runs.extend(kept.map(|run| Box::new(std::iter::once(Ok(run.clone()))) as SortedPieces<'_>));
        merge_pieces(runs, batch_rows, give)
    }
}

#[cfg(test)]
impl Entries {
    pub(super) fn spilled_files(&self) -> usize {
        self.spilled.len()
    }
}

fn run_of(batch: &RecordBatch) -> Result<SortedRun> {
    let [values, rows] = batch.columns() else {
        return Err(Error::internal(format!("{} columns of sorted values", batch.num_columns())));
    };
    let rows = rows.as_primitive_opt::<UInt64Type>();
    let rows = rows.ok_or_else(|| Error::internal("rows are not uint64"))?;
    SortedRun::of_sorted(Arc::clone(values), rows.clone())
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, StringArray, UInt64Array};

    use super::*;

    /// All runs in memory, some of them, none: the same order.
    #[test]
    fn runs_that_do_not_fit_are_in_files() {
        let runs = |limit| {
            let mut entries = Entries::new(limit);
            for part in 0..7_u64 {
                let of_part = 0..20_000_u64;
                let text = |n: u64| (n % 11 != 3).then(|| format!("{:05}", (n * 7919 + part) % 9973));
                let values: ArrayRef = Arc::new(of_part.clone().map(text).collect::<StringArray>());
                let rows: UInt64Array = of_part.map(|n| n * 7 + part).collect();
                entries.add(SortedRun::sort(&values, &rows).unwrap()).unwrap();
            }
            entries
        };
        let merged = |entries: &Entries| {
            let mut all: Vec<(Option<String>, u64)> = Vec::new();
            entries
                .merge(3000, &mut |run| {
                    let values = run.values().as_string::<i32>().iter().map(|text| text.map(str::to_owned));
                    all.extend(values.zip(run.rows().values().iter().copied()));
                    Ok(())
                })
                .unwrap();
            assert!(all.is_sorted_by_key(|(value, _)| value.clone()));
            all.sort();
            all
        };
        let expected = merged(&runs(usize::MAX));
        assert_eq!(expected.len(), 140_000);
        for (limit, files) in [(0, 7), (1 << 20, 1)] {
            let entries = runs(limit);
            assert!(
                entries.spilled.len() >= files && entries.kept_bytes <= limit,
                "{}",
                entries.spilled.len()
            );
            assert_eq!(merged(&entries), expected);
        }
    }
}
