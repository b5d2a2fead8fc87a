//! Counters of requests, bytes, retries, caches and rows.

use pennon_table::runtime::{Counters, metrics};
use pyo3::prelude::*;

/// The fields of `pennon.stats.Counters`.
#[derive(IntoPyObject)]
pub(crate) struct CountersParts {
    read_requests: u64,
    read_bytes: u64,
    write_requests: u64,
    written_bytes: u64,
    request_retries: u64,
    commit_retries: u64,
    cache_hits: u64,
    cache_misses: u64,
    rows_decoded: u64,
    row_id_indexes: u64,
}

impl From<Counters> for CountersParts {
    fn from(counters: Counters) -> Self {
        Self {
            read_requests: counters.read_requests,
            read_bytes: counters.read_bytes,
            write_requests: counters.write_requests,
            written_bytes: counters.written_bytes,
            request_retries: counters.request_retries,
            commit_retries: counters.commit_retries,
            cache_hits: counters.cache_hits,
            cache_misses: counters.cache_misses,
            rows_decoded: counters.rows_decoded,
            row_id_indexes: counters.row_id_indexes,
        }
    }
}

/// What all tables of this process counted.
#[pyfunction]
pub(crate) fn process_counters() -> CountersParts {
    metrics::process().counters().into()
}
