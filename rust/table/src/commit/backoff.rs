//! How long to wait after losing a race (table format 8.1).
//!
//! Waiting times are random multiples of what one attempt takes, from a range that doubles with every attempt, so
//! that the writers of a fast store wait milliseconds and those of a slow one seconds.

use std::time::Duration;

use crate::runtime::random_below;

/// The multiple before the first attempt was measured.
const FIRST_UNIT: Duration = Duration::from_millis(50);
/// Slots double up to this many: enough to separate a hundred writers.
const MOST_SLOTS: u32 = 128;

/// Waiting times of one commit.
#[derive(Debug)]
pub(super) struct Backoff {
    unit: Duration,
    attempt: u32,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { unit: FIRST_UNIT, attempt: 0 }
    }

    /// The wait after an attempt that took that long.
    pub(super) fn next(&mut self, took: Duration) -> Duration {
        if self.attempt == 0 {
            self.unit = took.mul_f64(1.1);
        }
        let slots = 4_u32.checked_shl(self.attempt).unwrap_or(MOST_SLOTS).min(MOST_SLOTS);
        self.attempt += 1;
        self.unit * random_below(slots)
    }
}
