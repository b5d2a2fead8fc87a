"""Releases of pylance as readers: what `compatible_with` of `write_dataset` stands for.

A release reads what the last line of `READERS` says whose `since` is not newer. `docs/readers.md` has the table and
what it was taken from: `make neighbours` tries releases and fails where one does not read what is written for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pennon.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from pennon.types import FileVersion

KEY = "pennon.compatible_with"
"""Where the config of a table says which reader it is for."""

SPILL = "lance.row_lineage.spill"
"""What of the config keeps ids and versions of rows in the manifest, if it is `false`."""

NEWEST = "14.0"
"""The newest release that was tried, without its patch."""


class Reader(NamedTuple):
    """What releases from one on read, and change without damage."""

    since: str
    data_storage_version: FileVersion
    # `off` where indices give wrong answers if rows have stable ids, `refused` where changes damage such tables.
    stable_row_ids: Literal["refused", "off", "on"]
    # Ids and versions of rows as columns of data files.
    lineage_columns: bool


READERS = (
    Reader("0.24", "2.0", "refused", False),
    Reader("0.38", "2.1", "off", False),
    Reader("3.0", "2.2", "off", False),
    Reader("10.0", "2.2", "on", False),
    Reader("14.0", "2.2", "on", True),
)


def reader_of(name: str) -> Reader:
    """The settings for a release, such as `"pylance 1.0"`.

    Raises
    ------
    pennon.InvalidInputError
        There is no such reader; the error says which there are.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"compatible_with must be text such as 'pylance 1.0', not {type(name).__name__}")
    match = re.fullmatch(r"pylance (\d{1,4})(?:\.(\d{1,4}))?(?:\.\d{1,4})?", name.strip())
    if match is None:
        raise _unknown(name)
    release = int(match[1]), int(match[2] or 0)
    # `pylance 0` is not a release, and a newer one was not tried.
    if release[0] > _release(NEWEST)[0]:
        raise _unknown(name)
    known = [reader for reader in READERS if _release(reader.since) <= release]
    if not known:
        raise _unknown(name)
    return known[-1]


def options(
    compatible_with: str | None,
    data_storage_version: str | None,
    enable_stable_row_ids: bool | None,
) -> dict[str, Any]:
    """The file version, kind of row ids and config of a table that is created for a reader.

    Raises
    ------
    pennon.InvalidInputError
        An option that is given makes tables that the reader does not read.
    """
    if compatible_with is None:
        return {"data_storage_version": data_storage_version, "enable_stable_row_ids": enable_stable_row_ids}
    reader, given = reader_of(compatible_with), f"compatible_with={compatible_with!r}"
    check_version(data_storage_version, compatible_with, given)
    if enable_stable_row_ids and reader.stable_row_ids == "refused":
        raise InvalidInputError(
            f"enable_stable_row_ids=True contradicts {given}: this reader needs tables without stable row ids"
        )
    config = {KEY: compatible_with.strip()}
    if not reader.lineage_columns:
        config[SPILL] = "false"
    return {
        "data_storage_version": data_storage_version or reader.data_storage_version,
        "enable_stable_row_ids": (
            reader.stable_row_ids == "on" if enable_stable_row_ids is None else enable_stable_row_ids
        ),
        "config": config,
    }


def check_version(version: str | None, compatible_with: str | None, given: str | None = None) -> None:
    """Refuse a version of data files that a reader does not read; `given` says where the reader is named.

    Raises
    ------
    pennon.InvalidInputError
        The version is newer than what the reader reads.
    """
    if version is None or compatible_with is None:
        return
    given = given or f"{KEY}={compatible_with!r} in the config of the table"
    newest = reader_of(compatible_with).data_storage_version
    if _files(version) > _release(newest):
        raise InvalidInputError(
            f"data_storage_version={version!r} contradicts {given}: this reader reads file version {newest} at most"
        )


def check_table(compatible_with: str | None, version: str, stable_row_ids: bool, config: Mapping[str, str]) -> None:
    """Refuse rows for a reader where the table is for older ones, or cannot be read by this one.

    Raises
    ------
    pennon.InvalidInputError
        The config names a reader that reads less, or the table is not one that the reader reads.
    """
    if compatible_with is None:
        return
    reader, given, stored = reader_of(compatible_with), f"compatible_with={compatible_with!r}", config.get(KEY)
    if stored is not None and READERS.index(reader_of(stored)) < READERS.index(reader):
        raise InvalidInputError(f"{given} contradicts {KEY}={stored!r} in the config of the table, an older reader")
    if stable_row_ids and reader.stable_row_ids == "refused":
        raise InvalidInputError(
            f"{given} contradicts the table, which has stable row ids: this reader needs tables without"
        )
    if stable_row_ids and not reader.lineage_columns and config.get(SPILL) != "false":
        raise InvalidInputError(
            f"{given} contradicts the table, which may store versions of rows in data files: "
            f"update_config({{{SPILL!r}: 'false'}}) keeps those of later changes in the manifest"
        )
    if _files(version) > _release(reader.data_storage_version):
        raise InvalidInputError(
            f"{given} contradicts the table, whose data_storage_version is {version!r}: this reader reads file "
            f"version {reader.data_storage_version} at most"
        )


def check_row_ids(config: Mapping[str, str], version: str) -> None:
    """Refuse stable row ids for a table of this file version that is kept for a reader without.

    Raises
    ------
    pennon.InvalidInputError
        The config names a reader that does not read them, or not as Pennon writes them.
    """
    stored = config.get(KEY)
    if stored is not None and reader_of(stored).stable_row_ids == "refused":
        raise InvalidInputError(
            f"{KEY}={stored!r} in the config of the table names a reader that does not read stable row ids"
        )
    check_table(stored, version, True, config)


def _unknown(name: str) -> InvalidInputError:
    since = ", ".join(f"'pylance {reader.since}'" for reader in READERS)
    return InvalidInputError(
        f"compatible_with is {name!r}: expected a release from 'pylance {READERS[0].since}' to 'pylance {NEWEST}', "
        f"and what they read changed with {since}"
    )


def _release(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _files(version: str) -> tuple[int, int]:
    """A version of data files as numbers; names such as `stable` are the newest, and others are checked later."""
    named = {"legacy": (0, 1), "stable": (2, 2), "next": (9, 9)}
    if version in named:
        return named[version]
    return _release(version) if re.fullmatch(r"\d{1,4}\.\d{1,4}", version) else (0, 0)
