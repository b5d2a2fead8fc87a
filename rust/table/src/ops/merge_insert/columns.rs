//! Matched rows that keep their addresses: new files with the changed columns for the fragments that have them.
//!
//! All rows of a fragment are written, but of the changed columns only; the other columns are neither read nor written.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, Schema as ArrowSchema};
use arrow_select::take::take;
use pennon_core::lengths::to_u64;
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, FragmentId, Result};

use super::MergeOptions;
use super::found::Pair;
use super::plan::MergePlan;
use super::rows::Ordered;
use super::sides::column;
use super::source::MergeSource;
use crate::batches::{first_rows_within, interleave_arrays};
use crate::scan::{JsonHandling, Projection, ROW_ADDRESS, Scan, ScanOptions};
use crate::store::Durability;
use crate::versions::snapshot::Snapshot;
use crate::write::columns::{self, ColumnFiles};
use crate::write::deletions;
use crate::write::in_place::RowsInPlace;
use crate::write::members::{complete, keeps_members};
use crate::write::moved::Staged;

/// Whether this costs less than whole rows in new fragments: values that are read and written, in bytes.
///
/// Whole rows: the columns that the source does not have are read, and all are written. Columns: those of the source
/// are read and written for all rows of the fragments. What reading later costs where a row lies is left out; it speaks
/// for columns.
pub(super) fn pays(snapshot: &Snapshot, plan: &MergePlan, pairs: &[Pair]) -> bool {
    if plan.check_columns_mode().is_err() {
        return false;
    }
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    for id in touched(pairs).keys() {
        let Some(fragment) = snapshot.manifest.fragment(*id) else { continue };
        rows = rows.saturating_add(fragment.physical_rows);
        bytes = bytes.saturating_add(fragment.files.iter().filter_map(|file| file.size).sum());
    }
    let share = |count: usize| {
        let leaves = plan.given.len() + plan.missing.len();
        bytes.saturating_mul(u64::try_from(count).unwrap_or(u64::MAX))
            / u64::try_from(leaves.max(1)).unwrap_or(1)
    };
    let matched = u64::try_from(pairs.len()).unwrap_or(u64::MAX);
    let of_matched =
        |bytes: u64| u64::try_from(u128::from(bytes) * u128::from(matched) / u128::from(rows.max(1)));
    let rows_cost = of_matched(bytes.saturating_add(share(plan.missing.len()))).unwrap_or(u64::MAX);
    let columns = share(plan.changed().count()).saturating_mul(2);
    columns < rows_cost
}

/// Pairs by fragment; they are in the order of addresses.
fn touched(pairs: &[Pair]) -> BTreeMap<FragmentId, &[Pair]> {
    let parts = pairs.chunk_by(|a, b| a.target.fragment() == b.target.fragment());
    parts.filter_map(|part| Some((part.first()?.target.fragment(), part))).collect()
}

/// Writes the files for pairs in the order of their addresses; `commits`: whether the merge is committed right away.
pub(super) async fn write(
    snapshot: &Arc<Snapshot>,
    plan: &MergePlan,
    source: &Arc<MergeSource>,
    pairs: Vec<Pair>,
    options: &MergeOptions,
    commits: bool,
    durability: Durability,
) -> Result<Staged> {
    let ids: Vec<FragmentId> = touched(&pairs).into_keys().collect();
    let rows = deletions::by_fragment(pairs.iter().map(|pair| pair.target));
    let fields: Vec<_> = plan.changed().cloned().collect();
    let &MergeOptions { memory_limit: limit, file_version, .. } = options;
    let options = ScanOptions {
        columns: Some(Projection::Names(fields.iter().map(|field| field.name.clone()).collect())),
        with_row_address: true,
        fragments: Some(ids.into_iter().map(Into::into).collect()),
        json: JsonHandling::Stored,
        ..ScanOptions::default()
    };
    let mut old = columns::values(Scan::new(Arc::clone(snapshot), &options)?.stream());
    let schema = Schema { fields, metadata: Default::default() };
    let changed = schema.clone();
    let source = Arc::clone(source);
    let mut patch = crate::runtime::blocking(move || {
        let given = Ordered::new(&source, pairs.iter().map(|pair| pair.source).collect(), limit)?;
        Ok(Patch { pairs, next: 0, given, schema: changed })
    })
    .await?;
    let mut rest: Option<RecordBatch> = None;
    let values = Box::new(std::iter::from_fn(move || {
        let batch = match rest.take() {
            Some(batch) => Ok(batch),
            None => old.next()?,
        };
        let changed = batch.and_then(|batch| {
            let changed = patch.apply(&batch)?;
            let (done, all) = (changed.num_rows(), batch.num_rows());
            rest = (done < all).then(|| batch.slice(done, all - done));
            Ok(changed)
        });
        Some(changed)
    }));
    let in_place = if commits { RowsInPlace::of(snapshot, &rows)? } else { None };
    let columns = ColumnFiles { schema, file_version, in_place, ..ColumnFiles::default() };
    columns::stage(snapshot, &rows, columns, values, durability).await
}

/// Puts values of the source into columns of the table.
struct Patch {
    /// In the order of their addresses.
    pairs: Vec<Pair>,
    next: usize,
    given: Ordered,
    /// The columns that change.
    schema: Schema,
}

impl Patch {
    /// The first rows with the new values of those that match; of them and of the new values as many as make a piece.
    fn apply(&mut self, old: &RecordBatch) -> Result<RecordBatch> {
        let addresses = column(old, ROW_ADDRESS)?;
        let addresses = addresses
            .as_primitive_opt::<UInt64Type>()
            .ok_or_else(|| Error::internal("row addresses that are no numbers"))?;
        let mut rows = first_rows_within(self.given.piece_bytes, old);
        let mut matches = Vec::new();
        for (row, address) in addresses.values().iter().take(rows).enumerate() {
            let pair = self.pairs.get(self.next + matches.len());
            matches.extend(pair.filter(|pair| pair.target.0 == *address).map(|_| row));
        }
        let given = self.given.next_rows(matches.len())?;
        // The values of the next match are in the next piece.
        rows = matches.get(given.num_rows()).copied().unwrap_or(rows);
        matches.truncate(given.num_rows());
        self.next += matches.len();
        let old = old.slice(0, rows);
        let mut picks: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
        for (at, row) in matches.iter().enumerate() {
            if let Some(pick) = picks.get_mut(*row) {
                *pick = (1, at);
            }
        }
        let matches: Vec<u64> = matches.into_iter().map(to_u64).collect();
        let matches = UInt64Array::from(matches);
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for field in &self.schema.fields {
            let (old, new) = (column(&old, &field.name)?, column(&given, &field.name)?);
            let both = patched(field, &old, &new, &matches, &picks);
            let both = both.map_err(|e| Error::invalid_input(format!("column {}: {e}", field.name)))?;
            // The writer checks nulls later, with the path of the column.
            fields.push(field.to_arrow().with_data_type(both.data_type().clone()).with_nullable(true));
            columns.push(both);
        }
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)
            .map_err(|e| Error::internal(format!("changed columns: {e}")))
    }
}

/// A column with new values in the rows that match; `picks`: for each row whether its value is new, and where it is.
fn patched(
    field: &Field,
    old: &ArrayRef,
    new: &ArrayRef,
    matches: &UInt64Array,
    picks: &[(usize, usize)],
) -> Result<ArrayRef, ArrowError> {
    let mut new = if keeps_members(field, new.data_type()) {
        complete(field, new, Some(&take(old, matches, None)?))?
    } else {
        complete(field, new, None)?
    };
    if new.data_type() != old.data_type() {
        new = arrow_cast::cast(&new, old.data_type())?;
    }
    let failed = |error| Error::internal(format!("old and new values: {error}"));
    interleave_arrays(&[Arc::clone(old), new], picks, failed)
        .map_err(|e| ArrowError::ExternalError(Box::new(e)))
}
