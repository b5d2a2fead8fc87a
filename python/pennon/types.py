"""Types of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    Union,
    runtime_checkable,
)

from pennon._compatibility import explain_absent_names
from pennon._render import Grid, panel

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.dataset

    from pennon.transaction import Transaction

__all__ = [
    "AlterColumn",
    "ArrowArray",
    "ArrowSchema",
    "ArrowStream",
    "AutoCleanupConfig",
    "BlobHandling",
    "BlobMode",
    "BulkCommitResult",
    "ChangeColumns",
    "ChangeImages",
    "ChangeMode",
    "ColumnOrdering",
    "Columns",
    "CommitLock",
    "CommitStatus",
    "DeleteResult",
    "Durability",
    "ExecuteResult",
    "ExternalBlobMode",
    "FileVersion",
    "Filter",
    "Missing",
    "Order",
    "ReaderLike",
    "Reference",
    "RestoreResult",
    "RewriteMode",
    "TakeBy",
    "Time",
    "UpdateResult",
    "Version",
    "VersionRef",
    "Versions",
    "WriteMode",
]

explain_absent_names(__name__)

Reference: TypeAlias = Union[int, str, tuple[Union[str, None], Union[int, None]]]
"""A version by number, by tag, or as a tuple of branch and version."""

Columns: TypeAlias = Union[Sequence[str], Mapping[str, str]]
"""Columns by name, or SQL expressions by the name of their result."""

QueryVectorLike: TypeAlias = Union["pa.Array", "pa.Scalar[Any]", "np.ndarray[Any, Any]", Sequence[Any]]
"""A vector, or several: numbers, or sequences of them."""

Filter: TypeAlias = Union[str, "pa.compute.Expression"]
"""A predicate: SQL text, or a pyarrow expression."""


@runtime_checkable
class ArrowStream(Protocol):
    """Rows as Arrow: what pyarrow, polars, duckdb and many others have.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> class Measurements:
    ...     def __arrow_c_stream__(self, requested_schema=None):
    ...         return pa.table({"a": [1, 2]}).__arrow_c_stream__(requested_schema)
    >>> isinstance(Measurements(), pennon.types.ArrowStream)
    True
    >>> pennon.write_dataset(Measurements(), "memory://arrow-stream", mode="overwrite").count_rows()
    2
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, as a capsule of the Arrow C stream interface."""
        ...


@runtime_checkable
class ArrowArray(Protocol):
    """Rows as one Arrow array of structs.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> class Measurements:
    ...     def __arrow_c_array__(self, requested_schema=None):
    ...         return pa.record_batch({"a": [1, 2]}).__arrow_c_array__(requested_schema)
    >>> isinstance(Measurements(), pennon.types.ArrowArray)
    True
    >>> pennon.write_dataset(Measurements(), "memory://arrow-array", mode="overwrite").count_rows()
    2
    """

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Schema and array, as capsules of the Arrow C data interface."""
        ...


@runtime_checkable
class ArrowSchema(Protocol):
    """A schema, field or type as Arrow.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> table = pennon.write_dataset({"a": [1]}, "memory://arrow-schema", mode="overwrite")
    >>> isinstance(table.lance_schema, pennon.types.ArrowSchema)
    True
    >>> pa.schema(table.lance_schema)
    a: int64
    """

    def __arrow_c_schema__(self) -> object:
        """A capsule of the Arrow C data interface."""
        ...


ReaderLike: TypeAlias = Union[
    ArrowStream, ArrowArray, Mapping[str, Any], Sequence[Mapping[str, Any]], Iterable["pa.RecordBatch"]
]
"""Data to write; see [write_dataset][pennon.write_dataset]. What pyarrow has is all of these."""

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[object]]
"""Makes a context manager for a version, which is held while the manifest of that version is written."""

WriteMode: TypeAlias = Literal["create", "append", "overwrite"]
"""What a write does with a table that there is, and without one."""

Durability: TypeAlias = Literal["full", "os"]
"""What a commit survives: a power cut, or a crash of the process."""

FileVersion: TypeAlias = Literal["2.0", "2.1", "2.2", "2.3", "stable", "next", "legacy", "0.1", "0.3"]
"""A version of data files; those that can be written are 2.0, 2.1, 2.2 and stable, which is 2.2."""

ExternalBlobMode: TypeAlias = Literal["reference", "ingest"]
"""What becomes of blobs that are given by their URI."""

BlobHandling: TypeAlias = Literal["all_binary", "blobs_descriptions", "all_descriptions"]
"""What blob columns are read as."""

BlobMode: TypeAlias = Literal["lazy", "bytes", "descriptions"]
"""What blobs are in a frame: files that are read when they are looked at, bytes, or where the bytes are."""

ChangeColumns: TypeAlias = Literal["end", "table"]
"""Whose columns a change feed shows: those of the end of the window, or of the table that is asked."""

ChangeMode: TypeAlias = Literal["net", "each"]
"""Changes between two versions, or of each of them."""

ChangeImages: TypeAlias = Literal["post", "both"]
"""The rows after a change, or before it as well."""

Missing: TypeAlias = Literal["skip", "error", "null"]
"""What becomes of ids that no row has."""

Order: TypeAlias = Literal["asc", "desc"]
"""Oldest or newest first."""

RewriteMode: TypeAlias = Literal["auto", "rewrite_rows", "rewrite_columns"]
"""How rows that change are stored."""

TakeBy: TypeAlias = Literal["position", "id", "address"]
"""What a number says of its row."""

Time: TypeAlias = Union[datetime, str]
"""A point in time; naive ones are local, text is in ISO form."""


@dataclass
class ColumnOrdering:
    """How rows are sorted by a column.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [2, None, 3]}, "memory://column-ordering", mode="overwrite")
    >>> table.to_table(order_by=[ColumnOrdering("a", ascending=False)])["a"].to_pylist()
    [3, 2, None]
    """

    column_name: str
    """The column, or the path of a nested one."""
    ascending: bool = True
    """Whether the smallest value is first."""
    nulls_first: bool = False
    """Whether nulls are before all values."""


class Version(TypedDict):
    """A version of a table; the timestamp is naive and local. An item of [versions][pennon.LanceDataset.versions].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://version-item", mode="overwrite")
    >>> table.insert({"a": [4]})
    >>> newest = table.versions()[-1]
    >>> newest["version"], newest["metadata"]["total_rows"]
    (2, '4')
    """

    version: int
    timestamp: datetime
    metadata: dict[str, str]


class Versions(list[Version]):
    """Versions of a table, the oldest first: a list that notebooks show as a table.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://versions-list", mode="overwrite")
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> [entry["version"] for entry in table.versions()]
    [1, 2]
    """

    def _repr_html_(self) -> str:
        rows = ((entry["version"], entry["timestamp"], entry["metadata"]) for entry in reversed(self))
        return panel("Versions, newest first", None, Grid(("version", "time", "metadata"), rows, len(self)))


class VersionRef(TypedDict):
    """The number of a version: an item of [version_refs][pennon.LanceDataset.version_refs].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://version-ref", mode="overwrite")
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> max(ref["version"] for ref in table.version_refs())
    2
    """

    version: int


class _AlterColumn(TypedDict):
    path: str


class AlterColumn(_AlterColumn, total=False):
    """A change to the column at a path, for [alter_columns][pennon.LanceDataset.alter_columns].

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> from pennon.dataset import AlterColumn
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://alter-column", mode="overwrite")
    >>> change: AlterColumn = {"path": "a", "name": "price", "data_type": pa.int32()}
    >>> table.alter_columns(change)
    >>> table.schema
    price: int32
    """

    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class AutoCleanupConfig(TypedDict, total=False):
    """When a commit removes old versions automatically.

    Examples
    --------
    >>> import pennon
    >>> from pennon.dataset import AutoCleanupConfig
    >>> cleanup: AutoCleanupConfig = {"interval": 5, "older_than_seconds": 3600}
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://cleanup-config", mode="overwrite")
    >>> table.optimize.enable_auto_cleanup(cleanup)
    >>> table.config()["lance.auto_cleanup.older_than"]
    '3600s'
    """

    interval: int
    """Number of commits between cleanups; 20 if not given."""
    older_than_seconds: int
    """Age in seconds above which a version is removed; 14 days if not given."""


class DeleteResult(TypedDict):
    """What a [delete][pennon.LanceDataset.delete] did.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delete-result", mode="overwrite")
    >>> table.delete("a > 1")["num_deleted_rows"]
    2
    """

    num_deleted_rows: int


class RestoreResult(TypedDict):
    """What a [restore of rows][pennon.LanceDataset.restore_rows] did.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://restore-result", mode="overwrite")
    >>> deleted = table.delete("a > 1")
    >>> table.restore_rows([2], 1)["num_restored_rows"]
    1
    """

    num_restored_rows: int


class UpdateResult(TypedDict):
    """What an [update][pennon.LanceDataset.update] did.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://update-result", mode="overwrite")
    >>> table.update({"a": "a * 10"}, where="a < 3")["num_rows_updated"]
    2
    """

    num_rows_updated: int


class ExecuteResult(TypedDict):
    """What a merge did; see [MergeInsertBuilder][pennon.MergeInsertBuilder].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://execute-result", mode="overwrite")
    >>> merge = table.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    >>> result = merge.execute({"a": [3, 4, 5]})
    >>> result["num_inserted_rows"], result["num_updated_rows"], result["num_deleted_rows"]
    (2, 1, 0)
    """

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


class CommitStatus(NamedTuple):
    """Whether a transaction was committed, according to the current versions of a table; see
    [commit_status][pennon.LanceDataset.commit_status].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://commit-status-class", mode="overwrite")
    >>> table.delete("a = 1")
    {'num_deleted_rows': 1}
    >>> status = table.commit_status(table.read_transaction(2).uuid)
    >>> status.committed, status.version
    (True, 2)
    """

    committed: bool | None
    """None if no version contains the transaction and versions after its read version were cleaned up."""
    version: int | None
    """The version that committed it."""


class BulkCommitResult(TypedDict):
    """What a commit of several transactions did; see [commit_batch][pennon.LanceDataset.commit_batch].

    Examples
    --------
    >>> import pennon
    >>> from pennon.fragment import write_fragments
    >>> table = pennon.write_dataset({"a": [1]}, "memory://bulk-commit", mode="overwrite")
    >>> appends = [write_fragments({"a": [n]}, table, return_transaction=True) for n in (2, 3)]
    >>> result = pennon.LanceDataset.commit_batch(table, appends)
    >>> result["dataset"].count_rows(), len(result["merged"].operation.fragments)
    (3, 2)
    """

    dataset: pa.dataset.Dataset
    merged: Transaction
