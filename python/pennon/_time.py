"""Times: the core counts seconds and nanoseconds since 1970 in UTC, pylance shows `datetime`s."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from pennon.errors import InvalidInputError, InvalidTypeError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d+)")
_OFFSET = re.compile(r"(:.*[+-]\d\d)(\d\d)$")


def utc(time: tuple[int, int]) -> datetime:
    """A `datetime` in UTC."""
    seconds, nanoseconds = time
    return EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def local(time: tuple[int, int]) -> datetime:
    """A naive `datetime` in local time; `fold` tells an hour that comes a second time from the first."""
    moment = utc(time)
    naive = moment.astimezone().replace(tzinfo=None)
    return naive if naive.astimezone(timezone.utc) == moment else naive.replace(fold=1)


def parsed(text: str) -> datetime:
    """The time of a text in ISO form. Raises `InvalidInputError` for other text."""
    # Before 3.11 Python reads no Z, no offsets without a colon, and no fractions of other than 3 or 6 digits.
    known = f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else _OFFSET.sub(r"\1:\2", text)
    known = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", known)
    try:
        return datetime.fromisoformat(known)
    except ValueError as error:
        reason = str(error).replace(repr(known), repr(text))
        raise InvalidInputError(f"Failed to parse timestamp string {text}: {reason}") from error


def instant(time: datetime | str) -> tuple[int, int]:
    """The end of the microsecond that `time` names, so that a time that was shown finds its version.

    Text is in ISO form; a naive time is local.
    """
    if isinstance(time, str):
        time = parsed(time)
    elif not isinstance(time, datetime):
        raise InvalidTypeError(f"Unrecognized version timestamp {time} of type {type(time)}")
    # A timestamp of pandas without a zone does not count as local.
    time = time.to_pydatetime() if hasattr(time, "to_pydatetime") else time
    try:
        microseconds = (time.astimezone(timezone.utc) - EPOCH) // _MICROSECOND
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(f"The time {time.isoformat()} is out of range: {error}") from error
    return microseconds // 1_000_000, microseconds % 1_000_000 * 1000 + 999
