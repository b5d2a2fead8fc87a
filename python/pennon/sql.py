"""SQL over one table, executed by DataFusion: an optional package, whose dialect is also that of the reference.

DataFusion reads the table as a pyarrow dataset of one fragment. It passes the columns it needs and those parts of
WHERE that pyarrow has words for, and does not evaluate these again: they become filters of the core, which means by
them what SQL means (NaN is above all numbers, IN is null for null) and skips by statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pennon._expression import columns_of
from pennon._optional import require
from pennon._predicate import split
from pennon._sql_functions import register
from pennon._sql_row_columns import has_row_columns, selecting
from pennon._table import scans
from pennon._table.plan import planned
from pennon.errors import InvalidInputError, InvalidTypeError, PennonError, UnsupportedError

if TYPE_CHECKING:
    from pennon import _native
    from pennon._protocols import Handle
    from pennon._table.plan import ScanPlan

__all__ = ["SqlQuery", "SqlQueryBuilder"]

T = TypeVar("T")
_MOST_ROWS = 2**32 - 1


class SqlQueryBuilder:
    """Collects the options of a query; made by [LanceDataset.sql][pennon.LanceDataset.sql].

    Examples
    --------
    >>> import pennon
    >>> data = {"day": ["mon", "tue", "mon"], "n": [1, 2, 4]}
    >>> table = pennon.write_dataset(data, "memory://sql-builder", mode="overwrite")
    >>> builder = table.sql("SELECT day, sum(n) AS n FROM sales GROUP BY day ORDER BY day").table_name("sales")
    >>> builder.build().to_stream_reader().read_all().to_pylist()
    [{'day': 'mon', 'n': 5}, {'day': 'tue', 'n': 2}]
    """

    def __init__(self, dataset: Handle, sql: str) -> None:
        if not isinstance(sql, str):
            raise InvalidTypeError(f"A query is a text, not {type(sql).__name__}")
        self._dataset = dataset
        self._sql = sql
        self._name = "dataset"
        self._request = scans.new_request()

    def table_name(self, table_name: str) -> SqlQueryBuilder:
        """What the query calls the table; `dataset` by default.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-name", mode="overwrite")
        >>> query = table.sql("SELECT max(a) AS a FROM numbers").table_name("numbers").build()
        >>> query.to_batch_records()[0].to_pylist()
        [{'a': 3}]
        """
        self._name = table_name
        return self

    def with_row_id(self, with_row_id: bool = True) -> SqlQueryBuilder:
        """Whether the table has a column `_rowid`, and the result too if each of its rows is one row of the table.

        The column follows those of the query, unless the query selects it. It is not added to the result of a query
        with aggregates, DISTINCT, joins, unions or window functions, nor to one that begins with FROM.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-row-id", mode="overwrite")
        >>> query = table.sql("SELECT a FROM dataset WHERE _rowid = 2").with_row_id().build()
        >>> query.to_batch_records()[0].to_pylist()
        [{'a': 3, '_rowid': 2}]
        """
        self._request["with_row_id"] = with_row_id
        return self

    def with_row_addr(self, with_row_addr: bool = True) -> SqlQueryBuilder:
        """Whether the table has a column `_rowaddr`: the fragment of a row times 2^32, plus its offset there.

        It is added to the result when `_rowid` would be, see `with_row_id`.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2]}
        >>> table = pennon.write_dataset(data, "memory://sql-row-addr", mode="overwrite", max_rows_per_file=1)
        >>> query = table.sql("SELECT _rowaddr >> 32 AS fragment FROM dataset WHERE a = 2").with_row_addr().build()
        >>> query.to_batch_records()[0].to_pylist()
        [{'fragment': 1, '_rowaddr': 4294967296}]
        """
        self._request["with_row_address"] = with_row_addr
        return self

    def blob_handling(self, blob_handling: str) -> SqlQueryBuilder:
        """What blob columns read as: descriptions by default, see [scanner][pennon.LanceDataset.scanner].

        Examples
        --------
        >>> import pennon, pyarrow as pa
        >>> data = pa.table([pennon.blob_array([b"abc"])], schema=pa.schema([pennon.blob_field("file")]))
        >>> table = pennon.write_dataset(data, "memory://sql-blobs", mode="overwrite", data_storage_version="2.2")
        >>> query = table.sql("SELECT file FROM dataset").blob_handling("all_binary").build()
        >>> query.to_batch_records()[0].to_pylist()
        [{'file': b'abc'}]
        """
        self._request["blob_handling"] = blob_handling
        return self

    def batch_size(self, batch_size: int) -> SqlQueryBuilder:
        """The most rows in a batch of the result.

        Raises
        ------
        pennon.InvalidInputError
            The number is below 1, or does not fit in 32 bits.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-batch-size", mode="overwrite")
        >>> query = table.sql("SELECT a FROM dataset").batch_size(2).build()
        >>> [batch.num_rows for batch in query.to_batch_records()]
        [2, 1]
        """
        if not 1 <= batch_size <= _MOST_ROWS:
            raise InvalidInputError(f"batch_size must be between 1 and {_MOST_ROWS}, got {batch_size}")
        self._request["batch_size"] = batch_size
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> SqlQueryBuilder:
        """About the most bytes in a batch that is read from the table, for rows that are large.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(4000)}, "memory://sql-batch-bytes", mode="overwrite")
        >>> query = table.sql("SELECT a FROM dataset").batch_size_bytes(8192).build()
        >>> max(batch.num_rows for batch in query.to_batch_records()) <= 1024
        True
        """
        self._request["batch_size_bytes"] = batch_size_bytes
        return self

    def build(self) -> SqlQuery:
        """The query, of the version that the dataset has now; reads nothing.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-build", mode="overwrite")
        >>> query = table.sql("SELECT count(*) AS n FROM dataset").build()
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> query
        SqlQuery('SELECT count(*) AS n FROM dataset', dataset='memory://sql-build', version=1)
        >>> query.to_batch_records()[0].to_pylist()
        [{'n': 3}]
        """
        return SqlQuery(self._dataset._native.copy(), self._sql, self._name, {**self._request})


class SqlQuery:
    """A query that can be executed several times; made by `SqlQueryBuilder.build`.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-query", mode="overwrite")
    >>> query = table.sql("SELECT a FROM dataset WHERE a > 1").build()
    >>> query
    SqlQuery('SELECT a FROM dataset WHERE a > 1', dataset='memory://sql-query', version=1)
    >>> [query.to_stream_reader().read_all().num_rows for _ in range(2)]
    [2, 2]
    """

    def __init__(self, table: _native.Dataset, sql: str, name: str, request: _native.ScanRequest) -> None:
        self._table = table
        self._sql = sql
        self._name = name
        self._request = request

    def __repr__(self) -> str:
        return f"SqlQuery({self._sql!r}, {self._name}={self._table.uri!r}, version={self._table.version})"

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Execute the query; all batches of the result.

        Raises
        ------
        pennon.InvalidInputError
            The text is not a query, names something unknown, or a value cannot be computed. Only queries are
            executed: what would change something is refused.
        pennon.MissingPackageError
            DataFusion is not installed.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-records", mode="overwrite")
        >>> batches = table.sql("SELECT a, a * a AS square FROM dataset ORDER BY a DESC").build().to_batch_records()
        >>> batches[0].to_pydict()
        {'a': [3, 2, 1], 'square': [9, 4, 1]}
        >>> table.sql("DROP TABLE dataset").build().to_batch_records()
        Traceback (most recent call last):
            ...
        pennon.errors.InvalidInputError: Error executing the query DROP TABLE dataset: ...
        """
        source = _Source(self._table, self._request)
        frame = self._planned(source)
        found: list[pa.RecordBatch] = source.attempt(self._sql, frame.collect)
        return found

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Execute the query; the result as a stream, for results that do not fit in memory.

        Errors as in `to_batch_records`, some of them on reading.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://sql-stream", mode="overwrite")
        >>> reader = table.sql("SELECT a FROM dataset WHERE a <> 2").build().to_stream_reader()
        >>> sum(batch.num_rows for batch in reader)
        2
        """
        source = _Source(self._table, self._request)
        frame = self._planned(source)
        reader = source.attempt(self._sql, lambda: pa.RecordBatchReader.from_stream(frame))

        def batches() -> Iterator[pa.RecordBatch]:
            while (batch := source.attempt(self._sql, lambda: next(reader, None))) is not None:
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _planned(self, source: _Source) -> Any:
        datafusion = require("datafusion", "datafusion", "LanceDataset.sql")
        config = datafusion.SessionConfig()
        if self._request["batch_size"] is not None:
            config = config.with_batch_size(self._request["batch_size"])
        context = datafusion.SessionContext(config)
        register(datafusion, context, source.watched)
        options = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)

        def plan() -> Any:
            context.register_dataset(self._name, source)
            return context.sql_with_options(self._sql, options)

        frame = source.attempt(self._sql, plan)
        return self._with_row_columns(frame, lambda sql: context.sql_with_options(sql, options))

    def _with_row_columns(self, frame: Any, plan: Callable[[str], Any]) -> Any:
        """The planned query with the row ids and addresses that the builder was asked for."""
        asked = {"_rowid": self._request["with_row_id"], "_rowaddr": self._request["with_row_address"]}
        names = [name for name, is_asked in asked.items() if is_asked]
        if not names or not has_row_columns(frame.logical_plan(), names):
            return frame
        sql, added = selecting(self._sql, names)
        try:
            wider = plan(sql) if added else frame
        except Exception:  # A subquery leaves the columns out, or another column has the name.
            return frame
        return wider if wider.schema().names == [*frame.schema().names, *added] else frame


class _Source(pyarrow.dataset.Dataset):
    """A table as DataFusion reads it: it needs `schema`, and fragments with a `scanner`."""

    def __init__(self, table: _native.Dataset, request: _native.ScanRequest) -> None:
        # Pyarrow's own initialiser refuses to make datasets.
        self._table = table
        self._request = request
        self._schema = table.scan(request).schema
        self._failure: PennonError | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def get_fragments(self, filter: pc.Expression | None = None) -> list[_Source]:
        """The whole table, which the core reads in parallel."""
        return [self]

    def scanner(
        self,
        schema: pa.Schema | None = None,
        *,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        **kwargs: Any,
    ) -> _Scanner:
        """A scan of some columns."""
        return self.watched(lambda: _Scanner(self, self._planned(columns, filter)))

    def _planned(self, columns: list[str] | None, filter: pc.Expression | None) -> ScanPlan:
        text, rest = (None, None) if filter is None else split(filter, self._schema, means_sql=True)
        if rest is not None:
            types = [self._schema.field(name).type for name in columns_of(rest, self._schema)]
            if any(pa.types.is_floating(data_type) or pa.types.is_nested(data_type) for data_type in types):
                raise UnsupportedError(f"The filter {rest} is not supported in SQL; use the filter of a scan")
        names = self._schema.names if columns is None else columns
        request: _native.ScanRequest = {**self._request, "columns": names, "filter": text}
        request["with_row_id"] = request["with_row_address"] = False
        return planned(self._table, request, rest, (), self._schema)

    def watched(self, call: Callable[[], T]) -> T:
        """The result of a call; remembers its error, of which DataFusion passes only the text."""
        try:
            return call()
        except PennonError as error:
            self._failure = error
            raise

    def attempt(self, sql: str, call: Callable[[], T]) -> T:
        """The result of a call of DataFusion; its errors are errors of the query, unless reading failed."""
        try:
            return call()
        except PennonError:
            raise
        except Exception as error:
            if self._failure is not None:
                raise self._failure from None
            message = str(error).removeprefix("DataFusion error: ")
            raise InvalidInputError(f"Error executing the query {sql}: {message}") from None


class _Scanner:
    """What DataFusion needs of a pyarrow scanner."""

    def __init__(self, source: _Source, plan: ScanPlan) -> None:
        self._source = source
        self._plan = plan

    @property
    def projected_schema(self) -> pa.Schema:
        """Columns of the result."""
        return self._plan.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        batches = self._source.watched(self._plan.batches)
        while (batch := self._source.watched(lambda: next(batches, None))) is not None:
            yield batch
