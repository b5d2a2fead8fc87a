"""Options of Spark as it passes them: text under names whose case and underscores do not matter.

Names are checked against those of an action, and an unknown one is an error that names the closest known one,
because a misspelt `verison` would otherwise read the newest version silently. Values are parsed once, and an error
names the option at fault. Keys of storage options are in lower case, as Spark makes names of options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pyspark_pennon.errors import invalid, suggestion
from pyspark_pennon.options.provider import PROVIDER, with_provider

PATH = "path"
"""The option in which Spark passes the URI of the table."""

STORAGE_PREFIX = "storage."
PROVIDER_OPTION = "storageOptionsProvider"
"""The option with the name of a function that provides storage options; `storage.provider` as well."""

T = TypeVar("T")

Parsers = Mapping[str, Callable[[str], Any]]
"""The options of an action: their names, as errors list them, and how their texts are parsed."""


def bare(name: str) -> str:
    """The name of an option without what does not matter."""
    return name.lower().replace("_", "")


class OptionValues:
    """Raw options with checked names.

    Parameters
    ----------
    options
        As Spark passes them.
    known
        The options that there are, besides those of every action.
    action
        What they are for: `read`, `stream`.
    aliases
        Other names of known options, bare.
    elsewhere
        What to say of a name that belongs to something else; None if it does not.
    others
        Another action that may have been meant, and the names of its options.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        known: Parsers,
        action: str,
        *,
        aliases: Mapping[str, str] | None = None,
        elsewhere: Callable[[str], str | None] | None = None,
        others: tuple[str, Iterable[str]] | None = None,
    ) -> None:
        spellings = {bare(name): name for name in (PATH, *known)}
        spellings.update({old: new for old, new in (aliases or {}).items() if new in known})
        self._known = known
        self._options: dict[str, str] = {}
        self._storage: dict[str, str] = {}
        for given, value in options.items():
            name = given.lower()
            if bare(name) == bare(PROVIDER_OPTION):
                self._storage[PROVIDER] = value
                continue
            if name.startswith(STORAGE_PREFIX):
                self._storage[name[len(STORAGE_PREFIX) :]] = value
                continue
            spelling = spellings.get(bare(name))
            if spelling is None:
                known_elsewhere = None if elsewhere is None else elsewhere(given)
                raise invalid(known_elsewhere or _unknown(given, spellings, known, action, others))
            self._options[spelling] = value

    def given(self) -> dict[str, Any]:
        """The values of the options that were given, by their names, without the URI and options of the store."""
        return {name: parsed(name, text, self._known[name]) for name, text in self._options.items() if name != PATH}

    def uri(self) -> str:
        """The table's URI, which Spark passes as an option."""
        uri = self._options.get(PATH, "").strip()
        if not uri:
            raise invalid(
                "the table's URI is missing: give it to load(uri), save(uri) or start(uri); tables of Spark's "
                "catalog (saveAsTable, CREATE TABLE) cannot be of this source"
            )
        return uri

    def storage_options(self) -> Mapping[str, str]:
        """Options of the object store, by their keys in lower case, or those of a provider."""
        return with_provider(self._storage)


def _unknown(
    name: str,
    spellings: Mapping[str, str],
    known: Iterable[str],
    action: str,
    others: tuple[str, Iterable[str]] | None,
) -> str:
    other, names = ("", list[str]()) if others is None else (others[0], list(others[1]))
    candidates = {
        **{bare(option): option for option in names},
        **spellings,
        STORAGE_PREFIX: f"{STORAGE_PREFIX}<key>",
        bare(PROVIDER_OPTION): PROVIDER_OPTION,
    }
    hint = suggestion(bare(name), candidates, cutoff=0.5)
    listed = f"{', '.join(known)}, storage.<key>"
    if names:
        listed += f"; those of a {other}: {', '.join(names)}, storage.<key>"
    return f"Unknown Pennon option '{name}' in a {action}; {hint}Options are: {listed}"


def parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    """The value of an option. Raises an error that names it."""
    try:
        return parse(text)
    except ValueError as error:
        raise invalid(f"Pennon option '{name}' is {text!r}: {error}") from None


def boolean(text: str) -> bool:
    """`true` or `false`."""
    value = text.strip().lower()
    if value in ("true", "false"):
        return value == "true"
    raise invalid("expected true or false")


def natural(text: str) -> int:
    """A number from 0."""
    return _number(text, 0)


def positive(text: str) -> int:
    """A number from 1."""
    return _number(text, 1)


def _number(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise invalid("expected a whole number") from None
    if value < least:
        raise invalid(f"expected {least} or more")
    return value


def time_of(text: str) -> datetime:
    """A time from its text in ISO form; one without a zone is local."""
    known = text.strip()
    # Before 3.11 Python reads no Z, no offsets without a colon, and no fractions of other than 3 or 6 digits.
    known = f"{known[:-1]}+00:00" if known.endswith(("Z", "z")) else _OFFSET.sub(r"\1:\2", known)
    known = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", known)
    try:
        return datetime.fromisoformat(known).astimezone()
    except (ValueError, OverflowError):
        raise invalid("expected a time such as 2026-11-23 21:15:00.5+00:00") from None


_OFFSET = re.compile(r"(:.*[+-]\d\d)(\d\d)$")
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d+)")


def given_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that a caller named. Raises `InvalidInputError` for a text, whose letters would be names."""
    if isinstance(columns, str):
        raise invalid(f"columns is the text {columns!r}: expected a list of names")
    return None if columns is None else tuple(columns)


def column_names(text: str) -> tuple[str, ...]:
    """Names that are separated by commas, or in a JSON list, which may be empty."""
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except json.JSONDecodeError as error:
            raise invalid(f"not a JSON list ({error})") from None
        if not all(isinstance(name, str) for name in names):
            raise invalid("expected a JSON list of names")
    else:
        names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise invalid("a name is empty")
    return tuple(names)
