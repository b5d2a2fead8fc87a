//! The columns of rows of one fragment, read by one thread or shared among the cores.

use arrow_array::{ArrayRef, RecordBatch};
use pennon_core::Result;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;

use super::fragment::FragmentReader;
use super::projection::{Input, input_batch};
use super::units::array_rows;
use crate::runtime::{concurrently, processors};

/// Fewer rows are read faster than a thread starts.
const SHARED_ROWS: usize = 256;
/// Fewer rows of a remote table are decoded faster than the requests of another thread take.
const REMOTE_SHARED_ROWS: usize = 16 << 10;

impl Input {
    /// The columns of live rows of a fragment, the rows of all ranges one after another. Blocks on the store.
    pub(crate) fn read(&self, fragment: &FragmentReader, ranges: &RowRanges) -> Result<RecordBatch> {
        let all = vec![true; self.schema.fields().len()];
        let mut arrays = vec![None; all.len()];
        read_columns(fragment, self, ranges, &all, false, &mut arrays)?;
        input_batch(self, &arrays, array_rows(ranges)?)
    }

    /// As [`Self::read`], with the columns shared among the cores: for whoever reads one batch at a time.
    pub(crate) fn read_concurrently(
        &self,
        fragment: &FragmentReader,
        ranges: &RowRanges,
    ) -> Result<RecordBatch> {
        let needed = vec![true; self.schema.fields().len()];
        let arrays = read_concurrently(fragment, self, ranges, &needed, false)?;
        input_batch(self, &arrays, array_rows(ranges)?)
    }
}

/// The needed columns, shared among the cores if they have many rows.
pub(super) fn read_concurrently(
    fragment: &FragmentReader,
    input: &Input,
    ranges: &RowRanges,
    needed: &[bool],
    deleted: bool,
) -> Result<Vec<Option<ArrayRef>>> {
    let columns = needed.iter().filter(|needed| **needed).count();
    let threads = processors().min(columns);
    let few = if fragment.store().is_local() { SHARED_ROWS } else { REMOTE_SHARED_ROWS };
    if threads < 2 || array_rows(ranges)? < few {
        let mut arrays = vec![None; needed.len()];
        read_columns(fragment, input, ranges, needed, deleted, &mut arrays)?;
        return Ok(arrays);
    }
    let share = |thread: usize| {
        let mut before = 0..;
        let mut mine = |needed: &bool| *needed && before.next().is_some_and(|at| at % threads == thread);
        let needed: Vec<bool> = needed.iter().map(&mut mine).collect();
        let mut arrays = vec![None; needed.len()];
        read_columns(fragment, input, ranges, &needed, deleted, &mut arrays)?;
        Ok(arrays)
    };
    let mut all = vec![None; needed.len()];
    for arrays in concurrently(threads, share)? {
        for (slot, array) in all.iter_mut().zip(arrays) {
            *slot = slot.take().or(array);
        }
    }
    Ok(all)
}

/// Reads the needed columns that are not there yet.
pub(super) fn read_columns(
    fragment: &FragmentReader,
    input: &Input,
    ranges: &RowRanges,
    needed: &[bool],
    deleted: bool,
    arrays: &mut [Option<ArrayRef>],
) -> Result<()> {
    let missing: Vec<usize> = needed
        .iter()
        .zip(arrays.iter())
        .enumerate()
        .filter(|(_, (needed, array))| **needed && array.is_none())
        .map(|(at, _)| at)
        .collect();
    let stored: Vec<usize> = missing.iter().copied().filter(|&at| at < input.fields.len()).collect();
    let fields: Vec<&Field> = stored.iter().filter_map(|&at| input.fields.get(at)).collect();
    let read = if fields.is_empty() { Vec::new() } else { fragment.read(&fields, ranges)? };
    for (at, array) in stored.into_iter().zip(read) {
        if let Some(slot) = arrays.get_mut(at) {
            *slot = Some(array);
        }
    }
    for at in missing {
        let system = at.checked_sub(input.fields.len()).and_then(|i| input.system.get(i));
        if let (Some(&system), Some(slot)) = (system, arrays.get_mut(at)) {
            *slot = Some(fragment.system(system, ranges, deleted)?);
        }
    }
    Ok(())
}
