//! What executing a plan took: rows at each step, requests, time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use pennon_core::Result;
use pennon_core::lengths::to_u64;

use super::BatchStream;
use super::metrics::ScanMetrics;
use super::plan::{IndexUse, ScanPlan, WithIndices};
use crate::runtime::{Counters, Stopwatch};

/// What a scan did. Printed, its plan with these figures.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
/// use pennon_table::scan::ScanOptions;
/// use pennon_table::{Dataset, WriteOptions};
///
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
/// # let batch = RecordBatch::try_from_iter([("n", column)])?;
/// # let data = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
/// # let params = WriteOptions::default();
/// # runtime.block_on(async {
/// # let table = Dataset::write(Box::new(data), "memory://scan-analysis/table", params).await?;
/// let options = ScanOptions { filter: Some("n > 90".into()), ..ScanOptions::default() };
/// let analysis = table.scan(&options)?.analyze(false).await?;
/// assert_eq!((analysis.candidates, analysis.matches, analysis.rows), (100, 9, 9));
/// # Ok::<(), pennon_core::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScanAnalysis {
    /// What was executed.
    pub plan: Arc<ScanPlan>,
    /// What indices did.
    pub indices: IndexUse,
    /// Fragments that were opened.
    pub fragments: u64,
    /// Units of work.
    pub units: u64,
    /// Rows that were left after deletions and statistics: those that the filter was evaluated for.
    pub candidates: u64,
    /// Rows that the filter kept.
    pub matches: u64,
    /// Rows of the result.
    pub rows: u64,
    /// Batches of the result.
    pub batches: u64,
    /// Requests, bytes, rows decoded and look-ups in caches.
    pub counters: Counters,
    /// From the first request to the last batch.
    pub elapsed: Duration,
}

/// Executes a plan, as its stream of batches, and drops its rows.
pub(super) async fn run(
    plan: Arc<ScanPlan>,
    batches: impl FnOnce(Arc<ScanMetrics>) -> BatchStream,
) -> Result<ScanAnalysis> {
    let metrics = Arc::<ScanMetrics>::default();
    let started = Stopwatch::start();
    let mut stream = batches(Arc::clone(&metrics));
    let (mut rows, mut batches) = (0_u64, 0_u64);
    while let Some(batch) = stream.try_next().await? {
        rows = rows.saturating_add(to_u64(batch.num_rows()));
        batches += 1;
    }
    let elapsed = started.elapsed();
    let indices = plan.index_use().await?;
    Ok(ScanAnalysis {
        indices,
        plan,
        fragments: metrics.fragments(),
        units: metrics.units(),
        candidates: metrics.candidates(),
        matches: metrics.matches(),
        rows,
        batches,
        counters: metrics.counters(),
        elapsed,
    })
}

impl fmt::Display for ScanAnalysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { read_requests, read_bytes, cache_hits, cache_misses, rows_decoded, .. } =
            self.counters;
        writeln!(f, "{}", WithIndices(&self.plan, &self.indices))?;
        let milliseconds = self.elapsed.as_secs_f64() * 1000.0;
        writeln!(f, "executed in {milliseconds:.1} ms")?;
        writeln!(f, "  result: {} rows in {} batches", self.rows, self.batches)?;
        writeln!(
            f,
            "  rows: {} left after deletions and statistics, {} matched",
            self.candidates, self.matches
        )?;
        writeln!(f, "  rows decoded: {rows_decoded}")?;
        writeln!(f, "  fragments opened: {}, units of work: {}", self.fragments, self.units)?;
        writeln!(f, "  requests: {read_requests}, bytes read: {read_bytes}")?;
        write!(f, "  caches: {cache_hits} hits, {cache_misses} misses")
    }
}
