"""`pennon sql`: a query over one table, run by DuckDB or DataFusion."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.dataset

from pennon.cli._open import Address, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._types import member_types
from pennon.errors import InvalidInputError, MissingPackageError, UnsupportedError

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.scanner import LanceScanner

# Rows that DuckDB hands over at once.
_BATCH = 10_000


@click.command()
@table_argument()
@click.argument("query", metavar="QUERY")
@output_options()
def command(table: Address, output: Output, query: str) -> None:
    """Print the result of a query.

    The query calls the table `dataset`: SELECT carrier, count(*) FROM dataset GROUP BY carrier. It is run by
    DuckDB, or by DataFusion if only that is installed. Columns and conditions that it needs are all that is read.
    """
    opened = table.open()
    if find_spec("duckdb") is not None:
        output.rows(_by_duckdb(opened, query))
    elif find_spec("datafusion") is not None:
        output.rows(opened.sql(query).blob_handling("all_binary").build().to_stream_reader())
    else:
        raise MissingPackageError(
            "pennon sql needs DuckDB, which is not installed: pip install 'pennon[sql]'", name="duckdb"
        )


class _WithBytes(pyarrow.dataset.Dataset):
    """A table whose blobs are bytes, as DuckDB reads it."""

    def __init__(self, table: LanceDataset) -> None:
        # Pyarrow's own initialiser refuses to make datasets.
        self._table = table
        self._schema = self.scanner().projected_schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, **options: Any) -> LanceScanner:
        """A scan of the table."""
        return self._table.scanner(**options, blob_handling="all_binary")


def _by_duckdb(opened: LanceDataset, query: str) -> pa.RecordBatchReader:
    import duckdb

    connection: Any = duckdb.connect()
    try:
        # Files and other databases are none of the query's business.
        connection.execute("SET enable_external_access = false")
        connection.register("dataset", _WithBytes(opened))
        found = connection.sql(query)
        if found is None:
            raise InvalidInputError("The query has no result")
        # The name of later releases, and that of earlier ones.
        read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        reader = read(_BATCH)
    except duckdb.NotImplementedException as error:
        unknown = [f"{field.name!r} ({field.type})" for field in opened.schema if _is_unknown(field.type)]
        if not unknown or "Arrow Type" not in str(error):
            raise _failure(error) from None
        raise UnsupportedError(
            f"DuckDB does not know the types of all columns: {', '.join(unknown)}; DataFusion, which runs"
            " LanceDataset.sql, does"
        ) from None
    except duckdb.Error as error:
        raise _failure(error) from None

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except (duckdb.Error, pa.ArrowException) as error:
            raise _failure(error) from None

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _is_unknown(kind: pa.DataType) -> bool:
    """Whether DuckDB does not know a type."""
    return bool(pa.types.is_float16(kind) or pa.types.is_decimal256(kind)) or any(
        map(_is_unknown, member_types(kind))
    )


def _failure(error: Exception) -> InvalidInputError:
    return InvalidInputError(f"Error executing the query: {error}")
