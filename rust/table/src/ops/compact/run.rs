//! Compaction on one machine: plan, do the tasks concurrently, commit; retry tasks that lost against other writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Manifest;
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

/// Tasks of a round that have ended.
#[derive(Default)]
struct EndedTasks {
    /// What is not committed yet.
    results: Vec<RewriteResult>,
    /// The last conflict of what could not be committed.
    lost: Option<Error>,
    /// The first error.
    error: Option<Error>,
    /// Whether no more tasks begin.
    stop: Arc<AtomicBool>,
}

impl EndedTasks {
    fn fail(&mut self, error: Error) {
        self.stop.store(true, Ordering::Relaxed);
        self.error.get_or_insert(error);
    }
}

/// How much a task rewrites.
struct TaskSize {
    fragments: u64,
    rows: u64,
}

impl TaskSize {
    fn of(manifest: &Manifest, task: &[FragmentId]) -> Self {
        let all = &manifest.fragments;
        let rows = task.iter().filter_map(|id| all.summary(*id)).map(|fragment| fragment.live_rows()).sum();
        Self { fragments: to_u64(task.len()), rows }
    }

    fn expect(sizes: &[Self], counts: &mut StepCounts) {
        counts.of_tasks = Some(counts.tasks + to_u64(sizes.len()));
        counts.of_fragments = Some(counts.fragments + sizes.iter().map(|size| size.fragments).sum::<u64>());
        counts.of_rows = Some(counts.rows + sizes.iter().map(|size| size.rows).sum::<u64>());
    }

    fn count(&self, new_bytes: u64, counts: &mut StepCounts) {
        counts.tasks += 1;
        counts.fragments += self.fragments;
        counts.rows += self.rows;
        counts.bytes += new_bytes;
    }
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
        let sizes: Vec<_> = tasks.iter().map(|task| TaskSize::of(self.manifest(), task)).collect();
        let new = sizes.iter().map(|size| plan::new_fragments(size.rows, settings.target_rows)).sum();
        runtime::advance(|counts| TaskSize::expect(&sizes, counts)).await?;
        let threads = options.num_threads.unwrap_or_else(processors);
        let (base, shared) = (self.clone(), settings.clone());
        let mut ended = EndedTasks::default();
        let (mut first, stop) = (true, Arc::clone(&ended.stop));
        let should_continue =
            move |_: &_| !stop.load(Ordering::Relaxed) && (std::mem::take(&mut first) || clock.in_time());
        let work = tasks.into_iter().take_while(should_continue);
        let work = work.map(move |task| {
            let (base, settings) = (base.clone(), shared.clone());
            async move { base.compact_within(&task, &settings).await }
        });
        let done = futures::stream::iter(work).buffered(threads.max(1));
        let mut done = done.zip(futures::stream::iter(sizes));
        // The ids are reserved meanwhile where that takes long; one file may be more than was thought.
        let ahead = new > 0 && !options.partial_progress && !self.snapshot().store.is_local();
        let base = self.clone();
        let reserve = async {
            if !ahead {
                return None;
            }
            base.reserve_ids(Arc::clone(base.snapshot()), new).await.ok()
        };
        let work = async {
            while let Some((result, size)) = done.next().await {
                let result = match result {
                    Ok(result) => result,
                    // Tasks in flight end before their files are removed.
                    Err(error) => {
                        ended.fail(error);
                        continue;
                    }
                };
                if ended.error.is_some() {
                    ended.results.push(result);
                    continue;
                }
                let files = result.new_fragments.iter().flat_map(|fragment| &fragment.files);
                let new_bytes = files.filter_map(|file| file.size).sum();
                if options.partial_progress {
                    match self.commit_or_remove(vec![result], None, settings, metrics).await {
                        Ok(Committed::Not(conflict)) => ended.lost = Some(conflict),
                        Ok(Committed::All) => {}
                        Err(error) => {
                            ended.fail(error);
                            continue;
                        }
                    }
                } else {
                    ended.results.push(result);
                }
                // Who hears of it may end all this.
                if let Err(error) = runtime::advance(|counts| size.count(new_bytes, counts)).await {
                    ended.fail(error);
                }
            }
        };
        let ((), reserved) = futures::join!(work, reserve);
        drop(done);
        let EndedTasks { results, mut lost, error, .. } = ended;
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
