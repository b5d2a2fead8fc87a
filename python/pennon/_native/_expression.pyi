"""What `rust/py/src/expression.rs` exposes."""

import pyarrow as pa

def evaluate(expression: str, batch: pa.RecordBatch) -> pa.Array: ...
