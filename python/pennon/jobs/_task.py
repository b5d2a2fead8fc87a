"""A part of a job, and its result."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pyarrow as pa

from pennon import _native
from pennon._exact_casts import cast_exactly, checked
from pennon._input import has_no_types, result_table, to_input, to_reader
from pennon._options import checked_text
from pennon._table.keyed_data import with_ids
from pennon.errors import InvalidInputError, SchemaMismatchError
from pennon.jobs._connection import Connection, pinned
from pennon.udf import BatchUDF, applied

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.types import Durability, ReaderLike

WITH_SOURCE = ("merge", "add_columns", "update_columns")
"""Kinds of jobs whose tasks may all be given one source."""

FILE_OPTIONS = (
    "max_rows_per_file",
    "max_bytes_per_file",
    "max_page_bytes",
    "external_blob_mode",
    "allow_external_blob_outside_bases",
    "blob_pack_file_size_threshold",
)

NativeT = TypeVar("NativeT", bound="_native.JobPlan | _native.JobTask")


class TaskResult:
    """What a task did. It can be pickled, and turned into JSON by `json`.

    Holds bitmaps of rows and the metadata of files that were written, never rows.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://task-result", mode="overwrite")
    >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}).tasks
    >>> result = task.run()
    >>> result.number, result.rows
    (0, 3)
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.JobResult) -> None:
        self._native = native

    @property
    def number(self) -> int:
        """The number of the task in its plan, from 0.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://result-number", mode="overwrite")
        >>> plan = jobs.plan_append(table)
        >>> plan.task(4).run({"a": [4]}).number
        4
        """
        return self._native.number

    @property
    def rows(self) -> int:
        """Rows that were found, or written.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://result-rows", mode="overwrite")
        >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}, where="a > 1").tasks
        >>> task.run().rows
        2
        """
        return self._native.rows

    @property
    def bytes(self) -> int:
        """Bytes of the data files that were written.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://result-bytes", mode="overwrite")
        >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}, where="a > 1").tasks
        >>> result = task.run()
        >>> result.bytes == sum(result.files.values())
        True
        """
        return self._native.bytes

    @property
    def files(self) -> dict[str, int]:
        """The files that the task wrote: bytes by the path below the table.

        No version refers to them until the job is committed. If it never is, they are orphans, which
        [cleanup_old_versions][pennon.LanceDataset.cleanup_old_versions] removes once they are seven days old. Blobs
        in files of their own are not among them: they are in the folder with the name of their data file.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://result-files", mode="overwrite")
        >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}, where="a > 1").tasks
        >>> [(path.split("/")[0], size > 0) for path, size in task.run().files.items()]
        [('data', True)]
        """
        return dict(self._native.files)

    def json(self) -> str:
        """The result as JSON text, to hand to the process that commits.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://result-json", mode="overwrite")
        >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}, where="a > 1").tasks
        >>> text = task.run().json()
        >>> jobs.TaskResult.from_json(text).json() == text
        True
        """
        return self._native.to_json()

    @staticmethod
    def from_json(json: str) -> TaskResult:
        """The inverse of `json`. Raises `InvalidInputError` for other text and for that of another release.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://result-from-json", mode="overwrite")
        >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}, where="a > 1").tasks
        >>> sent = task.run().json()
        >>> jobs.TaskResult.from_json(sent).rows
        2
        """
        return TaskResult(_native.JobResult.from_json(checked_text("json", json)))

    def __reduce__(self) -> tuple[Any, ...]:
        return TaskResult.from_json, (self.json(),)

    def __repr__(self) -> str:
        return f"TaskResult(task={self.number}, rows={self.rows}, bytes={self.bytes})"


@dataclass(frozen=True)
class ColumnFunction:
    """A function whose results become columns, with what it is given; goes with a pickle, not with JSON."""

    udf: BatchUDF
    read_columns: list[str] | None
    batch_size: int | None

    def values(self, task: Task, table: LanceDataset) -> pa.RecordBatchReader:
        """The new columns of the fragments of a task."""
        ids = [fragment for fragment, _ in task.slices]
        fragments = [fragment for fragment in table.get_fragments() if fragment.fragment_id in ids]
        return applied(self.udf, fragments, self.read_columns, self.batch_size)


@dataclass(frozen=True)
class ChangeFunction:
    """A function that decides what becomes of rows; goes with a pickle, not with JSON."""

    decide: Callable[[pa.RecordBatch], Any]
    schema: pa.Schema

    def values(self, task: Task, table: LanceDataset) -> pa.RecordBatchReader:
        """The changes of the rows of a task."""

        def changes() -> Iterator[pa.RecordBatch]:
            for batch in task._native.scan(table._native).batches():
                decided = self.decide(batch)
                if isinstance(decided, Mapping):
                    self._check(task, list(decided))
                rows = result_table(decided, self.schema)
                self._check(task, rows.column_names)
                yield from cast_exactly(rows.select(self.schema.names), self.schema).to_batches()

        return pa.RecordBatchReader.from_batches(self.schema, changes())

    def _check(self, task: Task, names: list[str]) -> None:
        if set(names) != set(self.schema.names):
            raise SchemaMismatchError(
                f"The function of task {task.number} returned {', '.join(names)}; expected the columns "
                f"{', '.join(self.schema.names)}"
            )


class PlannedWork(Generic[NativeT]):
    """A job, or a part of one."""

    __slots__ = ("_connection", "_function", "_native")

    def __init__(
        self,
        native: NativeT,
        connection: Connection,
        function: ColumnFunction | ChangeFunction | None = None,
    ) -> None:
        self._native = native
        self._connection = connection
        self._function = function

    @property
    def kind(self) -> str:
        """What is done.

        `scan`, `append`, `overwrite`, `delete`, `update`, `merge`, `change_rows`, `add_columns`, `update_columns`,
        `verify` or `compact`.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://work-kind", mode="overwrite")
        >>> jobs.plan_compaction(table).kind, jobs.plan_append(table).task(0).kind
        ('compact', 'append')
        """
        return self._native.work

    @property
    def uri(self) -> str:
        """The URI of the table.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://work-uri", mode="overwrite")
        >>> plan = jobs.plan_scan(table)
        >>> plan.uri, plan.task(0).uri
        ('memory://work-uri', 'memory://work-uri')
        """
        return self._native.uri

    @property
    def version(self) -> int:
        """The version that is pinned, which tasks read; 0 for a job that makes a table.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://work-version", mode="overwrite")
        >>> plan = jobs.plan_delete(table, "a > 1")
        >>> table.insert({"a": [4]})
        >>> plan.version, plan.task(0).version, jobs.plan_delete(table, "a > 1").version
        (1, 1, 2)
        """
        return self._native.version


class Task(PlannedWork[_native.JobTask]):
    """A part of a job. It can be pickled, and turned into JSON by `json`.

    Examples
    --------
    >>> import pennon
    >>> from pennon import jobs
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://task", mode="overwrite")
    >>> (task,) = jobs.plan_scan(table).tasks
    >>> task.to_reader().read_all()["a"].to_pylist()
    [1, 2, 3]
    """

    __slots__ = ()

    @property
    def number(self) -> int:
        """Its number in the plan, from 0.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://task-number", mode="overwrite", max_rows_per_file=2)
        >>> [task.number for task in jobs.plan_scan(table, tasks=3).tasks]
        [0, 1, 2]
        """
        return self._native.number

    @property
    def slices(self) -> list[tuple[int, range | None]]:
        """What it reads: ids of fragments, each with positions among its live rows unless it is the whole of it.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://task-slices", mode="overwrite", max_rows_per_file=2)
        >>> [task.slices for task in jobs.plan_scan(table, tasks=2).tasks]
        [[(0, None), (1, range(0, 1))], [(1, range(1, 2)), (2, None)]]
        """
        return [(fragment, None if rows is None else range(*rows)) for fragment, rows in self._native.slices]

    def run(
        self,
        data: ReaderLike | None = None,
        *,
        source: ReaderLike | Callable[[], ReaderLike] | None = None,
        **file_options: Any,
    ) -> TaskResult:
        """Do what the task says and commit nothing.

        Parameters
        ----------
        data
            The rows that an append, overwrite or merge is given, as in [write_dataset][pennon.write_dataset];
            changes of rows, see [plan_change_rows][pennon.jobs.plan_change_rows]; the new columns of the rows that
            the task reads, in their order. In a merge, rows with equal keys must be given to one task. Values of
            Python and pandas get the types of the table or the plan, and their columns may be in another order,
            unless the job makes a table.
        source
            Instead of `data`, what every task of the plan is given, or a function that returns it: all rows of a
            merge, of which the task keeps those whose keys are its own; the data that columns come from by a key.
        **file_options
            Sizes of the files that are written: `max_rows_per_file` and others of
            [write_dataset][pennon.write_dataset].

        Raises
        ------
        pennon.InvalidInputError
            The table at `uri` is another one by now, or rows were given to a task that reads the table. For a merge
            also what [execute][pennon.MergeInsertBuilder.execute] raises for its rows; for changes of rows and new
            values of columns, a value that the type of its column would change.
        pennon.SchemaMismatchError
            The rows have other columns than the job was planned with.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1]}, "memory://task-run", mode="overwrite")
        >>> plan = jobs.plan_append(table, tasks=2)
        >>> results = [plan.task(0).run({"a": [2, 3]}), plan.task(1).run({"a": [4]})]
        >>> [result.rows for result in results], table.latest_version
        ([2, 1], 1)
        >>> plan.commit(results).dataset.count_rows()
        4
        """
        if data is not None and source is not None:
            raise InvalidInputError("Rows of the task and a source of all tasks were given: expected one of them")
        if data is None and source is None:
            if file_options:
                raise InvalidInputError(f"Options of files without rows: {', '.join(sorted(file_options))}")
            if self._function is None:
                return TaskResult(self._native.run(self._open()._native))
            table = self._open()
            return self._write(table, self._function.values(self, table), False, {})
        for name in file_options:
            if name not in FILE_OPTIONS:
                raise InvalidInputError(f"Unknown option {name!r}; known are {', '.join(FILE_OPTIONS)}")
        if file_options and self.kind in ("add_columns", "update_columns"):
            raise InvalidInputError(
                f"Columns have a file for each fragment: found {', '.join(sorted(file_options))}"
            )
        if source is not None and self.kind not in WITH_SOURCE:
            raise InvalidInputError(f"A task of a job of kind {self.kind} has no source: give it its rows as data")
        given = source if data is None else data
        rows = cast("ReaderLike", given() if callable(given) else given)
        target = None if self.kind == "overwrite" else self._open()
        return self._write(target, rows, source is not None, file_options)

    def _write(
        self, table: LanceDataset | None, rows: ReaderLike, is_source: bool, file_options: Mapping[str, Any]
    ) -> TaskResult:
        request = self._connection.request(mode="overwrite" if table is None else "append", **file_options)
        native = None if table is None else table._native
        all_rows = is_source and self.kind == "merge"
        has_types = isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        types = None if has_types else self._types(native)
        given = with_ids(to_input(rows, table_schema=types))
        if types is not None and has_no_types(rows) and set(given.schema.names) == set(types.names):
            given = to_reader(given).read_all().select(types.names)
        if native is not None and self.kind in ("change_rows", "update_columns"):
            given = checked(given, native.schema)
        return TaskResult(self._native.write(native, given, all_rows, request))

    def _types(self, table: _native.Dataset | None) -> pa.Schema | None:
        """The types of rows that have none of their own: those of the table, or of the plan if it says them."""
        if self.kind == "append":
            return None if table is None else table.schema
        if self.kind not in ("merge", "change_rows", "add_columns", "update_columns"):
            return None
        work = json.loads(self.json())["work"][self.kind]
        work = work.get("values") or work.get("join") or work
        columns = work.get("source") or work.get("changes") or work.get("schema")
        return None if columns is None else pa.ipc.open_stream(base64.b64decode(columns)).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of a task that reads some, as those of scans do. Raises `InvalidInputError` for others.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://task-batches", mode="overwrite")
        >>> (task,) = jobs.plan_scan(table, filter="a > 1").tasks
        >>> [batch.num_rows for batch in task.to_batches()]
        [2]
        """
        yield from self._native.scan(self._open()._native).batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The same rows as a reader with their schema.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://task-reader", mode="overwrite")
        >>> (task,) = jobs.plan_scan(table, filter="a > 1").tasks
        >>> task.to_reader().read_all()["a"].to_pylist()
        [2, 3]
        """
        batches = self._native.scan(self._open()._native).batches()
        return pa.RecordBatchReader.from_batches(batches.schema, batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _open(self) -> LanceDataset:
        if self.version == 0:
            raise InvalidInputError(f"A task of a job of kind {self.kind} reads no table: give it rows")
        return pinned(self._connection, self._native.uuid, self.uri, self.version)

    def json(self) -> str:
        """The task as JSON, without storage options and without the function of new columns.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://task-json", mode="overwrite")
        >>> (task,) = jobs.plan_scan(table, filter="a > 1").tasks
        >>> jobs.Task.from_json(task.json()).number
        0
        """
        return self._native.to_json()

    @staticmethod
    def from_json(
        json: str, *, storage_options: Mapping[str, str] | None = None, durability: Durability = "full"
    ) -> Task:
        """The inverse of `json`. Raises `InvalidInputError` for other text and for that of another release.

        Examples
        --------
        >>> import pennon
        >>> from pennon import jobs
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://task-from-json", mode="overwrite")
        >>> (task,) = jobs.plan_update(table, {"a": "a + 1"}, where="a > 1").tasks
        >>> sent = task.json()
        >>> jobs.Task.from_json(sent).run().rows
        2
        """
        native = _native.JobTask.from_json(checked_text("json", json))
        return Task(native, Connection.of(storage_options, durability))

    def __reduce__(self) -> tuple[Any, ...]:
        return _task, (self.json(), self._connection, self._function)

    def __repr__(self) -> str:
        of = "" if self._native.of is None else f" of {self._native.of}"
        return f"Task({self.number}{of}, {self.kind!r}, {self.uri!r}, version={self.version})"


def _task(text: str, connection: Connection, function: ColumnFunction | ChangeFunction | None) -> Task:
    return Task(_native.JobTask.from_json(text), connection, function)
