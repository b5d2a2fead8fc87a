"""Figures about a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pennon import _native
from pennon._compatibility import ExplainsAbsence
from pennon._render import panel
from pennon.indices import statistics

if TYPE_CHECKING:
    from pennon._native import CountersParts

__all__ = [
    "Counters",
    "DataStatistics",
    "DatasetStats",
    "FieldStatistics",
    "IOStats",
    "LanceStats",
    "bytes_read_counter",
    "iops_counter",
    "process_counters",
]


class Counters(NamedTuple):
    """What was asked of stores and caches since a table was opened, or since the process began.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://counters-class", mode="overwrite")
    >>> before = table.counters()
    >>> table.to_table().num_rows
    3
    >>> table.counters().rows_decoded > before.rows_decoded
    True
    """

    read_requests: int = 0
    """Requests that read: ranges and whole files, sizes, listings."""
    read_bytes: int = 0
    """Bytes of files that were read."""
    write_requests: int = 0
    """Requests that change something: puts, parts of uploads, copies, deletions."""
    written_bytes: int = 0
    """Bytes of files that were written."""
    request_retries: int = 0
    """Requests that were sent again: the store was busy, did not answer, or broke off."""
    commit_retries: int = 0
    """Commits that were tried again on a newer version."""
    cache_hits: int = 0
    """Look-ups that the caches of the table answered."""
    cache_misses: int = 0
    """Look-ups that they could not answer."""
    rows_decoded: int = 0
    """Rows that were decoded, once for each set of columns that was read together."""
    row_id_indexes: int = 0
    """Indexes of row ids that were made, of all fragments or from the index of another version."""

    def _repr_html_(self) -> str:
        return panel("Counters", self._asdict())

    @classmethod
    def _of(cls, parts: CountersParts) -> Counters:
        return cls(**parts)


class IOStats(NamedTuple):
    """Requests and bytes of a table; see [io_stats_snapshot][pennon.LanceDataset.io_stats_snapshot].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://io-stats-class", mode="overwrite")
    >>> stats = table.io_stats_incremental()
    >>> stats.write_iops > 0, stats.written_bytes > stats.write_iops
    (True, True)
    """

    read_iops: int
    """Requests that read."""
    read_bytes: int
    """Bytes that were read."""
    write_iops: int
    """Requests that change something."""
    written_bytes: int
    """Bytes that were written."""

    def _repr_html_(self) -> str:
        return panel("IOStats", self._asdict())

    @classmethod
    def _of(cls, now: Counters, before: Counters) -> IOStats:
        return cls(*(max(0, new - old) for new, old in zip(now[:4], before[:4], strict=True)))


def process_counters() -> Counters:
    """What all tables of this process counted.

    Examples
    --------
    >>> import pennon
    >>> from pennon.stats import process_counters
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://process-counters", mode="overwrite")
    >>> before = process_counters().rows_decoded
    >>> table.to_table().num_rows
    3
    >>> process_counters().rows_decoded - before
    3
    """
    return Counters._of(_native.process_counters())


def iops_counter() -> int:
    """The number of requests that read, of all tables of this process.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://iops", mode="overwrite")
    >>> before = pennon.iops_counter()
    >>> pennon.dataset("memory://iops").to_table().num_rows
    3
    >>> pennon.iops_counter() > before
    True
    """
    return process_counters().read_requests


def bytes_read_counter() -> int:
    """The number of bytes that all tables of this process read.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": range(1000)}, "memory://bytes-read", mode="overwrite")
    >>> before = pennon.bytes_read_counter()
    >>> pennon.dataset("memory://bytes-read").to_table(columns=["a"]).num_rows
    1000
    >>> pennon.bytes_read_counter() - before > 1000
    True
    """
    return process_counters().read_bytes


class DatasetStats(TypedDict):
    """Figures about the fragments of a table: the result of [dataset_stats][pennon.stats.LanceStats.dataset_stats].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://dataset-stats", mode="overwrite")
    >>> table.insert({"a": [4]})
    >>> table.stats.dataset_stats()["num_small_files"]
    2
    """

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


@dataclass
class FieldStatistics:
    """Figures about the values of a field.

    Examples
    --------
    >>> import pennon
    >>> data = {"a": range(100), "b": [f"{n}" * 50 for n in range(100)]}
    >>> table = pennon.write_dataset(data, "memory://field-statistics", mode="overwrite")
    >>> a, b = table.stats.data_stats().fields
    >>> a.id, b.id, b.bytes_on_disk > a.bytes_on_disk
    (0, 1, True)
    """

    id: int
    """Id of the field."""
    bytes_on_disk: int
    """Bytes of its values in the data files of this version, deleted rows included; those of its members apart."""


@dataclass
class DataStatistics:
    """Figures about the data of a table.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2], "b": ["x", "y"]}, "memory://data-statistics", mode="overwrite")
    >>> names = {field.id(): field.name() for field in table.lance_schema.fields()}
    >>> sizes = {names[field.id]: field.bytes_on_disk for field in table.stats.data_stats().fields}
    >>> sorted(sizes), min(sizes.values()) > 0
    (['a', 'b'], True)
    """

    fields: list[FieldStatistics]
    """The fields by their ids, members too."""


class LanceStats(ExplainsAbsence):
    """Figures about a table; see [LanceDataset.stats][pennon.LanceDataset.stats].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://lance-stats", mode="overwrite")
    >>> table.stats
    LanceStats('memory://lance-stats', num_deleted_rows=0, num_fragments=1, num_small_files=1)
    """

    def __init__(self, dataset: _native.Dataset) -> None:
        self._native = dataset

    def __repr__(self) -> str:
        figures = ", ".join(f"{name}={value}" for name, value in self.dataset_stats().items())
        return f"LanceStats({self._native.uri!r}, {figures})"

    def _repr_html_(self) -> str:
        return panel(f"LanceStats of {self._native.uri}", {**self.dataset_stats()})

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Deleted rows, fragments, and fragments with fewer rows than `max_rows_per_group`, deleted ones included.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://small-files", mode="overwrite", max_rows_per_file=2)
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.stats.dataset_stats(max_rows_per_group=2)
        {'num_deleted_rows': 1, 'num_fragments': 2, 'num_small_files': 1}
        """
        fragments = self._native.fragments
        return {
            "num_deleted_rows": sum(fragment.num_deletions for fragment in fragments),
            "num_fragments": len(fragments),
            "num_small_files": sum(fragment.physical_rows < max_rows_per_group for fragment in fragments),
        }

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Figures about an index: its kind and segments, and how many fragments and rows it covers.

        Of a segment of a B-tree the number of pages, the smallest and the largest value as text; of a bitmap index
        the number of values.

        Raises
        ------
        pennon.NotFoundError
            No index has this name. It is also a `KeyError`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(1000)}, "memory://index-stats", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.stats.index_stats("a_idx")["segments"]
        [{'num_pages': 1, 'min': '0', 'max': '999'}]
        """
        return statistics(self._native, index_name)

    def data_stats(self) -> DataStatistics:
        """How many bytes each field takes; reads the end of every data file.

        Raises
        ------
        pennon.NotFoundError
            A data file is missing.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(1000), "b": ["x"] * 1000}, "memory://stats", mode="overwrite")
        >>> [(field.id, field.bytes_on_disk > 0) for field in table.stats.data_stats().fields]
        [(0, True), (1, True)]
        """
        sizes = _native.field_sizes(self._native)
        return DataStatistics([FieldStatistics(field, size) for field, size in sizes.items()])
