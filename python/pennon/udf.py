"""User functions over batches, for `add_columns`, and the file that keeps their results until the commit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pennon._compatibility import ExplainsAbsence, explain_absent_names
from pennon._exact_casts import cast_exactly
from pennon._input import is_frame_of_pandas, result_table, to_reader
from pennon._python_values import check_index
from pennon._table.scans import given
from pennon.errors import InvalidInputError, InvalidTypeError, SchemaMismatchError

if TYPE_CHECKING:
    import sqlite3

    from pennon._protocols import Scannable, ScannedFragment

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]

explain_absent_names(__name__)


class BatchUDF:
    """A function from batches of rows to batches of new columns; see [batch_udf][pennon.batch_udf].

    Parameters
    ----------
    func
        Takes a `pyarrow.RecordBatch`; returns a batch or table, a frame of pandas or polars, a dict of lists or a
        list of dicts, with as many rows. Frames, dicts and lists get the types of `output_schema`; a value that
        would change by this is an error. The index of a frame of pandas is left out if it has no name, or if
        `output_schema` does not have it.
    output_schema
        Schema of the new columns; by default that of the function's result for the first row.
    checkpoint_file
        Where to keep the results of batches until the columns are committed.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://udf-class", mode="overwrite")
    >>> double = pennon.BatchUDF(lambda batch: pa.record_batch({"b": pc.multiply(batch["a"], 2)}))
    >>> table.add_columns(double)
    >>> table.to_table()["b"].to_pylist()
    [2, 4]
    """

    def __init__(
        self,
        func: Callable[[pa.RecordBatch], Any],
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.func = func
        self.output_schema = output_schema
        self.cache = None if checkpoint_file is None else BatchUDFCheckpoint(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Call the undecorated function."""
        return self.func(batch)

    def __reduce__(self) -> tuple[Any, ...]:
        # A decorated function has its place in the module: pickle finds what decorates it, not the function.
        module, name = getattr(self.func, "__module__", ""), getattr(self.func, "__qualname__", "")
        try:
            is_decorated = _named(module, name) is self
        except (AttributeError, ImportError, ValueError):
            is_decorated = False
        if is_decorated:
            return _named, (module, name)
        return BatchUDF, (self.func, self.output_schema, None if self.cache is None else self.cache.path)


def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: str | os.PathLike[str] | None = None
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUDF]:
    """Decorate a function whose results become columns.

    Parameters
    ----------
    output_schema
        Schema of the new columns; by default that of the function's result for the first row.
    checkpoint_file
        Where to keep the results of batches until the columns are committed. After a failure the same call, with
        the same file, continues where it stopped: batches of the same rows, of fragments that have not changed, are
        not computed again. With another `batch_size` all are.

    Examples
    --------
    >>> import pennon
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://batch-udf", mode="overwrite")
    >>> @pennon.batch_udf()
    ... def double(batch):
    ...     return pa.record_batch({"double": pc.multiply(batch["a"], 2)})
    >>> table.add_columns(double)
    >>> table.to_table().to_pylist()
    [{'a': 1, 'double': 2}, {'a': 2, 'double': 4}, {'a': 3, 'double': 6}]
    """

    def decorate(func: Callable[[pa.RecordBatch], Any]) -> BatchUDF:
        return BatchUDF(func, output_schema, checkpoint_file)

    return decorate


class BatchUDFCheckpoint(ExplainsAbsence):
    """Results of batches in an SQLite file.

    Parameters
    ----------
    path
        The file; created if it does not exist.

    Examples
    --------
    >>> import os, tempfile
    >>> import pennon
    >>> import pyarrow as pa
    >>> from pennon.dataset import BatchUDFCheckpoint
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://udf-checkpoint", mode="overwrite")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     @pennon.batch_udf(checkpoint_file=os.path.join(folder, "results.sqlite"))
    ...     def negated(batch):
    ...         return pa.record_batch({"b": [-a.as_py() for a in batch["a"]]})
    ...     table.add_columns(negated)
    ...     isinstance(negated.cache, BatchUDFCheckpoint)
    True
    """

    class BatchInfo(NamedTuple):
        """Identifies a batch: its fragment, and its number in the fragment.

        `source` describes the fragment and the rows of the batch, so that a result is never used for other rows.
        """

        fragment_id: int
        batch_index: int
        source: str = ""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        with self._connected() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS pennon_batches (fragment INTEGER, batch INTEGER, source TEXT, "
                "result BLOB, PRIMARY KEY (fragment, batch, source))"
            )
            connection.execute(
                "CREATE TABLE IF NOT EXISTS pennon_fragments (fragment INTEGER PRIMARY KEY, json TEXT)"
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # The module takes a while to import, and few programs need it.
        import sqlite3

        with closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection

    def get_batch(self, info: BatchInfo) -> pa.RecordBatch | None:
        """The stored result of a batch; `None` if there is none.

        Examples
        --------
        >>> import os, tempfile
        >>> import pyarrow as pa
        >>> from pennon.dataset import BatchUDFCheckpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = BatchUDFCheckpoint(os.path.join(folder, "results.sqlite"))
        ...     store.insert_batch(store.BatchInfo(0, 0), pa.record_batch({"b": [1, 2]}))
        ...     store.get_batch(store.BatchInfo(0, 0)).num_rows, store.get_batch(store.BatchInfo(0, 1))
        (2, None)
        """
        with self._connected() as connection:
            found = connection.execute(
                "SELECT result FROM pennon_batches WHERE fragment = ? AND batch = ? AND source = ?", info
            ).fetchone()
        return None if found is None else pa.ipc.open_stream(found[0]).read_next_batch()

    def insert_batch(self, info: BatchInfo, batch: pa.RecordBatch) -> None:
        """Store the result of a batch, in place of an earlier one.

        Examples
        --------
        >>> import os, tempfile
        >>> import pyarrow as pa
        >>> from pennon.dataset import BatchUDFCheckpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = BatchUDFCheckpoint(os.path.join(folder, "results.sqlite"))
        ...     info = store.BatchInfo(fragment_id=0, batch_index=2)
        ...     store.insert_batch(info, pa.record_batch({"b": [1]}))
        ...     store.insert_batch(info, pa.record_batch({"b": [2]}))
        ...     store.get_batch(info).to_pylist()
        [{'b': 2}]
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        with self._connected() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO pennon_batches VALUES (?, ?, ?, ?)", (*info, sink.getvalue().to_pybytes())
            )

    def get_fragment(self, fragment_id: int) -> str | None:
        """The stored metadata of a fragment with its new file, as JSON; `None` if there are none.

        Examples
        --------
        >>> import os, tempfile
        >>> from pennon.dataset import BatchUDFCheckpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = BatchUDFCheckpoint(os.path.join(folder, "results.sqlite"))
        ...     store.insert_fragment(0, '{"id": 0}')
        ...     store.get_fragment(0), store.get_fragment(1)
        ('{"id": 0}', None)
        """
        with self._connected() as connection:
            found = connection.execute(
                "SELECT json FROM pennon_fragments WHERE fragment = ?", (fragment_id,)
            ).fetchone()
        return None if found is None else str(found[0])

    def insert_fragment(self, fragment_id: int, fragment: str) -> None:
        """Store the metadata of a fragment with its new file, as JSON, in place of the results of its batches.

        `add_columns` stores batches only; this is for programs that make the files of fragments themselves.

        Examples
        --------
        >>> import json, os, tempfile
        >>> import pennon
        >>> import pyarrow as pa
        >>> from pennon.dataset import BatchUDFCheckpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = BatchUDFCheckpoint(os.path.join(folder, "results.sqlite"))
        ...     store.insert_batch(store.BatchInfo(0, 0), pa.record_batch({"b": [1, 2]}))
        ...     store.insert_fragment(0, json.dumps(pennon.FragmentMetadata(0, [], 2).to_json()))
        ...     store.get_fragment(0)[:9], store.get_batch(store.BatchInfo(0, 0))
        ('{"id": 0,', None)
        """
        with self._connected() as connection:
            connection.execute("INSERT OR REPLACE INTO pennon_fragments VALUES (?, ?)", (fragment_id, fragment))
            connection.execute("DELETE FROM pennon_batches WHERE fragment = ?", (fragment_id,))

    def cleanup(self) -> None:
        """Remove the file. Raises `FileNotFoundError` if it was removed already.

        Examples
        --------
        >>> import os, tempfile
        >>> from pennon.dataset import BatchUDFCheckpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = BatchUDFCheckpoint(os.path.join(folder, "results.sqlite"))
        ...     store.cleanup()
        ...     os.listdir(folder)
        []
        """
        os.remove(self.path)


def _named(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), import_module(module))


def normalize_transform(
    transforms: Any,
    source: Scannable,
    read_columns: list[str] | None,
    reader_schema: pa.Schema | None,
) -> dict[str, str] | BatchUDF | pa.RecordBatchReader:
    """New columns in one of three forms."""
    if isinstance(transforms, BatchUDF):
        if transforms.output_schema is None:
            # The caller's own is for other tables as well.
            own = BatchUDF(transforms, _batch(transforms(_first_row(source, read_columns))).schema)
            own.cache = transforms.cache
            return own
        return transforms
    if isinstance(transforms, dict):
        for name, expression in transforms.items():
            if not isinstance(name, str):
                raise InvalidTypeError(f"Column names must be a string. Got {type(name)}")
            if not isinstance(expression, str):
                raise InvalidTypeError(
                    f"Column expressions must be a string. Got {type(expression)} for {name}: give values as a "
                    "table of pyarrow or a frame"
                )
        return transforms
    if callable(transforms):
        first = _first_row(source, read_columns)
        try:
            return BatchUDF(transforms, _batch(transforms(first)).schema)
        except Exception as error:
            raise InvalidTypeError(
                "transforms must be a BatchUDF, dict, map function, or ReaderLike value. "
                f"Received {type(transforms)}, which is callable, but gave an error when called with a batch of "
                f"data: {error}"
            ) from error
    try:
        reader = to_reader(transforms, reader_schema)
    except TypeError as error:
        raise InvalidTypeError(
            "transforms must be a BatchUDF, dict, map function, or ReaderLike value. "
            f"Received {type(transforms)}. Could not coerce to a reader: {error}"
        ) from error
    if reader_schema is None and is_frame_of_pandas(transforms):
        check_index(reader.schema.names)
    return reader


def applied(
    udf: BatchUDF, fragments: Sequence[ScannedFragment], read_columns: list[str] | None, batch_size: int | None
) -> pa.RecordBatchReader:
    """The results of a function for the live rows of fragments, one batch after the other."""
    schema = udf.output_schema

    def batches() -> Iterator[pa.RecordBatch]:
        for fragment in fragments:
            source, first = f"{fragment.metadata.to_json()} {read_columns}", 0
            scan = given(columns=read_columns, batch_size=batch_size, blob_handling="all_binary")
            for number, batch in enumerate(fragment._scan(scan).to_batches()):
                rows = f"{source} rows {first} to {first + batch.num_rows}"
                yield _result(udf, batch, BatchUDFCheckpoint.BatchInfo(fragment.fragment_id, number, rows))
                first += batch.num_rows

    return pa.RecordBatchReader.from_batches(schema, batches())


def _result(udf: BatchUDF, batch: pa.RecordBatch, info: BatchUDFCheckpoint.BatchInfo) -> pa.RecordBatch:
    kept = None if udf.cache is None else udf.cache.get_batch(info)
    if kept is not None and kept.num_rows == batch.num_rows and kept.schema == udf.output_schema:
        return kept
    result = _batch(udf(batch), udf.output_schema)
    if result.schema != udf.output_schema:
        raise SchemaMismatchError(
            "Output schema of function does not match the expected schema. "
            f"Expected:\n{udf.output_schema}\nGot:\n{result.schema}{_advice(udf.output_schema)}"
        )
    if result.num_rows != batch.num_rows:
        raise InvalidInputError(
            f"The function returned {result.num_rows} rows for a batch of {batch.num_rows}: "
            f"batch {info.batch_index} of fragment {info.fragment_id}"
        )
    if udf.cache is not None:
        udf.cache.insert_batch(info, result)
    return result


def _first_row(source: Scannable, read_columns: list[str] | None) -> pa.RecordBatch:
    """A batch of the first row, or of none."""
    scanner = source._scan(given(limit=1, columns=read_columns, blob_handling="all_binary"))
    first = next(iter(scanner.to_batches()), None)
    return pa.RecordBatch.from_pylist([], schema=scanner.projected_schema) if first is None else first


def _batch(result: Any, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """What a function returned; what is not of pyarrow in the types of its schema."""
    if isinstance(result, pa.RecordBatch):
        return result
    try:
        table = result_table(result, schema)
        if schema is not None and not isinstance(result, pa.Table) and set(table.column_names) == set(schema.names):
            table = cast_exactly(table.select(schema.names), schema)
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"The function returned {type(result)}, expected a pyarrow.RecordBatch or other rows: {error}"
            f"{_advice(schema)}"
        ) from error
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{error}{_advice(schema)}") from error
    return pa.RecordBatch.from_struct_array(table.to_struct_array().combine_chunks())


def _advice(schema: pa.Schema | None) -> str:
    """What to do about a type that was made of nulls alone: by default the types are those of the first row."""
    nulls = [] if schema is None else [field.name for field in schema if pa.types.is_null(field.type)]
    return f"; {nulls[0]} was null in the first row: give batch_udf an output_schema" if nulls else ""
