"""When versions were made. A version of another table, made again at the same URI, has another time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any


def version_times(table: Any) -> list[tuple[int, datetime]]:
    """Number and time, in UTC and to the microsecond, of each version that is left, oldest first."""
    return [(entry["version"], in_utc(entry["timestamp"])) for entry in table.versions()]


def version_time(table: Any) -> datetime:
    """When a version was made, in UTC and to the microsecond."""
    return in_utc(table.get_version()["timestamp"])


def version_microseconds(table: Any) -> int:
    """When a version was made, in microseconds after 1970."""
    return (version_time(table) - datetime.fromtimestamp(0, timezone.utc)) // timedelta(microseconds=1)


def in_utc(time: datetime) -> datetime:
    """The time in UTC of one that is naive and local."""
    return time.astimezone(timezone.utc)
