"""Indices over the values of a column: what describes them, and how they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from pennon import _native
from pennon._lazy import attach as _attach
from pennon._time import EPOCH
from pennon.bitmap import Bitmap
from pennon.errors import InvalidInputError, NotFoundError, UnsupportedError
from pennon.transaction import Index, index_of

if TYPE_CHECKING:
    from pennon.indices.builder import IndicesBuilder
    from pennon.indices.ivf import IvfModel
    from pennon.indices.pq import PqModel

__all__ = [
    "IndexConfig",
    "IndexDescription",
    "IndexInformation",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "IvfModel",
    "PqModel",
]


@dataclass
class IndexConfig:
    """A kind of index with its parameters.

    Attributes
    ----------
    index_type
        The kind, as for [create_scalar_index][pennon.LanceDataset.create_scalar_index].
    parameters
        Its parameters by name.

    Examples
    --------
    >>> import pennon
    >>> from pennon.indices import IndexConfig
    >>> table = pennon.write_dataset({"a": range(100)}, "memory://index-config-class", mode="overwrite")
    >>> table.create_scalar_index("a", IndexConfig("ZONEMAP", {"rows_per_zone": 10}))
    >>> table.stats.index_stats("a_idx")["index_type"]
    'ZoneMap'
    """

    index_type: str
    parameters: dict[str, Any]


class IndexInformation(TypedDict):
    """A segment of an index: an item of [list_indices][pennon.LanceDataset.list_indices].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://index-information", mode="overwrite")
    >>> table.create_scalar_index("a", "BITMAP", name="by_a")
    >>> (segment,) = table.list_indices()
    >>> segment["name"], segment["type"], segment["fields"], list(segment["fragment_ids"])
    ('by_a', 'Bitmap', ['a'], [0])
    """

    name: str
    """Name of the index."""
    type: str
    """Its kind."""
    uuid: str
    """Uuid of the segment."""
    fields: list[str]
    """The paths of the indexed columns."""
    version: int
    """The version that was read when the segment was built."""
    fragment_ids: Bitmap
    """Fragments of this version that it covers."""
    base_id: int | None
    """The root of its files; `None` for the table's own."""


@dataclass(frozen=True)
class IndexSegmentDescription:
    """A segment of an index: rows of some fragments. An item of `segments` of an
    [IndexDescription][pennon.indices.IndexDescription].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://segment-description", mode="overwrite")
    >>> table.create_scalar_index("a", "BTREE")
    >>> (segment,) = table.describe_indices()[0].segments
    >>> list(segment.fragment_ids), segment.dataset_version_at_last_update, segment.size_bytes > 0
    ([0], 1, True)
    """

    uuid: str
    """Names its directory."""
    fragment_ids: Bitmap
    """Fragments of this version that it covers."""
    dataset_version_at_last_update: int
    """The version that was read when it was built."""
    index_version: int
    """Version of its files."""
    created_at: datetime | None
    """When it was built, in UTC."""
    size_bytes: int
    """Bytes of its files."""
    base_id: int | None = None
    """The root of its files; `None` for the table's own."""
    covering_fields: list[int] = field(default_factory=list)
    """Ids of fields whose values it has."""


@dataclass(frozen=True)
class IndexDescription:
    """An index of a version: an item of [describe_indices][pennon.LanceDataset.describe_indices].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://index-description", mode="overwrite")
    >>> table.create_scalar_index("a", "BTREE")
    >>> table.insert({"a": [4]})
    >>> (index,) = table.describe_indices()
    >>> index.name, index.index_type, index.field_names, index.num_rows_indexed
    ('a_idx', 'BTree', ['a'], 3)
    """

    name: str
    """Its name."""
    index_type: str
    """Its kind."""
    type_url: str
    """The type of its details in the manifest."""
    fields: list[int]
    """Ids of the indexed fields."""
    field_names: list[str]
    """Their paths."""
    num_rows_indexed: int
    """Live rows that it covers."""
    total_size_bytes: int
    """Bytes of the files of its segments."""
    segments: list[IndexSegmentDescription]
    """Its segments, in the order of the manifest."""
    details: dict[str, Any] = field(default_factory=dict)
    """Parameters of its kind, of those that have some."""

    @classmethod
    def _of(cls, parts: _native.IndexDescriptionParts) -> IndexDescription:
        segments = [_segment(segment) for segment in parts["segments"]]
        entry = parts["segments"][0]["entry"]
        return cls(
            name=parts["name"],
            index_type=parts["kind"],
            type_url=(entry["index_details"] or ("", b""))[0],
            fields=entry["fields"],
            field_names=parts["fields"],
            num_rows_indexed=parts["indexed_rows"],
            total_size_bytes=sum(segment.size_bytes for segment in segments),
            segments=segments,
            details={} if parts["vectors"] is None else _vector_details(parts["vectors"]),
        )


def _segment(parts: _native.IndexSegmentParts) -> IndexSegmentDescription:
    entry = parts["entry"]
    created_at = entry["created_at"]
    return IndexSegmentDescription(
        uuid=entry["uuid"],
        fragment_ids=Bitmap(parts["covered"]),
        dataset_version_at_last_update=entry["dataset_version"],
        index_version=entry["index_version"] or 0,
        created_at=None if created_at is None else EPOCH + timedelta(milliseconds=created_at),
        size_bytes=parts["size_bytes"],
        base_id=entry["base_id"],
        covering_fields=entry["covering_fields"],
    )


_METRICS = ("l2", "cosine", "dot", "hamming")


def _vector_details(parts: _native.VectorDetailsParts) -> dict[str, Any]:
    details: dict[str, Any] = {"metric_type": dict(enumerate(_METRICS)).get(parts["metric"], "unknown").upper()}
    if parts["target_partition_size"]:
        details["target_partition_size"] = parts["target_partition_size"]
    if parts["hnsw"] is not None:
        connections, construction, level = parts["hnsw"]
        details["hnsw"] = {
            "max_connections": connections,
            "construction_ef": construction,
            "max_level": level,
        }
    kind, bits, codes = parts["storage"] or ("flat", 0, 0)
    if kind != "flat":
        details["compression"] = {"type": kind, "num_bits": bits, **({"num_sub_vectors": codes} if codes else {})}
    details["runtime_hints"] = parts["runtime_hints"]
    return details


def _vector_segment(parts: _native.VectorStatisticsParts) -> dict[str, Any]:
    stored: dict[str, Any] = {"metric_type": parts["metric"]}
    name = parts["kind"].removeprefix("IVF_")
    if parts["product"] is not None:
        bits, codes = parts["product"]
        stored.update(nbits=bits, num_sub_vectors=codes, dimension=parts["dimension"], transposed=True)
    elif parts["bounds"] is not None:
        low, high = parts["bounds"]
        stored.update(dim=parts["dimension"], num_bits=8, bounds={"start": low, "end": high})
    else:
        stored.update(dim=parts["dimension"])
    return {
        "index_type": parts["kind"],
        "uuid": parts["uuid"],
        "uri": f"{parts['directory']}/index.idx",
        "metric_type": parts["metric"],
        "num_partitions": len(parts["partitions"]),
        "sub_index": {**stored, "index_type": "HNSW" if name.startswith("HNSW") else name},
        "partitions": [{"size": size} for size in parts["partitions"]],
        "centroids": parts["centroids"],
        "loss": parts["loss"],
        "index_file_version": "V3",
    }


_MADE = {
    "BTree": "BTREE",
    "Bitmap": "BITMAP",
    "LabelList": "LABEL_LIST",
    "ZoneMap": "ZONEMAP",
    "BloomFilter": "BLOOMFILTER",
}
"""Kinds over values that are made, and how they are asked for."""
_PARAMETERS = {"page_rows": "zone_size", "rows_per_zone": "rows_per_zone", "number_of_items": "number_of_items"}
_HINTS = ("max_iters", "sample_rate")


def config(table: _native.Dataset, name: str) -> IndexConfig:
    """What another segment of an index is made with. Raises `NotFoundError` or `UnsupportedError`."""
    from pennon.indices._vector_request import MADE_VECTOR_KINDS

    index = _described(table, name)
    if index["vectors"] is not None and index["kind"] in MADE_VECTOR_KINDS:
        return IndexConfig(index["kind"], _vector_parameters(table, name, index["vectors"]))
    if index["kind"] not in _MADE:
        raise UnsupportedError(f"The index {name!r} is of the kind {index['kind']}, of which none are made")
    figures: dict[str, Any] = dict(next(iter(_native.index_statistics(table, name)), {}))
    found = {key: figures.get(figure) for figure, key in _PARAMETERS.items()}
    if figures.get("number_of_items") is not None:
        found["probability"] = figures["probability"]
    return IndexConfig(_MADE[index["kind"]], {key: value for key, value in found.items() if value is not None})


def ivf_model(table: _native.Dataset, name: str) -> IvfModel | None:
    """The centroids of the newest trained segment of an index over vectors, if it has one.

    Raises `NotFoundError`, or `InvalidInputError` for an index over values.
    """
    from pennon.indices.ivf import IvfModel

    index = _described(table, name)
    if index["vectors"] is None:
        raise InvalidInputError(f"The index {name!r} is of the kind {index['kind']}, which has no centroids")
    model = _native.vector_index_model(table, name)
    if model is None:
        return None
    return IvfModel(model["ivf_centroids"], _vector_details(index["vectors"])["metric_type"].lower())


def index_over_vectors(table: _native.Dataset, column: str) -> str:
    """The name of the first index over vectors of a column. Raises `NotFoundError`."""
    for index in _native.describe_indices(table):
        if index["vectors"] is not None and index["fields"] == [column]:
            return index["name"]
    raise NotFoundError(f"No IVF index for column {column!r}")


def _vector_parameters(table: _native.Dataset, name: str, parts: _native.VectorDetailsParts) -> dict[str, Any]:
    details = _vector_details(parts)
    found: dict[str, Any] = {"metric": details["metric_type"].lower()}
    hints = details["runtime_hints"]
    found |= {hint: int(hints[f"lance.ivf.{hint}"]) for hint in _HINTS if f"lance.ivf.{hint}" in hints}
    if "hnsw" in details:
        graph = details["hnsw"]
        found |= {"m": graph["max_connections"], "ef_construction": graph["construction_ef"]}
        found["max_level"] = graph["max_level"]
    compression = details.get("compression", {})
    if compression.get("type") == "pq":
        found |= {key: compression[key] for key in ("num_bits", "num_sub_vectors")}
    for key, array in (_native.vector_index_model(table, name) or {}).items():
        if array is not None:
            found[key] = array
    return found


def information(parts: _native.IndexDescriptionParts) -> Iterable[IndexInformation]:
    """The segments of an index."""
    for segment in parts["segments"]:
        entry = segment["entry"]
        yield {
            "name": parts["name"],
            "type": parts["kind"],
            "uuid": entry["uuid"],
            "fields": parts["fields"],
            "version": entry["dataset_version"],
            "fragment_ids": Bitmap(segment["covered"]),
            "base_id": entry["base_id"],
        }


def _described(table: _native.Dataset, name: str) -> _native.IndexDescriptionParts:
    found = [index for index in _native.describe_indices(table) if index["name"] == name]
    if not found:
        raise NotFoundError(f'Index "{name}" not found')
    return found[0]


def entries(table: _native.Dataset, name: str) -> list[Index]:
    """The entries of an index, in the order of the manifest. Raises `NotFoundError`."""
    return [index_of(segment["entry"]) for segment in _described(table, name)["segments"]]


def statistics(table: _native.Dataset, name: str) -> dict[str, Any]:
    """Figures about an index. Raises `NotFoundError`."""
    index = _described(table, name)
    if index["vectors"] is not None:
        segments = [_vector_segment(segment) for segment in _native.vector_index_statistics(table, name)]
    elif index["kind"] == "Vector":
        # Neither the entries say what they are nor their files, which cannot be read.
        segments = []
    else:
        segments = [
            {figure: value for figure, value in segment.items() if value is not None and figure != "page_rows"}
            for segment in _native.index_statistics(table, name)
        ]
    made = [segment["entry"]["created_at"] for segment in index["segments"]]
    return {
        "index_type": index["kind"],
        "name": name,
        "num_indices": len(index["segments"]),
        "num_segments": len(index["segments"]),
        "indices": segments,
        "segments": segments,
        "num_indexed_fragments": index["indexed_fragments"],
        "num_indexed_rows": index["indexed_rows"],
        "num_unindexed_fragments": index["unindexed_fragments"],
        "num_unindexed_rows": index["unindexed_rows"],
        "num_indexed_rows_per_delta": [segment["rows"] for segment in index["segments"]],
        "updated_at_timestamp_ms": max((time for time in made if time is not None), default=None),
    }


# The package imports none of them: a thread that waits for the package while it imports a module, and one that
# imports the package, would wait for each other.
_attach(
    __name__,
    names={"builder": ["IndicesBuilder"], "ivf": ["IvfModel"], "pq": ["PqModel"]},
    modules=["builder", "ivf", "pq"],
)
