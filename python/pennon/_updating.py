"""Updates: a part of `LanceDataset`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pennon import _native
from pennon._reading import ReadableDataset
from pennon.errors import CommitConflictError
from pennon.merge_insert import MergeInsertBuilder

if TYPE_CHECKING:
    from pennon.types import Filter, UpdateResult


class UpdatingDataset(ReadableDataset):
    """What gives rows new values."""

    def update(
        self,
        updates: Mapping[str, str],
        where: Filter | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        data_storage_version: str | None = None,
    ) -> UpdateResult:
        """Give columns of matching rows new values, and move to the new version.

        Rows keep their ids and the versions that made them; the version of their last update becomes the new one,
        also where a value stays the same.

        Parameters
        ----------
        updates
            An SQL expression for each column that gets new values. Expressions see the row as it was and may name
            system columns; what they give is cast to the type of the column.
        where
            SQL text, or a pyarrow expression; all rows without one. Rows for which it is null stay as they are.
        conflict_retries
            Repetitions on the newest version when others changed the same rows meanwhile.
        retry_timeout
            No repetition is begun after this time.
        data_storage_version
            Version of the new data files, such as `"2.1"`; that of the table without one.

        Raises
        ------
        pennon.InvalidInputError
            There is no such column, an expression does not parse, or a value cannot be computed, cast or stored:
            null in a column that must not have any.
        TypeError
            An expression is not text.
        pennon.CommitConflictError
            All tries met conflicts.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://update", mode="overwrite")
        >>> table.update({"a": "a * 10"}, where="a >= 2")
        {'num_rows_updated': 2}
        >>> table.to_table(with_row_id=True).to_pydict()
        {'a': [1, 20, 30], '_rowid': [0, 1, 2]}
        """
        request: _native.UpdateRequest = {
            "conflict_retries": conflict_retries,
            "retry_timeout": retry_timeout,
            "data_storage_version": data_storage_version,
        }
        assignments = dict(updates)
        if isinstance(where, pc.Expression):

            def at(base: _native.Dataset, found: pa.Array) -> tuple[int, _native.Dataset]:
                return _native.update_at(base, found, assignments, request)

            return {"num_rows_updated": self._at_matches(where, conflict_retries, retry_timeout, at)}
        if where is not None and not isinstance(where, str):
            raise TypeError(f"where must be SQL text or a pyarrow expression, not {type(where).__name__}")
        updated, self._native = _native.update(self._native, assignments, where, request)
        return {"num_rows_updated": updated}

    def _at_matches(
        self,
        filter: pc.Expression,
        retries: int,
        timeout: timedelta,
        change: Callable[[_native.Dataset, pa.Array], tuple[int, _native.Dataset]],
    ) -> int:
        """Changes the rows that match at their addresses, again on the newest version after conflicts."""
        from pennon.dataset import LanceDataset

        deadline = time.monotonic() + timeout.total_seconds()
        base = LanceDataset._wrap(self._native.copy())
        while True:
            found = base.to_table(columns=["_rowaddr"], filter=filter)["_rowaddr"].combine_chunks()
            try:
                changed, self._native = change(base._native, found)
            except CommitConflictError as conflict:
                if not conflict.retryable or retries == 0 or time.monotonic() > deadline:
                    raise
                retries -= 1
                base.checkout_latest()
            else:
                return changed

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Begin a merge of a source into this table: rows are updated, inserted and deleted in one commit.

        Parameters
        ----------
        on
            The key columns: rows of the source and of the table match if they are equal in all of them. Null equals
            nothing. `"_rowid"` alone finds rows by their ids, without reading the table. By default the columns of
            the declared primary key.

        Raises
        ------
        pennon.InvalidInputError
            There is no such column, or no key.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2], "b": ["x", "y"]}, "memory://merge", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
        >>> merge.execute({"a": [2, 3], "b": ["Y", "Z"]})
        {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        >>> table.to_table(with_row_id=True).to_pydict()
        {'a': [1, 2, 3], 'b': ['x', 'Y', 'Z'], '_rowid': [0, 1, 2]}
        """
        return MergeInsertBuilder(self, on)
