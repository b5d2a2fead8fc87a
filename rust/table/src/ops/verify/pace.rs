//! How fast the files of a table are read.

use std::time::Duration;

use crate::runtime::{self, Stopwatch};

/// So many bytes a second at most, or as many as can be had.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace(Option<u64>);

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self(bytes_per_second.map(|bytes| bytes.max(1)))
    }

    /// Waits until so many bytes may have been read since the start.
    pub(crate) async fn wait(self, start: Stopwatch, bytes: u64) {
        let Some(per_second) = self.0 else { return };
        let micros = u128::from(bytes).saturating_mul(1_000_000) / u128::from(per_second);
        let due = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        if let Some(early) = due.checked_sub(start.elapsed()).filter(|early| !early.is_zero()) {
            runtime::sleep(early).await;
        }
    }
}
