"""Rows on their way into files, counted: for progress of writes.

The core asks for a batch when it has written the one before, and starts a fragment after `max_rows_per_file` rows.
So rows are handed out in parts that end where fragments do, and each report comes when its rows are handed over.
What a listener raises ends the stream, and with it the write: the core removes its files, and nothing is committed.

The names and sizes of files are known when the core returns: `announce` gives them to a listener.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from pennon._progress import Progress, ProgressLike, Reporter
from pennon.metadata import FragmentMetadata


class FragmentListener(Protocol):
    """A `FragmentWriteProgress`, of pennon or pylance."""

    def begin(self, fragment: Any) -> None:
        """A fragment is about to be written."""
        ...

    def complete(self, fragment: Any) -> None:
        """A fragment is written."""
        ...


_NO_LIMIT = 2**64
WriteProgress = FragmentListener | ProgressLike


@contextmanager
def observed(
    data: pa.Table | pa.RecordBatchReader,
    progress: WriteProgress,
    rows_per_file: int | None,
    fragment_id: int = 0,
    title: str = "write",
    *,
    is_announced: bool = False,
) -> Iterator[pa.Table | pa.RecordBatchReader]:
    """The data, reported as it is read; without `rows_per_file` fragments are not counted.

    If `announce` is called afterwards, a listener hears here only that the first fragment is started.
    """
    listener: Any = progress if _is_listener(progress) else None
    callback: Any = False if listener is not None else progress
    with Reporter(title, callback) as report:
        if listener is None and not report.is_needed:
            yield data
            return
        of_rows = data.num_rows if isinstance(data, pa.Table) else None
        reader = data.to_reader() if isinstance(data, pa.Table) else data
        batches = _batches(reader, listener, report, of_rows, rows_per_file, fragment_id, is_announced)
        yield pa.RecordBatchReader.from_batches(reader.schema, batches)


def announce(progress: WriteProgress, written: Sequence[FragmentMetadata], fragment_id: int = 0) -> None:
    """Tell a listener of the fragments that were written; `begin` was called for the first one already."""
    listener: Any = progress if _is_listener(progress) else None
    for number, fragment in enumerate(written if listener is not None else ()):
        if number:
            listener.begin(_fragment(fragment_id, None))
        listener.complete(replace(fragment, id=fragment_id))


def _is_listener(progress: Any) -> bool:
    return callable(getattr(progress, "begin", None)) and callable(getattr(progress, "complete", None))


def _batches(
    batches: pa.RecordBatchReader,
    listener: FragmentListener | None,
    report: Reporter,
    of_rows: int | None,
    rows_per_file: int | None,
    fragment_id: int,
    is_announced: bool,
) -> Iterator[pa.RecordBatch]:
    room = max(rows_per_file or _NO_LIMIT, 1)
    of_fragments = None if of_rows is None or rows_per_file is None else -(-of_rows // room)
    fragments = rows = size = in_file = 0

    def report_rows() -> None:
        at = Progress(fragments=fragments, of_fragments=of_fragments, rows=rows, of_rows=of_rows, bytes=size)
        report(at)

    for batch in batches:
        start = 0
        while start < batch.num_rows:
            if in_file == 0 and listener is not None and not (is_announced and rows):
                listener.begin(_fragment(fragment_id, None))
            part = batch.slice(start, min(room - in_file, batch.num_rows - start))
            yield part
            start, rows, in_file = start + part.num_rows, rows + part.num_rows, in_file + part.num_rows
            size += _size(part)
            if in_file == room:
                if listener is not None and not is_announced:
                    listener.complete(_fragment(fragment_id, in_file))
                fragments, in_file = fragments + 1, 0
            report_rows()
    if in_file and rows_per_file is not None:
        if listener is not None and not is_announced:
            listener.complete(_fragment(fragment_id, in_file))
        fragments += 1
        report_rows()


def _fragment(fragment_id: int, rows: int | None) -> FragmentMetadata:
    return FragmentMetadata(fragment_id, [], rows)  # type: ignore[arg-type]


def _size(batch: pa.RecordBatch) -> int:
    try:
        return int(batch.nbytes)
    except pa.ArrowException:  # there are types whose slices it cannot measure
        return int(batch.get_total_buffer_size())
