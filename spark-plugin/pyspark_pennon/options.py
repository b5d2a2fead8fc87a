"""Options of `spark.read.format("pennon")` and `df.write.format("pennon")`: names, parsing, errors.

Spark passes options as text with lower-cased names. This module parses them once, into
[ReadOptions][] or [WriteOptions][]; no other module reads the raw mapping. Underscores are optional, so that
`merge_schema` may be written `mergeSchema` as well. An unknown option is an error that names the closest known one,
because a misspelt `verison` would otherwise read the newest version silently.

| option | read | write | meaning |
|---|---|---|---|
| `path` | x | x | table URI; what `load(uri)` and `save(uri)` set |
| `storage.<key>` | x | x | storage option `<key>`, such as `storage.aws_region` |
| `version`, `tag`, `timestamp` | x | | the version to read: a number, the name of a tag, a time |
| `branch` | x | | the branch to read; with `version` one of its versions |
| `columns` | x | | comma-separated names, or a JSON list when names contain commas |
| `filter_sql` | x | | predicate in Pennon's SQL dialect |
| `push_filters` | x | | take over Spark's own filters, for a frame that is used once (default false) |
| `with_row_id`, `with_row_address`, `with_row_versions` | x | | add the system columns |
| `batch_size` | x | | rows in an Arrow batch, at most |
| `tasks`, `bytes_per_task` | x | | into how many Spark tasks the read is divided |
| `create` | | x | fail when the table exists already |
| `merge_schema` | | x | add columns that the table lacks (default false) |
| `drop_system_columns` | | x | leave out `_rowid` and its like instead of refusing them (default false) |
| `max_rows_per_file`, `max_bytes_per_file` | | x | when a task starts its next file |
| `data_storage_version` | | x | data file version of a new table |
| `enable_stable_row_ids` | | x | for a new table (default true) |
| `durability` | | x | `full` (default) or `os` |
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pyspark_pennon.errors import invalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORAGE_PREFIX = "storage."
SESSION_PREFIX = "spark.pennon.storage."
"""Settings of the session that are storage options of every table."""

DEFAULT_BATCH_SIZE = 65_536
"""Rows in a batch: Spark's Python sources are fastest with large batches."""

T = TypeVar("T")

_ELSEWHERE = {
    "filter": "the option is called 'filter_sql', since it is Pennon's SQL dialect and not Spark's",
    "where": "a data source cannot evaluate Spark's SQL: use where() on the frame, or read(where=...)",
    "replacewhere": "use pyspark_pennon.write(df, uri, mode='overwrite', replace_where=...)",
    "maxtasks": "use pyspark_pennon.write(df, uri, max_tasks=...), or coalesce() on the frame",
    "versionasof": "the option is called 'version'",
    "timestampasof": "the option is called 'timestamp'",
    "paths": "a Pennon table is read by one URI; several were given to load()",
}
"""What people look for under another name, without underscores."""


@dataclass(frozen=True)
class ReadOptions:
    """What a job reads from a table; picklable, and without secrets in its representation.

    Attributes
    ----------
    uri
        Where the table is.
    version
        A version number or the name of a tag; None for the newest.
    columns
        Columns to read, in this order; None for all.
    filter_sql
        Predicate in Pennon's SQL dialect.
    branch
        The branch that is read, and that `version` belongs to.
    timestamp
        The newest version that was committed at or before this time.
    """

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    version: int | str | None = None
    columns: tuple[str, ...] | None = None
    filter_sql: str | None = None
    push_filters: bool = False
    with_row_id: bool = False
    with_row_address: bool = False
    with_row_versions: bool = False
    batch_size: int = DEFAULT_BATCH_SIZE
    tasks: int | None = None
    bytes_per_task: int | None = None
    branch: str | None = None
    timestamp: str | datetime | None = None

    def __post_init__(self) -> None:
        if self.timestamp is not None and (self.version is not None or self.branch is not None):
            raise invalid("a timestamp was given together with a version, tag or branch; give one of them")
        if self.branch is not None and isinstance(self.version, str):
            raise invalid(f"tag {self.version!r} and branch {self.branch!r} were both given; give one of them")
        if self.tasks is not None and self.bytes_per_task is not None:
            raise invalid("Pennon options 'tasks' and 'bytes_per_task' were both given; give one of them")

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse Spark's options of a read; `ValueError` names the option at fault."""
        values = _Values(options, _READ, other=_WRITE, action="read")
        version: int | None = values.get("version", _positive)
        tag: str | None = values.get("tag", str)
        return cls(
            uri=values.uri(),
            storage_options=values.storage_options(),
            version=one_reference(version, tag),
            columns=values.get("columns", _columns),
            filter_sql=values.get("filter_sql", str),
            push_filters=values.get("push_filters", _boolean, False),
            with_row_id=values.get("with_row_id", _boolean, False),
            with_row_address=values.get("with_row_address", _boolean, False),
            with_row_versions=values.get("with_row_versions", _boolean, False),
            batch_size=values.get("batch_size", _positive, DEFAULT_BATCH_SIZE),
            tasks=values.get("tasks", _positive),
            bytes_per_task=values.get("bytes_per_task", _positive),
            branch=values.get("branch", str),
            timestamp=values.get("timestamp", _time),
        )


def one_reference(version: int | None, tag: str | None) -> int | str | None:
    """A version by number or by tag. Raises `ValueError` if both are given."""
    if version is not None and tag is not None:
        raise invalid("Pennon options 'version' and 'tag' were both given; give one of them")
    return version if tag is None else tag


@dataclass(frozen=True)
class WriteOptions:
    """How a job writes to a table; picklable, and without secrets in its representation."""

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    create: bool = False
    merge_schema: bool = False
    drop_system_columns: bool = False
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
            merge_schema=values.get("merge_schema", _boolean, False),
            drop_system_columns=values.get("drop_system_columns", _boolean, False),
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


def session_storage_options(spark: SparkSession, given: Mapping[str, str] | None) -> dict[str, str]:
    """The storage options of a session, `spark.pennon.storage.<key>`, under those that were given.

    Raises
    ------
    ValueError
        A credential is in a setting that Spark writes to its event log as it is.
    """
    prefix = len(SESSION_PREFIX)
    found = {
        name[prefix:]: str(spark.conf.get(name, "")) for name in _names(spark) if name.startswith(SESSION_PREFIX)
    }
    explicit = dict(given or {})
    for key in found:
        if _CREDENTIAL.search(key) and not _is_redacted(spark, SESSION_PREFIX + key):
            raise invalid(
                f"Spark would write the setting '{SESSION_PREFIX}{key}' to its event log: set it when the session "
                f"is made, not later, together with spark.redaction.regex='{REDACTION}'; or give storage_options "
                "to the call"
            )
    return {**found, **explicit}


def _names(spark: SparkSession) -> list[str]:
    """The names of all settings."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return list(spark.conf.getAll)
    # One call instead of one for each setting.
    joined: str = session.conf().getAll().keys().mkString("\n")
    return joined.split("\n")


REDACTION = r"(?i)secret|password|token|access[.]?key|spark[.]pennon[.]storage"
"""Spark's own pattern of settings to hide, and ours."""

_CREDENTIAL = re.compile(
    r"(?i)secret|token|password|credential|signature|sas|(account|access|private|api)_?key(?!_id)"
)


def _is_redacted(spark: SparkSession, name: str) -> bool:
    """Whether Spark hides a setting: one that it was started with, whose name its pattern has."""
    try:
        started = spark.sparkContext.getConf()
    except Exception:  # Spark Connect has no context
        return False
    pattern = started.get("spark.redaction.regex", None) or "(?i)secret|password|token|access[.]?key"
    return started.contains(name) and re.search(pattern, name) is not None


_READ = frozenset(
    {
        "path",
        "version",
        "tag",
        "branch",
        "timestamp",
        "columns",
        "filter_sql",
        "push_filters",
        "with_row_id",
        "with_row_address",
        "with_row_versions",
        "batch_size",
        "tasks",
        "bytes_per_task",
    }
)
_WRITE = frozenset(
    {
        "path",
        "create",
        "merge_schema",
        "drop_system_columns",
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
        spellings = {_bare(name): name for name in known}
        self._options: dict[str, str] = {}
        self._storage: dict[str, str] = {}
        for given, value in options.items():
            name = given.lower()
            if name.startswith(STORAGE_PREFIX):
                self._storage[name[len(STORAGE_PREFIX) :]] = value
                continue
            spelling = spellings.get(_bare(name))
            if spelling is None:
                raise invalid(_unknown(name, known, other, action))
            self._options[spelling] = value

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
        return dict(self._storage)


def _bare(name: str) -> str:
    return name.lower().replace("_", "")


def _given(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _unknown(name: str, known: frozenset[str], other: frozenset[str], action: str) -> str:
    elsewhere = _ELSEWHERE.get(_bare(name))
    if elsewhere is not None:
        return f"Unknown Pennon option '{name}' in a {action}: {elsewhere}"
    for spelling in other:
        if _bare(spelling) == _bare(name):
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


def _time(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise invalid("expected a time such as 2024-02-29 12:00:00+00:00") from None
    return text


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
