"""What the segments of an index are built with: found once for all tasks, or that of a segment that there is.

The wheel says parameters of most kinds. Centroids, the codebook and the rows of a page of a B-tree are read from
the files of a segment:

| file | metadata | what it says |
|---|---|---|
| `index.idx` | `lance:ivf` | the number of the buffer with a message: centroids in its field 4 |
| `auxiliary.idx` | `storage_metadata` | `codebook_position`, the number of the buffer with the codebook |
| `page_lookup.lance` | `batch_size` | rows of a page |

Centroids and codebook are tensors: messages with the type of the elements (1), the lengths of the dimensions (2)
and the elements (3). What is not as described gives None, and the wheel takes care of the index on the driver.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from pyspark_pennon.options import ReadOptions

_ELEMENTS = {1: "<f2", 2: "<f4", 3: "<f8", 4: "u1"}
_CENTROIDS, _TYPE, _SHAPE, _VALUES = 4, 1, 2, 3
_HINTS = {"max_iters": "lance.ivf.max_iters", "sample_rate": "lance.ivf.sample_rate"}

VALUE_KINDS = {
    "BTree": "BTREE",
    "Bitmap": "BITMAP",
    "LabelList": "LABEL_LIST",
    "ZoneMap": "ZONEMAP",
    "BloomFilter": "BLOOMFILTER",
}
"""Kinds of indices over values that are made, as the wheel calls them and as it is asked for them."""

VECTOR_KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
"""Those over vectors."""


def value_parameters(table: Any, read: ReadOptions, index: Any) -> dict[str, Any]:
    """The parameters of an index over values, as it is asked for with them."""
    figures = table.index_statistics(index.name)["segments"][0]
    if index.index_type == "ZoneMap":
        return {"rows_per_zone": figures["rows_per_zone"]}
    if index.index_type == "BloomFilter":
        return {name: figures[name] for name in ("number_of_items", "probability")}
    if index.index_type == "BTree":
        rows = _metadata(_opened(read, index.segments[0], "page_lookup.lance")).get("batch_size")
        return {"zone_size": int(rows)} if rows else {}
    return {}


def vector_parameters(index: Any) -> dict[str, Any]:
    """The parameters of an index over vectors, except what is found by training."""
    details = index.details
    found: dict[str, Any] = {"metric": details["metric_type"].lower()}
    hints = details["runtime_hints"]
    found |= {name: int(hints[hint]) for name, hint in _HINTS.items() if hint in hints}
    if "hnsw" in details:
        found["m"] = details["hnsw"]["max_connections"]
        found["ef_construction"] = details["hnsw"]["construction_ef"]
        found["max_level"] = details["hnsw"]["max_level"]
    compression = details.get("compression", {})
    if compression.get("type") == "pq":
        found |= {name: compression[name] for name in ("num_bits", "num_sub_vectors")}
    return found


def partitions(read: ReadOptions, segment: Any) -> int | None:
    """How many partitions a segment has."""
    centroids = _centroids(read, segment)
    return None if centroids is None else len(centroids)


def model(read: ReadOptions, index: Any, segment: Any) -> dict[str, Any] | None:
    """The parameters of a further segment, which has the centroids and the codebook of another one.

    None if these cannot be given: the bounds of scalar quantization are always those of the rows.
    """
    import numpy as np

    kind = index.details.get("compression", {}).get("type")
    centroids = _centroids(read, segment)
    if centroids is None or kind not in (None, "pq"):
        return None
    found = {**vector_parameters(index), "ivf_centroids": centroids}
    if kind == "pq":
        codes, bits = found["num_sub_vectors"], found["num_bits"]
        file = _opened(read, segment, "auxiliary.idx")
        described = json.loads(json.loads(_metadata(file).get("storage_metadata", '["{}"]'))[0])
        at = described.get("codebook_position")
        codebook = None if not at else _tensor(file.read_global_buffer(at))
        if codebook is None or codebook.size != centroids.shape[1] << bits:
            return None
        found["pq_codebook"] = np.reshape(codebook, (codes, 1 << bits, -1))
    return found


def shared_model(table: Any, column: str, kind: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The parameters of each part of an index over vectors; `None` if the table has too few vectors for parts."""
    from pennon import InvalidInputError
    from pennon.indices import IndicesBuilder

    if "ivf_centroids" in parameters:
        return parameters
    training = {name: parameters[name] for name in ("sample_rate", "max_iters") if name in parameters}
    partitions = parameters.get("num_partitions") or _partitions(table, kind, parameters)
    builder = IndicesBuilder(table, column)
    try:
        ivf = builder.train_ivf(partitions, distance_type=parameters.get("metric", "l2"), **training)
        shared = {**parameters, "num_partitions": None, "ivf_centroids": ivf.centroids}
        if kind.upper() in ("IVF_PQ", "IVF_HNSW_PQ") and parameters.get("num_sub_vectors"):
            bits = parameters.get("num_bits", 8)
            pq = builder.train_pq(ivf, parameters["num_sub_vectors"], num_bits=bits, **training)
            shared["pq_codebook"] = pq.codebook
    except InvalidInputError as error:
        if "too few vectors" in str(error):
            return None
        raise
    return shared


def _partitions(table: Any, kind: str, parameters: dict[str, Any]) -> int:
    """How many partitions the wheel makes if their number is not given."""
    usual = {"IVF_FLAT": 4096, "IVF_PQ": 8192, "IVF_SQ": 8192}.get(kind.upper(), 1 << 20)
    rows = int(table.count_rows())
    return min(4096, max(1, rows // (parameters.get("target_partition_size") or usual)))


def _centroids(read: ReadOptions, segment: Any) -> np.ndarray[Any, Any] | None:
    file = _opened(read, segment, "index.idx")
    at = _metadata(file).get("lance:ivf")
    tensor = None if at is None else _fields(file.read_global_buffer(int(at))).get(_CENTROIDS)
    return _tensor(tensor) if isinstance(tensor, bytes) else None


def _opened(read: ReadOptions, segment: Any, name: str) -> Any:
    from pennon.file import LanceFileReader

    path = f"{read.uri.rstrip('/')}/_indices/{segment.uuid}/{name}"
    return LanceFileReader(path, storage_options=read.storage_options or None)


def _metadata(file: Any) -> dict[str, str]:
    found = file.metadata().schema.metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}


def _tensor(message: bytes) -> np.ndarray[Any, Any] | None:
    import numpy as np

    fields = _fields(message)
    kind, shape, values = (fields.get(number, b"") for number in (_TYPE, _SHAPE, _VALUES))
    if kind not in _ELEMENTS or not isinstance(shape, bytes) or not isinstance(values, bytes):
        return None
    lengths, at = [], 0
    while at < len(shape):
        length, at = _varint(shape, at)
        lengths.append(length)
    return np.frombuffer(values, _ELEMENTS[kind]).reshape(lengths)


def _fields(message: bytes) -> dict[int, bytes | int]:
    """The fields of a message by number: bytes, or a whole number."""
    found: dict[int, bytes | int] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, form = tag >> 3, tag & 7
        if form == 0:
            found[number], at = _varint(message, at)
            continue
        length, at = (8, at) if form == 1 else (4, at) if form == 5 else _varint(message, at)
        found[number] = message[at : at + length]
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
