"""The checkpoint of `LanceTable.addColumns`: a file of the driver with the plan and the results that are there.

It is JSON: the URI of the table, a description of the work, the plan, and the results of finished tasks. It has no
storage options and no values. It is replaced as a whole, so a reader finds all of one state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark_pennon.errors import invalid
from pyspark_pennon.whole_files import replace_file

_FORMAT = "pennon.add_columns/1"


@dataclass(frozen=True)
class Recorded:
    """What a checkpoint records: JSON of a plan and of results."""

    plan: str
    results: list[str]


class Checkpoint:
    """A file about one piece of work on one table."""

    def __init__(self, path: str | PathLike[str], uri: str, work: str) -> None:
        self._path = Path(path)
        self._uri = uri
        self._work = work

    def load(self) -> Recorded | None:
        """What is recorded; None if there is no file.

        Raises
        ------
        pennon.InvalidInputError
            The file is something else, or of another table or other columns.
        """
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return None
        try:
            found = json.loads(text)
            kind, uri, work = found["format"], found["uri"], found["work"]
            recorded = Recorded(found["plan"], found["results"])
        except (ValueError, KeyError, TypeError) as error:
            raise invalid(f"{self._path} is not a checkpoint of new columns: {error!r}") from None
        if kind != _FORMAT:
            raise invalid(f"The checkpoint {self._path} has the format {kind!r}: expected {_FORMAT!r}")
        if (uri, work) != (self._uri, self._work):
            raise invalid(
                f"The checkpoint {self._path} is of {work!r} in {uri}; expected {self._work!r} in {self._uri}: "
                "finish that first, or remove the file"
            )
        return recorded

    def save(self, plan: Any, results: list[Any]) -> None:
        """Record a plan and its results."""
        found = {
            "format": _FORMAT,
            "uri": self._uri,
            "work": self._work,
            "plan": plan.json(),
            "results": [result.json() for result in results],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, json.dumps(found))

    def remove(self) -> None:
        """Forget it: the work is committed, or is done again."""
        self._path.unlink(missing_ok=True)
