"""Indices that cannot be read: the rows are scanned and it is said once, or `strict_indices` is an error."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon.file import LanceFileReader, LanceFileWriter
from support.long import LONG
from support.spread import spread
from support.vectors import ask, column, exact, vectors

ROWS = 900
SCALARS = {
    "BTREE": "n = 17",
    "BITMAP": "k = 5",
    "LABEL_LIST": "array_has(tags, 3)",
    "ZONEMAP": "n between 10 and 20",
    "BLOOMFILTER": "n = 17",
    "NGRAM": "contains(s, 'row 17')",
}
COLUMNS = {"BITMAP": "k", "LABEL_LIST": "tags", "NGRAM": "s"}
VECTORS = ["IVF_PQ", "IVF_HNSW_SQ", "IVF_FLAT"]
FILES = {
    "BTREE": ["page_data.lance", "page_lookup.lance"],
    "BITMAP": ["bitmap_page_lookup.lance"],
    "LABEL_LIST": ["bitmap_page_lookup.lance"],
    "ZONEMAP": ["zonemap.lance"],
    "BLOOMFILTER": ["bloomfilter.lance"],
    "NGRAM": ["ngram_postings.lance"],
}
CASES = [(kind, file) for kind, files in FILES.items() for file in files]
CASES += [(kind, file) for kind in VECTORS for file in ("index.idx", "auxiliary.idx")]
TYPED = (pennon.CorruptError, pennon.NotFoundError, pennon.UnsupportedError)


def written(uri: str) -> pennon.LanceDataset:
    data = pa.table(
        {
            "id": range(ROWS),
            "n": range(ROWS),
            "k": [row % 7 for row in range(ROWS)],
            "tags": [[row % 5, row % 11] for row in range(ROWS)],
            "s": [f"row {row} of {ROWS}" for row in range(ROWS)],
            "vec": column(vectors(ROWS)),
        }
    )
    return pennon.write_dataset(data, uri, max_rows_per_file=300, enable_stable_row_ids=False)


def built(uri: str, kind: str) -> None:
    written(uri)
    if kind in VECTORS:
        more = {"num_sub_vectors": 8} if kind == "IVF_PQ" else {}
        pennon.dataset(uri).create_index("vec", kind, name="x", num_partitions=4, **more)
    else:
        library = lance if kind == "NGRAM" else pennon
        library.dataset(uri).create_scalar_index(COLUMNS.get(kind, "n"), kind, name="x")


def query(kind: str) -> dict[str, Any]:
    if kind in VECTORS:
        return {"nearest": ask(vectors(ROWS)[3], metric="l2")}
    return {"filter": SCALARS[kind]}


def rows(table: pennon.LanceDataset, kind: str, **options: Any) -> list[int]:
    found = table.to_table(columns=["id"], **query(kind), **options)["id"].to_pylist()
    return found if kind in VECTORS else sorted(found)


def scanned(table: pennon.LanceDataset, kind: str) -> list[int]:
    if kind in VECTORS:
        return exact(table, query(kind)["nearest"])["id"].to_pylist()
    return rows(table, kind, use_scalar_index=False)


def path_of(uri: str, file: str) -> Path:
    (path,) = Path(uri, "_indices").glob(f"*/{file}")
    return path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [record for record in caplog.records if record.name.split(".")[0] == "pennon"]
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


def warned_once(
    table: pennon.LanceDataset, kind: str, expected: list[int], caplog: pytest.LogCaptureFixture
) -> str:
    """The only warning of three reads, which find the rows."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "pennon"):
        for _ in range(3):
            assert rows(table, kind) == expected
    (said,) = warnings(caplog)
    return said


@spread(of=1)
@pytest.mark.parametrize("damage", ["missing", "cut", "cut to nothing", "footer"])
@pytest.mark.parametrize(("kind", "file"), CASES)
def test_the_rows_are_scanned_and_it_is_said_once(
    uri: str, kind: str, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    built(uri, kind)
    path = path_of(uri, file)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        flipped = data[:-9] + bytes([data[-9] ^ 0xFF]) + data[-8:]
        path.write_bytes({"cut": data[: len(data) // 2], "cut to nothing": b"", "footer": flipped}[damage])
    for _ in range(2):
        table = pennon.dataset(uri)
        expected = scanned(table, kind)
        said = warned_once(table, kind, expected, caplog)
        assert "index=x" in said
        assert f"_indices/{path.parent.name}" in said
        assert file in said
        with pytest.raises(TYPED, match=file):
            rows(table, kind, strict_indices=True)
        with pytest.raises(TYPED, match=file):
            table.count_rows(strict_indices=True, **query(kind))
        assert rows(table, kind, strict_indices=False) == expected


def rows_unless_strict(uri: str, kind: str, strict: bool) -> list[int]:
    """The rows; none if there is a typed error, which there must not be unless indices are strict."""
    try:
        return rows(pennon.dataset(uri), kind, strict_indices=strict)
    except TYPED:
        if strict:
            return []
        raise


@pytest.mark.parametrize(("kind", "file"), CASES)
def test_flipped_bytes_anywhere(uri: str, kind: str, file: str) -> None:
    """There are no checksums: values may be others, but a query gives rows of the table or a typed error."""
    built(uri, kind)
    path = path_of(uri, file)
    data = path.read_bytes()
    for at in sorted({int(share * (len(data) - 1)) for share in np.linspace(0, 1, 40 if LONG else 12)}):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        for strict in (False, True):
            found = rows_unless_strict(uri, kind, strict)
            assert len(set(found)) == len(found)
            assert set(found) <= set(range(ROWS))
    path.write_bytes(data)
    table = pennon.dataset(uri)
    if kind not in VECTORS:
        assert rows(table, kind) == scanned(table, kind)


def test_others_answer_when_one_is_damaged(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    """Data that they leave out is not read: it could not be."""
    table = written(uri)
    table.create_scalar_index("n", "BTREE", name="good")
    table.create_scalar_index("k", "BITMAP", name="bad")
    path_of(uri, FILES["BITMAP"][0]).unlink()
    fragments = table.get_fragments()
    for fragment in fragments[1:]:
        Path(uri, "data", fragment.metadata.files[0].path).unlink()
    table = pennon.dataset(uri)
    with caplog.at_level(logging.WARNING, "pennon"):
        assert table.to_table(columns=["id"], filter="n = 19 and k = 5")["id"].to_pylist() == [19]
    assert len(warnings(caplog)) == 1
    assert table.count_rows("n = 19") == 1
    with pytest.raises(TYPED, match=FILES["BITMAP"][0]):
        table.to_table(filter="n = 19 and k = 5", strict_indices=True)
    # The filter does not ask the damaged one.
    assert table.to_table(columns=["id"], filter="n = 19", strict_indices=True)["id"].to_pylist() == [19]


def test_other_segments_answer_when_one_is_damaged(uri: str) -> None:
    """What it covers is scanned, even if only what indices cover is asked for."""
    table = written(uri)
    parts = [table.create_index_uncommitted("n", "BTREE", name="x", fragment_ids=[id]) for id in range(3)]
    table.commit_existing_index_segments("x", "n", parts)
    for file in FILES["BTREE"]:
        Path(uri, "_indices", str(parts[1].uuid), file).unlink()
    Path(uri, "data", table.get_fragment(2).metadata.files[0].path).unlink()
    table = pennon.dataset(uri)
    for options in ({}, {"fast_search": True}):
        found = table.to_table(columns=["id"], filter="n in (5, 305)", **options)["id"].to_pylist()
        assert sorted(found) == [5, 305]


def test_other_segments_of_vectors_answer_when_one_is_damaged(uri: str) -> None:
    table = written(uri)
    centroids = vectors(4, seed=2)
    parts = [
        table.create_index_uncommitted("vec", "IVF_FLAT", name="x", fragment_ids=[id], ivf_centroids=centroids)
        for id in range(3)
    ]
    table.commit_existing_index_segments("x", "vec", parts)
    Path(uri, "_indices", str(parts[1].uuid), "auxiliary.idx").unlink()
    for query in (vectors(ROWS)[400], vectors(ROWS)[3]):
        asked = ask(query, 20, metric="l2")
        for options in ({}, {"fast_search": True}):
            table = pennon.dataset(uri)
            found = table.to_table(columns=["id"], nearest=asked, **options)
            assert found["id"].to_pylist() == exact(table, asked)["id"].to_pylist()
        with pytest.raises(TYPED, match=str(parts[1].uuid)):
            table.to_table(columns=["id"], nearest=asked, strict_indices=True)


@spread(of=1)
@pytest.mark.parametrize("damage", ["missing", "footer"])
@pytest.mark.parametrize(("kind", "file"), [case for case in CASES if case[0] != "NGRAM"])
def test_care_builds_what_is_lost(uri: str, kind: str, file: str, damage: str) -> None:
    """Although every row is covered; an index that can be read stays."""
    built(uri, kind)
    table = pennon.dataset(uri)
    path = path_of(uri, file)
    table.create_scalar_index("id", "BTREE", name="sound")
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 0xFF]) + data[-8:])
    before = {index["name"]: index["uuid"] for index in table.list_indices()}
    table = pennon.dataset(uri, session=pennon.Session())
    table.optimize.optimize_indices(index_names=["sound"])
    assert table.version == pennon.dataset(uri).version == 3
    table.optimize.optimize_indices()
    after = {index["name"]: index["uuid"] for index in table.list_indices()}
    assert after["sound"] == before["sound"]
    assert after["x"] != before["x"]
    assert table.stats.index_stats("x")["num_unindexed_rows"] == 0
    table = pennon.dataset(uri, session=pennon.Session())
    found = rows(table, kind, strict_indices=True)
    assert found == scanned(table, kind) if kind not in VECTORS else len(found) == len(scanned(table, kind))
    version = table.version
    table.optimize.optimize_indices()
    assert table.version == version


@pytest.mark.parametrize("merged", [0, 1, 3])
def test_care_keeps_segments_that_are_not_lost(uri: str, merged: int) -> None:
    table = written(uri)
    parts = [table.create_index_uncommitted("n", "BTREE", name="x", fragment_ids=[id]) for id in range(3)]
    table.commit_existing_index_segments("x", "n", parts)
    Path(uri, "_indices", str(parts[0].uuid), "page_lookup.lance").unlink()
    table = pennon.dataset(uri, session=pennon.Session())
    table.optimize.optimize_indices(num_indices_to_merge=merged)
    uuids = {index["uuid"] for index in table.list_indices()}
    kept = {str(part.uuid) for part in parts[1:]}
    assert (uuids & kept, len(uuids)) == ((set(), 1) if merged == 3 else (kept, 3))
    assert table.stats.index_stats("x")["num_unindexed_rows"] == 0
    for library in (pennon, lance):
        options = {"strict_indices": True} if library is pennon else {}
        found = library.dataset(uri).to_table(columns=["id"], filter="n in (5, 305, 605)", **options)
        assert sorted(found["id"].to_pylist()) == [5, 305, 605]


def test_an_order_by_a_damaged_index(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    built(uri, "BTREE")
    path_of(uri, "page_lookup.lance").unlink()
    table = pennon.dataset(uri)
    with caplog.at_level(logging.WARNING, "pennon"):
        for _ in range(2):
            assert table.to_table(columns=["id"], order_by=["n"], limit=3)["id"].to_pylist() == [0, 1, 2]
    assert len(warnings(caplog)) == 1
    with pytest.raises(TYPED, match=r"page_lookup\.lance"):
        table.to_table(columns=["id"], order_by=["n"], limit=3, strict_indices=True)


@pytest.mark.parametrize("columns", [["n"], ["id"]])
def test_an_order_by_an_index_with_rows_that_are_not_there(uri: str, columns: list[str]) -> None:
    """Neither is a row made of them, nor do they count among the first."""
    pennon.write_dataset({"id": range(1000), "n": range(1000)}, uri, enable_stable_row_ids=False)
    pennon.dataset(uri).create_scalar_index("n", "BTREE")
    path = path_of(uri, "page_data.lance")
    pages = LanceFileReader(str(path)).read_all().to_table()
    rows = pages["ids"].to_numpy().copy()
    rows[2:5] = [1010, 1015, 1020]
    path.unlink()
    with LanceFileWriter(str(path), pages.schema) as file:
        file.write_batch(pages.set_column(1, pages.schema.field("ids"), pa.array(rows)))
    found = pennon.dataset(uri).to_table(columns=columns, order_by=["n"], limit=5)
    assert found[columns[0]].to_pylist() == [0, 1, 5, 6, 7]


@pytest.mark.parametrize("kind", [*SCALARS, *VECTORS])
def test_an_index_of_a_newer_version(uri: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    built(uri, kind)
    table = pennon.dataset(uri)
    (segment,) = table.describe_indices()[0].segments
    entry = newer_entry(table)
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.CreateIndex([entry], []), read_version=table.version)
    table = pennon.dataset(uri)
    said = warned_once(table, kind, scanned(table, kind), caplog)
    assert "version 99" in said
    assert f"_indices/{entry.uuid}" in said
    with pytest.raises(pennon.UnsupportedError, match=f"_indices/{entry.uuid}.*version 99"):
        rows(table, kind, strict_indices=True)
    assert segment.uuid == entry.uuid
    # Nothing is asked of the column.
    assert len(table.to_table(columns=["id"], filter="id < 10", strict_indices=True)) == 10


def newer_entry(table: pennon.LanceDataset) -> pennon.Index:
    """The entry of the only segment, with a version of its files that nobody writes."""
    transaction = table.read_transaction(table.version)
    assert transaction is not None
    (entry,) = transaction.operation.new_indices
    return dataclasses.replace(entry, index_version=99)


def test_a_full_text_query_says_where_to_go(uri: str) -> None:
    with pytest.raises(pennon.UnsupportedError, match="pylance") as caught:
        written(uri).to_table(full_text_query="row")
    assert uri in str(caught.value)


KILLED = """
import os, sys
import pennon

uri, kind, stage = sys.argv[1:]
table = pennon.dataset(uri)

def tell(progress):
    if progress.stage == stage and progress.event == "progress":
        os._exit(9)

if stage == "done":
    table.create_index_uncommitted("n", kind, name="x", fragment_ids=[0, 1, 2])
    os._exit(9)
if kind.startswith("IVF"):
    table.create_index("vec", kind, num_partitions=4, progress_callback=tell)
else:
    table.create_scalar_index("n", kind, progress_callback=tell)
"""


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("BTREE", "load_data"),
        ("BTREE", "done"),
        ("BITMAP", "done"),
        ("IVF_FLAT", "train_ivf"),
        ("IVF_FLAT", "shuffle"),
        ("IVF_FLAT", "merge_partitions"),
    ],
)
def test_a_build_that_is_killed(uri: str, kind: str, stage: str) -> None:
    """Nothing shows; what is left is found and removed."""
    before = written(uri).version
    done = subprocess.run([sys.executable, "-c", KILLED, uri, kind, stage], check=False)
    assert done.returncode == 9
    table = pennon.dataset(uri)
    assert table.version == before
    assert table.describe_indices() == []
    report = table.verify()
    assert report.ok
    left = {found.kind for found in report.leftovers}
    if stage == "done":
        assert "index" in left
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert pennon.verify(uri).leftovers == []
    assert [path for path in Path(uri, "_indices").rglob("*") if path.is_file()] == []
    table.create_scalar_index("n", "BTREE")
    assert table.count_rows("n = 3") == 1
