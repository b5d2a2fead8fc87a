"""Rows of a table drawn at random, and batches read by their positions; `pennon.sampler` has the public names."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._table.rows import take
from pennon._table.scans import given
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.types import Columns

__all__ = ["batches_at", "batches_of", "check_positive", "maybe_sample", "opened"]

# The most that batches are read at once, if there are several.
_READ_ROWS = 8192
_READ_BYTES = 8 * 1024**2


def maybe_sample(
    dataset: str | PathLike[str] | LanceDataset,
    n: int,
    columns: Columns | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows drawn at random without repeats, or all rows if there are not more than are wanted.

    Python's `random` decides; `random.seed` makes it repeatable. Default scan options of a dataset are not used.

    Parameters
    ----------
    dataset
        A dataset, or where it is.
    n
        The number of rows.
    columns
        Names, one name, or SQL expressions by the name of the column they make.
    batch_size
        The most rows of a batch.
    max_takes
        The most positions that are drawn. If `n` is larger, this many runs of consecutive rows are returned instead
        of single rows, one from each part of the table, in its order.
    filt
        Only rows that match this SQL predicate.

    Raises
    ------
    pennon.InvalidInputError
        A number is negative, a column does not exist, or the predicate is wrong.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import maybe_sample
    >>> table = pennon.write_dataset({"a": list(range(100))}, "memory://maybe-sample", mode="overwrite")
    >>> sum(batch.num_rows for batch in maybe_sample(table, 10, "a"))
    10
    """
    if n < 0:
        raise InvalidInputError(f"The number of rows to sample is {n}, expected 0 or more")
    check_positive(batch_size=batch_size, max_takes=max_takes)
    return _sampled(
        opened(dataset), n, [columns] if isinstance(columns, str) else columns, batch_size, max_takes, filt
    )


def _sampled(
    dataset: LanceDataset, n: int, columns: Columns, batch_size: int, max_takes: int, filt: str | None
) -> Iterator[pa.RecordBatch]:
    if n == 0:
        return
    positions: Sequence[int] = range(dataset.count_rows())
    if filt is not None and n < len(positions):
        scan = dataset._scan({"columns": ["_rowoffset"], "filter": filt})
        positions = scan.to_table()["_rowoffset"].to_pylist()
    if n >= len(positions):
        yield from dataset._scan(given(columns=columns, filter=filt, batch_size=batch_size)).to_batches()
        return
    chosen = random.sample(positions, n) if n <= max_takes else _runs(positions, n, max_takes)
    for start in range(0, n, batch_size):
        yield from batches_of(dataset.take(chosen[start : start + batch_size], columns))


def _runs(positions: Sequence[int], n: int, count: int) -> list[int]:
    """Chooses `n` positions as a run in each of `count` parts, none of which is shorter than its run."""
    skipped = len(positions) - n
    chosen: list[int] = []
    for part in range(count):
        first, last = part * n // count, (part + 1) * n // count
        before, after = part * skipped // count, (part + 1) * skipped // count
        start = first + random.randint(before, after)
        chosen.extend(positions[start : start + last - first])
    return chosen


def opened(data: str | PathLike[str] | LanceDataset, options: dict[str, Any] | None = None) -> LanceDataset:
    """The dataset, opened with `options` if it is not yet. Raises `InvalidInputError` for anything else."""
    from pennon.dataset import LanceDataset

    if isinstance(data, LanceDataset):
        return data
    if not isinstance(data, str | PathLike):
        raise InvalidInputError(f"The dataset is a {type(data).__name__}, expected a pennon.LanceDataset or a uri")
    return LanceDataset(data, **(options or {}))


def check_positive(**numbers: int) -> None:
    """Raise `InvalidInputError` for the first number, by its name, that is below 1."""
    for name, number in numbers.items():
        if number < 1:
            raise InvalidInputError(f"{name} is {number}, expected 1 or more")


def batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows as one batch; none if there are none."""
    return table.combine_chunks().to_batches() if table.num_rows else []


def batches_at(
    dataset: LanceDataset, starts: list[int], size: int, columns: Columns | None, with_row_id: bool
) -> Iterator[pa.RecordBatch]:
    """The batches that start at these positions: small ones are read several at once."""
    if size >= _READ_ROWS:
        for start in starts:
            options = given(columns=columns, limit=size, offset=start, with_row_id=with_row_id)
            yield from batches_of(dataset._scan(options).to_table())
        return
    total, first, count = dataset.count_rows(), 0, 1
    while first < len(starts):
        read = [range(start, min(start + size, total)) for start in starts[first : first + count]]
        rows = take(dataset._native, "position", [*chain(*read)], columns, members="apart", with_row_id=with_row_id)
        at = 0
        for positions in read:
            yield from batches_of(rows.slice(at, len(positions)))
            at += len(positions)
        row_bytes = rows.get_total_buffer_size() // max(len(rows), 1)
        first, count = first + count, max(min(_READ_BYTES // max(row_bytes, 1), _READ_ROWS) // size, 1)
