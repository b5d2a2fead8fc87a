"""Options of the change feed and of streams: names, parsing, errors. Names are Delta's where Delta has them.

docs/spark.md and docs/spark-streaming.md say what each of them means.

As in a read, underscores and capitals in names do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark_pennon.errors import invalid
from pyspark_pennon.options.values import (
    OptionValues,
    Parsers,
    bare,
    boolean,
    column_names,
    natural,
    positive,
    time_of,
)

LATEST = "latest"
"""The starting version of a stream that is only to see what comes."""


def _version_or_latest(text: str) -> int | str:
    return LATEST if text.strip().lower() == LATEST else natural(text)


# The field of `FeedOptions` for an option has its name in lower case, with underscores.
_FEED: Parsers = {
    "readChangeFeed": boolean,
    "startingVersion": _version_or_latest,
    "startingTimestamp": time_of,
    "dropUnchanged": boolean,
}
_BATCH: Parsers = {"endingVersion": natural, "endingTimestamp": time_of, "netChanges": boolean}
_STREAM: Parsers = {
    "maxVersionsPerTrigger": positive,
    "maxRowsPerTrigger": positive,
    "skipChangeCommits": boolean,
}
_COMMON: Parsers = {"columns": column_names}
_ROW_ID: Parsers = {"with_row_id": boolean}
# Delta's older spelling.
_ALIASES = {"readchangedata": "readChangeFeed"}
_SWITCHES = {"readchangefeed", "readchangedata"}

STREAM_NAMES = (*_COMMON, *_FEED, *_STREAM, *_ROW_ID)
"""Options of a stream."""

_LIMITS = "a batch of a stream is limited by 'maxVersionsPerTrigger' or 'maxRowsPerTrigger'"
_CHANGES = (
    "a stream passes over versions that update or delete rows with 'skipChangeCommits', and shows what they did "
    "with 'readChangeFeed'"
)
OF_DELTA = {
    "ignorechanges": _CHANGES,
    "ignoredeletes": _CHANGES,
    "maxfilespertrigger": _LIMITS,
    "maxbytespertrigger": _LIMITS,
    "failondataloss": "a stream always ends with an error when a version that it did not read was vacuumed",
}
"""Delta's options of a stream under other names, without underscores."""


@dataclass(frozen=True)
class FeedOptions:
    """What a change feed or a stream reads; picklable, and without secrets in its representation."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_change_feed: bool = False
    columns: tuple[str, ...] | None = None
    starting_version: int | str | None = None
    starting_timestamp: datetime | None = None
    ending_version: int | None = None
    ending_timestamp: datetime | None = None
    net_changes: bool = False
    drop_unchanged: bool = False
    max_versions_per_trigger: int | None = None
    max_rows_per_trigger: int | None = None
    skip_change_commits: bool = False
    with_row_id: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], *, stream: bool | None) -> FeedOptions:
        """Parse Spark's options; `ValueError` names the option at fault.

        Parameters
        ----------
        stream
            Whether they are those of a stream; None where Spark does not say, and asks for the columns of either.
        """
        # A feed that is read once starts at a version that there is.
        batch = {"startingVersion": natural, **_BATCH}
        own: Parsers = {
            True: {**_STREAM, **_ROW_ID},
            False: batch,
            None: {**_BATCH, **_STREAM, **_ROW_ID},
        }[stream]
        action = {True: "stream", False: "change feed", None: "change feed or stream"}[stream]
        known = {**_COMMON, **_FEED, **own}
        values = OptionValues(options, known, action, aliases=_ALIASES, elsewhere=_elsewhere(action))
        given = {re.sub("(?=[A-Z])", "_", name).lower(): value for name, value in values.given().items()}
        parsed = cls(values.uri(), values.storage_options(), **given)
        parsed.check()
        return parsed

    def check_start(self) -> None:
        """Raises an error for a feed without a start."""
        if self.starting_version is not None or self.starting_timestamp is not None:
            return
        given = {
            "endingVersion": self.ending_version,
            "endingTimestamp": self.ending_timestamp,
            "netChanges": self.net_changes or None,
        }
        ends = [f"'{name}'" for name, value in given.items() if value is not None]
        of_streams = f". A stream has no end and no net form: leave out {' and '.join(ends)} there" if ends else ""
        raise invalid(
            f"A change feed needs a start: give the option startingVersion or startingTimestamp{of_streams}"
        )

    def check(self) -> None:
        """Raises an error for options that contradict each other."""
        for end in ("starting", "ending"):
            version = getattr(self, f"{end}_version")
            if isinstance(version, bool) or (isinstance(version, int) and version < 0):
                raise invalid(f"Pennon option '{end}Version' is {version}: expected a number from 0 on")
            if version is not None and getattr(self, f"{end}_timestamp") is not None:
                raise invalid(
                    f"Pennon options '{end}Version' and '{end}Timestamp' were both given; give one of them"
                )
        if self.read_change_feed and self.skip_change_commits:
            raise invalid("skipChangeCommits is for streams of appended rows: a change feed shows every change")
        if self.drop_unchanged and not self.read_change_feed:
            raise invalid("dropUnchanged is for change feeds: set readChangeFeed as well")


def is_feed(options: Mapping[str, str]) -> bool:
    """Whether Spark's options are those of a change feed or a stream, which `schema()` is not told otherwise."""
    special = {bare(name) for name in (*_FEED, *_BATCH, *_STREAM)} - _SWITCHES
    return wants_changes(options) or any(bare(name) in special for name in options)


def has_end(options: Mapping[str, str]) -> bool:
    """Whether there are options that no stream has: those of a feed that is read once."""
    return any(bare(name) in {bare(known) for known in _BATCH} for name in options)


def wants_changes(options: Mapping[str, str]) -> bool:
    """Whether `readChangeFeed` is given and not false."""
    return any(bare(name) in _SWITCHES and value.strip().lower() != "false" for name, value in options.items())


def read_options(options: Mapping[str, str]) -> dict[str, str]:
    """Spark's options of a read of rows.

    Raises
    ------
    ValueError
        There are options of a feed among them.
    """
    if is_feed(options):
        raise invalid(
            "Options of a change feed were given to a read of rows: set readChangeFeed to read changes, or version "
            "to read the rows of a version"
        )
    return {name: value for name, value in options.items() if bare(name) not in _SWITCHES}


def _elsewhere(action: str) -> Callable[[str], str | None]:
    """What to say of options of a read, of Delta, and of the other of a feed and a stream."""

    def say(name: str) -> str | None:
        if bare(name) in ("branch", "tag"):
            return (
                f"Pennon option '{name}' belongs to a read of rows: read a branch's feed by its location, and name "
                "the versions where a feed starts and ends by number or time; LanceTable.branches() and tags() "
                "have these"
            )
        hint = OF_DELTA.get(bare(name))
        if hint is None and bare(name) in map(bare, _BATCH):
            hint = "a stream has no end and no net form"
        if hint is None and bare(name) in map(bare, _STREAM):
            hint = "it belongs to a stream, which has no end and no net form"
        return None if hint is None else f"Unknown Pennon option '{name}' in a {action}: {hint}"

    return say
