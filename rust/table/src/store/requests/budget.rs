//! Permits for requests and for their bytes.
//!
//! Whoever waits for bytes has its request, and whoever has bytes waits for nothing but the store: so all go on.
//! Permits are given back when they are dropped, also with a future that is given up.

use std::sync::Arc;

use object_store::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::RequestLimits;

/// Bytes are counted in pieces of this size, rounded up.
const PIECE: u64 = 1024;

/// What may be in flight.
#[derive(Debug)]
pub(super) struct Budget {
    requests: Arc<Semaphore>,
    pieces: Arc<Semaphore>,
    all_pieces: u32,
}

/// A request that may be sent.
#[derive(Debug)]
pub(super) struct Permit {
    _request: OwnedSemaphorePermit,
    pieces: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// The limits must have been checked.
    pub(super) fn new(limits: RequestLimits) -> Self {
        let bytes = u64::try_from(limits.bytes).unwrap_or(u64::MAX);
        let all_pieces = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX);
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        let pieces = semaphore(usize::try_from(all_pieces).unwrap_or(usize::MAX));
        Self { requests: semaphore(limits.requests), pieces, all_pieces }
    }

    fn pieces(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).min(self.all_pieces)
    }

    /// Waits until a request of so many bytes may be sent; one that is larger than all is sent alone.
    pub(super) async fn acquire(&self, bytes: u64) -> Result<Permit> {
        let request = Arc::clone(&self.requests).acquire_owned().await.map_err(closed)?;
        let pieces = match self.pieces(bytes) {
            0 => None,
            pieces => Some(Arc::clone(&self.pieces).acquire_many_owned(pieces).await.map_err(closed)?),
        };
        Ok(Permit { _request: request, pieces })
    }

    /// An answer is longer than was thought: it counts as far as there is room, since it is on its way already.
    pub(super) fn extend(&self, permit: &mut Permit, bytes: u64) {
        let held =
            permit.pieces.as_ref().map_or(0, |held| u32::try_from(held.num_permits()).unwrap_or(u32::MAX));
        let more = self.pieces(bytes).saturating_sub(held);
        let free = u32::try_from(self.pieces.available_permits()).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.pieces).try_acquire_many_owned(more.min(free)) else { return };
        match &mut permit.pieces {
            Some(held) => held.merge(more),
            None => permit.pieces = Some(more),
        }
    }
}

fn closed(error: tokio::sync::AcquireError) -> Error {
    Error::Generic { store: "budget", source: error.into() }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn requests_and_bytes_are_bounded_and_given_back() {
        let budget = Budget::new(RequestLimits { requests: 3, bytes: 10_240 });
        let acquire = |bytes| budget.acquire(bytes).now_or_never().map(Result::unwrap);
        let (head, mut half) = (acquire(0).unwrap(), acquire(5_000).unwrap());
        assert!(acquire(6_000).is_none(), "11 KiB");
        let rest = acquire(5_120).unwrap();
        assert!(acquire(0).is_none(), "four requests");
        drop((head, rest));
        budget.extend(&mut half, 7_000);
        assert!(acquire(4_000).is_none() && acquire(3_000).is_some());
        // As much as there is room for.
        budget.extend(&mut half, 1 << 40);
        assert!(acquire(1).is_none());
        drop(half);
        let large = acquire(1 << 40).unwrap();
        assert!(acquire(1).is_none() && acquire(0).is_some(), "what is larger than all goes alone");
        drop(large);
        assert!(acquire(10_240).is_some());
    }

    #[test]
    fn a_future_that_is_dropped_waits_for_nothing() {
        let budget = Budget::new(RequestLimits { requests: 2, bytes: 1024 });
        let held = budget.acquire(1024).now_or_never().unwrap();
        let mut waiting = Box::pin(budget.acquire(1024));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(budget.acquire(0).now_or_never().is_none());
        drop(waiting);
        assert!(budget.acquire(0).now_or_never().is_some());
        drop(held);
    }
}
