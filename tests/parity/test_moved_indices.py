"""B-trees whose rows a compaction moves: the values stay as they are stored, and both libraries find every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.file import LanceFileReader
from support.long import LONG
from support.spread import spread

ROWS = 20_000 if LONG else 9_000
OF_FRAGMENT, OF_LARGER = ROWS * 7 // 40, ROWS * 9 // 20
NUMBERS = np.random.default_rng(7).permutation(ROWS)
COLUMNS: dict[str, pa.Array] = {
    "number": pa.array(NUMBERS, pa.int64()),
    "text": pa.array([None if n % 50 == 0 else f"key {n // 3:06d}" for n in NUMBERS]),
    "share": pa.array([None if n % 40 == 0 else n / 7 for n in NUMBERS], pa.float64()),
    "day": pa.array((NUMBERS % 4000).astype(np.int32), pa.date32()),
    "flag": pa.array(NUMBERS % 3 == 0),
}
LITERALS = {"text": "'key 000123'", "day": "DATE '1975-03-01'", "flag": "true"}


def written(uri: str, stable: bool, version: str, library: Any) -> None:
    table = pa.table({"id": pa.array(range(ROWS), pa.int64()), **COLUMNS})
    lance.write_dataset(
        table, uri, max_rows_per_file=OF_FRAGMENT, enable_stable_row_ids=stable, data_storage_version=version
    )
    for name in COLUMNS:
        library.dataset(uri).create_scalar_index(name, "BTREE")


def page_data(uri: str, name: str) -> Path:
    uuid = next(index["uuid"] for index in lance.dataset(uri).list_indices() if index["name"] == f"{name}_idx")
    return Path(uri) / "_indices" / uuid / "page_data.lance"


def pages(uri: str, name: str) -> pa.Table:
    """The values of an index and the rows of each, as the reference reads them."""
    return LanceFileReader(str(page_data(uri, name))).read_all().to_table()


def stored(uri: str, name: str) -> list[bytes]:
    """The bytes of the values in the file."""
    path = page_data(uri, name)
    content, metadata = path.read_bytes(), LanceFileReader(str(path)).metadata()
    buffers = [buffer for page in metadata.columns[0].pages for buffer in page.buffers]
    return [content[buffer.position : buffer.position + buffer.size] for buffer in buffers]


def check_answers(uri: str, name: str) -> None:
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    literal = LITERALS.get(name, "1000")
    for test in (f"= {literal}", f"< {literal}", f">= {literal}", "IS NULL", "IS NOT NULL"):
        asked: dict[str, Any] = {"columns": ["id"], "filter": f"{name} {test}"}
        expected = sorted(ours.to_table(**asked, use_scalar_index=False)["id"].to_pylist())
        assert "ScalarIndexQuery" in theirs.scanner(**asked).explain_plan(), test
        for table in (ours, theirs):
            assert sorted(table.to_table(**asked)["id"].to_pylist()) == expected, (test, type(table).__module__)


@spread()
@pytest.mark.parametrize("deleted", [False, True], ids=["all rows", "some deleted"])
@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [True, False], ids=["stable", "addresses"])
def test_values_stay(uri: str, stable: bool, version: str, library: Any, deleted: bool) -> None:
    written(uri, stable, version, library)
    table = pennon.dataset(uri)
    if deleted:
        table.delete("id % 11 = 5")
    before = {name: pages(uri, name) for name in COLUMNS}
    bytes_before = {name: stored(uri, name) for name in COLUMNS}
    # Twice: the second time the pages are those that the first one wrote.
    for target in (OF_LARGER, ROWS):
        assert table.optimize.compact_files(target_rows_per_fragment=target).fragments_removed > 0
        live = table.to_table(["id"], with_row_address=True)
        id_of = dict(zip(live["_rowaddr"].to_pylist(), live["id"].to_pylist(), strict=True))
        for name, values in COLUMNS.items():
            found, old = pages(uri, name), before[name]
            if not deleted:
                assert found["values"].combine_chunks() == old["values"].combine_chunks()
                if version != "2.0":
                    assert stored(uri, name) == bytes_before[name]
            ids = pa.array([id_of[row] for row in found["ids"].to_pylist()])
            assert sorted(ids.to_pylist()) == sorted(id_of.values())
            assert pc.take(values, ids) == found["values"].combine_chunks()
            check_answers(uri, name)
    assert table.verify(data=True).findings == []
    # Rows that come are taken in by the reference, whose pages are joined with those.
    table.insert(table.to_table(limit=100))
    lance.dataset(uri).optimize.optimize_indices()
    table.checkout_latest()
    for name in COLUMNS:
        check_answers(uri, name)
