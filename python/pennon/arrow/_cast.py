"""Casts from and to bfloat16; all others are pyarrow's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon.arrow._bfloat16 import BFloat16Type, combined, from_floats, is_bfloat16, of_storage, to_floats
from pennon.errors import InvalidInputError

__all__ = ["cast"]


def cast(arr: pa.Array, target_type: pa.DataType | str, *args: Any, **kwargs: Any) -> pa.Array:
    """Cast an array to another type, bfloat16 among them.

    Arrays of float16, float32 and float64 become bfloat16 and back, and so do fixed-size lists of them, item by
    item. Nulls stay null. What has nothing to do with bfloat16 is cast by `pyarrow.compute.cast`.

    Parameters
    ----------
    arr
        A pyarrow array, or a chunked array; chunks are combined if bfloat16 is involved.
    target_type
        What pyarrow's cast accepts, or `"bfloat16"`, `"bf16"` or a
        [BFloat16Type][pennon.arrow.BFloat16Type].
    *args, **kwargs
        For pyarrow's cast.

    Returns
    -------
    pyarrow.Array
        As long as `arr`.

    Raises
    ------
    pennon.InvalidInputError
        There is no such type, no cast between the two types, a value does not fit, or lists have other sizes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.arrow import cast
    >>> small = cast(pa.array([0.1, None]), "bfloat16")
    >>> small.to_pylist()
    [0.100097656, None]
    >>> cast(small, pa.float32()).to_pylist()
    [0.10009765625, None]
    """
    if not isinstance(arr, pa.Array | pa.ChunkedArray):
        raise InvalidInputError(f"The values to cast are a {type(arr).__name__}, expected a pyarrow array")
    try:
        target = _target(target_type)
        source = arr.type
        if is_bfloat16(source) or is_bfloat16(target):
            return _numbers(combined(arr), target)
        if _is_vector(source) and _is_vector(target):
            return _vectors(combined(arr), target, *args, **kwargs)
        return pc.cast(arr, target, *args, **kwargs)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(str(error)) from error


def _target(wanted: pa.DataType | str) -> pa.DataType:
    if wanted in ("bfloat16", "bf16"):
        return BFloat16Type()
    try:
        return wanted if isinstance(wanted, pa.DataType) else pa.type_for_alias(wanted)
    except (AttributeError, TypeError, ValueError) as error:
        message = f"The type to cast to is {wanted!r}, expected a pyarrow type or its name"
        raise InvalidInputError(message) from error


def _numbers(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if is_bfloat16(source) and is_bfloat16(target):
        return of_storage(array.storage)
    if is_bfloat16(source) and pa.types.is_floating(target):
        return to_floats(array).cast(target)
    if is_bfloat16(target) and pa.types.is_floating(source):
        return from_floats(array.cast(pa.float32()))
    raise InvalidInputError(f"No cast from {source} to {target}: bfloat16 is cast from and to floating point only")


def _is_vector(kind: pa.DataType) -> bool:
    """Whether the type is a fixed-size list of floating point numbers."""
    return pa.types.is_fixed_size_list(kind) and (
        pa.types.is_floating(kind.value_type) or is_bfloat16(kind.value_type)
    )


def _vectors(array: pa.Array, target: pa.DataType, *args: Any, **kwargs: Any) -> pa.Array:
    size = array.type.list_size
    if size != target.list_size:
        raise InvalidInputError(f"The lists have {size} items, expected {target.list_size} as {target} has")
    # `values` ignores the slice that the array is, and has items for null lists as well.
    values = array.values.slice(array.offset * size, len(array) * size)
    items = cast(values, target.value_type, *args, **kwargs)
    return pa.FixedSizeListArray.from_arrays(items, type=target, mask=array.is_null())
