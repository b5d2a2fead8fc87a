"""History of a table: its change feed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon import _native
from pennon._options import checked_names, required_reference
from pennon._table.references import naming_branch
from pennon._time import instant
from pennon.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from pennon.types import ChangeColumns, ChangeImages, ChangeMode, Reference


_MOST_PARTS = 2**32 - 1


def changes(
    table: _native.Dataset,
    begin: Reference | datetime,
    end: Reference | datetime | None,
    *,
    columns: Sequence[str] | None = None,
    mode: ChangeMode = "net",
    images: ChangeImages = "post",
    drop_unchanged: bool = False,
    part: tuple[int, int] | None = None,
    columns_of: ChangeColumns = "end",
) -> pa.RecordBatchReader:
    """All changes of rows after one version, up to and including another."""
    request: _native.ChangesRequest = {
        "begin": _point("begin", begin),
        "end": None if end is None else _point("end", end),
        "columns": None if columns is None else checked_names("columns", columns),
        "columns_of": columns_of,
        "mode": mode,
        "images": images,
        "drop_unchanged": drop_unchanged,
        "part": None if part is None else _part(part),
    }
    with naming_branch(table, request["begin"], request["end"]):
        batches = _native.changes(table, request)
    return pa.RecordBatchReader.from_batches(batches.schema, batches)


def _point(name: str, point: Reference | datetime) -> Reference | tuple[int, int]:
    return instant(point) if isinstance(point, datetime) else required_reference(name, point)


def _part(part: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(part, tuple) or len(part) != 2 or not all(isinstance(number, int) for number in part):
        raise InvalidTypeError(f"part must be the number of a part and how many there are, not {part!r}")
    number, of = part
    if not 0 <= number < of <= _MOST_PARTS:
        raise InvalidInputError(
            f"part {number} of {of}: expected a number from 0 on and below that of the parts, at most {_MOST_PARTS}"
        )
    return part
