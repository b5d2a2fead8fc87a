"""The table of a command: its argument, the options that name a version, and what is said if there is none."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast

import click
from click.shell_completion import CompletionItem

from pennon._address import local_path
from pennon._time import parsed
from pennon.errors import InvalidInputError, NotFoundError, PennonError, UnsupportedError
from pennon.open import dataset
from pennon.transaction import LanceOperation

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.types import Reference

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Name = Union[int, str, tuple[str, int]]
"""A version as arguments name it: a number, a tag, or a branch and a number."""
_MOST = 2**64 - 1
_LONGEST = 1 << 20
"""Characters of a storage option in a file, so that the wrong file does not fill the memory."""


class VersionName(click.ParamType):  # type: ignore[type-arg]
    """A version: `7`, a tag, or `branch:7`."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Name:
        """The text of an argument as a version."""
        if not isinstance(value, str):
            return cast(Name, value)
        branch, colon, number = value.rpartition(":")
        if number.isdecimal() and number.isascii() and int(number) <= _MOST and bool(colon) == bool(branch):
            return (branch, int(number)) if colon else int(number)
        if colon or not value or value.startswith("-"):
            self.fail(f"{value!r} is not a version: expected a number, a tag, or BRANCH:NUMBER", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The tags of the table that the line names so far."""
        return _complete("tags", ctx, param, incomplete)


VERSION = VersionName()


@dataclass(frozen=True)
class Address:
    """A table as a command line names it."""

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict)
    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    as_of: datetime | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether it names another version than the newest."""
        return self.version is not None or self.tag is not None or self.as_of is not None

    @property
    def reference(self) -> Reference | None:
        """The version for `pennon.dataset`; of a time on a branch the newest."""
        if self.tag is not None:
            return self.tag
        return self.version if self.branch is None else (self.branch, self.version)

    def open(self) -> LanceDataset:
        """The table at the version that is named, by default the newest."""
        with explained(self):
            if self.as_of is None:
                return dataset(self.uri, self.reference, storage_options=self.storage_options)
            uri = self.uri if self.branch is None else self.newest().uri
            return dataset(uri, asof=self.as_of, storage_options=self.storage_options)

    def newest(self) -> LanceDataset:
        """The newest version, of the branch if one is named."""
        return replace(self, version=None, tag=None, as_of=None).open()

    def checkout(self, table: LanceDataset, name: Name | tuple[str, None]) -> LanceDataset:
        """Another version of the same table; a number is one on its branch."""
        with explained(self, name):
            return table.checkout_version(name)

    def command(self, name: str, *arguments: object, branch: str | None = None) -> str:
        """What to type for a command about this table, or about another branch of it.

        Values of storage options may be secrets: their keys are what is shown.
        """
        words = ["pennon", name, self.uri, *map(str, arguments)]
        branch = branch or self.branch
        words += [] if branch is None else ["--branch", branch]
        options = "".join(f" --storage-option {shlex.quote(key)}=…" for key in self.storage_options)
        return shlex.join(words) + options


def branch_of(name: Name, table: LanceDataset, own: str) -> str:
    """The branch of a version; `own` is that of numbers."""
    if isinstance(name, str):
        return table.tags.list()[name]["branch"] or "main"
    return name[0] if isinstance(name, tuple) else own


@contextmanager
def explained(address: Address, name: Name | tuple[str, None] | None = None) -> Iterator[None]:
    """Errors of opening a table, with what is there instead."""
    try:
        yield
    except NotFoundError as error:
        message = _why(address, address.reference if name is None else name)
        if message is None:
            raise
        raise NotFoundError(message, path=error.path, version=error.version) from None


def _why(address: Address, name: Any) -> str | None:
    """Why there is no such table or version; None if nothing better than the error can be said."""
    try:
        table = dataset(address.uri, storage_options=address.storage_options)
    except NotFoundError:
        return what_is_at(address.uri)
    except PennonError:
        return None
    branch, number = name if isinstance(name, tuple) else (address.branch, name)
    try:
        if branch is not None:
            if branch not in table.branches:
                return f"{address.uri} has no branch {branch!r}: {_listed(table.branches)}"
            table = table.checkout_version((branch, None))
        if isinstance(number, str):
            return f"{address.uri} has no tag {number!r}: {_listed(table.tags)}"
        if not isinstance(number, int):
            return None
        numbers = [entry["version"] for entry in table.version_refs()]
        first, _ = first_version(table, branch)
    except PennonError:
        return None
    history = history_of(address.uri, branch)
    if number > numbers[-1]:
        return f"{history} has no version {number}: the newest is {numbers[-1]}"
    if number < first:
        return f"{history} has no version {number}: its first was {first}"
    return f"{history} has no version {number} any more: it was removed; the oldest is {numbers[0]}"


def history_of(uri: str, branch: str | None) -> str:
    """Whose versions they are, for a message."""
    return uri if branch is None else f"branch {branch} of {uri}"


def first_version(table: LanceDataset, branch: str | None) -> tuple[int, bool]:
    """The number of the first version of a branch or a table, and whether it has the rows of another one's."""
    if branch is not None and branch != "main":
        return int(table.branches.list()[branch]["parent_version"]), True
    oldest: int = table.version_refs()[0]["version"]
    made = table.checkout_version(oldest).read_transaction(oldest)
    is_clone = made is not None and isinstance(made.operation, LanceOperation.Clone)
    return oldest if is_clone else 1, is_clone


def _listed(names: Any) -> str:
    found = sorted(names)
    return f"it has {', '.join(found[:10])}{', …' if len(found) > 10 else ''}" if found else "it has none"


def what_is_at(uri: str) -> str | None:
    """What is at an address where no table is; None if nothing can be said."""
    path = local_path(uri)
    if path is None:
        return f"there is no Lance table at {uri}"
    try:
        if not path.exists():
            return f"{uri} does not exist"
        if path.is_file():
            return f"{uri} is {kind_of_file(path)}, not the directory of a Lance table"
        return f"{uri} is {_of_directory(path)}, not a Lance table"
    except OSError as error:
        return f"{uri}: {error.strerror}"


def kind_of_file(path: Path) -> str:
    """What a file is by its name and its first bytes."""
    if path.suffix == ".lance":
        return "a data file (`pennon inspect` shows it)"
    with path.open("rb") as file:
        magic = file.read(6)
    if magic[:4] == b"PAR1":
        return "a Parquet file (`pennon import` reads it)"
    return "an Arrow file (`pennon import` reads it)" if magic == b"ARROW1" else "a file"


def _of_directory(path: Path) -> str:
    if (path / "_delta_log").is_dir():
        return "a Delta table"
    if any((path / "metadata").glob("*.metadata.json")):
        return "an Iceberg table"
    if (path / ".hoodie").is_dir():
        return "a Hudi table"
    names = [entry.name for _, entry in zip(range(1000), path.iterdir())]  # noqa: B905
    if any(name.endswith(".parquet") for name in names):
        return "a directory of Parquet files (`pennon import` reads them)"
    if any(name.endswith(".lance") for name in names):
        return "a directory with names of tables or data files in it"
    return "a directory without versions" if names else "an empty directory"


def storage_option(function: FunctionT) -> FunctionT:
    """Add `--storage-option`; the command gets a dict, `storage_options`."""
    return click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_pairs,
        help="A setting of the object store, such as aws_region=eu-central-1; may be repeated. Everyone on the "
        "machine can see the arguments of a command: give secrets through environment variables such as "
        "AWS_SECRET_ACCESS_KEY, or as KEY=@FILE, the content of a file (@@ starts a value that begins with @).",
    )(function)


def table_argument(
    *, pinned: bool = True, branch: bool = True, metavar: str = "TABLE"
) -> Callable[[FunctionT], FunctionT]:
    """Add the argument TABLE and the options of its store; the command gets an `Address`, `table`.

    With `pinned` there are options that name a version.
    """

    def decorate(function: FunctionT) -> FunctionT:
        @click.argument("table", metavar=metavar, callback=_not_empty)
        @functools.wraps(function)
        def command(
            *arguments: Any,
            table: str,
            storage_options: dict[str, str],
            version: int | None = None,
            tag: str | None = None,
            branch: str | None = None,
            as_of: datetime | None = None,
            **options: Any,
        ) -> Any:
            if sum(name is not None for name in (version, tag, as_of)) > 1:
                raise click.UsageError("--version, --tag and --as-of exclude each other")
            if tag is not None and branch is not None:
                raise click.UsageError("--tag and --branch exclude each other: a tag is of one branch")
            address = Address(table, storage_options, version, tag, branch, as_of)
            return function(*arguments, table=address, **options)

        decorated: Any = storage_option(command)
        if branch:
            decorated = click.option(
                "--branch",
                metavar="NAME",
                shell_complete=functools.partial(_complete, "branches"),
                help="The newest version of this branch, or another one of it.",
            )(decorated)
        if pinned:
            decorated = click.option(
                "--as-of",
                "as_of",
                metavar="TIME",
                callback=_time,
                help="The newest version of this time: 2026-11-25, 2026-11-25T12:30; local if there is no zone.",
            )(decorated)
            decorated = click.option(
                "--tag",
                metavar="NAME",
                shell_complete=functools.partial(_complete, "tags"),
                help="The version with this tag.",
            )(decorated)
            decorated = click.option(
                "--version", type=click.IntRange(0, _MOST), metavar="N", help="The version with this number."
            )(decorated)
        return cast(FunctionT, decorated)

    return decorate


def _complete(kind: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of tags or branches that begin like this, of the table that the line names so far."""
    del param
    # Behind an option that still lacks its value nothing is parsed.
    uri = ctx.params.get("table") or next((text for text in ctx.args if not text.startswith("-")), None)
    if not isinstance(uri, str):
        return []
    try:
        table = dataset(uri, storage_options=dict(ctx.params.get("storage_options") or {}))
        names = list(table.tags if kind == "tags" else table.branches)
    except PennonError:
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in value:
        key, equals, rest = text.partition("=")
        if not equals or not key:
            # The text may be a secret.
            raise click.BadParameter("expected KEY=VALUE", ctx=ctx, param=param)
        if rest.startswith("@@"):
            rest = rest[1:]
        elif rest.startswith("@"):
            rest = _content_of(rest[1:], ctx, param)
        found[key] = rest
    return found


def _content_of(path: str, ctx: click.Context, param: click.Parameter) -> str:
    """The text of a file, without the newline at its end that editors add."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read(_LONGEST + 1)
    except OSError as error:
        raise click.BadParameter(f"file {path!r}: {error.strerror}", ctx=ctx, param=param) from None
    except ValueError:
        # The message of a decoder repeats the bytes.
        raise click.BadParameter(f"file {path!r} is not a text in UTF-8", ctx=ctx, param=param) from None
    if len(text) > _LONGEST:
        raise click.BadParameter(f"file {path!r} is longer than {_LONGEST} characters", ctx=ctx, param=param)
    return text.removesuffix("\n").removesuffix("\r")


def _not_empty(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not value:
        raise click.BadParameter("the address of a table is empty", ctx=ctx, param=param)
    return value


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return parsed(value)
    except InvalidInputError:
        raise click.BadParameter(
            f"{value!r} is not a time: expected 2026-11-25 or 2026-11-25T12:30", ctx=ctx, param=param
        ) from None


def needs_ids(table: LanceDataset, what: str, instead: str = "") -> None:
    """Raises `UnsupportedError` unless rows keep their ids."""
    if not table.has_stable_row_ids:
        raise UnsupportedError(f"{what} needs rows that keep their ids; those of {table.uri} do not{instead}")
