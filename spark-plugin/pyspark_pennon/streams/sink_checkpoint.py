"""Which table a streaming sink writes to, kept next to the checkpoint of its query.

Spark keeps nothing of a sink written in Python in the checkpoint of a query. So the driver leaves a note there: a
version of the table with the time when it was made, which no other table has. A query that starts again where its
checkpoint says, on a table that lacks its first batches, is refused.

The note is left in checkpoints in the file system of the driver. Without one nothing is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark_pennon.errors import invalid
from pyspark_pennon.version_times import version_time
from pyspark_pennon.whole_files import replace_file

NOTE = "pennon-sink.json"
"""The file in the folder of a checkpoint."""

_STARTED_BY_SPARK = "metadata"


def check_table(options: Mapping[str, str], uri: str, table: Any | None) -> None:
    """Refuse a checkpoint whose batches are in another table, or in one that is gone.

    Parameters
    ----------
    options
        Those of the sink, with `checkpointLocation` as Spark passes it on.
    table
        The newest version; None if there is no table.

    Raises
    ------
    pennon.InvalidInputError
        The table is not that of the checkpoint, or the note cannot be read.
    """
    import pennon

    folder = _folder(options)
    if folder is None or not (folder / NOTE).exists():
        return
    try:
        note = json.loads((folder / NOTE).read_text())
        noted_uri, noted_version, noted_time = note["uri"], int(note["version"]), note["made"]
    except (ValueError, KeyError, TypeError) as error:
        raise invalid(
            f"{folder / NOTE}, the note about the table of the checkpoint, cannot be read: {error!r}. Remove it if "
            f"the query has written to {uri} until now"
        ) from None
    start = f"The checkpoint {folder} has batches that were written to {noted_uri}"
    advice = "start the query with a new checkpoint, which writes all its rows, or bring the table back"
    if table is None:
        raise invalid(f"{start}, but there is no table at {uri}: {advice}")
    try:
        found = _time(table.checkout_version(noted_version))
    except pennon.NotFoundError:
        if int(table.version) > noted_version:
            return  # vacuumed
        found = "missing"
    if found != noted_time:
        raise invalid(
            f"{start}, whose version {noted_version} was made at {noted_time}; that of {uri} is {found}: it is "
            f"another table, so {advice}"
        )


def note_table(options: Mapping[str, str], table: Any) -> None:
    """Leave a note about the table of a query, unless its checkpoint is out of reach."""
    folder = _folder(options)
    if folder is None:
        return
    note = {"uri": table.uri, "version": int(table.version), "made": _time(table)}
    with suppress(OSError):
        replace_file(folder / NOTE, json.dumps(note))


def _time(table: Any) -> str:
    return version_time(table).isoformat()


def _folder(options: Mapping[str, str]) -> Path | None:
    """The checkpoint, if Spark has made it in the file system of this process."""
    given = next((value for name, value in options.items() if name.lower() == "checkpointlocation"), "")
    parts = urlsplit(given)
    if not given or parts.scheme not in ("", "file"):
        return None
    folder = Path(unquote(parts.path) if parts.scheme else given)
    return folder if (folder / _STARTED_BY_SPARK).exists() else None
