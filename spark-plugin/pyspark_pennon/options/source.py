"""Options of `spark.read.format("pennon")` and `df.write.format("pennon")`: names, parsing, errors.

Spark passes options as text with lower-cased names. This module parses them once, into
[ReadOptions][] or [WriteOptions][]. Underscores are optional, so that `merge_schema` may be written `mergeSchema`.
[OptionValues][pyspark_pennon.options.values.OptionValues] checks names and values, also for change feeds.

docs/spark.md says what each of them means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING, Any

from pyspark_pennon.errors import invalid, wrong_type
from pyspark_pennon.options.feed import OF_DELTA, STREAM_NAMES
from pyspark_pennon.options.provider import ProvidedOptions, with_provider
from pyspark_pennon.options.values import OptionValues, Parsers, bare, boolean, column_names, positive, time_of
from pyspark_pennon.spark_api import spark_context

if TYPE_CHECKING:
    from pennon.types import Durability
    from pyspark.sql import SparkSession

SESSION_PREFIX = "spark.pennon.storage."
"""Settings of the session that are storage options of every table."""

DEFAULT_BATCH_SIZE = 65_536
"""Rows in a batch: Spark's Python sources are fastest with large batches."""

_ONCE = (
    "a batch of a stream is appended once by writeStream.format('pennon'), and in foreachBatch by "
    "pyspark_pennon.append_batches"
)

_ELSEWHERE = {
    "filter": "the option is called 'filter_sql', since it is Pennon's SQL dialect and not Spark's",
    "where": "a data source cannot evaluate Spark's SQL: use where() on the frame, or read(where=...)",
    "replacewhere": "use pyspark_pennon.write(df, uri, mode='overwrite', replace_where=...)",
    "overwriteschema": "an overwrite always replaces the schema, and an append takes 'mergeSchema': leave it out",
    "partitionoverwritemode": (
        "tables have no partitions: replace rows with pyspark_pennon.write(df, uri, mode='overwrite', "
        "replace_where=...)"
    ),
    "maxrecordsperfile": "the option is called 'max_rows_per_file'",
    "owner": (
        "Spark's catalog gives it to its tables, which cannot be of this source: read by a path, or make a view, "
        "CREATE TEMPORARY VIEW v USING pennon OPTIONS (path ..)"
    ),
    "usermetadata": "the option is called 'commit_message'",
    "txnappid": _ONCE,
    "txnversion": _ONCE,
    "maxtasks": "use pyspark_pennon.write(df, uri, max_tasks=...), or coalesce() on the frame",
    "versionasof": "the option is called 'version'",
    "timestampasof": "the option is called 'timestamp'",
    "paths": "a Pennon table is read by one URI; several were given to load()",
    **OF_DELTA,
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
        The branch that is read, and that `version` or `timestamp` is of.
    timestamp
        The newest version that was committed at or before this time.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
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
        if self.timestamp is not None and self.version is not None:
            raise invalid("a timestamp was given together with a version or tag; give one of them")
        if self.branch is not None and isinstance(self.version, str):
            raise invalid(f"tag {self.version!r} and branch {self.branch!r} were both given; give one of them")
        if self.tasks is not None and self.bytes_per_task is not None:
            raise invalid("Pennon options 'tasks' and 'bytes_per_task' were both given; give one of them")
        for name in ("batch_size", "tasks", "bytes_per_task"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise invalid(f"Pennon option '{name}' is {number}: expected 1 or more")

    def at(self, location: str, version: int) -> ReadOptions:
        """The same of a version by its number, whatever it was named by: a tag may be of a branch.

        Parameters
        ----------
        location
            The URI of the open table, which for a branch is its own.
        """
        return replace(self, uri=location, version=version, branch=None, timestamp=None)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse Spark's options of a read; `ValueError` names the option at fault."""
        # `schema()` does not know that it is of a stream.
        values = OptionValues(
            options,
            _READ,
            "read",
            elsewhere=_belongs(_WRITE, "read", "write"),
            others=("stream", STREAM_NAMES),
        )
        uri, given = values.uri(), values.given()
        version = one_reference(given.pop("version", None), given.pop("tag", None))
        return cls(uri, values.storage_options(), version, **given)


def checked_version(version: Any) -> int | str | None:
    """A version by number or by tag, as calls take it, or none. Raises `InvalidTypeError` for anything else."""
    return None if version is None else required_version(version)


def required_version(version: Any) -> int | str:
    """As `checked_version`, where a version must be given."""
    if isinstance(version, str):
        return version
    try:
        if not isinstance(version, bool):
            return index(version)
    except TypeError:
        pass
    raise wrong_type(f"version is {version!r}: expected a number or a tag")


def one_reference(version: int | str | None, tag: str | None) -> int | str | None:
    """A version by number or tag, of which one is given or none. Raises `ValueError` if both are."""
    version = checked_version(version)
    if version is not None and tag is not None:
        raise invalid("Pennon options 'version' and 'tag' were both given; give one of them")
    return version if tag is None else tag


@dataclass(frozen=True)
class WriteOptions:
    """How a job writes to a table; picklable, and without secrets in its representation."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    create: bool = False
    merge_schema: bool = False
    drop_system_columns: bool = False
    durability: Durability = "full"
    commit_message: str | None = None
    is_case_sensitive: bool = False
    """Whether names of columns differ by case, as in the session of `write`; the data source does not know."""
    file_parameters: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for writing files, only those that were given."""
    table_parameters: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for making a table, only those that were given."""

    def __post_init__(self) -> None:
        if self.commit_message is not None and not isinstance(self.commit_message, str):
            raise wrong_type(f"commit_message must be text, found {type(self.commit_message).__name__}")

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse Spark's options of a write; `ValueError` names the option at fault."""
        values = OptionValues(options, _WRITE, "write", elsewhere=_belongs(_READ, "write", "read"))
        return cls.of(values.uri(), values.storage_options(), **values.given())

    @classmethod
    def of(cls, uri: str, storage_options: Mapping[str, str], **given: Any) -> WriteOptions:
        """Options by their names; None for one that is not given."""
        files, tables = (
            {name: value for name in known if (value := given.pop(name, None)) is not None}
            for known in (_FILES, _TABLES)
        )
        return cls(uri, storage_options, file_parameters=files, table_parameters=tables, **given)


def session_storage_options(spark: SparkSession, given: Mapping[str, str] | None) -> Mapping[str, str]:
    """The storage options of a session, `spark.pennon.storage.<key>`, under those that were given.

    With `provider` among them, those of a function: see `provider.py`.

    Raises
    ------
    ValueError
        A credential is in a setting that Spark writes to its event log as it is.
    """
    if isinstance(given, ProvidedOptions):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise wrong_type(f"storage_options must be a dict of strings, found {type(given).__name__}")
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
    return with_provider({**found, **explicit})


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
    context = spark_context(spark)
    if context is None:
        return False
    started = context.getConf()
    pattern = started.get("spark.redaction.regex", None) or "(?i)secret|password|token|access[.]?key"
    return started.contains(name) and re.search(pattern, name) is not None


def _belongs(others: Parsers, action: str, opposite: str) -> Callable[[str], str | None]:
    """What to say of options with another name or of another action."""

    def say(name: str) -> str | None:
        elsewhere = _ELSEWHERE.get(bare(name))
        if elsewhere is not None:
            return f"Unknown Pennon option '{name}' in a {action}: {elsewhere}"
        if bare(name) in map(bare, others):
            return f"Pennon option '{name}' belongs to a {opposite}, not to a {action}"
        return None

    return say


def _time(text: str) -> str:
    return time_of(text).isoformat()


def durability_of(text: str) -> Durability:
    """What a commit survives, by its name."""
    if text not in ("full", "os"):
        raise invalid("expected 'full' or 'os'")
    return "os" if text == "os" else "full"


def _columns(text: str) -> tuple[str, ...]:
    names = column_names(text)
    if not names:
        raise invalid("expected at least one name")
    return names


_READ: Parsers = {
    "version": positive,
    "tag": str,
    "branch": str,
    "timestamp": _time,
    "columns": _columns,
    "filter_sql": str,
    "push_filters": boolean,
    "with_row_id": boolean,
    "with_row_address": boolean,
    "with_row_versions": boolean,
    "batch_size": positive,
    "tasks": positive,
    "bytes_per_task": positive,
}
"""Options of a read: the fields of `ReadOptions`, and `tag`."""

_FILES: Parsers = {"max_rows_per_file": positive, "max_bytes_per_file": positive}
_TABLES: Parsers = {"data_storage_version": str, "enable_stable_row_ids": boolean, "compatible_with": str}
_WRITE: Parsers = {
    "create": boolean,
    "merge_schema": boolean,
    "drop_system_columns": boolean,
    **_FILES,
    **_TABLES,
    "durability": durability_of,
    "commit_message": str,
}
"""Options of a write: fields of `WriteOptions`, and parameters of files and of new tables."""
