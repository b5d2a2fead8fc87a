"""The search for the nearest vectors: what is asked, and the request to the core."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, cast

import pyarrow as pa
from pyarrow import types

from pennon import _native
from pennon.errors import InvalidInputError, InvalidTypeError

_METRICS = ("l2", "euclidean", "cosine", "dot", "hamming")
_APPROXIMATIONS = ("fast", "normal", "accurate")


class Nearest(TypedDict, total=False):
    """What is asked; `ScannerBuilder.nearest` describes it."""

    column: str
    q: Any
    k: int | None
    metric: str | None
    nprobes: int | None
    minimum_nprobes: int | None
    maximum_nprobes: int | None
    refine_factor: int | None
    use_index: bool
    ef: int | None
    query_parallelism: int | None
    approx_mode: Literal["fast", "normal", "accurate"]
    distance_range: tuple[float | None, float | None] | None
    search_effort: float | None


def options_of(given: Any) -> Nearest:
    """The options of a mapping. Raises `InvalidTypeError` for other keys, and for what is not a mapping."""
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"nearest must be a dict with column and q, found {given!r}")
    for name in given:
        if name not in Nearest.__annotations__:
            raise InvalidTypeError(f"ScannerBuilder.nearest() got an unexpected keyword argument {name!r}")
    for name in ("column", "q"):
        if name not in given:
            raise InvalidTypeError(f"ScannerBuilder.nearest() missing 1 required argument: {name!r}")
    return cast("Nearest", dict(given))


def request_of(schema: pa.Schema, options: Nearest) -> _native.NearestRequest:
    """What the core is asked.

    Raises
    ------
    pennon.InvalidInputError
        The column is not there, a number is out of its range, or the query is not one or several vectors.
    pennon.InvalidTypeError
        The column has no vectors, or something has another type.
    """
    column = options["column"]
    _check_column(schema, column)
    _check(options)
    elements, vectors = _vectors(options["q"])
    lower, upper = options.get("distance_range") or (None, None)
    probes = options.get("nprobes")
    return {
        "column": column,
        "q": elements,
        "vectors": vectors,
        "k": options.get("k"),
        "metric": options.get("metric"),
        "use_index": options.get("use_index", True),
        "minimum_nprobes": options.get("minimum_nprobes") if probes is None else probes,
        "maximum_nprobes": options.get("maximum_nprobes") if probes is None else probes,
        "search_effort": options.get("search_effort"),
        "refine_factor": options.get("refine_factor"),
        "ef": options.get("ef"),
        "distance_range": (lower, upper),
        "prefilter": False,
        "disable_scoring_autoprojection": False,
    }


def _check_column(schema: pa.Schema, column: Any) -> None:
    if not isinstance(column, str):
        raise InvalidTypeError(f"column must be a string, found {column!r}")
    found = schema.field(column).type if schema.get_field_index(column) >= 0 else _member(schema, column)
    if found is None:
        raise InvalidInputError(f"Embedding column {column} is not in the dataset: there are {schema.names}")
    vector = found.value_type if types.is_list(found) or types.is_large_list(found) else found
    storage = vector.storage_type if isinstance(vector, pa.BaseExtensionType) else vector
    if not types.is_fixed_size_list(storage):
        raise InvalidTypeError(f"Query column {column} must be a vector. Got {found}.")


def _member(schema: pa.Schema, path: str) -> pa.DataType | None:
    first, *names = _native.path_names(path) or [path]
    found = schema.field(first).type if schema.get_field_index(first) >= 0 else None
    for name in names:
        if found is None or not types.is_struct(found) or found.get_field_index(name) < 0:
            return None
        found = found.field(name).type
    return found


def _check(options: Nearest) -> None:
    for name, least, text in (
        ("k", 1, "Nearest-K must be > 0"),
        ("nprobes", 1, "Nprobes must be > 0"),
        ("minimum_nprobes", 0, "Minimum nprobes must be >= 0"),
        ("maximum_nprobes", 0, "Maximum nprobes must be >= 0"),
        ("refine_factor", 1, "Refine factor must be 1 or more"),
        ("ef", 1, "ef must be > 0"),
        ("query_parallelism", -1, "query_parallelism must be >= -1"),
    ):
        value: Any = options.get(name)
        if value is None:
            continue
        if not hasattr(value, "__index__"):
            raise InvalidTypeError(f"{name} must be a whole number, found {value!r}")
        if value < least:
            raise InvalidInputError(f"{text} but got {value}")
    fewest, most = options.get("minimum_nprobes"), options.get("maximum_nprobes")
    if fewest is not None and most is not None and fewest > most:
        raise InvalidInputError(f"minimum_nprobes must be <= maximum_nprobes, got {fewest} and {most}")
    metric = options.get("metric")
    if metric is not None and (not isinstance(metric, str) or metric.lower() not in _METRICS):
        raise InvalidInputError(f"Metric type {metric!r} is not supported, expected one of {', '.join(_METRICS)}")
    if not isinstance(options.get("use_index", True), bool):
        raise InvalidTypeError(f"use_index must be a bool, found {options['use_index']!r}")
    mode = options.get("approx_mode", "normal")
    if mode not in _APPROXIMATIONS:
        raise InvalidInputError(f"approx_mode must be one of 'fast', 'normal', or 'accurate', got {mode!r}")
    effort = options.get("search_effort")
    if effort is not None and not (math.isfinite(effort) and 0 <= effort <= 1):
        raise InvalidInputError(f"search_effort must be finite and in [0, 1], got {effort}")
    ends = options.get("distance_range")
    if ends is not None and not (isinstance(ends, tuple | list) and len(ends) == 2):
        raise InvalidTypeError(f"distance_range must be a pair of lower and upper distance, found {ends!r}")


def _vectors(query: Any) -> tuple[pa.Array, int | None]:
    """The elements of all vectors, and how many vectors that are if they are in a list."""
    if query is None or isinstance(query, str | bytes | Mapping):
        raise InvalidTypeError(f"q must be a vector or a list of vectors, found {type(query).__name__}")
    found = query.values if isinstance(query, pa.ListScalar) else query
    if not isinstance(found, pa.Array | pa.ChunkedArray):
        found = _array(found)
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    found = found.storage if isinstance(found, pa.ExtensionArray) else found
    if types.is_list(found.type) or types.is_large_list(found.type) or types.is_fixed_size_list(found.type):
        if found.null_count:
            raise InvalidInputError("The list of query vectors has nulls")
        count, elements = len(found), found.flatten()
        lengths = {len(vector) for vector in found}
        if len(lengths) != 1:
            raise InvalidInputError(f"The query vectors have different lengths: {sorted(lengths)}")
        return elements, count
    if not (types.is_integer(found.type) or types.is_floating(found.type)):
        raise InvalidTypeError(f"q must be a vector of numbers, found {found.type}")
    return found, None


def _array(query: Any) -> pa.Array:
    """What behaves as an array of numpy, or a sequence of numbers or of such."""
    if hasattr(query, "__array__"):
        query = query.__array__()
        if query.ndim > 2:
            raise InvalidInputError(f"q must have one or two dimensions, found {query.ndim}")
        query = list(query) if query.ndim == 2 else query
    try:
        return pa.array(query)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidTypeError(f"q must be a vector of numbers or a list of such: {error}") from error
