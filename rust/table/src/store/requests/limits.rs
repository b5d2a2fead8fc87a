//! How much a store is asked for at a time, and for how long an answer is waited for.
//!
//! | setting | default | storage option |
//! |---|---|---|
//! | requests in flight | 64 | `max_requests_in_flight` |
//! | bytes of bodies in flight | 256 MiB | `max_bytes_in_flight` |
//! | sendings of one HTTP request after the first | 10, within 180 s | `client_max_retries`, `client_retry_timeout` |
//! | one sending, with its answer | 30 s | `timeout` or `request_timeout` |
//! | further tries of a read that failed all the same | 1 | `download_retry_count` |

use std::time::Duration;

use pennon_core::{Error, Result};

use crate::runtime::IN_FLIGHT;

/// What may be in flight between a process and one store at a time; a storage option overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Requests, at least 1.
    pub requests: usize,
    /// Bytes of what is read and written, at least 1. A request for more goes alone.
    pub bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { requests: IN_FLIGHT, bytes: 256 << 20 }
    }
}

impl RequestLimits {
    /// Errors: `InvalidInput` for limits that let nothing through.
    pub(crate) fn check(self) -> Result<Self> {
        for (what, limit) in [("requests", self.requests), ("bytes", self.bytes)] {
            if limit == 0 {
                return Err(Error::invalid_input(format!(
                    "A store may have 0 {what} in flight, expected at least 1: nothing could ever be read"
                )));
            }
        }
        Ok(self)
    }
}

/// How long answers are waited for, and how often a request is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Patience {
    /// Sendings of one HTTP request after the first one, by the client itself, with growing pauses.
    pub(in crate::store) client_retries: usize,
    /// No HTTP request is sent again after this time.
    pub(in crate::store) client_time: Duration,
    /// How long one sending may take.
    pub(in crate::store) timeout: Duration,
    /// Further tries of what changes nothing, where the client made none.
    pub(in crate::store) read_retries: u32,
    /// Further tries of what may be done twice, where the client made none.
    pub(in crate::store) write_retries: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            client_retries: 10,
            client_time: Duration::from_secs(180),
            timeout: Duration::from_secs(30),
            read_retries: 1,
            write_retries: 1,
        }
    }
}

impl Patience {
    /// The longest that the client itself may take for a request: after that something hangs that it does not see.
    #[cfg_attr(
        not(any(feature = "aws", feature = "azure", feature = "gcp")),
        allow(dead_code, reason = "read by clients of clouds")
    )]
    pub(in crate::store) fn of_client(&self) -> Duration {
        self.client_time.saturating_add(self.timeout)
    }
}
