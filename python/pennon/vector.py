"""Tables of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._compatibility import explain_absent_names
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["vec_to_table"]

explain_absent_names(__name__)


def vec_to_table(
    data: dict[Any, Any] | list[Any] | np.ndarray[Any, Any],
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """A table of vectors, each a fixed-size list of float32.

    Parameters
    ----------
    data
        A list of vectors, or a numpy array of shape (vectors, ndim); or a dict of vectors, whose keys become a
        column before them. A vector is a sequence of numbers; `None` in it is NaN.
    names
        Name of the column, `"vector"` by default. For a dict the names of both, `["id", "vector"]` by default.
    ndim
        Length of a vector; by default that of the first.
    check_ndim
        Whether `ndim` other than the length of the vectors is an error. Otherwise all numbers are divided into
        vectors of length `ndim`, whichever vector they were in.

    Returns
    -------
    pyarrow.Table
        One row for each vector.

    Raises
    ------
    pennon.InvalidInputError
        There are no vectors, their lengths differ, a value is not a number, or there are too many or too few names.
    pennon.UnsupportedError
        The data is of another type.

    Examples
    --------
    >>> from pennon.vector import vec_to_table
    >>> vec_to_table({"a": [1, 2], "b": [3, 4]}).to_pylist()
    [{'id': 'a', 'vector': [1.0, 2.0]}, {'id': 'b', 'vector': [3.0, 4.0]}]
    """
    if isinstance(data, dict):
        columns = [pa.array(list(data)), _vectors(list(data.values()), ndim, check_ndim)]
    elif isinstance(data, list) or _is_array(data):
        columns = [_vectors(data, ndim, check_ndim)]
    else:
        raise UnsupportedError(f"The vectors are a {type(data).__name__}, expected a dict, a list or a numpy array")
    if names is None:
        names = ["id", "vector"][-len(columns) :]
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, Sequence) or len(names) != len(columns):
        raise InvalidInputError(f"The names are {names!r}, expected {len(columns)} for the columns of the table")
    return pa.table(columns, names=list(names))


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "reshape")


def _vectors(vectors: Any, ndim: int | None, check_ndim: bool) -> pa.FixedSizeListArray:
    if not len(vectors):
        raise InvalidInputError("There are no vectors, expected one at least")
    lengths = [_length(vector, position) for position, vector in enumerate(vectors)]
    expected = ndim if ndim is not None and check_ndim else lengths[0]
    for position, length in enumerate(lengths):
        if length != expected:
            raise InvalidInputError(f"Vector {position} has {length} dimensions, expected {expected}")
    numbers = _numbers(vectors)
    size = lengths[0] if ndim is None else ndim
    if size < 1 or len(numbers) % size:
        raise InvalidInputError(f"{len(numbers)} numbers cannot be divided into vectors of {size} dimensions")
    return pa.FixedSizeListArray.from_arrays(numbers, size)


def _length(vector: Any, position: int) -> int:
    try:
        return len(vector)
    except TypeError as error:
        kind = type(vector).__name__
        raise InvalidInputError(f"Vector {position} is a {kind}, expected a sequence of numbers") from error


def _numbers(vectors: Any) -> pa.FloatArray:
    try:
        if _is_array(vectors):
            return pa.array(vectors.reshape(-1).astype("float32"))
        found = chain.from_iterable(
            vector.reshape(-1).tolist() if _is_array(vector) else vector for vector in vectors
        )
        values = [float("nan") if value is None else float(value) for value in found]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"A vector has values that are not numbers: {error}") from error
    return pa.array(values, pa.float64()).cast(pa.float32())
