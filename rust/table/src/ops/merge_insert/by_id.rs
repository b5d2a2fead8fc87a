//! Matches where the key is the row id: found by the index of row ids, without reading a column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result, RowAddress, RowId};
use tokio::runtime::Handle;

use super::found::JoinResult;
use super::plan::{MergePlan, ROW_ID};
use super::sides::{JoinColumns, column};
use super::source::MergeSource;
use crate::runtime::{CancellationToken, check};
use crate::scan::{self, JsonHandling, Projection, TakeOptions, TakeRows};
use crate::versions::snapshot::Snapshot;

/// Pairs of rows a condition is evaluated for at once.
const PAIRS: usize = 16 << 10;

/// Finds the rows of the table that have the ids of a source; a null is not an id.
///
/// Errors: `InvalidInput` if rows would be inserted for ids that the version does not have: the id of a new row cannot
/// be chosen.
pub(super) fn find(
    snapshot: &Arc<Snapshot>,
    plan: &MergePlan,
    columns: &JoinColumns,
    source: &MergeSource,
    token: &CancellationToken,
    found: &mut JoinResult,
) -> Result<()> {
    let mut unknown: (u64, Option<u64>) = (0, None);
    for numbered in source.batches()? {
        check(token)?;
        let (first, batch) = numbered?;
        let ids = column(&batch, ROW_ID)?;
        let ids = ids.as_primitive_opt::<UInt64Type>();
        let ids = ids.ok_or_else(|| Error::internal("row ids that are no numbers"))?;
        let wanted: Vec<(u32, RowId)> =
            (0..).zip(ids.iter()).filter_map(|(row, id)| Some((row, RowId(id?)))).collect();
        let addresses = scan::find_ids(snapshot, &wanted.iter().map(|(_, id)| *id).collect::<Vec<_>>())?;
        let mut pairs = Vec::with_capacity(addresses.len());
        for ((row, id), address) in wanted.into_iter().zip(addresses) {
            match address {
                Some(address) => pairs.push((row, address)),
                None => unknown = (unknown.0 + 1, unknown.1.or(Some(id.0))),
            }
        }
        for pairs in pairs.chunks(PAIRS) {
            let passes = match plan.condition() {
                Some(condition) => {
                    Some(condition.evaluate_mask(&condition_input(snapshot, columns, &batch, pairs)?)?)
                }
                None => None,
            };
            for (at, (row, address)) in pairs.iter().enumerate() {
                let passes = passes.as_ref().is_none_or(|mask| mask.value(at));
                if !found.add(first + u64::from(*row), address.0, passes) {
                    return Ok(());
                }
            }
        }
    }
    match unknown {
        (count, Some(id)) if plan.insert => Err(Error::invalid_input(format!(
            "{count} row ids of the source are not in version {}, the first is {id}; new rows are inserted for null \
             ids only",
            snapshot.version()
        ))),
        _ => Ok(()),
    }
}

/// The columns of the condition, for pairs of rows.
fn condition_input(
    snapshot: &Arc<Snapshot>,
    columns: &JoinColumns,
    source: &RecordBatch,
    pairs: &[(u32, RowAddress)],
) -> Result<RecordBatch> {
    let rows = UInt32Array::from_iter_values(pairs.iter().map(|(row, _)| *row));
    let source = take_record_batch(source, &rows).map_err(|e| Error::internal(e.to_string()))?;
    let addresses = TakeRows::Addresses(pairs.iter().map(|(_, address)| *address).collect());
    let names = Projection::Names(columns.of_target().to_vec());
    let options = TakeOptions { columns: Some(names), json: JsonHandling::Stored, ..TakeOptions::default() };
    let target = Handle::current().block_on(scan::take(Arc::clone(snapshot), addresses, &options))?;
    if to_u64(target.num_rows()) != to_u64(source.num_rows()) {
        return Err(Error::internal("rows that match were deleted"));
    }
    columns.condition_input(&source, &target)
}
