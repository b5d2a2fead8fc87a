"""Errors of this package are those of `pennon`, which is imported where one is raised: see `tables`.

Spark passes what a process in Python raised as the text of its traceback. So [noted][] adds a line below the
message, from which the driver makes the same error again:

    pennon.errors.CommitConflictError: <the message>
    [pennon {"kind": "CommitConflictError", "length": 13, "retryable": false}]

An error of a user's subclass becomes one of the class of `pennon` that it is of; the line has both names.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_RAISED = re.compile(r"^pennon\.errors\.(\w+): (.+)$", re.MULTILINE)
_NOTE = re.compile(r"^\[pennon (\{.*\})\]$", re.MULTILINE)
_ATTRIBUTES = ("retryable", "uuid", "path", "version", "fragment", "name")


def invalid(message: str) -> Exception:
    """The call, an option or a frame is wrong: a `ValueError` too."""
    from pennon.errors import InvalidInputError

    return InvalidInputError(message)


def repeated(message: str) -> Exception:
    """Several rows are for one row of the table: an error as of `invalid`."""
    from pennon.errors import RepeatedRowError

    return RepeatedRowError(message)


def wrong_type(message: str) -> Exception:
    """An argument has a type that the call does not take: a `TypeError` and a `ValueError` too."""
    from pennon.errors import InvalidTypeError

    return InvalidTypeError(message)


def mismatch(message: str) -> Exception:
    """A frame does not fit the table: a `ValueError` too."""
    from pennon.errors import SchemaMismatchError

    return SchemaMismatchError(message)


def exists(message: str, uri: str) -> Exception:
    """There is a table already: a `ValueError` too."""
    from pennon.errors import AlreadyExistsError

    return AlreadyExistsError(message, path=uri)


def unsupported(message: str) -> Exception:
    """What was asked for cannot be done here: a `NotImplementedError` too."""
    from pennon.errors import UnsupportedError

    return UnsupportedError(message)


def internal(message: str) -> Exception:
    """Spark did what it does not do, or this package is wrong: a `RuntimeError` too."""
    from pennon.errors import InternalError

    return InternalError(message)


@contextmanager
def noted() -> Iterator[None]:
    """An error of `pennon` that the block raises can be made again from its traceback: see [raised_in_task][]."""
    try:
        yield
    except Exception as error:
        from pennon.errors import PennonError

        if isinstance(error, PennonError):
            _note(error)
        raise


def _note(error: Any) -> None:
    from pennon.errors import PennonError

    text = str(error)
    notes: list[str] = getattr(error, "__notes__", [])
    kind = next(base for base in type(error).__mro__ if _kind(base.__name__) is base)
    given: dict[str, Any] = {"kind": kind.__name__, "length": len(text)}
    raised = f"pennon.errors.{kind.__name__}"
    if kind is not type(error):
        raised = given["class"] = _name_in_traceback(type(error))
    if _described("\n".join([f"{raised}: {text}", *notes])) is not None:
        return
    # A subclass may have a `__reduce__` of its own.
    state = PennonError.__reduce__(error)[2]
    given |= {name: state[name] for name in _ATTRIBUTES if state.get(name) is not None}
    line = f"[pennon {json.dumps(given, default=str)}]"
    if hasattr(error, "add_note"):
        error.__notes__ = [line, *notes]
    else:  # Python 3.10
        error.args = (f"{text}\n{line}",)


def _name_in_traceback(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "__main__" else f"{kind.__module__}.{kind.__qualname__}"


def raised_in_task(error: Exception) -> Exception | None:
    """The error of `pennon` that another process raised, from the text that Spark has of it; None if there is none.

    Without a note, as where other code calls `pennon` in a task, it has the kind and the first line of the message.
    """
    import pennon.errors

    if isinstance(error, pennon.errors.PennonError):
        return None
    text = str(error)
    found = _described(text)
    if found is not None:
        return found
    raised = _RAISED.findall(text)
    if not raised:
        return None
    name, message = raised[-1]
    kind = _kind(name)
    return None if kind is None else kind(message)


def _described(text: str) -> Exception | None:
    """The error that the last note in a text describes: a value in a message may look like one.

    None if another error was raised after it, as where a function wraps one: that one counts.
    """
    last = max((raised.start() for raised in _RAISED.finditer(text)), default=0)
    for note in reversed([*_NOTE.finditer(text)]):
        if note.end() < last:
            return None
        try:
            given = json.loads(note[1])
            name, end = given["kind"], note.start() - 1
            start = end - given["length"]
        except (ValueError, KeyError, TypeError):
            continue
        kind, raised = _kind(name), given.get("class", f"pennon.errors.{name}")
        if kind is None or not text[: max(start, 0)].endswith(f"{raised}: "):
            continue
        error: Exception = kind(text[start:end])
        for attribute in _ATTRIBUTES:
            if attribute in given:
                setattr(error, attribute, given[attribute])
        return error
    return None


def _kind(name: object) -> Any:
    """The class of `pennon.errors` with a name; None if there is none."""
    import pennon.errors

    kind = getattr(pennon.errors, str(name), None)
    return kind if isinstance(kind, type) and issubclass(kind, pennon.errors.PennonError) else None


def missing(message: str, uri: str) -> Exception:
    """A table or version is not there: a `ValueError` too."""
    from pennon.errors import NotFoundError

    return NotFoundError(message, path=uri)


def store_error(message: str) -> Exception:
    """The store, or what gives access to it, failed: an `OSError` too. Another attempt may succeed."""
    from pennon.errors import StoreError

    return StoreError(message)


def suggestion(name: str, known: Mapping[str, str], cutoff: float = 0.6) -> str:
    """The part of a message that says what a caller may have meant, or nothing; `known` has names by spelling."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return f"did you mean '{known[near[0]]}'? " if near else ""
