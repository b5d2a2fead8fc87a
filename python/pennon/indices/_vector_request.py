"""Indices over vectors: what they are asked for with."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from pennon._options import converted, ignored, refuse
from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError

if TYPE_CHECKING:
    from pennon._native import VectorIndexRequest

MADE_VECTOR_KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
KINDS = (*MADE_VECTOR_KINDS, "IVF_RQ")
# Whole numbers that are given by their name alone.
_NUMBERS = ("num_bits", "max_iters", "sample_rate", "m", "ef_construction", "max_level")
_HINTS = ("index_file_version", "kmeans_redos", "prefetch_distance")


def is_vector_kind(index_type: Any) -> bool:
    """Whether it names a kind of index over vectors, also one that there is not."""
    return isinstance(index_type, str) and index_type.upper().startswith("IVF")


def vector_request(
    column: str,
    index_type: Any,
    name: str | None,
    metric: Any,
    *,
    replace: bool,
    train: bool,
    uuid: str | None,
    ivf_centroids: Any,
    pq_codebook: Any,
    given: dict[str, Any],
) -> VectorIndexRequest:
    """An index to make, as the core takes it.

    Raises
    ------
    pennon.UnsupportedError
        There is no such kind of index, or an option asks for what is not supported.
    pennon.InvalidTypeError
        Something has another type.
    pennon.InvalidInputError
        There is no such parameter.
    """
    if not isinstance(index_type, str):
        raise InvalidTypeError(f"index_type must be a string, found {index_type!r}")
    if index_type.upper() not in KINDS:
        raise UnsupportedError(f"Only {list(KINDS)} index types supported. Got {index_type}")
    if not isinstance(metric, str):
        raise InvalidTypeError(f"metric must be a string, found {metric!r}")
    numbers: dict[str, Any] = {}
    for key in ("num_partitions", "target_partition_size", "num_sub_vectors", *_NUMBERS):
        numbers[key] = _number(key, given.pop(key, None))
    refuse(
        accelerator=given.pop("accelerator", None),
        ivf_centroids_file=given.pop("ivf_centroids_file", None),
        precomputed_partition_dataset=given.pop("precomputed_partition_dataset", None),
        streaming_sample_rate=given.pop("streaming_sample_rate", None),
        streaming_coreset_rate=given.pop("streaming_coreset_rate", None),
        streaming_refine_passes=given.pop("streaming_refine_passes", None),
        rabitq_model=given.pop("rabitq_model", None),
    )
    if str(given.get("index_file_version") or "V3").upper() == "LEGACY":
        raise UnsupportedError("index_file_version 'legacy' is not supported, only 'V3'")
    ignored(**{hint: given.pop(hint, None) for hint in _HINTS})
    for key in given:
        known = ", ".join(("num_partitions", "target_partition_size", "num_sub_vectors", *_NUMBERS))
        raise InvalidInputError(f"An index of the kind {index_type} has no parameter {key!r}, it has {known}")
    centroids = _centroids(ivf_centroids)
    return {
        "column": column,
        "kind": index_type,
        "metric": metric,
        "name": name,
        "replace": replace,
        "train": train,
        "uuid": uuid,
        "ivf_centroids": centroids,
        "pq_codebook": _codebook(pq_codebook, None if centroids is None else centroids.type.list_size),
        **numbers,  # type: ignore[typeddict-item]
    }


def _number(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if name == "num_partitions" and isinstance(value, float) and isfinite(value):
        converted(name)
        value = int(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}")
    if not 0 <= int(value) < 2**32:
        raise InvalidInputError(f"{name} must be a whole number from 1 on, got {value}")
    return int(value)


def _elements(name: str, given: Any) -> tuple[pa.Array, int | None]:
    """All numbers, and how many are in a row of the last dimension."""
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if isinstance(given, pa.ExtensionArray):
        given = given.storage
    if isinstance(given, pa.Array):
        if not types.is_fixed_size_list(given.type):
            raise InvalidTypeError(f"{name} must be a fixed-size list array or a numpy array, got {given.type}")
        return given.flatten(), given.type.list_size
    if not hasattr(given, "__array__"):
        raise InvalidTypeError(f"{name} must be a fixed-size list array or a numpy array, got {type(given)}")
    array = given.__array__()
    return pa.array(array.reshape(-1)), array.shape[-1] if array.ndim else None


def _centroids(given: Any) -> pa.FixedSizeListArray | None:
    if given is None:
        return None
    elements, size = _elements("ivf_centroids", given)
    if not size:
        raise InvalidInputError("ivf_centroids must be a list of vectors, got no vectors")
    return pa.FixedSizeListArray.from_arrays(elements, size)


def _codebook(given: Any, dimension: int | None) -> pa.FixedSizeListArray | None:
    """The codebook by sub-vector, code and element, cut into rows of whole vectors."""
    if given is None:
        return None
    elements, size = _elements("pq_codebook", given)
    width = dimension or size
    if not width or len(elements) % width:
        raise InvalidInputError(f"pq_codebook has {len(elements)} numbers, expected a multiple of {width}")
    return pa.FixedSizeListArray.from_arrays(elements, width)
