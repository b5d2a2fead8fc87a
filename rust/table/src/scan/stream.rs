//! Units -> stream of batches: ordered or not, with bounded read-ahead, cut to a window, stopped when dropped.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result};
use tracing::{Instrument, debug_span};

use super::execute::{Execution, UnitResult};
use super::metrics::ScanMetrics;
use super::plan::ScanPlan;
use super::units::{Unit, Window};
use super::{BatchStream, narrow};
use crate::batches::{concat_batches, join_error};
use crate::runtime::{CancellationToken, blocking, blocking_unless, cancellation};

/// Fragments of a local table that one task looks at: a filter leaves most of many out, and a task costs more than a look
/// at these.
const FRAGMENTS_OF_A_TASK: usize = 64;
/// Small units are read by one task as long as they have this part of the rows of a unit.
const SHARE_OF_A_UNIT: u64 = 4;
/// Rows of a task that opens files, unless its only fragment has more.
const ROWS_OF_A_TASK: u64 = 1 << 20;

/// What is made of a batch where it was read.
pub(super) type Reduce = Arc<dyn Fn(RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// Executes a plan.
pub(super) fn batches(plan: Arc<ScanPlan>, metrics: Arc<ScanMetrics>) -> BatchStream {
    reduced(plan, metrics, Arc::new(Ok))
}

/// Executes a plan, and gives what is made of each batch.
pub(super) fn reduced(plan: Arc<ScanPlan>, metrics: Arc<ScanMetrics>, reduce: Reduce) -> BatchStream {
    let (schema, batch_size) = (Arc::clone(plan.schema()), plan.batch_size);
    let (window, concurrency) = (plan.window_of_matches(), plan.concurrency);
    let (unordered, strict) = (plan.unordered, plan.strict_batch_size);
    let span = debug_span!("scan", table = plan.snapshot.store.root(), version = %plan.snapshot.version());
    // Scans of local tables have no more units in flight than processors.
    let computing =
        (!plan.snapshot.store.is_local()).then(|| Arc::clone(plan.snapshot.session().computing()));
    let execution = Arc::new(Execution::new(plan, metrics));
    let (token, guard) = cancellation();
    let units = units_of(&execution, &token);
    let run: Run = Arc::new(move |units: Vec<Unit>| {
        // The closure lives in the stream, and the guard in the closure.
        let _guard = &guard;
        let (execution, token, reduce) = (Arc::clone(&execution), token.clone(), Arc::clone(&reduce));
        let computing = computing.clone();
        let is_brief = units.iter().all(|unit| execution.is_run_briefly(unit));
        let reduced = move |unit: &Unit| match execution.run(unit)? {
            UnitResult::Batches(batches) => Ok(UnitResult::Batches(
                batches.into_iter().map(|batch| reduce(batch)).collect::<Result<_>>()?,
            )),
            parts @ UnitResult::Parts(_) => Ok(parts),
        };
        let all = move || units.iter().map(reduced).collect();
        let run = move || match computing {
            _ if token.is_cancelled() => Ok(Vec::new()),
            Some(computing) => computing.run(all),
            None => all(),
        };
        blocking_unless(is_brief, run).instrument(span.clone()).boxed()
    });
    let batches = run_all(units, &run, concurrency, unordered);
    let batches = match window {
        Some(window) => within(batches, window),
        None => batches,
    };
    if strict { exact(batches, schema, batch_size) } else { batches }
}

/// Runs units one after another.
type Run = Arc<dyn Fn(Vec<Unit>) -> BoxFuture<'static, Result<Vec<UnitResult>>> + Send + Sync>;

/// The batches of units, and of the parts of those that are too large.
fn run_all(
    units: BoxStream<'static, Result<Vec<Unit>>>,
    run: &Run,
    concurrency: usize,
    unordered: bool,
) -> BatchStream {
    let (run, parts_run) = (Arc::clone(run), Arc::clone(run));
    let work = units.map_ok(move |units| run(units));
    let done: BoxStream<'static, Result<Vec<UnitResult>>> = if unordered {
        work.try_buffer_unordered(concurrency).boxed()
    } else {
        work.try_buffered(concurrency).boxed()
    };
    let batches = move |result| match result {
        UnitResult::Batches(batches) => stream::iter(batches.into_iter().map(Ok)).boxed(),
        UnitResult::Parts(units) => {
            let units = units.into_iter().map(|unit| Ok(vec![unit]));
            run_all(stream::iter(units).boxed(), &parts_run, concurrency, unordered)
        }
    };
    let results = done.map_ok(|results| stream::iter(results.into_iter().map(Ok)));
    results.try_flatten().map_ok(batches).try_flatten().boxed()
}

/// The units as planned, or what is left of fragments where the filter leaves fragments or rows out; small ones together.
fn units_of(execution: &Arc<Execution>, token: &CancellationToken) -> BoxStream<'static, Result<Vec<Unit>>> {
    let plan = execution.plan();
    let asks = plan.filter.is_some() || plan.first.is_some();
    let searches = asks && plan.uses_indices && plan.snapshot.manifest.index_section.is_some();
    if searches || plan.found.is_some() {
        let (execution, token) = (Arc::clone(execution), token.clone());
        let searched = async move {
            let concurrency = execution.plan().concurrency;
            Ok(match execution.search_indices().await? {
                Some(left) => {
                    let groups: Vec<Vec<usize>> = left.into_iter().map(|at| vec![at]).collect();
                    divided(stream::iter(groups), execution, token, concurrency)
                }
                None => scanned(&execution, &token),
            })
        };
        return stream::once(searched).try_flatten().boxed();
    }
    scanned(execution, token)
}

/// The units of a scan that no index answers.
fn scanned(execution: &Arc<Execution>, token: &CancellationToken) -> BoxStream<'static, Result<Vec<Unit>>> {
    let plan = execution.plan();
    let Some(filter) = plan.filter.as_ref().filter(|filter| filter.prunes()) else {
        return if plan.snapshot.store.is_local() {
            stream::iter(together(plan.units(), plan)).map(Ok).boxed()
        } else {
            opened(stream::iter(plan.units()), execution, token)
        };
    };
    let (execution, token, concurrency) = (Arc::clone(execution), token.clone(), plan.concurrency);
    if narrow::narrows(&plan.snapshot, &filter.predicate) {
        let narrowed = Arc::clone(&execution);
        let groups = blocking(move || {
            let groups = match narrowed.narrowed()? {
                Some(wanted) => groups(narrowed.plan(), wanted),
                None => all_groups(narrowed.plan()),
            };
            Ok(divided(stream::iter(groups), narrowed, token, concurrency))
        });
        return stream::once(groups).try_flatten().boxed();
    }
    divided(stream::iter(all_groups(plan)), execution, token, concurrency)
}

/// Units of a plan, small ones of local tables together: a task costs more than to read a few rows.
fn together<I: Iterator<Item = Unit> + Send>(
    units: I,
    plan: &ScanPlan,
) -> impl Iterator<Item = Vec<Unit>> + Send + use<I> {
    let (mut units, is_local) = (units.peekable(), plan.snapshot.store.is_local());
    let most = if is_local { plan.unit_rows / SHARE_OF_A_UNIT } else { 0 };
    std::iter::from_fn(move || {
        let first = units.next()?;
        let mut rows = first.rows.count();
        let mut task = vec![first];
        while task.len() < FRAGMENTS_OF_A_TASK
            && let Some(next) = units.next_if(|next| rows.saturating_add(next.rows.count()) <= most)
        {
            rows += next.rows.count();
            task.push(next);
        }
        Some(task)
    })
}

/// The units, each with its files opened: those of the next ones while the values of some are requested.
fn opened(
    units: impl Stream<Item = Unit> + Send + 'static,
    execution: &Arc<Execution>,
    token: &CancellationToken,
) -> BoxStream<'static, Result<Vec<Unit>>> {
    let (execution, token, concurrency) =
        (Arc::clone(execution), token.clone(), execution.plan().concurrency);
    let open = move |unit: Unit| {
        let (execution, token) = (Arc::clone(&execution), token.clone());
        blocking(move || {
            if !token.is_cancelled() {
                execution.open(&unit)?;
            }
            Ok(vec![unit])
        })
    };
    units.map(open).buffered(concurrency).boxed()
}

fn all_groups(plan: &ScanPlan) -> Vec<Vec<usize>> {
    groups(plan, 0..plan.fragments.len())
}

/// Some of the fragments of a plan by their positions, in groups that are worth a task to look at.
pub(super) fn groups(plan: &ScanPlan, wanted: impl IntoIterator<Item = usize>) -> Vec<Vec<usize>> {
    let opens_files = plan.filter.as_ref().is_some_and(|filter| filter.opens_files());
    let wanted: Vec<usize> = wanted.into_iter().collect();
    let most_fragments = match plan.snapshot.store.is_local() {
        // The deletion vectors of a group would be waited for one after another.
        false => 1,
        true if !opens_files => FRAGMENTS_OF_A_TASK,
        // The first rows of the result may be in the first fragment.
        true if plan.window_of_matches().is_some() => 1,
        true => FRAGMENTS_OF_A_TASK.min(wanted.len().div_ceil(plan.concurrency)),
    };
    let most = if opens_files { ROWS_OF_A_TASK } else { u64::MAX };
    let shown = |at: usize| plan.fragments.get(at).map_or(0, |rows| rows.shown.end - rows.shown.start);
    grouped(wanted.into_iter().map(|at| (at, shown(at))), most_fragments, most)
}

/// Fragments with the number of their rows, in groups of at most so many, with at most so many rows.
fn grouped(
    wanted: impl IntoIterator<Item = (usize, u64)>,
    most_fragments: usize,
    most: u64,
) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut rows = 0_u64;
    for (at, shown) in wanted {
        rows = rows.saturating_add(shown);
        match groups.last_mut() {
            Some(group) if group.len() < most_fragments && rows <= most => group.push(at),
            _ => {
                rows = shown;
                groups.push(vec![at]);
            }
        }
    }
    groups
}

/// What is left of groups of fragments.
fn divided(
    groups: impl Stream<Item = Vec<usize>> + Send + 'static,
    execution: Arc<Execution>,
    token: CancellationToken,
    concurrency: usize,
) -> BoxStream<'static, Result<Vec<Unit>>> {
    let divide = move |group: Vec<usize>| {
        let (execution, token) = (Arc::clone(&execution), token.clone());
        let is_brief = group.iter().all(|fragment| execution.is_divided_briefly(*fragment));
        blocking_unless(is_brief, move || {
            let mut divided = Vec::new();
            for fragment in group {
                if !token.is_cancelled() {
                    divided.extend(execution.divide(fragment)?);
                }
            }
            Ok(together(divided.into_iter(), execution.plan()).collect::<Vec<_>>())
        })
    };
    let divided = groups.map(divide).buffered(concurrency);
    divided.map_ok(|units| stream::iter(units.into_iter().map(Ok))).try_flatten().boxed()
}

/// The part of the rows that lies in the window; ends as soon as it is full.
fn within(batches: BatchStream, window: Window) -> BatchStream {
    let step = |(mut batches, mut window): (BatchStream, Window)| async move {
        while window.rows > 0 {
            let Some(batch) = batches.try_next().await? else { break };
            let part = window.advance(to_u64(batch.num_rows()));
            if part.start < part.end {
                let (start, end) = (usize::try_from(part.start), usize::try_from(part.end));
                let (Ok(start), Ok(end)) = (start, end) else {
                    return Err(Error::internal("a window beyond its batch"));
                };
                return Ok(Some((batch.slice(start, end - start), (batches, window))));
            }
        }
        Ok(None)
    };
    stream::try_unfold((batches, window), step).boxed()
}

/// The same rows in batches of exactly one size, except for the last.
fn exact(batches: BatchStream, schema: SchemaRef, size: usize) -> BatchStream {
    let step = move |(mut batches, mut held, schema): (BatchStream, Vec<RecordBatch>, SchemaRef)| async move {
        let mut rows: usize = held.iter().map(RecordBatch::num_rows).sum();
        while rows < size {
            let Some(batch) = batches.try_next().await? else { break };
            rows += batch.num_rows();
            held.push(batch);
        }
        if rows == 0 {
            return Ok(None);
        }
        let mut rest = Vec::new();
        if let Some(last) = held.last_mut()
            && rows > size
        {
            let kept = last.num_rows() - (rows - size);
            rest.push(last.slice(kept, rows - size));
            *last = last.slice(0, kept);
        }
        let first = concat_batches(&schema, &held, |e| join_error("joining batches", e))?;
        Ok(Some((first, (batches, rest, schema))))
    };
    stream::try_unfold((batches, Vec::new(), schema), step).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_fragments_share_a_task_and_large_ones_do_not() {
        let sizes = |groups: Vec<Vec<usize>>| groups.iter().map(Vec::len).collect::<Vec<_>>();
        let small = |count: usize| (0..count).map(|at| (at, 10));
        assert_eq!(sizes(grouped(small(130), 64, 1000)), [64, 64, 2]);
        assert_eq!(sizes(grouped(small(3), 1, 1000)), [1, 1, 1]);
        assert_eq!(grouped((0..3).map(|at| (at, 1000)), 64, 1000), [[0], [1], [2]]);
        assert_eq!(sizes(grouped(small(5), 64, 20)), [2, 2, 1]);
        assert_eq!(grouped([(3, 10), (70, 10)], 64, 1000), [[3, 70]]);
        assert!(grouped([], 64, 1000).is_empty());
    }
}
