"""Rows of one version by their addresses, read in tasks: what a merge needs of a table besides its keys.

| | what Spark shuffles | what a task reads |
|---|---|---|
| [fetched][] | nothing: the rows that need columns are with their owner | columns at the addresses of its rows |
| [others][] | addresses that are left out | columns at all other addresses of its blocks |

A block is a range of addresses of one fragment, so that one large fragment has several owners.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pennon import tables
from pyspark_pennon.errors import internal
from pyspark_pennon.local_frames import local_frame
from pyspark_pennon.tasks.workers import mapped
from pyspark_pennon.types.batches import spark_rows
from pyspark_pennon.types.schema import FRAGMENT_BITS, ROW_ADDRESS, expected_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pyspark_pennon.options.source import ReadOptions

BLOCK_BITS = 20
"""A block has so many rows as a power of two."""

READ_ROWS = 16_384
"""Rows that are read at once where a whole block is read."""


def fetched(frame: DataFrame, table: Any, options: ReadOptions, columns: Sequence[str], prefix: str) -> DataFrame:
    """A frame and, for the addresses in its column `_rowaddr`, columns of the table.

    Each partition is sorted by address. The column with number n is called `<prefix>n`.

    Parameters
    ----------
    table, options
        The version with the addresses, open and as tasks open it. None of the rows may be deleted in it.
    """
    from pyspark.sql.types import StructField, StructType

    added = _schema(table, options, columns).fields
    fields = [StructField(f"{prefix}{at}", field.dataType, True) for at, field in enumerate(added)]
    schema = StructType([*frame.schema.fields, *fields])
    target = expected_schema(schema)
    names = list(columns)

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = AddressedRows(options, names)
        for batch in batches:
            if not batch.num_rows:
                continue
            found = rows.at(batch.column(ROW_ADDRESS))
            if found.num_rows != batch.num_rows:
                raise internal(f"Of {batch.num_rows} rows of the table that match, {found.num_rows} are there")
            renamed = found.rename_columns([field.name for field in fields])
            whole = pa.table(
                [*batch.columns, *renamed.columns], schema=_joined(batch.schema, renamed.schema)
            ).combine_chunks()
            yield from spark_rows(whole, target)

    return mapped(frame.sortWithinPartitions(ROW_ADDRESS), fill, schema)


def others(addresses: DataFrame, table: Any, options: ReadOptions, columns: Sequence[str], tasks: int) -> DataFrame:
    """The rows of a version whose addresses are not in a frame, with columns of the table and `_rowaddr`.

    Parameters
    ----------
    addresses
        Its column `_rowaddr`; one may be there more than once.
    tasks
        How many tasks share the blocks of the version.
    """
    from pyspark.sql import functions as fn

    names = [*(name for name in columns if name != ROW_ADDRESS), ROW_ADDRESS]
    schema = _schema(table, options, names)
    target = expected_schema(schema)
    # A block is an address below zero, so that its owner gets it with the addresses.
    blocks = [
        (-1 - ((fragment.fragment_id << FRAGMENT_BITS) + first),)
        for fragment in table.get_fragments()
        for first in range(0, fragment.physical_rows, 1 << BLOCK_BITS)
    ]
    address = fn.col(ROW_ADDRESS)
    owner = block_of(fn.when(address < 0, -1 - address).otherwise(address))
    marked = local_frame(addresses.sparkSession, blocks, f"{ROW_ADDRESS} long")
    owned = addresses.select(ROW_ADDRESS).unionByName(marked).repartition(tasks, owner)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np

        parts = [batch.column(0).to_numpy() for batch in batches]
        given = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        first_address = int(np.searchsorted(given, 0))
        left_out = given[first_address:]
        rows = AddressedRows(options, names)
        for block in (-1 - given[:first_address][::-1]).tolist():
            end = min(block + (1 << BLOCK_BITS), rows.end_of(block))
            inside = np.searchsorted(left_out, [block, end])
            is_wanted = np.ones(end - block, bool)
            is_wanted[left_out[inside[0] : inside[1]] - block] = False
            for at in range(0, end - block, READ_ROWS):
                wanted = block + at + np.flatnonzero(is_wanted[at : at + READ_ROWS])
                if len(wanted):
                    yield from spark_rows(rows.at(pa.array(wanted)), target)

    return mapped(owned, read, schema)


def block_of(address: Column) -> Column:
    """The number of the block of an address."""
    from pyspark.sql import functions as fn

    return fn.shiftright(address, BLOCK_BITS)


def _schema(table: Any, options: ReadOptions, columns: Sequence[str]) -> StructType:
    return tables.read_schema(table, replace(options, columns=tuple(columns), with_row_address=False))


def _joined(first: pa.Schema, second: pa.Schema) -> pa.Schema:
    return pa.schema([*first, *second])


class AddressedRows:
    """Columns of one version, read by address, fragment by fragment."""

    def __init__(self, options: ReadOptions, names: list[str]) -> None:
        self._table = tables.open_table(options)
        self._names = names
        self._fragments: dict[int, Any] = {}

    def end_of(self, address: int) -> int:
        """The address after the last one of a fragment."""
        first = address >> FRAGMENT_BITS << FRAGMENT_BITS
        return first + int(self._fragment(address >> FRAGMENT_BITS).physical_rows)

    def at(self, addresses: pa.Array) -> pa.Table:
        """The rows that are there, in the order of the addresses, in one chunk."""
        runs = pc.run_end_encode(pc.shift_right(addresses, FRAGMENT_BITS))
        parts, start = [], 0
        for fragment, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            parts.append(self._of(fragment, addresses.slice(start, end - start)))
            start = end
        return pa.concat_tables(parts).combine_chunks()

    def _of(self, fragment: int, addresses: pa.Array) -> pa.Table:
        offsets = pc.bit_wise_and(addresses, (1 << FRAGMENT_BITS) - 1).cast(pa.uint64())
        # The address tells which rows are there even if nothing else is read.
        read = list(dict.fromkeys([*self._names, ROW_ADDRESS]))
        return self._fragment(fragment).take_offsets(offsets, read, blob_handling="all_binary").select(self._names)

    def _fragment(self, number: int) -> Any:
        if number not in self._fragments:
            fragment = self._table.get_fragment(number)
            if fragment is None:
                raise internal(f"Version {self._table.version} has no fragment {number}, of which rows match")
            self._fragments[number] = fragment
        return self._fragments[number]
