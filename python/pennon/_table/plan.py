"""A planned scan: what the core reads, and what pyarrow does with it.

The core filters by SQL and returns rows in the order of the table. Pyarrow evaluates what is left of a filter,
sorts, skips and limits. Where few rows come first, and where columns are SQL expressions, the core scans only what
these steps need, and the rows that are left are taken by their addresses.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pennon._expression import (
    Batches,
    columns_of,
    counts_columns,
    filtered,
    in_batches_of,
    windowed,
    with_schema,
)
from pennon._ordering import check, combined, first_rows, rows_at, sort_indices
from pennon._table.row_numbers import row_numbers
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pennon import _native
    from pennon.types import ColumnOrdering

_ADDRESS = "_rowaddr"
# The most rows that are taken by their addresses instead of being scanned.
_FEW_ROWS = 65_536
_BATCH_ROWS = 8192


@dataclass(frozen=True)
class ScanPlan:
    """A scan that can be executed several times."""

    table: _native.Dataset
    request: _native.ScanRequest
    """What is asked for."""
    scan: _native.Scan
    """What the core does."""
    schema: pa.Schema
    """Columns of the result."""
    rest: pc.Expression | None = None
    """What is left of the filter."""
    orderings: Sequence[ColumnOrdering] = ()
    takes: bool = False
    """Whether the rows that are left are taken by their addresses."""

    @property
    def _is_native(self) -> bool:
        return self.rest is None and not self.orderings

    @property
    def _batch_rows(self) -> int:
        return self.request["batch_size"] or _BATCH_ROWS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the result; the iterator has a `schema`, and `close()`."""
        batches = self.scan.batches()
        return batches if self._is_native else Batches(self.schema, self._finished(batches))

    def count_rows(self) -> int:
        """Number of rows of the result."""
        if self._is_native:
            return self.scan.count_rows()
        if self.rest is not None:
            return sum(batch.num_rows for batch in self._windowed(filtered(self.scan.batches(), self.rest)))
        rows = max(self.scan.count_rows() - (self.request["offset"] or 0), 0)
        limit = self.request["limit"]
        return rows if limit is None else min(rows, limit)

    def described(self, plan: str) -> str:
        """The text of a plan of the core, with what pyarrow does after it."""
        if self._is_native:
            return plan
        lines = [plan, "then in pyarrow"]
        if self.rest is not None:
            lines.append(f"  filter: {self.rest}")
        if self.orderings:
            lines.append(f"  order: {', '.join(map(_described, self.orderings))}")
        offset, limit = self.request["offset"] or 0, self.request["limit"]
        lines.append(f"  skip {offset}, at most {'all' if limit is None else limit} rows")
        taken = "columns, of rows taken by their addresses" if self.takes else "columns"
        return "\n".join([*lines, f"  {taken}: {', '.join(self.schema.names)}"])

    def _finished(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        if self.rest is not None:
            batches = filtered(batches, self.rest)
        batches = self._sorted(batches) if self.orderings else self._windowed(batches)
        if self.request["strict_batch_size"]:
            batches = in_batches_of(self._batch_rows, batches)
        for batch in batches:
            for part in self._taken(batch) if self.takes else (batch,):
                yield with_schema(part, self.schema)

    def _windowed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return windowed(batches, self.request["offset"] or 0, self.request["limit"])

    def _sorted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        offset, limit, schema = self.request["offset"] or 0, self.request["limit"], self.scan.schema
        keys = [ordering.column_name for ordering in self.orderings]
        if limit is None:
            table = combined(pa.Table.from_batches(list(batches), schema))
        else:
            table = first_rows(batches, schema, keys, self.orderings, offset + limit)
        order = sort_indices([table[key] for key in keys], self.orderings)
        for start in range(offset, len(order), self._batch_rows):
            yield from rows_at(table, order[start : start + self._batch_rows], schema)

    def _taken(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        request = self.request
        try:
            taken = self.table.take(
                {
                    "by": "address",
                    "rows": row_numbers(batch.column(_ADDRESS)),
                    "columns": request["columns"],
                    "members": "apart",
                    "with_row_id": request["with_row_id"],
                    "with_row_address": request["with_row_address"],
                    "ignore_deletions": False,
                    "missing": "skip",
                    "blob_handling": request["blob_handling"],
                }
            )
        except InvalidInputError:
            # It may be more text than an array can hold.
            if batch.num_rows < 2 or request["strict_batch_size"]:
                raise
            middle = batch.num_rows // 2
            yield from self._taken(batch.slice(0, middle))
            yield from self._taken(batch.slice(middle))
        else:
            yield taken


def planned(
    table: _native.Dataset,
    request: _native.ScanRequest,
    rest: pc.Expression | None,
    orderings: Sequence[ColumnOrdering],
    schema: pa.Schema | None = None,
) -> ScanPlan:
    """Plan a scan; reads nothing.

    Parameters
    ----------
    table, request
        What the core is asked, its SQL filter included.
    rest
        What pyarrow evaluates on the rows for which that filter is true.
    orderings
        How the rows are sorted.
    schema
        The columns that `rest` may name, if there is one.
    """
    # The handle may move to another version before the rows are read.
    table = table.copy()
    if rest is None and not orderings:
        scan = table.scan(request)
        return ScanPlan(table, request, scan, scan.schema)
    plain: _native.ScanRequest = {**request, "limit": None, "offset": None, "strict_batch_size": False}
    if nearest := request["nearest"]:
        if rest is not None:
            raise UnsupportedError(f"A search for the nearest vectors with a filter that is not SQL: {rest}")
        wanted = nearest["k"] or (request["limit"] or 10) + (request["offset"] or 0)
        plain["nearest"] = {**nearest, "k": wanted}
    if rest is None and len(orderings) == 1 and request["limit"] is not None and not request["nearest"]:
        (ordering,) = orderings
        plain["first"] = {
            "column": ordering.column_name,
            "ascending": ordering.ascending,
            "nulls_first": ordering.nulls_first,
            "rows": request["limit"] + (request["offset"] or 0),
        }
    shown = table.scan(plain).schema
    needed = [] if rest is None or schema is None else columns_of(rest, schema)
    needed += [ordering.column_name for ordering in orderings]
    takes = _takes(request, bool(orderings), not set(shown.names) - set(needed))
    others = [_ADDRESS] if takes else shown.names
    first = needed if rest is not None and counts_columns(rest) else []
    columns = list(dict.fromkeys([*first, *others, *needed]))
    scan = table.scan({**plain, "columns": columns})
    for ordering in orderings:
        check(ordering.column_name, scan.schema.field(ordering.column_name).type)
    if rest is not None:
        try:
            scan.schema.empty_table().filter(rest)
        except (pa.ArrowException, TypeError) as error:
            raise InvalidInputError(f"The filter {rest} does not fit the columns: {error}") from error
    return ScanPlan(table, request, scan, shown, rest, tuple(orderings), takes)


def _takes(request: _native.ScanRequest, is_sorted: bool, are_needed: bool) -> bool:
    """Whether rows are taken by their addresses; `are_needed`: whether all columns of the result are scanned."""
    cannot = [name for name in ("include_deleted_rows", "nearest") if request[name]]
    is_sql = isinstance(request["columns"], Mapping) or any(isinstance(c, tuple) for c in request["columns"] or ())
    if is_sql and cannot:
        raise UnsupportedError(
            f"{cannot[0]} together with SQL columns and an order or a pyarrow filter: give names of columns"
        )
    limit = request["limit"]
    few = is_sorted and limit is not None and limit + (request["offset"] or 0) <= _FEW_ROWS
    return is_sql or (few and not cannot and not are_needed)


def _described(ordering: ColumnOrdering) -> str:
    direction = "" if ordering.ascending else " descending"
    return f"{ordering.column_name}{direction}, nulls {'first' if ordering.nulls_first else 'last'}"
