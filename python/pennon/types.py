"""Types of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict, Union

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.dataset

    from pennon.transaction import Transaction

__all__ = [
    "AlterColumn",
    "AutoCleanupConfig",
    "BulkCommitResult",
    "ColumnOrdering",
    "Columns",
    "CommitStatus",
    "DeleteResult",
    "ExecuteResult",
    "Filter",
    "ReaderLike",
    "Reference",
    "Time",
    "UpdateResult",
    "Version",
    "VersionRef",
]

Reference: TypeAlias = Union[int, str, tuple[Union[str, None], Union[int, None]]]
"""A version by number, by tag, or as a tuple of branch and version."""

Columns: TypeAlias = Union[Sequence[str], Mapping[str, str]]
"""Columns by name, or SQL expressions by the name of their result."""

Filter: TypeAlias = Union[str, "pa.compute.Expression"]
"""A predicate: SQL text, or a pyarrow expression."""

ReaderLike: TypeAlias = Any
"""Data to write; see [write_dataset][pennon.write_dataset]."""

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
    """A version of a table; the timestamp is naive and local."""

    version: int
    timestamp: datetime
    metadata: dict[str, str]


class VersionRef(TypedDict):
    """The number of a version."""

    version: int


class _AlterColumn(TypedDict):
    path: str


class AlterColumn(_AlterColumn, total=False):
    """A change to the column at a path."""

    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class AutoCleanupConfig(TypedDict, total=False):
    """When a commit removes old versions automatically."""

    interval: int
    """Number of commits between cleanups; 20 if not given."""
    older_than_seconds: int
    """Age in seconds above which a version is removed; 14 days if not given."""


class DeleteResult(TypedDict):
    """What a delete did."""

    num_deleted_rows: int


class UpdateResult(TypedDict):
    """What an update did."""

    num_rows_updated: int


class ExecuteResult(TypedDict):
    """What a merge did."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


class CommitStatus(NamedTuple):
    """Whether a transaction was committed, according to the current versions of a table."""

    committed: bool | None
    """None if no version contains the transaction and versions after its read version were cleaned up."""
    version: int | None
    """The version that committed it."""


class BulkCommitResult(TypedDict):
    """What a commit of several transactions did."""

    dataset: pa.dataset.Dataset
    merged: Transaction
