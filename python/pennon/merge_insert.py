"""`MergeInsertBuilder`: a merge of a source into a table, clause by clause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon import _native, _readers
from pennon._compatibility import ExplainsAbsence
from pennon._input import to_input, to_reader
from pennon._options import checked_duration, ignored
from pennon._progress import check_progress
from pennon._table.keyed_data import merge_source, source_schema, types_of_source
from pennon._table.observed import observed
from pennon._table.rows import RETRY_TIMEOUT
from pennon.errors import InvalidInputError, InvalidTypeError, PositionError
from pennon.transaction import Transaction

if TYPE_CHECKING:
    from pennon._progress import ProgressLike
    from pennon._protocols import Handle
    from pennon.types import ExecuteResult, FileVersion, ReaderLike, RewriteMode

__all__ = ["MergeInsertBuilder"]


class MergeInsertBuilder(ExplainsAbsence):
    """What to do with rows that are in both the table and a source, in the source only, and in the table only.

    Made by [merge_insert][pennon.LanceDataset.merge_insert]. Its methods change it and return it; of two
    clauses for the same rows the last one counts. It can be executed more than once.

    Updated rows keep their ids and the versions that created them. New fragments hold them in the order of their
    ids, followed by the inserted rows. Duplicate keys in the source are an error if they match a row that would
    change ("Ambiguous merge inserts are prohibited"); if they match no row, all of them are inserted.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3], "n": [0, 0, 5]}, "memory://builder", mode="overwrite")
    >>> merge = table.merge_insert("a").when_matched_update_all("source.n > target.n")
    >>> merge.when_not_matched_by_source_delete("a < 2").execute({"a": [2, 3], "n": [1, 1]})
    {'num_inserted_rows': 0, 'num_updated_rows': 1, 'num_deleted_rows': 1}
    >>> sorted(table.to_table()["n"].to_pylist())
    [1, 5]
    """

    def __init__(self, dataset: Handle, on: str | Iterable[str] | None = None) -> None:
        names = [on] if isinstance(on, str) else on
        if names is not None and not isinstance(names, Iterable):
            raise InvalidTypeError("The `on` argument to merge_insert must be a str or iterable of str")
        found = list(names or [])
        if not all(isinstance(name, str) for name in found):
            raise InvalidTypeError("The `on` argument to merge_insert must be a str or iterable of str")
        self._dataset = dataset
        self._progress: ProgressLike = None
        self._request: _native.MergeRequest = {
            "on": _native.merge_keys(dataset._native, found),
            "when_matched": "nothing",
            "condition": None,
            "insert": False,
            "delete_unmatched": False,
            "delete_condition": None,
            "write_mode": "auto",
            "conflict_retries": 10,
            "retry_timeout": RETRY_TIMEOUT,
            "memory_limit": None,
            "source_in_memory": False,
            "use_index": True,
            "data_storage_version": None,
            "target_bases": None,
            "target_all_bases": None,
        }

    def __repr__(self) -> str:
        given = self._request
        matched = given["when_matched"] + (f" if {given['condition']}" if given["condition"] else "")
        unmatched = "insert" if given["insert"] else "nothing"
        kept = f"delete if {given['delete_condition'] or 'true'}" if given["delete_unmatched"] else "keep"
        return (
            f"MergeInsertBuilder(on={given['on']}, when_matched={matched!r}, when_not_matched={unmatched!r}, "
            f"when_not_matched_by_source={kept!r})"
        )

    # Clauses.

    def when_matched_update_all(self, condition: str | None = None) -> MergeInsertBuilder:
        """Set matching rows to the values of the source; columns that the source lacks keep their values.

        Parameters
        ----------
        condition
            SQL text on `source.x` and `target.x`. Rows for which it is not true are neither updated
            nor inserted.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-update", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all()
        >>> merge.execute({"a": [2, 9], "b": [5, 5]})
        {'num_inserted_rows': 0, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        >>> sorted(table.to_table()["b"].to_pylist())
        [0, 0, 5]
        """
        return self._matched("update", condition)

    def when_matched_delete(self) -> MergeInsertBuilder:
        """Delete rows that are in both the table and the source.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-delete", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_delete()
        >>> merge.execute({"a": [2, 9]})
        {'num_inserted_rows': 0, 'num_updated_rows': 0, 'num_deleted_rows': 1}
        """
        return self._matched("delete")

    def when_matched_fail(self) -> MergeInsertBuilder:
        """Fail, and change nothing, if a row is in both the table and the source.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3], "b": [0, 0, 0]}, "memory://merge-fail", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_fail().when_not_matched_insert_all()
        >>> merge.execute({"a": [9], "b": [5]})
        {'num_inserted_rows': 1, 'num_updated_rows': 0, 'num_deleted_rows': 0}
        """
        return self._matched("fail")

    def when_not_matched_insert_all(self) -> MergeInsertBuilder:
        """Insert rows that are in the source only; columns that the source lacks are null.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-new", mode="overwrite")
        >>> merge = table.merge_insert("a").when_not_matched_insert_all()
        >>> merge.execute({"a": [2, 9], "b": [5, 5]})
        {'num_inserted_rows': 1, 'num_updated_rows': 0, 'num_deleted_rows': 0}
        """
        self._request["insert"] = True
        return self

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> MergeInsertBuilder:
        """Delete rows that are in the table only.

        Parameters
        ----------
        expr
            SQL text on the columns of the table: only rows for which it is true are deleted.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-source-delete", mode="overwrite")
        >>> merge = table.merge_insert("a").when_not_matched_by_source_delete("a > 1")
        >>> merge.execute({"a": [3], "b": [5]})
        {'num_inserted_rows': 0, 'num_updated_rows': 0, 'num_deleted_rows': 1}
        """
        self._request["delete_unmatched"] = True
        self._request["delete_condition"] = expr
        return self

    def _matched(self, action: str, condition: str | None = None) -> MergeInsertBuilder:
        self._request["when_matched"] = action
        self._request["condition"] = condition
        return self

    # Options.

    def conflict_retries(self, max_retries: int) -> MergeInsertBuilder:
        """Retries on the newest version after other writers changed the same rows or keys; 10 by default.

        The source is read once and kept for the retries.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-retries", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all().conflict_retries(3)
        >>> merge.execute({"a": [2], "b": [5]})
        {'num_inserted_rows': 0, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        """
        if max_retries < 0:
            raise PositionError(f"conflict_retries is {max_retries}, expected at least 0")
        self._request["conflict_retries"] = max_retries
        return self

    def retry_timeout(self, timeout: timedelta) -> MergeInsertBuilder:
        """No retry starts after this time; 30 seconds by default.

        Raises
        ------
        pennon.InvalidTypeError
            `timeout` is not a `timedelta`.
        pennon.InvalidInputError
            It is negative.

        Examples
        --------
        >>> import pennon
        >>> from datetime import timedelta
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-timeout", mode="overwrite")
        >>> merge = table.merge_insert("a").when_not_matched_insert_all().retry_timeout(timedelta(minutes=5))
        >>> merge.execute({"a": [2]})["num_inserted_rows"]
        1
        """
        self._request["retry_timeout"] = checked_duration("timeout", timeout)
        return self

    def use_index(self, use_index: bool) -> MergeInsertBuilder:
        """Whether indices over key columns may find the rows that match; by default they do.

        They are used where that costs less than reading all keys: `explain_plan` says up to how many rows of the
        source. The result is the same. `_rowid` is always found by its index.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-use-index", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all().use_index(False)
        >>> merge.execute({"a": [2], "b": [5]})
        {'num_inserted_rows': 0, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        """
        if not isinstance(use_index, bool):
            raise InvalidTypeError(f"use_index must be a bool, found {use_index!r}")
        self._request["use_index"] = use_index
        return self

    def write_mode(self, mode: RewriteMode) -> MergeInsertBuilder:
        """How rows that match are stored.

        Parameters
        ----------
        mode
            `"auto"`; `"rewrite_rows"`: whole rows in new fragments; `"rewrite_columns"`: new files with the columns
            of the source for the fragments that have the rows.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2], "b": [0, 0], "c": ["x", "y"]}
        >>> table = pennon.write_dataset(data, "memory://merge-write-mode", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all().write_mode("rewrite_columns")
        >>> _ = merge.execute({"a": [2], "b": [5]})
        >>> [(fragment.fragment_id, len(fragment.data_files())) for fragment in table.get_fragments()]
        [(0, 2)]
        """
        if mode not in ("auto", "rewrite_rows", "rewrite_columns"):
            raise InvalidInputError(
                f"Invalid write_mode: {mode}. Expected one of 'auto', 'rewrite_rows', 'rewrite_columns'"
            )
        self._request["write_mode"] = mode
        return self

    def memory_limit(self, limit: int) -> MergeInsertBuilder:
        """Bytes of memory for a streamed source, and for the keys; 512 MiB by default.

        A larger source is spilled to a temporary file; if the keys need more, so are both sides of the join. Keys
        may take 64 KiB in any case.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-memory", mode="overwrite")
        >>> merge = table.merge_insert("a").when_not_matched_insert_all().memory_limit(64 * 1024 * 1024)
        >>> merge.execute({"a": range(1000)})["num_inserted_rows"]
        999
        """
        if limit < 0:
            raise InvalidInputError(f"memory_limit is {limit}, expected at least 0")
        self._request["memory_limit"] = limit
        return self

    def data_storage_version(self, version: FileVersion) -> MergeInsertBuilder:
        """Version of the new data files, as in [write_dataset][pennon.write_dataset]; by default that of the table,
        which this does not change.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-file-version", mode="overwrite")
        >>> merge = table.merge_insert("a").when_not_matched_insert_all().data_storage_version("2.1")
        >>> _ = merge.execute({"a": [2]})
        >>> [fragment.data_files()[0].file_minor_version for fragment in table.get_fragments()]
        [2, 1]
        """
        _readers.check_version(version, self._dataset._native.config.get(_readers.KEY))
        self._request["data_storage_version"] = version
        return self

    def target_bases(self, bases: Iterable[str]) -> MergeInsertBuilder:
        """Write the files of new fragments below base paths, in turn.

        Deletion files, and new columns of fragments that exist, always lie below the root of the table.

        Parameters
        ----------
        bases
            Names or paths of base paths that are registered in the table; the URI of the table means its own root.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-bases", mode="overwrite")
        >>> _ = table.add_bases([pennon.DatasetBasePath("memory://merge-cold", name="cold")])
        >>> merge = table.merge_insert("a").when_not_matched_insert_all().target_bases(["cold"])
        >>> _ = merge.execute({"a": [2]})
        >>> [fragment.data_files()[0].base_id for fragment in table.get_fragments()]
        [None, 1]
        """
        if isinstance(bases, str):
            raise InvalidTypeError("target_bases must be a list of str, not str")
        names = list(bases)
        if not names:
            raise InvalidInputError("target_bases cannot be empty. Omit the option to write to primary storage.")
        self._request["target_bases"] = names
        return self

    def target_all_bases(self, include_primary: bool = True) -> MergeInsertBuilder:
        """Write the files of new fragments below all base paths in turn; not together with `target_bases`.

        Parameters
        ----------
        include_primary
            Whether the root of the table takes the first turn.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-all-bases", mode="overwrite")
        >>> _ = table.add_bases([pennon.DatasetBasePath("memory://merge-archive", name="archive")])
        >>> merge = table.merge_insert("a").when_not_matched_insert_all().target_all_bases(include_primary=False)
        >>> _ = merge.execute({"a": [2]})
        >>> [fragment.data_files()[0].base_id for fragment in table.get_fragments()]
        [None, 1]
        """
        self._request["target_all_bases"] = include_primary
        return self

    def progress(self, progress: ProgressLike) -> MergeInsertBuilder:
        """Tell of the rows of the source as they are read.

        Parameters
        ----------
        progress
            A function that is called with the [Progress][pennon.jobs.Progress] so far; what it raises ends the
            merge, and nothing is committed. True for a bar of tqdm, False for nothing. By default a bar, where tqdm
            is installed and somebody is watching: in a terminal or a notebook, after two seconds.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-progress", mode="overwrite")
        >>> seen = []
        >>> merge = table.merge_insert("a").when_not_matched_insert_all().progress(seen.append)
        >>> _ = merge.execute({"a": [1, 2, 3]})
        >>> seen[-1].rows
        3
        """
        check_progress(progress)
        self._progress = progress
        return self

    # Execution.

    def execute(self, data_obj: ReaderLike, *, schema: pa.Schema | None = None) -> ExecuteResult:
        """Merge a source, and move the dataset to the new version.

        Parameters
        ----------
        data_obj
            The source: whatever [write_dataset][pennon.write_dataset] takes. It is read once. Its columns are the
            keys and any others of the table, in any order. `_rowid` as a key is of any type of integers.
        schema
            Schema of a source that has none of its own; by default values of Python and pandas get the types of the
            table. Values that would change are refused.

        Raises
        ------
        pennon.InvalidInputError
            No clause changes anything, a condition does not parse, two source rows match the same row, a row
            matches although `when_matched_fail` is set, a row id is negative, or null would be stored in a column
            that is not nullable.
        pennon.SchemaMismatchError
            The source has columns of other types, or columns that the table does not have.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-execute", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
        >>> merge.execute([{"a": 2, "b": 5}, {"a": 9, "b": 5}])
        {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        """
        with self._observed(data_obj, schema) as source:
            counts, self._dataset._native = _native.merge_insert(self._dataset._native, source, self._for(data_obj))
        return execute_result(counts)

    def execute_uncommitted(
        self, data_obj: ReaderLike, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, dict[str, Any]]:
        """Write the files of a merge; return the transaction that commits them and the numbers of rows.

        Parameters and errors as for `execute`. Committing the transaction does not retry the merge: it is refused
        if another writer has changed the same fragments.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3], "b": [0, 0, 0]}
        >>> table = pennon.write_dataset(data, "memory://merge-uncommitted", mode="overwrite")
        >>> merge = table.merge_insert("a").when_matched_update_all()
        >>> transaction, counts = merge.execute_uncommitted({"a": [2], "b": [5]})
        >>> counts["num_updated_rows"], table.latest_version
        (1, 1)
        >>> pennon.LanceDataset.commit(table, transaction).version
        2
        """
        with self._observed(data_obj, schema) as source:
            counts, parts = _native.merge_insert_uncommitted(self._dataset._native, source, self._for(data_obj))
        return Transaction._of(parts), dict(execute_result(counts))

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """What a merge would do, as text.

        Parameters
        ----------
        schema
            Columns of the source; by default those of the table.
        verbose
            Accepted, without effect.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://explain-merge", mode="overwrite")
        >>> print(table.merge_insert("a").when_not_matched_insert_all().explain_plan())
        MergeInsert: on=[a], when_matched=DoNothing, when_not_matched=InsertAll, when_not_matched_by_source=Keep
          HashJoinExec: join_type=Inner, on=[(a, a)]
            LanceRead: uri=memory://explain-merge, projection=[a], num_fragments=1, row_addr=true
            Source: projection=[a]
        <BLANKLINE>
        """
        ignored(verbose=verbose or None)
        columns = source_schema(schema, self._request["on"])
        return _native.explain_merge_insert(self._dataset._native, columns, self._request)

    def analyze_plan(self, data_obj: ReaderLike, *, schema: pa.Schema | None = None) -> str:
        """What a merge does and costs, as text. Nothing is committed, and the staged files are removed.

        Parameters and errors as for `execute`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://merge-analyze", mode="overwrite")
        >>> print(table.merge_insert("a").when_not_matched_insert_all().analyze_plan({"a": [1, 2]}))
        MergeInsert: on=[a], ...num_inserted_rows=1, num_updated_rows=0, num_deleted_rows=0]
          HashJoinExec: join_type=Inner, on=[(a, a)], elapsed=..., metrics=[output_rows=1]
            LanceRead: uri=memory://merge-analyze, projection=[a], num_fragments=1, ...
            Source: projection=[a], metrics=[output_rows=2, spilled=false]
        <BLANKLINE>
        >>> table.latest_version
        1
        """
        source = to_reader(self._source(data_obj, schema))
        return _native.analyze_merge_insert(self._dataset._native, source, self._for(data_obj))

    @contextmanager
    def _observed(self, data: ReaderLike, schema: pa.Schema | None) -> Iterator[pa.RecordBatchReader]:
        with observed(self._source(data, schema), self._progress, None, title="merge") as source:
            yield source.to_reader() if isinstance(source, pa.Table) else source

    def _source(self, data: ReaderLike, schema: pa.Schema | None) -> pa.Table | pa.RecordBatchReader:
        on = self._request["on"]
        return merge_source(to_input(data, schema, types_of_source(self._dataset._native.schema, on)), on)

    def _for(self, data: ReaderLike) -> _native.MergeRequest:
        in_memory = isinstance(data, pa.Table | pa.RecordBatch | dict | list)
        return {**self._request, "source_in_memory": in_memory}


def execute_result(counts: tuple[int, int, int]) -> ExecuteResult:
    """Numbers of inserted, updated and deleted rows, named."""
    inserted, updated, deleted = counts
    return {"num_inserted_rows": inserted, "num_updated_rows": updated, "num_deleted_rows": deleted}
