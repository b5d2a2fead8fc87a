//! Compaction on one machine: plan, do the tasks concurrently, commit; retry tasks that lost against other writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use super::options::Settings;
use super::publish::ReservedIds;
use super::{CompactionMetrics, CompactionOptions, RewriteResult, TableState, plan};
use crate::commit::CommitOutcome;
use crate::dataset::Dataset;
use crate::runtime::{self, StepCounts, Stopwatch, processors};
use crate::write::placement::Placement;

/// How often tasks that met a conflict are planned again.
const ROUNDS: usize = 10;

/// What [`Dataset::compact`] did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CompactionReport {
    /// What was replaced by what.
    pub metrics: CompactionMetrics,
    /// The newest version when it began.
    pub before: TableState,
    /// The version it made, or the same if it made none.
    pub after: TableState,
}

/// When tasks are not begun any more.
#[derive(Debug, Clone, Copy)]
struct Clock {
    started: Stopwatch,
    limit: Option<Duration>,
}

impl Clock {
    fn new(seconds: Option<f64>) -> Result<Self> {
        let wrong = |seconds, e| Error::invalid_input(format!("max_seconds is {seconds}: {e}"));
        let limit = |seconds| Duration::try_from_secs_f64(seconds).map_err(|e| wrong(seconds, e));
        Ok(Self { started: Stopwatch::start(), limit: seconds.map(limit).transpose()? })
    }

    fn in_time(self) -> bool {
        self.limit.is_none_or(|limit| self.started.elapsed() < limit)
    }
}

/// What became of results.
enum Committed {
    All,
    /// Others changed some of the fragments.
    Not(Error),
}

impl Dataset {
    /// Compacts the newest version within a budget, and moves to the version that has the result.
    ///
    /// Tasks whose fragments others change meanwhile are retried, the others committed. Errors: those of
    /// [`Self::plan_compaction`] and of reading and writing; retryable `Conflict` if nothing could be committed. What was
    /// committed before an error is kept; the files of everything else are removed. On a remote store a version that
    /// reserves fragment ids may stay: it is committed while the tasks read.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn compact(&mut self, options: &CompactionOptions) -> Result<CompactionReport> {
        let clock = Clock::new(options.max_seconds)?;
        let mut newest = self.clone();
        newest.checkout_latest().await?;
        let mut settings = options.settings(&newest.manifest().config)?;
        let before = TableState::of(newest.manifest());
        let mut metrics = CompactionMetrics::default();
        let mut lost = None;
        for _ in 0..ROUNDS {
            lost = newest.round(&mut settings, options, clock, &mut metrics).await?;
            if metrics.fragments_removed > 0 {
                *self = newest.clone();
            }
            if lost.is_none() || !clock.in_time() {
                break;
            }
            newest.checkout_latest().await?;
        }
        match lost {
            Some(conflict) if metrics.fragments_removed == 0 => Err(conflict),
            _ => Ok(CompactionReport { metrics, before, after: TableState::of(newest.manifest()) }),
        }
    }

    /// Plans, does and commits tasks; gives a conflict if there was one.
    async fn round(
        &mut self,
        settings: &mut Settings,
        options: &CompactionOptions,
        clock: Clock,
        metrics: &mut CompactionMetrics,
    ) -> Result<Option<Error>> {
        let tasks = self.plan_within(settings).await?;
        let fragments = &self.manifest().fragments;
        let rows_of = |id: &FragmentId| match id.0.checked_add(1) {
            Some(next) => fragments.rows_before(FragmentId(next)) - fragments.rows_before(*id),
            None => 0,
        };
        let live: Vec<u64> = tasks.iter().map(|task| task.iter().map(rows_of).sum()).collect();
        let new = live.iter().map(|live| plan::new_fragments(*live, settings.target_rows)).sum();
        let sizes: Vec<(usize, u64)> = tasks.iter().map(Vec::len).zip(live).collect();
        runtime::advance(|counts| {
            let fragments = sizes.iter().map(|(fragments, _)| *fragments as u64).sum::<u64>();
            counts.of_tasks = Some(counts.tasks + sizes.len() as u64);
            counts.of_fragments = Some(counts.fragments + fragments);
            counts.of_rows = Some(counts.rows + sizes.iter().map(|(_, rows)| *rows).sum::<u64>());
        })
        .await?;
        let threads = options.num_threads;
        let threads = threads.unwrap_or_else(processors);
        let (base, shared) = (self.clone(), settings.clone());
        let failed = Arc::new(AtomicBool::new(false));
        let (mut first, stop) = (true, Arc::clone(&failed));
        let should_continue =
            move |_: &_| !stop.load(Ordering::Relaxed) && (std::mem::take(&mut first) || clock.in_time());
        let work = tasks.into_iter().take_while(should_continue);
        let work = work.map(move |task| {
            let (base, settings) = (base.clone(), shared.clone());
            async move { base.compact_within(&task, &settings).await }
        });
        let mut done = futures::stream::iter(work).buffered(threads.max(1));
        // The ids are reserved meanwhile where that takes long; one file may be more than was thought.
        let ahead = new > 0 && !options.partial_progress && !self.snapshot().store.is_local();
        let base = self.clone();
        let reserve = async {
            if !ahead {
                return None;
            }
            base.reserve_ids(Arc::clone(base.snapshot()), new).await.ok()
        };
        let (mut results, mut lost, mut error) = (Vec::new(), None, None);
        let work = async {
            let mut sizes = sizes.into_iter();
            while let Some(result) = done.next().await {
                let heard = match (&result, sizes.next()) {
                    (Ok(result), Some((fragments, rows))) => {
                        let new = result.new_fragments.iter().flat_map(|fragment| &fragment.files);
                        let bytes = new.filter_map(|file| file.size).sum::<u64>();
                        let count = |counts: &mut StepCounts| {
                            counts.tasks += 1;
                            counts.fragments += fragments as u64;
                            counts.rows += rows;
                            counts.bytes += bytes;
                        };
                        runtime::advance(count).await
                    }
                    _ => Ok(()),
                };
                if let Err(first) = heard {
                    failed.store(true, Ordering::Relaxed);
                    error = error.take().or(Some(first));
                }
                match result {
                    Ok(result) if options.partial_progress && error.is_none() => {
                        match self.commit_or_remove(vec![result], None, settings, metrics).await {
                            Ok(Committed::Not(conflict)) => lost = Some(conflict),
                            Ok(Committed::All) => {}
                            Err(first) => {
                                failed.store(true, Ordering::Relaxed);
                                error = Some(first);
                            }
                        }
                    }
                    Ok(result) => results.push(result),
                    // Tasks in flight end before their files are removed.
                    Err(first) => {
                        failed.store(true, Ordering::Relaxed);
                        error = error.take().or(Some(first));
                    }
                }
            }
        };
        let ((), reserved) = futures::join!(work, reserve);
        drop(done);
        if let Some(error) = error {
            self.remove_results(&results).await;
            return Err(error);
        }
        if let Committed::Not(conflict) = self.commit_or_remove(results, reserved, settings, metrics).await? {
            lost = Some(conflict);
        }
        Ok(lost)
    }

    /// Commits results together or, if that meets a conflict, one by one; removes the files of the others.
    async fn commit_or_remove(
        &mut self,
        results: Vec<RewriteResult>,
        reserved: Option<ReservedIds>,
        settings: &mut Settings,
        metrics: &mut CompactionMetrics,
    ) -> Result<Committed> {
        let error = match self.commit_counted(&results, reserved, settings, metrics).await {
            CommitOutcome::Committed(_, afterwards) => return afterwards.map(|()| Committed::All),
            CommitOutcome::Unknown(error) => return Err(error),
            CommitOutcome::NotCommitted(error) => error,
        };
        if results.len() == 1 || !error.is_retryable() {
            self.remove_results(&results).await;
            return if error.is_retryable() { Ok(Committed::Not(error)) } else { Err(error) };
        }
        let mut results = results.into_iter();
        while let Some(result) = results.next() {
            let single = std::slice::from_ref(&result);
            match self.commit_counted(single, None, settings, metrics).await {
                CommitOutcome::Committed(_, Ok(())) => {}
                CommitOutcome::NotCommitted(error) if error.is_retryable() => {
                    self.remove_results(single).await
                }
                outcome => {
                    if let CommitOutcome::NotCommitted(_) = outcome {
                        self.remove_results(single).await;
                    }
                    self.remove_results(results.as_slice()).await;
                    return outcome.into_result().map(|_| Committed::All);
                }
            }
        }
        Ok(Committed::Not(error))
    }

    async fn commit_counted(
        &mut self,
        results: &[RewriteResult],
        reserved: Option<ReservedIds>,
        settings: &mut Settings,
        metrics: &mut CompactionMetrics,
    ) -> CommitOutcome {
        let outcome = self.commit_rewrites(results, reserved, settings).await;
        let CommitOutcome::Committed(snapshot, _) = &outcome else { return outcome };
        self.move_to(Arc::clone(snapshot));
        results.iter().for_each(|result| *metrics += result.metrics());
        // What is left of the budget.
        let old = results.iter().flat_map(|result| &result.original_fragments);
        for fragment in old {
            settings.max_fragments = without(settings.max_fragments, 1);
            settings.max_rows = without(settings.max_rows, fragment.live_rows());
            settings.max_bytes = without(settings.max_bytes, plan::source_bytes(fragment));
        }
        outcome
    }

    async fn remove_results(&self, results: &[RewriteResult]) {
        let placement = Placement::own(Arc::clone(&self.snapshot().store));
        for result in results {
            placement.remove(&result.new_fragments).await;
        }
    }
}

/// What is left of a limit; `u64::MAX` is no limit and not reduced.
fn without(limit: u64, used: u64) -> u64 {
    if limit == u64::MAX { limit } else { limit.saturating_sub(used) }
}
