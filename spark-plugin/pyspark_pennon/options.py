"""Options of `spark.read.format("pennon")` and `df.write.format("pennon")`: names, parsing, errors.

Spark passes options as text with lower-cased names. This module parses them once, into
[ReadOptions][] or [WriteOptions][]; no other module reads the raw mapping.
An unknown option is an error that names the closest known option, because a misspelt `verison`
would otherwise read the newest version silently.

| option | read | write | meaning |
|---|---|---|---|
| `path` | x | x | table URI; what `load(uri)` and `save(uri)` set |
| `storage.<key>` | x | x | storage option `<key>`, such as `storage.aws_region` |
| `version`, `tag` | x | | the version to read: a number, or the name of a tag |
| `columns` | x | | comma-separated names, or a JSON list when names contain commas |
| `filter` | x | | predicate in Pennon's SQL dialect |
| `push_filters` | x | | take over Spark's own filters, for a frame that is used once (default false) |
| `with_row_id`, `with_row_address`, `with_row_versions` | x | | add the system columns |
| `batch_size` | x | | rows in an Arrow batch, at most |
| `fragments_per_task` | x | | fragments one Spark task reads |
| `create` | | x | fail when the table exists already |
| `max_rows_per_file`, `max_bytes_per_file` | | x | when a task starts its next file |
| `data_storage_version` | | x | data file version of a new table |
| `enable_stable_row_ids` | | x | for a new table (default true) |
| `durability` | | x | `full` (default) or `os` |
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pyspark_pennon.errors import invalid

STORAGE_PREFIX = "storage."

DEFAULT_BATCH_SIZE = 32_768
"""Rows in a batch: Spark's Python sources are fastest with large batches."""

T = TypeVar("T")


@dataclass(frozen=True)
class ReadOptions:
    """What a job reads from a table; picklable.

    Attributes
    ----------
    uri
        Where the table is.
    version
        A version number or the name of a tag; None for the newest.
    columns
        Columns to read, in this order; None for all.
    filter
        Predicate in Pennon's SQL dialect.
    """

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict)
    version: int | str | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    push_filters: bool = False
    with_row_id: bool = False
    with_row_address: bool = False
    with_row_versions: bool = False
    batch_size: int = DEFAULT_BATCH_SIZE
    fragments_per_task: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse Spark's options of a read; `ValueError` names the option at fault."""
        values = _Values(options, _READ, other=_WRITE, action="read")
        version: int | str | None = values.get("version", _positive)
        tag = values.get("tag", str)
        if version is not None and tag is not None:
            raise invalid("Pennon options 'version' and 'tag' were both given; give one of them")
        columns = values.get("columns", _columns)
        return cls(
            uri=values.uri(),
            storage_options=values.storage_options(),
            version=version if tag is None else tag,
            columns=columns,
            filter=values.get("filter", str),
            push_filters=values.get("push_filters", _boolean, False),
            with_row_id=values.get("with_row_id", _boolean, False),
            with_row_address=values.get("with_row_address", _boolean, False),
            with_row_versions=values.get("with_row_versions", _boolean, False),
            batch_size=values.get("batch_size", _positive, DEFAULT_BATCH_SIZE),
            fragments_per_task=values.get("fragments_per_task", _positive),
        )


@dataclass(frozen=True)
class WriteOptions:
    """How a job writes to a table; picklable."""

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict)
    create: bool = False
    durability: Literal["full", "os"] = "full"
    file_parameters: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for writing files, only those that were given."""
    table_parameters: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for making a table, only those that were given."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse Spark's options of a write; `ValueError` names the option at fault."""
        values = _Values(options, _WRITE, other=_READ, action="write")
        return cls(
            uri=values.uri(),
            storage_options=values.storage_options(),
            create=values.get("create", _boolean, False),
            durability=values.get("durability", _durability, "full"),
            file_parameters=_given(
                max_rows_per_file=values.get("max_rows_per_file", _positive),
                max_bytes_per_file=values.get("max_bytes_per_file", _positive),
            ),
            table_parameters=_given(
                enable_stable_row_ids=values.get("enable_stable_row_ids", _boolean),
                data_storage_version=values.get("data_storage_version", str),
            ),
        )


_READ = frozenset(
    {
        "path",
        "version",
        "tag",
        "columns",
        "filter",
        "push_filters",
        "with_row_id",
        "with_row_address",
        "with_row_versions",
        "batch_size",
        "fragments_per_task",
    }
)
_WRITE = frozenset(
    {
        "path",
        "create",
        "max_rows_per_file",
        "max_bytes_per_file",
        "data_storage_version",
        "enable_stable_row_ids",
        "durability",
    }
)


class _Values:
    """Raw options with checked names."""

    def __init__(
        self, options: Mapping[str, str], known: frozenset[str], *, other: frozenset[str], action: str
    ) -> None:
        # Spark lower-cases names already; a plain dict from Python code may not.
        self._options = {name.lower(): value for name, value in options.items()}
        for name in self._options:
            if name not in known and not name.startswith(STORAGE_PREFIX):
                raise invalid(_unknown(name, known, other, action))

    def get(self, name: str, parse: Callable[[str], T], default: Any = None) -> Any:
        text = self._options.get(name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise invalid(f"Pennon option '{name}' is {text!r}: {error}") from None

    def uri(self) -> str:
        uri = self._options.get("path", "").strip()
        if not uri:
            raise invalid("the table's URI is missing: give it to load(uri) or save(uri)")
        return uri

    def storage_options(self) -> dict[str, str]:
        prefix = len(STORAGE_PREFIX)
        return {name[prefix:]: value for name, value in self._options.items() if name.startswith(STORAGE_PREFIX)}


def _given(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _unknown(name: str, known: frozenset[str], other: frozenset[str], action: str) -> str:
    if name == "paths":
        return "a Pennon table is read by one URI; several were given to load()"
    if name in other:
        opposite = "write" if action == "read" else "read"
        return f"Pennon option '{name}' belongs to a {opposite}, not to a {action}"
    near = difflib.get_close_matches(name, sorted(known | {STORAGE_PREFIX}), n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return (
        f"Unknown Pennon option '{name}' in a {action}; {hint}"
        f"Options are: {', '.join(sorted(known - {'path'}))}, storage.<key>"
    )


def _boolean(text: str) -> bool:
    value = text.strip().lower()
    if value in ("true", "false"):
        return value == "true"
    raise invalid("expected true or false")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise invalid("expected a whole number") from None
    if value < 1:
        raise invalid("expected 1 or more")
    return value


def _durability(text: str) -> Literal["full", "os"]:
    if text == "full":
        return "full"
    if text == "os":
        return "os"
    raise invalid("expected 'full' or 'os'")


def _columns(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except json.JSONDecodeError as error:
            raise invalid(f"not a JSON list ({error})") from None
        if not all(isinstance(name, str) for name in names):
            raise invalid("expected a JSON list of names")
    else:
        names = [name.strip() for name in text.split(",")]
    if not names or not all(names):
        raise invalid("a name is empty")
    return tuple(names)
