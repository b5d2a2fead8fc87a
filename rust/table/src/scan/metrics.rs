//! Counters of one execution of a plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::metrics::EnteredScope;
use crate::runtime::{Counters, Metrics};
use pennon_core::lengths::to_u64;

/// Counts what one execution of a plan does.
#[derive(Debug, Default)]
pub(super) struct ScanMetrics {
    requests: Arc<Metrics>,
    fragments: AtomicU64,
    units: AtomicU64,
    candidates: AtomicU64,
    matches: AtomicU64,
}

impl ScanMetrics {
    /// What this thread asks of the store until the guard is dropped is counted here too.
    pub(super) fn enter(&self) -> EnteredScope {
        Arc::clone(&self.requests).enter()
    }

    /// Counts a fragment that was opened.
    pub(super) fn add_fragment(&self) {
        self.fragments.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a unit of so many rows, of which the filter kept some.
    pub(super) fn add_unit(&self, candidates: usize, matches: usize) {
        self.units.fetch_add(1, Ordering::Relaxed);
        self.candidates.fetch_add(to_u64(candidates), Ordering::Relaxed);
        self.matches.fetch_add(to_u64(matches), Ordering::Relaxed);
    }

    /// Fragments that were opened.
    pub(super) fn fragments(&self) -> u64 {
        self.fragments.load(Ordering::Relaxed)
    }

    /// Units of work.
    pub(super) fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Rows that the filter was evaluated for.
    pub(super) fn candidates(&self) -> u64 {
        self.candidates.load(Ordering::Relaxed)
    }

    /// Rows that the filter kept.
    pub(super) fn matches(&self) -> u64 {
        self.matches.load(Ordering::Relaxed)
    }

    /// Requests, bytes, rows decoded and look-ups in caches.
    pub(super) fn counters(&self) -> Counters {
        self.requests.counters()
    }
}
