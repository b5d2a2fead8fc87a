"""Indices: what they are asked for with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pennon._options import checked_text, ignored, unless
from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError
from pennon.indices import IndexConfig
from pennon.progress import IndexProgress
from pennon.transaction import Index

if TYPE_CHECKING:
    from pennon._native import IndexRequest
    from pennon._progress import Counted

# The parameters of each kind, and their names in the request.
_PARAMETERS: dict[str, dict[str, str]] = {
    "BTREE": {"zone_size": "page_rows"},
    "ZONEMAP": {"rows_per_zone": "zone_rows"},
    "BLOOMFILTER": {"number_of_items": "zone_rows", "probability": "probability"},
}
_MOST_ROWS = 2**32 - 1
_FULL_TEXT = ("INVERTED", "FTS")
# Options without effect, and their defaults.
_HINTS = {
    "index_cache_size": None,
    "shuffle_partition_batches": None,
    "shuffle_partition_concurrency": None,
    "storage_options": None,
    "filter_nan": True,
    "skip_transpose": False,
}
_OF_VECTORS = (
    "num_partitions",
    "ivf_centroids",
    "pq_codebook",
    "num_sub_vectors",
    "accelerator",
    "ivf_centroids_file",
    "precomputed_partition_dataset",
    "target_partition_size",
    "streaming_sample_rate",
    "streaming_coreset_rate",
    "streaming_refine_passes",
    "rabitq_model",
)


def single_column(column: str | Sequence[str]) -> str:
    """The column. Raises `UnsupportedError` for several."""
    if isinstance(column, str):
        return column
    found = list(column) if isinstance(column, list | tuple) else [column]
    if len(found) != 1:
        raise UnsupportedError(f"An index is over one column, found {found!r}")
    return checked_text("column", found[0])


def request(
    column: str,
    index_type: str | IndexConfig,
    name: str | None,
    *,
    replace: bool,
    train: bool,
    uuid: str | None,
) -> IndexRequest:
    """An index to make, as the core takes it. Raises `InvalidInputError` for unknown parameters."""
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
        elif not isinstance(value, int) or not 1 <= value <= _MOST_ROWS:
            raise InvalidInputError(
                f"The parameter {parameter!r} is {value!r}, expected a whole number from 1 to {_MOST_ROWS}"
            )
        found[known[parameter]] = value  # type: ignore[literal-required]
    return found


def ignore_hints(given: Mapping[str, Any]) -> None:
    """Warn of the options that have no effect on any index."""
    ignored(**{name: unless(given[name], default) for name, default in _HINTS.items()})


def ignore_vector_options(given: Mapping[str, Any]) -> None:
    """Warn of the options that have none on an index over values."""
    ignored(metric=unless(given["metric"], "L2"), **{name: given[name] for name in _OF_VECTORS})


class Stages:
    """Tells a function how far the stages of an index are, one after another. The core calls it."""

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

    def __call__(self, stage: str, tasks: Counted, rows: Counted) -> None:
        """Hears how far the index is. A stage whose counts decrease has begun again, for another index."""
        done, total = rows if self._UNITS.get(stage) == "rows" else tasks
        if stage != self._stage or done < self._at[0]:
            self.start(stage, total)
        self._at = (done, self._at[1] if total is None else total)
        if done:
            self._tell("progress")

    def start(self, stage: str, total: int | None) -> None:
        """A stage begins, with so much to do as far as it is known, and the one before is complete."""
        self.close()
        self._stage, self._at = stage, (0, total)
        self._tell("start")

    def close(self) -> None:
        """The last stage is complete."""
        if self._stage is not None:
            self._tell("complete")
            self._stage = None

    def _tell(self, event: Literal["start", "progress", "complete"]) -> None:
        stage = self._stage or ""
        self._callback(IndexProgress(event, stage, *self._at, self._UNITS.get(stage, "")))


@contextmanager
def staged(callback: Callable[[IndexProgress], object] | None) -> Iterator[Stages | None]:
    """What tells a function, if there is one, about the stages of an index: they are complete unless one fails."""
    stages = None if callback is None else Stages(callback)
    yield stages
    if stages is not None:
        stages.close()


def entries_of(segments: Sequence[Index]) -> list[Index]:
    """The segments. Raises `InvalidTypeError` for anything else."""
    for segment in segments:
        if not isinstance(segment, Index):
            raise InvalidTypeError(f"segments must be a list of Index, found {type(segment)}")
    return list(segments)
