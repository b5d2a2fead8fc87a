"""Rows of a dataset, updated, deleted and merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from pennon import _native, _readers
from pennon._exact_casts import check_casts
from pennon._methods.base import TableMethods
from pennon._options import checked_duration, checked_number, strings
from pennon._table import rows, scans
from pennon._table.rows import RETRY_TIMEOUT
from pennon.errors import InvalidTypeError
from pennon.merge_insert import MergeInsertBuilder

if TYPE_CHECKING:
    from datetime import timedelta

    from pennon.types import (
        DeleteResult,
        FileVersion,
        Filter,
        ReaderLike,
        RewriteMode,
        UpdateResult,
        WriteMode,
    )


class UpdateMethods(TableMethods):
    """The methods of `LanceDataset` that change rows."""

    _written: Callable[..., Any]

    def insert(self, data: ReaderLike, *, mode: WriteMode = "append", **kwargs: Any) -> None:
        """Append rows, or overwrite the table, and move to the new version.

        Parameters and errors as in [write_dataset][pennon.write_dataset].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://insert", mode="overwrite")
        >>> table.insert({"a": [3]}, commit_message="one more")
        >>> table.version, table.to_table()["a"].to_pylist()
        (2, [1, 2, 3])
        >>> table.insert({"a": [7]}, mode="overwrite")
        >>> table.to_table()["a"].to_pylist()
        [7]
        """
        self._native = self._written(data, self, mode, **kwargs)._native

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> DeleteResult:
        """Delete the rows for which a predicate is true, and move to the new version.

        Parameters
        ----------
        predicate
            SQL text, or a pyarrow expression. Rows for which it is null are kept.
        conflict_retries
            Retries on the newest version after other writers changed the same rows.
        retry_timeout
            No retry starts after this time.

        Raises
        ------
        pennon.InvalidInputError
            The predicate does not parse, names an unknown column, or is not boolean.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delete", mode="overwrite")
        >>> table.delete("a >= 2")
        {'num_deleted_rows': 2}
        """
        retries = checked_number("conflict_retries", conflict_retries, most=2**32 - 1)
        timeout = checked_duration("retry_timeout", retry_timeout)
        predicate = rows.as_sql(self._native, predicate)
        if isinstance(predicate, str):
            return {"num_deleted_rows": self._native.delete(predicate, retries, timeout)}
        if not isinstance(predicate, pc.Expression):
            raise InvalidTypeError(
                f"predicate must be SQL text or a pyarrow expression, not {type(predicate).__name__}"
            )

        matching = partial(scans.addresses, expression=predicate)
        deleted, self._native = _native.delete_found(self._native, matching, str(predicate), retries, timeout)
        return {"num_deleted_rows": deleted}

    def truncate_table(self) -> None:
        """Delete all rows; the schema is kept.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://truncate", mode="overwrite")
        >>> table.truncate_table()
        >>> table.count_rows(), table.schema.names
        (0, ['a'])
        """
        self._native.truncate()

    def update(
        self,
        updates: Mapping[str, str],
        where: Filter | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        data_storage_version: FileVersion | None = None,
        *,
        mode: RewriteMode = "auto",
    ) -> UpdateResult:
        """Set columns of matching rows to new values, and move to the new version.

        Rows keep their ids and the versions that created them. Every row the update touches is marked as last
        updated in the new version, even if its values are unchanged.

        Parameters
        ----------
        updates
            An SQL expression for each column that gets new values, whose name may be in back ticks. Expressions see
            the row as it was and may name system columns; the result is cast to the type of the column.
        where
            SQL text, or a pyarrow expression; by default all rows. Rows for which it is null are not updated.
        conflict_retries
            Retries on the newest version after other writers changed the same rows.
        retry_timeout
            No retry starts after this time.
        data_storage_version
            Version of the new data files, such as `"2.1"`; by default that of the table.
        mode
            `"rewrite_rows"`: matching rows are written to new fragments with all their columns and deleted from the
            old ones; other writers may change other rows at the same time. `"rewrite_columns"`: the assigned
            columns of every fragment with a match are rewritten, and rows keep their addresses. `"auto"`: columns
            if more than half of the rows of these fragments match and rewriting rows would take at least twice the
            bytes and 64 KiB more; otherwise rows.

        Raises
        ------
        pennon.InvalidInputError
            There is no such column, an expression does not parse, or a value cannot be computed, cast or stored
            (null in a column that is not nullable).
        pennon.InvalidTypeError
            An expression is not text.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://update", mode="overwrite")
        >>> table.update({"a": "a * 10"}, where="a >= 2")
        {'num_rows_updated': 2}
        >>> table.to_table(with_row_id=True).sort_by("_rowid").to_pydict()
        {'a': [1, 20, 30], '_rowid': [0, 1, 2]}
        """
        _readers.check_version(data_storage_version, self._native.config.get(_readers.KEY))
        request = rows.update_request(conflict_retries, retry_timeout, data_storage_version, mode)
        assignments = strings(updates, "updates")
        where = None if where is None else rows.as_sql(self._native, where)
        if isinstance(where, pc.Expression):
            matching = partial(scans.addresses, expression=where)
            updated, self._native = _native.update_found(self._native, matching, assignments, request)
            return {"num_rows_updated": updated}
        if where is not None and not isinstance(where, str):
            raise InvalidTypeError(f"where must be SQL text or a pyarrow expression, not {type(where).__name__}")
        updated, self._native = _native.update(self._native, assignments, where, request)
        return {"num_rows_updated": updated}

    def update_rows(
        self,
        row_ids: Sequence[int] | ReaderLike,
        data: ReaderLike | None = None,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        mode: RewriteMode = "auto",
    ) -> UpdateResult:
        """Set columns of the rows with these ids to new values, and move to the new version.

        The rows are found by their ids, without a join or a scan.

        Parameters
        ----------
        row_ids
            The ids; or the whole data with a column `_rowid`. In a table without stable row ids they are
            addresses.
        data
            New values of some columns, a row for each id, in any form that
            [write_dataset][pennon.write_dataset] takes. They are cast to the types of the table, unless that would
            change a value: of numbers only floats are rounded, to the nearest of a column of floats. Texts are
            cast to integers, but not to floats, decimals, bools, dates and times. Dates and times are not cast to
            other numbers, times without a time zone not to those with one, and lists not to single values, nor the
            reverse.
        conflict_retries, retry_timeout, mode
            As in [update][pennon.LanceDataset.update].

        Raises
        ------
        pennon.NotFoundError
            No row has some of the ids; the message contains their number and the first.
        pennon.InvalidInputError
            An id is repeated or is not a whole number from 0 on, there is no such column, or a value cannot be cast
            or stored, or would change.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3], "b": ["x", "y", "z"]}, "memory://rows", mode="overwrite")
        >>> table.update_rows([2, 0], {"b": ["Z", "X"]})
        {'num_rows_updated': 2}
        >>> table.to_table(with_row_id=True).sort_by("_rowid").to_pydict()
        {'a': [1, 2, 3], 'b': ['X', 'y', 'Z'], '_rowid': [0, 1, 2]}
        """
        schema = self._native.schema
        table = rows.with_ids(row_ids, data, schema)
        check_casts(table, schema)
        request = rows.update_request(conflict_retries, retry_timeout, None, mode)
        updated, self._native = _native.update_rows(self._native, table.to_reader(), request)
        return {"num_rows_updated": updated}

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Begin a merge of a source into this table: rows are updated, inserted and deleted in one commit.

        Parameters
        ----------
        on
            The key columns: a source row matches a table row if all of them are equal. Null equals
            nothing. `"_rowid"` alone finds rows by their ids, without reading the table. By default the columns of
            the declared primary key.

        Raises
        ------
        pennon.InvalidInputError
            There is no such column, or no key.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2], "b": ["x", "y"]}, "memory://merge-insert", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
        >>> merge.execute({"a": [2, 3], "b": ["Y", "Z"]})
        {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        >>> table.to_table(with_row_id=True).to_pydict()
        {'a': [1, 2, 3], 'b': ['x', 'Y', 'Z'], '_rowid': [0, 1, 2]}
        """
        return MergeInsertBuilder(self, on)
