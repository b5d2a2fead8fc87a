"""Indices: what they are asked for with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError
from pennon.indices import IndexConfig
from pennon.progress import IndexProgress
from pennon.transaction import Index

if TYPE_CHECKING:
    from pennon._native import IndexRequest
    from pennon._native._progress import StageCounts
    from pennon._progress import Counted

# The parameters of each kind, and their names in the request.
_PARAMETERS: dict[str, dict[str, str]] = {
    "BTREE": {"zone_size": "page_rows"},
    "ZONEMAP": {"rows_per_zone": "zone_rows"},
    "BLOOMFILTER": {"number_of_items": "zone_rows", "probability": "probability"},
}
_FULL_TEXT = ("INVERTED", "FTS")


def single_column(column: str | Sequence[str]) -> str:
    """The column. Raises `UnsupportedError` for several."""
    if isinstance(column, str):
        return column
    if len(column) != 1:
        raise UnsupportedError(f"An index is over one column, found {list(column)!r}")
    return column[0]


def request(
    column: str,
    index_type: str | IndexConfig,
    name: str | None,
    *,
    replace: bool,
    train: bool,
    uuid: str | None,
) -> IndexRequest:
    """An index to make, as the core takes it. Raises `InvalidInputError` for parameters that there are not."""
    kind: Any = index_type
    parameters: dict[str, Any] = {}
    if not isinstance(index_type, str):
        kind = getattr(index_type, "index_type", None)
        parameters = dict(getattr(index_type, "parameters", {}))
    if not isinstance(kind, str):
        raise InvalidTypeError(f"index_type must be a text or an IndexConfig, got {type(index_type)}")
    if kind.upper() in _FULL_TEXT:
        raise UnsupportedError(
            "Full-text search is not supported: pylance makes and searches such indices of the same table"
        )
    found: IndexRequest = {
        "column": single_column(column),
        "kind": kind,
        "name": name,
        "replace": replace,
        "train": train,
        "uuid": uuid,
        "page_rows": None,
        "zone_rows": None,
        "probability": None,
    }
    known = _PARAMETERS.get(kind.upper().replace("_", ""), {})
    for parameter, value in parameters.items():
        if parameter not in known:
            raise InvalidInputError(
                f"An index of the kind {kind} has no parameter {parameter!r}, it has {', '.join(known) or 'none'}"
            )
        if parameter == "probability":
            if not isinstance(value, float) or not 0 < value < 1:
                raise InvalidInputError(
                    f"The parameter {parameter!r} is {value!r}, expected a number between 0 and 1"
                )
        elif not isinstance(value, int) or value < 1:
            raise InvalidInputError(f"The parameter {parameter!r} is {value!r}, expected a whole number from 1 on")
        found[known[parameter]] = value  # type: ignore[literal-required]
    return found


class Stage:
    """Tells a function how many rows of an index are read."""

    def __init__(self, callback: Callable[[IndexProgress], object], total: int) -> None:
        if not callable(callback):
            kind = type(callback).__name__  # type: ignore[unreachable]
            raise InvalidTypeError(f"progress_callback is a {kind}, expected a function of an IndexProgress")
        self._callback, self._total = callback, total
        self.rows = 0

    def tell(self, event: Literal["start", "progress", "complete"], rows: int) -> None:
        """Calls the function."""
        self._callback(IndexProgress(event, "load_data", rows, self._total, "rows"))

    def counts(self, _stage: str, _tasks: Counted, rows: Counted) -> None:
        """Hears how far the index is."""
        self.rows = rows[0]
        self.tell("progress", self.rows)


class Stages:
    """Tells a function how far the stages of an index are, one after another."""

    _UNITS: ClassVar = {
        "load_data": "rows",
        "train_ivf": "iterations",
        "train_quantizer": "sub-vectors",
        "shuffle": "rows",
        "merge_partitions": "partitions",
    }

    def __init__(self, callback: Callable[[IndexProgress], object]) -> None:
        if not callable(callback):
            kind = type(callback).__name__  # type: ignore[unreachable]
            raise InvalidTypeError(f"progress_callback is a {kind}, expected a function of an IndexProgress")
        self._callback = callback
        self._stage: str | None = None
        self._at: Counted = (0, None)

    def _tell(self, event: Literal["start", "progress", "complete"], done: int, total: int | None) -> None:
        stage = self._stage or ""
        self._callback(IndexProgress(event, stage, done, total, self._UNITS.get(stage, "")))

    def hear(self, stage: str, tasks: Counted, rows: Counted) -> None:
        """Hears how far the index is."""
        done, total = rows if self._UNITS.get(stage) == "rows" else tasks
        if stage != self._stage or done < self._at[0]:
            self.close()
            self._stage = stage
            self._tell("start", 0, total)
        self._at = (done, total)
        if done:
            self._tell("progress", done, total)

    def close(self) -> None:
        """The last stage is done."""
        if self._stage is not None:
            self._tell("complete", *self._at)
            self._stage, self._at = None, (0, None)

    @classmethod
    def of(cls, callback: Callable[[IndexProgress], object] | None) -> tuple[Stages | None, StageCounts | None]:
        """The stages, if there is a function to tell them, and what the core calls."""
        stages = None if callback is None else cls(callback)
        return stages, None if stages is None else stages.hear


def entries_of(segments: Sequence[Index]) -> list[Index]:
    """The segments. Raises `InvalidTypeError` for anything else."""
    for segment in segments:
        if not isinstance(segment, Index):
            raise InvalidTypeError(f"segments must be a list of Index, found {type(segment)}")
    return list(segments)
