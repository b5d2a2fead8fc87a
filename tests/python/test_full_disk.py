"""A disk that takes no more: files may not grow above a limit, which stops an operation at whatever it writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from support.tables import numbers

resource = pytest.importorskip("resource", reason="limits of files are a matter of POSIX")

Action = Callable[[pennon.LanceDataset], object]
WIDE = pa.table({"id": range(3000), "text": [f"{i * 2654435761:060}" for i in range(3000)]})

ACTIONS: dict[str, Action] = {
    "insert": lambda table: table.insert(WIDE),
    "overwrite": lambda table: table.insert(WIDE, mode="overwrite"),
    "delete": lambda table: table.delete("id % 3 = 0"),
    "update rows": lambda table: table.update({"text": "text || 'x'"}, where="id % 7 = 0"),
    "update columns": lambda table: table.update({"text": "text || 'x'"}),
    "update by id": lambda table: table.update_rows(range(1000, 3000, 2), {"text": ["y" * 40] * 1000}),
    "merge": lambda table: (
        table.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(numbers(2000, 2500))
    ),
    "add columns": lambda table: table.add_columns({"more": "text || 'x'"}),
    "change a type": lambda table: table.alter_columns({"path": "text", "data_type": pa.large_utf8()}),
    "join columns": lambda table: table.merge(WIDE.rename_columns(["id", "other"]), "id"),
    "compact": lambda table: table.optimize.compact_files(),
    "restore rows": lambda table: table.restore_rows(range(100, 900), 1),
    "restore": lambda table: table.checkout_version(1).restore(),
}


@contextmanager
def files_of(size: int) -> Iterator[None]:
    """No file of this process may grow above a size. The interpreter makes an error of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def attempt(table: pennon.LanceDataset, action: Action, size: int) -> Exception | None:
    try:
        with files_of(size):
            action(table)
    except pennon.StoreError as error:
        return error
    return None


def paths(uri: str) -> set[str]:
    return {str(path) for path in Path(uri).rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ACTIONS)
def test_nothing_is_lost_and_nothing_half_done(uri: str, name: str) -> None:
    table = pennon.write_dataset(WIDE, uri, max_rows_per_file=1000)
    table.delete("id >= 100 AND id < 900")
    before, files = table.to_table(with_row_id=True), paths(uri)
    smallest = min(Path(path).stat().st_size for path in files if path.endswith(".lance"))
    size, failures = 0, 0
    while (error := attempt(table, ACTIONS[name], size)) is not None:
        failures += 1
        assert isinstance(error, OSError)
        assert "File too large" in str(error)
        opened = pennon.dataset(uri)
        assert (table.version, opened.version) == (2, 2)
        assert opened.to_table(with_row_id=True) == before
        assert opened.verify(data=True).findings == []
        # Whether a manifest is there is not known if it could not be written: what it refers to stays for cleanup.
        if size < smallest // 2 and name != "restore":
            assert paths(uri) == files, size
        size = size * 2 or 16
    assert failures > 0
    opened = pennon.dataset(uri)
    assert opened.version > 2
    assert opened.verify(data=True).findings == []


# A repair.


def garble(path: Path) -> None:
    """Bytes in the middle, which every kind of file has a checksum of."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 16] = b"\xaa" * 16
    path.write_bytes(content)


def file_of(folder: str, index: int = -1) -> Callable[[str], Path]:
    """A file of a folder by the time it was written."""
    return lambda uri: sorted(Path(uri, folder).rglob("*.*"), key=lambda path: path.stat().st_mtime_ns)[index]


DAMAGED: dict[str, Callable[[str], Path]] = {
    "rows": lambda uri: Path(uri, "data", pennon.dataset(uri).get_fragments()[0].metadata.files[0].path),
    "deletion file": file_of("_deletions"),
    "manifest": lambda uri: Path(uri, "_versions", f"{2**64 - 1 - 2:020}.manifest"),
    "transaction": file_of("_transactions", 1),
    "index": file_of("_indices"),
}


def contents(uri: str) -> Counter[bytes]:
    """Of all files but the hint of the newest version, which each commit writes again."""
    return Counter(Path(path).read_bytes() for path in paths(uri) if not path.endswith(".json"))


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_repair_loses_nothing(uri: str, damaged: str) -> None:
    """Each repair stops at what it writes, and leaves what was there; one with room enough does the rest."""
    table = pennon.write_dataset(WIDE, uri, max_rows_per_file=1000, enable_stable_row_ids=True)
    table.delete("id >= 100 AND id < 900")
    table.optimize.compact_files()
    table.create_scalar_index("id", "BTREE")
    rows = table.to_table(with_row_id=True)
    garble(DAMAGED[damaged](uri))
    before = contents(uri)
    size, failures = 0, 0
    while (error := attempt(table, lambda _: pennon.repair(uri, apply=True), size)) is not None:
        failures += 1
        assert isinstance(error, OSError)
        assert "File too large" in str(error)
        # Files are moved, never removed; those that were made again stay.
        assert not before - contents(uri), size
        size = size * 2 or 16
    assert failures > 0
    # What an older version refers to and no copy has is damaged still.
    assert pennon.repair(uri, apply=True).actions == []
    opened = pennon.dataset(uri, session=pennon.Session())
    assert opened.to_table(with_row_id=True).sort_by("_rowid") == rows.sort_by("_rowid")
    assert opened.to_table(filter="id = 950") == WIDE.slice(950, 1)
    assert not before - contents(uri)
