"""What `rust/py/src/metrics.rs` exposes."""

from typing import TypedDict

class CountersParts(TypedDict):
    read_requests: int
    read_bytes: int
    write_requests: int
    written_bytes: int
    request_retries: int
    commit_retries: int
    cache_hits: int
    cache_misses: int
    rows_decoded: int
    row_id_indexes: int

def process_counters() -> CountersParts: ...
