//! The rows a filter matches, and where they may be: what a delete needs, here and on the workers of a cluster.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::{StreamExt, TryStreamExt};
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::{Error, FragmentId, Result, RowAddress};
use roaring::RoaringBitmap;

use super::execute::Execution;
use super::narrow;
use super::plan::ScanPlan;
use super::stream::groups;
use super::{BlobHandling, Filter, FragmentSlice, Projection, Scan, ScanOptions};
use crate::expr::Expression;
use crate::runtime::blocking;
use crate::versions::snapshot::Snapshot;

/// Fragments whose files are opened, at most, before a job is divided.
const FRAGMENTS_OF_SPANS: usize = 1 << 10;

/// The rows for which a predicate is true, of the whole table or of parts of it. An index that cannot be read is an error
/// if `strict_indices`.
///
/// Errors: `InvalidInput` for a fragment or rows that are not there, and when a value cannot be computed; what reading
/// gives.
pub async fn matches(
    snapshot: Arc<Snapshot>,
    slices: Option<Vec<FragmentSlice>>,
    predicate: Expression,
    strict_indices: bool,
) -> Result<RowsByFragment> {
    let options = ScanOptions { fragments: slices, strict_indices, unordered: true, ..filtered(predicate) };
    let mut batches = Scan::new(snapshot, &options)?.stream();
    let mut found = BTreeMap::<FragmentId, RoaringBitmap>::new();
    while let Some(batch) = batches.try_next().await? {
        let addresses = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let addresses = addresses.ok_or_else(|| Error::internal("a scan gives no addresses"))?;
        let fragment = |address: &u64| RowAddress(*address).fragment();
        for rows in addresses.values().chunk_by(|a, b| fragment(a) == fragment(b)) {
            let offsets = rows.iter().map(|address| RowAddress(*address).offset());
            if let Some(first) = rows.first() {
                found.entry(fragment(first)).or_default().extend(offsets);
            }
        }
    }
    Ok(found.into_iter().map(|(id, rows)| (id, DeletionVector::from_roaring(rows))).collect())
}

/// Addresses of the rows that a predicate over columns of the table and system columns matches.
fn filtered(predicate: Expression) -> ScanOptions {
    ScanOptions {
        columns: Some(Projection::Names(Vec::new())),
        with_row_address: true,
        filter: Some(Filter::Expression(predicate)),
        blobs: BlobHandling::Descriptions,
        ..ScanOptions::default()
    }
}

/// For each fragment the smallest range of positions among its live rows that is known to have every row that the filter
/// can match, by statistics and lineage; fragments without such rows are left out. All rows where statistics cannot be
/// read. `None` if too many files would be opened, or if the filter depends on the time.
pub(crate) async fn spans(
    snapshot: &Arc<Snapshot>,
    predicate: Expression,
) -> Result<Option<BTreeMap<FragmentId, Range<u64>>>> {
    let plan = Arc::new(ScanPlan::new(Arc::clone(snapshot), &filtered(predicate))?);
    // Tasks plan the filter again.
    let filter = plan.filter.as_ref().filter(|filter| filter.prunes() && !filter.predicate.depends_on_time());
    let Some(filter) = filter else { return Ok(None) };
    let execution = Arc::new(Execution::new(Arc::clone(&plan), Arc::default()));
    let narrowed = if narrow::narrows(snapshot, &filter.predicate) {
        let execution = Arc::clone(&execution);
        blocking(move || execution.narrowed()).await?
    } else {
        None
    };
    let wanted = narrowed.unwrap_or_else(|| (0..plan.fragments.len()).collect());
    if filter.opens_files() && wanted.len() > FRAGMENTS_OF_SPANS {
        return Ok(None);
    }
    let found = futures::stream::iter(groups(&plan, wanted))
        .map(|group| {
            let execution = Arc::clone(&execution);
            blocking(move || {
                let spans = group.into_iter().filter_map(|at| execution.span(at));
                Ok(futures::stream::iter(spans.map(Ok).collect::<Vec<_>>()))
            })
        })
        .buffer_unordered(plan.concurrency)
        .try_flatten()
        .try_collect()
        .await?;
    Ok(Some(found))
}
