//! Deleting: several files at a time, not more of them in a second than allowed.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use pennon_core::{Error, Result};

use super::CleanupOptions;
use crate::inventory::Disposition;
use crate::runtime::{self, Stopwatch};
use crate::store::Store;

/// Manifests that a store deletes in about a second.
const MANIFESTS: usize = 1000;
/// Of those that are deleted a few at a time: so many in turn.
const IN_TURN: usize = 20;

/// How fast files are deleted.
#[derive(Debug)]
pub(super) struct Pace {
    at_a_time: usize,
    /// Whether files may be deleted by requests for many of them.
    in_bulk: bool,
    every: Option<Duration>,
    /// Manifests that are deleted before somebody looks for new tags and other names again: those of a few seconds.
    pub(super) manifests_between_looks: usize,
    clock: Stopwatch,
    /// When the next file may be deleted, by the clock.
    next: Duration,
}

impl Pace {
    /// Errors: `InvalidInput` for limits of 0.
    pub(super) fn new(options: &CleanupOptions) -> Result<Self> {
        let positive = |name: &str, limit: Option<u64>| match limit {
            Some(0) => Err(Error::invalid_input(format!("{name} must be greater than 0, got 0"))),
            limit => Ok(limit),
        };
        let rate = positive("delete_rate_limit", options.delete_rate_limit)?;
        let concurrency = positive("delete_concurrency", options.delete_concurrency)?;
        let at_a_time = concurrency.and_then(|n| usize::try_from(n).ok());
        let of_a_second = rate.and_then(|n| usize::try_from(n).ok());
        let in_turn = at_a_time.map(|n| n.saturating_mul(IN_TURN));
        Ok(Self {
            at_a_time: at_a_time.unwrap_or(runtime::IN_FLIGHT),
            in_bulk: rate.is_none() && concurrency.is_none(),
            every: rate.map(|rate| Duration::from_secs(1).div_f64(rate_as_float(rate))),
            manifests_between_looks: [of_a_second, in_turn].into_iter().flatten().fold(MANIFESTS, usize::min),
            clock: Stopwatch::start(),
            next: Duration::ZERO,
        })
    }

    /// When one more file may be deleted.
    fn turn(&mut self) -> Duration {
        let turn = self.next.max(self.clock.elapsed());
        self.next = turn + self.every.unwrap_or_default();
        turn
    }
}

fn rate_as_float(rate: u64) -> f64 {
    f64::from(u32::try_from(rate).unwrap_or(u32::MAX))
}

/// Deletes files; gives those that were removed, and what failed. Errors: those of whoever is told of it.
pub(super) async fn remove<'a>(
    store: &Store,
    files: Vec<&'a Disposition>,
    pace: &mut Pace,
) -> Result<(Vec<&'a Disposition>, Vec<Error>)> {
    if pace.in_bulk && !store.is_local() {
        let mut results = store.delete_many(files.iter().map(|file| file.file.path.clone()).collect()).await;
        let (removed, failed): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| matches!(results.get(&file.file.path), Some(Ok(()))));
        let errors = failed.iter().filter_map(|file| results.remove(&file.file.path)?.err()).collect();
        runtime::advance(|counts| {
            counts.tasks += removed.len() as u64;
            counts.bytes += removed.iter().map(|disposition| disposition.file.size).sum::<u64>();
        })
        .await?;
        return Ok((removed, errors));
    }
    let turns: Vec<(Duration, &Disposition)> = files.into_iter().map(|file| (pace.turn(), file)).collect();
    let (limited, clock) = (pace.every.is_some(), pace.clock);
    let deletes: Vec<BoxFuture<'_, Result<&'a Disposition>>> = turns
        .into_iter()
        .map(|(turn, disposition)| {
            let delete = async move {
                if limited {
                    runtime::sleep(turn.saturating_sub(clock.elapsed())).await;
                }
                store.delete(&disposition.file.path).await.map(|()| disposition)
            };
            delete.boxed()
        })
        .collect();
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    let mut results = stream::iter(deletes).buffered(pace.at_a_time);
    while let Some(result) = results.next().await {
        match result {
            Ok(disposition) => {
                let bytes = disposition.file.size;
                removed.push(disposition);
                runtime::advance(|counts| {
                    counts.tasks += 1;
                    counts.bytes += bytes;
                })
                .await?;
            }
            Err(error) => failed.push(error),
        }
    }
    Ok((removed, failed))
}
