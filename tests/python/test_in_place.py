"""Last-updated-at versions of rows that change where they are: in the manifest, or in a file of their own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.files import data_files

UPDATED = "_row_last_updated_at_version"
FIELD = -5
TOMBSTONE = -2
LIMIT = "lance.row_lineage.inline_max_bytes"


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([0] * count, pa.int64()), "m": list(ids)})


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Two fragments of eight rows, of which the first one has a deleted row. Version 3."""
    table = pennon.write_dataset(rows(0, 16), uri, max_rows_per_file=8)
    table.update_config({LIMIT: "30"})
    table.delete("id = 3")
    return table


def change(table: pennon.LanceDataset, where: str, column: str = "n") -> None:
    table.update({column: f"{column} + 1"}, where, mode="rewrite_columns")


def versions(table: pennon.LanceDataset) -> dict[int, int]:
    """By id, read again."""
    found = pennon.dataset(table.uri).to_table(columns=["id", UPDATED])
    return dict(zip(found["id"].to_pylist(), found[UPDATED].to_pylist(), strict=True))


def is_column(table: pennon.LanceDataset) -> list[bool]:
    sources = [fragment.metadata.last_updated_at_version_meta for fragment in table.get_fragments()]
    return [source is not None and source.inline is None for source in sources]


def fields(table: pennon.LanceDataset) -> list[list[list[int]]]:
    """Of each file of each fragment."""
    return [[list(file.fields) for file in fragment.metadata.files] for fragment in table.get_fragments()]


def test_above_the_limit_they_are_a_column(table: pennon.LanceDataset, uri: str) -> None:
    change(table, "id < 7 and id % 2 = 0 or id = 8")
    assert versions(table) == {id: 4 if id in (0, 2, 4, 6, 8) else 1 for id in range(16) if id != 3}
    assert fields(table) == [[[0, TOMBSTONE, 2], [1], [FIELD]], [[0, TOMBSTONE, 2], [1]]]
    assert is_column(table) == [True, False]
    # The next ones of the fragment are a column, too, and the only one that counts.
    change(table, "id = 1", "m")
    assert fields(table)[0] == [[0, TOMBSTONE, TOMBSTONE], [1], [2], [FIELD]]
    change(table, "id = 5")
    assert fields(table)[0] == [[0, TOMBSTONE, TOMBSTONE], [2], [1], [FIELD]]
    expected = {0: 4, 1: 5, 2: 4, 4: 4, 5: 6, 6: 4, 7: 1}
    assert {id: version for id, version in versions(table).items() if id < 8} == expected
    assert table.to_table(filter=f"{UPDATED} = 6")["id"].to_pylist() == [5]
    assert table.count_rows(f"{UPDATED} > 3") == 7
    change(table, "id < 8")
    assert is_column(table) == [True, False]
    assert {version for id, version in versions(table).items() if id < 8} == {7}
    # What all rows share takes no room.
    table.delete("id < 8")
    table.restore_rows([0, 1, 2], table.version - 1)
    change(table, "id < 8 or id >= 8")
    assert is_column(table) == [False, False]
    assert set(versions(table).values()) == {table.version}
    table.validate()
    assert pennon.verify(uri, data=True).ok


def test_of_all_rows_they_are_a_number_again(uri: str) -> None:
    table = pennon.write_dataset(rows(0, 8), uri)
    table.update_config({LIMIT: "0"})
    change(table, "id % 2 = 0")
    assert (is_column(table), fields(table)) == ([True], [[[0, TOMBSTONE, 2], [1], [FIELD]]])
    change(table, "true")
    assert (is_column(table), fields(table)) == ([False], [[[0, TOMBSTONE, 2], [1]]])
    assert set(versions(table).values()) == {4}
    assert pennon.verify(uri, data=True).ok


@pytest.mark.parametrize("config", [{"lance.row_lineage.spill": "false"}, {LIMIT: None}], ids=["false", "default"])
def test_below_the_limit_they_are_not(table: pennon.LanceDataset, uri: str, config: dict[str, str | None]) -> None:
    table.update_config({LIMIT: None})
    table.update_config(config)
    change(table, "id % 2 = 0")
    assert is_column(table) == [False, False]
    assert set(versions(table).values()) == {1, table.version}


def test_a_limit_that_goes_takes_the_column_along(table: pennon.LanceDataset, uri: str) -> None:
    change(table, "id % 2 = 0")
    assert is_column(table) == [True, True]
    table.update_config({"lance.row_lineage.spill": "false"})
    change(table, "id in (1, 9)")
    assert is_column(table) == [False, False]
    assert fields(table) == [[[0, TOMBSTONE, 2], [1]]] * 2
    expected = {id: 1 if id % 2 else 4 for id in range(16) if id != 3}
    assert versions(table) == expected | {1: 6, 9: 6}
    assert pennon.verify(uri, data=True).ok


def test_in_a_merge(table: pennon.LanceDataset) -> None:
    source = pa.table({"id": pa.array([0, 2, 4, 6, 8], pa.int64()), "n": pa.array([7] * 5, pa.int64())})
    table.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").execute(source)
    assert is_column(table) == [True, False]
    assert versions(table) == {id: 4 if id in (0, 2, 4, 6, 8) else 1 for id in range(16) if id != 3}


def test_without_stable_row_ids(uri: str) -> None:
    table = pennon.write_dataset(rows(0, 8), uri, enable_stable_row_ids=False)
    table.update_config({LIMIT: "0"})
    change(table, "id % 2 = 0")
    assert (is_column(table), fields(table)) == ([False], [[[0, TOMBSTONE, 2], [1]]])


def test_another_commit_got_the_version(table: pennon.LanceDataset, uri: str) -> None:
    """The column was written for version 4: it is written again."""
    stale = pennon.dataset(uri)
    table.insert(rows(100, 2))
    change(stale, "id % 2 = 0 and id < 16")
    assert stale.version == 5
    assert fields(stale)[:2] == [[[0, TOMBSTONE, 2], [1], [FIELD]]] * 2
    assert is_column(stale) == [True, True, False]
    expected = {id: 1 if id % 2 else 5 for id in range(16) if id != 3} | {100: 4, 101: 4}
    assert versions(stale) == expected
    change(stale, "id = 1")
    assert fields(stale)[0] == [[0, TOMBSTONE, 2], [1], [FIELD]]
    assert versions(stale) == expected | {1: 6}
    assert pennon.verify(uri, data=True).ok


@pytest.mark.slow
def test_races_that_are_lost(table: pennon.LanceDataset, uri: str) -> None:
    seen = []

    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        seen.append(version)
        if len(seen) < 3:
            pennon.dataset(uri).insert(rows(10 * version, 1))  # by somebody who does not ask
        yield

    change(pennon.dataset(uri, commit_lock=lock), "id % 2 = 0 and id < 16")
    assert seen == [4, 5, 6]
    table.checkout_latest()
    expected = {id: 1 if id % 2 else 6 for id in range(16) if id != 3} | {40: 4, 50: 5}
    assert versions(table) == expected
    assert fields(table)[:2] == [[[0, TOMBSTONE, 2], [1], [FIELD]]] * 2
    used = {file.path for fragment in table.get_fragments() for file in fragment.metadata.files}
    assert data_files(uri) == used, "what lost attempts wrote is gone"
    assert pennon.verify(uri, data=True).ok


def test_races_that_are_lost_for_good(table: pennon.LanceDataset, uri: str) -> None:
    @contextlib.contextmanager
    def lock(version: int) -> Iterator[None]:
        if version == 5:
            raise RuntimeError("enough")
        pennon.dataset(uri).insert(rows(10 * version, 1))
        yield

    with pytest.raises(RuntimeError, match="enough"):
        change(pennon.dataset(uri, commit_lock=lock), "id % 2 = 0 and id < 16")
    table.checkout_latest()
    assert (table.version, is_column(table)) == (4, [False, False, False])
    used = {file.path for fragment in table.get_fragments() for file in fragment.metadata.files}
    assert data_files(uri) == used


def test_the_same_rows_changed_meanwhile(table: pennon.LanceDataset, uri: str) -> None:
    """That is done again from the start, on top of what the others did."""
    stale = pennon.dataset(uri)
    change(table, "id % 2 = 0")
    change(stale, "id in (0, 1)")
    assert versions(stale) == {id: 1 if id % 2 else 4 for id in range(16) if id != 3} | {0: 5, 1: 5}
    assert stale.to_table(filter="id < 2")["n"].to_pylist() == [2, 1]
    assert is_column(stale) == [True, True]


@pytest.mark.parametrize("later", [False, True])
def test_a_transaction_committed_elsewhere(table: pennon.LanceDataset, uri: str, later: bool) -> None:
    """What its columns say of another version does not count."""
    copy = uri + "-copy"
    shutil.copytree(uri, copy)
    change(table, "id % 2 = 0")
    for file in data_files(uri) - data_files(copy):
        shutil.copy(Path(uri, "data", file), Path(copy, "data", file))
    transaction: Any = table.read_transaction(4)
    if later:
        pennon.dataset(copy).insert(rows(100, 1))
    operation = transaction.operation
    found = pennon.LanceDataset.commit(copy, operation, read_version=3)
    assert found.version == 5 if later else 4
    expected = {id: 1 if id % 2 else found.version for id in range(16) if id != 3}
    assert versions(found) == expected | ({100: 4} if later else {})
    assert found.to_table(columns=["n"], filter="id < 16") == table.to_table(columns=["n"])
    change(found, "id = 1")
    assert versions(found)[1] == found.version
    assert pennon.verify(copy, data=True).ok


def test_outside_the_history(table: pennon.LanceDataset, uri: str) -> None:
    change(table, "id % 2 = 0")
    operation = table.read_transaction(4).operation
    found = pennon.LanceDataset.commit(uri, operation, read_version=3, detached=True)
    said = found.to_table(columns=["id", UPDATED])
    assert said.sort_by("id") == table.to_table(columns=["id", UPDATED]).sort_by("id")


def test_what_comes_after(table: pennon.LanceDataset, uri: str) -> None:
    """Deletions, moves, histories, feeds, restores, compactions, cleanups."""
    change(table, "id % 2 = 0")
    table.delete("id in (0, 1)")
    table.update({"m": "m + 1"}, "id in (2, 5)", mode="rewrite_rows")
    change(table, "id in (4, 7)")
    expected = {id: 1 if id % 2 else 4 for id in range(16) if id not in (0, 1, 3)} | {2: 6, 5: 6, 4: 7, 7: 7}
    assert versions(table) == expected
    told = table.history(4)
    kinds = zip(told["_change_type"].to_pylist(), told["_commit_version"].to_pylist(), strict=True)
    assert list(kinds) == [("insert", 1), ("update", 4), ("update", 7)]
    feed = table.changes(5, mode="each").read_all()
    told = zip(feed["_commit_version"].to_pylist(), feed["_rowid"].to_pylist(), strict=True)
    assert sorted(told) == [(6, 2), (6, 5), (7, 4), (7, 7)]
    table.optimize.compact_files()
    assert versions(table) == expected
    table.checkout_version(4).restore()
    table.checkout_latest()
    before = {id: 1 if id % 2 else 4 for id in range(16) if id != 3}
    assert versions(table) == before
    change(table, "id = 2")
    assert versions(table) == before | {2: table.version}
    table.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert versions(table) == before | {2: table.version}
    assert pennon.verify(uri, data=True).ok


def test_a_manifest_of_many_scattered_rows_stays_small(uri: str) -> None:
    """Every other row of 300,000 would be 5 MB of runs."""
    count = 300_000
    table = pennon.write_dataset(rows(0, count), uri, max_rows_per_file=100_000)
    change(table, "id % 2 = 0")
    assert is_column(table) == [True, True, True]
    manifest = max(Path(uri, "_versions").glob("*.manifest"), key=lambda path: path.stat().st_mtime_ns)
    assert manifest.stat().st_size < 100_000
    assert table.count_rows(f"{UPDATED} = 2") == count // 2
    found = table.to_table(columns=["id", UPDATED])
    assert found[UPDATED].to_pylist() == [1 + (id + 1) % 2 for id in range(count)]
