"""The functions over JSON documents in queries of DataFusion, whose values the core computes.

Documents of a query are texts, as the table gives them: `json_get` returns text, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pennon import _native

# By name: number of arguments, type of the values, and the expression over the arguments, if it is no plain call.
_FUNCTIONS: dict[str, tuple[int, pa.DataType, str | None]] = {
    "json_extract": (2, pa.string(), None),
    "json_exists": (2, pa.bool_(), None),
    "json_get": (2, pa.string(), "json_extract(json_get(a0, a1), '$')"),
    "json_get_string": (2, pa.string(), None),
    "json_get_int": (2, pa.int64(), None),
    "json_get_float": (2, pa.float64(), None),
    "json_get_bool": (2, pa.bool_(), None),
    "json_array_contains": (3, pa.bool_(), None),
    "json_array_length": (2, pa.int64(), None),
}


def register(datafusion: Any, context: Any, watched: Callable[[Callable[[], pa.Array]], pa.Array]) -> None:
    """Give a session of DataFusion the functions; `watched` calls what computes values, and keeps its error."""
    for name, (count, data_type, expression) in _FUNCTIONS.items():
        names = [f"a{at}" for at in range(count)]
        text = expression or f"{name}({', '.join(names)})"

        def values(*args: pa.Array, text: str = text, names: list[str] = names) -> pa.Array:
            batch = pa.RecordBatch.from_arrays(list(args), names=names)
            return watched(lambda: _native.evaluate(text, batch))

        function = datafusion.udf(values, [pa.string()] * count, data_type, "immutable", name)
        context.register_udf(function)
