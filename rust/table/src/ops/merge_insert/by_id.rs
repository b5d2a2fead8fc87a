//! Matches where the key is the row id: found by the index of row ids, without reading a column.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use pennon_core::lengths::to_u64;
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId};

use super::found::JoinResult;
use super::join::{PAIR_BYTES, PAIRS};
use super::plan::{MergePlan, ROW_ID};
use super::sides::{JoinColumns, column};
use super::source::MergeSource;
use crate::batches::{row_bytes, rows_within};
use crate::runtime::{CancellationToken, check, wait_for};
use crate::scan::{self, JsonHandling, Projection, TakeOptions, TakeRows};
use crate::versions::snapshot::Snapshot;

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
        let mut left = pairs.as_slice();
        while !left.is_empty() {
            let at_once = match plan.condition() {
                Some(_) => pairs_at_once(snapshot, columns, &batch, left),
                None => left.len(),
            };
            let (pairs, later) = left.split_at(at_once);
            left = later;
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

/// How many of some pairs the condition is evaluated for at once.
fn pairs_at_once(
    snapshot: &Snapshot,
    columns: &JoinColumns,
    source: &RecordBatch,
    pairs: &[(u32, RowAddress)],
) -> usize {
    let pairs = pairs.get(..PAIRS).unwrap_or(pairs);
    let manifest = &snapshot.manifest;
    let fields = columns.of_target().iter().filter_map(|name| manifest.schema.field_by_path(name));
    let fields: Vec<Field> = fields.cloned().collect();
    let fragments: BTreeSet<FragmentId> = pairs.iter().map(|(_, address)| address.fragment()).collect();
    let fragments: Vec<_> = fragments.into_iter().filter_map(|id| manifest.fragment(id)).collect();
    let of_target = scan::stored_row_bytes(&fragments, &fields);
    let sizes = pairs.iter().map(|(row, _)| {
        let of_source = usize::try_from(*row).map_or(0, |row| row_bytes(source, row));
        of_target.saturating_add(of_source)
    });
    rows_within(PAIR_BYTES, sizes)
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
    let target = wait_for(scan::take(Arc::clone(snapshot), addresses, &options))?;
    if to_u64(target.num_rows()) != to_u64(source.num_rows()) {
        return Err(Error::internal("rows that match were deleted"));
    }
    columns.condition_input(&source, &target)
}
