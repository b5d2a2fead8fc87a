"""Times: the core counts seconds and nanoseconds since 1970 in UTC, pylance shows `datetime`s."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pennon.errors import InvalidInputError, InvalidTypeError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def utc(time: tuple[int, int]) -> datetime:
    """A `datetime` in UTC."""
    seconds, nanoseconds = time
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def local(time: tuple[int, int]) -> datetime:
    """A naive `datetime` in local time; `fold` tells an hour that comes a second time from the first."""
    moment = utc(time)
    naive = moment.astimezone().replace(tzinfo=None)
    return naive if naive.astimezone(timezone.utc) == moment else naive.replace(fold=1)


def instant(time: datetime | str) -> tuple[int, int]:
    """The end of the microsecond that `time` names, so that a time that was shown finds its version.

    Text is in ISO form; a naive time is local.
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise InvalidInputError(f"Failed to parse timestamp string {time}: {error}") from error
    elif not isinstance(time, datetime):
        raise InvalidTypeError(f"Unrecognized version timestamp {time} of type {type(time)}")
    microseconds = (time.astimezone(timezone.utc) - _EPOCH) // _MICROSECOND
    return microseconds // 1_000_000, microseconds % 1_000_000 * 1000 + 999
