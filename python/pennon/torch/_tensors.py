"""Arrow batches as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._optional import require
from pennon._options import refuse_unknown
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pennon.hf import HuggingFaceConverter

__all__ = ["to_tensor"]

_NAN_OF_BFLOAT16 = 0x7FC0


def to_tensor(
    batch: pa.RecordBatch | Mapping[str, pa.Array],
    *,
    uint64_as_int64: bool = True,
    hf_converter: HuggingFaceConverter | None = None,
    use_blob_api: bool = False,
    **kwargs: Any,
) -> Any:
    """The columns of a batch as tensors.

    Numbers and booleans become tensors of shape (rows,), fixed-size lists of them (rows, size), arrays of tensors
    and image tensors (rows, height, width ...). Null is NaN, and integers with nulls are float64.

    Parameters
    ----------
    batch
        Rows, or arrays by the names of their columns.
    uint64_as_int64
        Whether columns of uint64, row ids for example, become int64, which more of PyTorch can compute with.
    hf_converter
        What columns of other types become is what it says: images a list of those of Pillow.
    use_blob_api
        Whether columns may be lists of files of blobs, which become no tensor.
    **kwargs
        Refused.

    Returns
    -------
    dict of torch.Tensor, or torch.Tensor
        By the names of the columns; the tensor itself if there is one column.

    Raises
    ------
    pennon.UnsupportedError
        A column has values of another type, or blobs.
    pennon.InvalidInputError
        A column of booleans has nulls.
    pennon.MissingPackageError
        PyTorch is not installed.
    """
    del use_blob_api
    refuse_unknown("to_tensor", (), kwargs)
    torch = require("torch", "torch", "A tensor")
    columns = batch if isinstance(batch, Mapping) else dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, values in columns.items():
        if isinstance(values, list):
            raise UnsupportedError(f"Column {name!r} has files of blobs: pass a to_tensor_fn that reads them")
    tensors = {name: _tensor(torch, name, array, hf_converter) for name, array in columns.items()}
    if uint64_as_int64:
        unsigned = [name for name, array in columns.items() if pa.types.is_uint64(array.type)]
        tensors.update({name: tensors[name].to(torch.int64) for name in unsigned})
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


def _tensor(torch: Any, name: str, array: pa.Array, hf_converter: HuggingFaceConverter | None = None) -> Any:
    from pennon.arrow._bfloat16 import is_bfloat16

    kind = array.type
    if is_bfloat16(kind):
        # Tensors have no nulls.
        filled = array.storage.view(pa.uint16()).fill_null(_NAN_OF_BFLOAT16)
        return _from_numpy(torch, filled.view(pa.int16())).view(torch.bfloat16)
    if _is_number(kind):
        return _of_numbers(torch, name, array)
    if isinstance(kind, pa.BaseExtensionType) and pa.types.is_fixed_size_list(kind.storage_type):
        shape = getattr(kind, "shape", None)
        if shape is not None:
            return _tensor(torch, name, array.storage).reshape(len(array), *shape)
    if pa.types.is_fixed_size_list(kind) and (_is_number(kind.value_type) or is_bfloat16(kind.value_type)):
        items = _tensor(torch, name, _items(array))
        return items.reshape(len(array), kind.list_size)
    converted = None if hf_converter is None else hf_converter.to_pytorch(name, array)
    if converted is not None:
        return converted
    raise UnsupportedError(
        f"Column {name!r} has values of type {kind}: expected numbers, booleans, or fixed-size lists of them. "
        "Pass a to_tensor_fn for others"
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _items(array: pa.FixedSizeListArray) -> pa.Array:
    """The items of all lists; for a null list as many nulls as a list has items."""
    size = array.type.list_size
    if not array.null_count:
        return array.values.slice(array.offset * size, len(array) * size)
    # What null lists have in `values` is arbitrary.
    positions: list[int | None] = []
    for row, valid in enumerate(array.is_valid().to_pylist(), start=array.offset):
        positions += range(row * size, (row + 1) * size) if valid else [None] * size
    values, chosen = array.values, pa.array(positions, pa.int64())
    if isinstance(values, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(values.type, values.storage.take(chosen))
    return values.take(chosen)


def _of_numbers(torch: Any, name: str, array: pa.Array) -> Any:
    if pa.types.is_boolean(array.type) and array.null_count:
        raise InvalidInputError(f"Column {name!r} has {array.null_count} nulls: a tensor of booleans has none")
    return _from_numpy(torch, array)


def _from_numpy(torch: Any, array: pa.Array) -> Any:
    """A tensor that owns its values: those of Arrow may not be written to."""
    np = require("numpy", "numpy", "A tensor")
    return torch.from_numpy(np.array(array.to_numpy(zero_copy_only=False)))
