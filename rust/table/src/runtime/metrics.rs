//! Counters: what was asked of stores and caches, and what was decoded.
//!
//! Each [`Session`](crate::Session) has its [`Metrics`], which all its tables share; what they count, [`process`] counts
//! too. A scope that was entered (`Metrics::enter`) counts what its thread does, and the work that is started from there:
//! so one scan can be measured while others run.
//!
//! Invariant: a counter never goes down.

use std::cell::RefCell;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    ReadRequests,
    ReadBytes,
    WriteRequests,
    WrittenBytes,
    RequestRetries,
    CommitRetries,
    CacheHits,
    CacheMisses,
    RowsDecoded,
    RowIdIndexes,
}

impl Counter {
    const COUNT: usize = Self::RowIdIndexes as usize + 1;
}

/// The counters at one moment; the difference of two is what happened in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests that read: ranges and whole files, sizes, listings.
    pub read_requests: u64,
    /// Bytes of files that were read.
    pub read_bytes: u64,
    /// Requests that change something: puts, parts of uploads, copies, deletions.
    pub write_requests: u64,
    /// Bytes of files that were written.
    pub written_bytes: u64,
    /// Requests that were sent again: the store was busy, did not answer, or broke off.
    pub request_retries: u64,
    /// Commits that were tried again on a newer version.
    pub commit_retries: u64,
    /// Look-ups that a session answered.
    pub cache_hits: u64,
    /// Look-ups that a session could not answer.
    pub cache_misses: u64,
    /// Rows that were decoded, once for each set of columns that was read together.
    pub rows_decoded: u64,
    /// Indexes of row ids that were made, of all fragments or from the index of another version.
    pub row_id_indexes: u64,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            read_requests: self.read_requests.saturating_sub(earlier.read_requests),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_requests: self.write_requests.saturating_sub(earlier.write_requests),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            request_retries: self.request_retries.saturating_sub(earlier.request_retries),
            commit_retries: self.commit_retries.saturating_sub(earlier.commit_retries),
            cache_hits: self.cache_hits.saturating_sub(earlier.cache_hits),
            cache_misses: self.cache_misses.saturating_sub(earlier.cache_misses),
            rows_decoded: self.rows_decoded.saturating_sub(earlier.rows_decoded),
            row_id_indexes: self.row_id_indexes.saturating_sub(earlier.row_id_indexes),
        }
    }
}

/// Counters that go on counting.
#[derive(Debug, Default)]
pub struct Metrics {
    /// One for each [`Counter`].
    counts: [AtomicU64; Counter::COUNT],
}

thread_local! {
    static SCOPE: RefCell<Option<Arc<Metrics>>> = const { RefCell::new(None) };
}

/// Leaves a scope when it is dropped.
#[must_use = "the scope is left when the guard is dropped"]
#[derive(Debug)]
pub(crate) struct EnteredScope {
    before: Option<Arc<Metrics>>,
}

impl Drop for EnteredScope {
    fn drop(&mut self) {
        SCOPE.with(|scope| *scope.borrow_mut() = self.before.take());
    }
}

/// What all sessions of this process counted.
pub fn process() -> &'static Arc<Metrics> {
    static PROCESS: OnceLock<Arc<Metrics>> = OnceLock::new();
    PROCESS.get_or_init(Arc::default)
}

/// The scope of this thread.
pub(super) fn scope() -> Option<Arc<Metrics>> {
    SCOPE.with(|scope| scope.borrow().clone())
}

impl Metrics {
    /// The counters now.
    pub fn counters(&self) -> Counters {
        let read = |counter: Counter| {
            self.counts.get(counter as usize).map_or(0, |count| count.load(Ordering::Relaxed))
        };
        Counters {
            read_requests: read(Counter::ReadRequests),
            read_bytes: read(Counter::ReadBytes),
            write_requests: read(Counter::WriteRequests),
            written_bytes: read(Counter::WrittenBytes),
            request_retries: read(Counter::RequestRetries),
            commit_retries: read(Counter::CommitRetries),
            cache_hits: read(Counter::CacheHits),
            cache_misses: read(Counter::CacheMisses),
            rows_decoded: read(Counter::RowsDecoded),
            row_id_indexes: read(Counter::RowIdIndexes),
        }
    }

    /// Makes these the counters of what this thread does, until the guard is dropped.
    pub(crate) fn enter(self: Arc<Self>) -> EnteredScope {
        EnteredScope { before: SCOPE.with(|scope| scope.borrow_mut().replace(self)) }
    }

    /// Counts here, for the process and in the scope of this thread.
    pub(crate) fn add(&self, counter: Counter, number: u64) {
        self.add_own(counter, number);
        process().add_own(counter, number);
        SCOPE.with(|scope| {
            if let Some(scope) = &*scope.borrow() {
                scope.add_own(counter, number);
            }
        });
    }

    /// Counts a request that read so many bytes.
    pub(crate) fn add_read(&self, bytes: usize) {
        self.add(Counter::ReadRequests, 1);
        self.add(Counter::ReadBytes, u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Counts a request that wrote so many bytes.
    pub(crate) fn add_write(&self, bytes: usize) {
        self.add(Counter::WriteRequests, 1);
        self.add(Counter::WrittenBytes, u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    fn add_own(&self, counter: Counter, number: u64) {
        if let Some(count) = self.counts.get(counter as usize) {
            count.fetch_add(number, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::concurrently;

    #[test]
    fn a_scope_counts_its_threads_and_nothing_else() {
        let (metrics, scope) = (Metrics::default(), Arc::<Metrics>::default());
        metrics.add_read(10);
        {
            let _entered = Arc::clone(&scope).enter();
            metrics.add_read(20);
            let inner = Arc::<Metrics>::default();
            {
                let _entered = Arc::clone(&inner).enter();
                metrics.add_write(7);
            }
            concurrently(3, |_| {
                metrics.add(Counter::RowsDecoded, 5);
                Ok(())
            })
            .unwrap();
            assert_eq!(
                inner.counters(),
                Counters { write_requests: 1, written_bytes: 7, ..Counters::default() }
            );
        }
        metrics.add_read(30);
        let scoped = Counters { read_requests: 1, read_bytes: 20, rows_decoded: 15, ..Counters::default() };
        assert_eq!(scope.counters(), scoped);
        let all = metrics.counters();
        assert_eq!((all.read_requests, all.read_bytes, all.written_bytes), (3, 60, 7));
        assert_eq!((all - scoped).read_bytes, 40);
        assert!(process().counters().read_bytes >= 60);
    }
}
