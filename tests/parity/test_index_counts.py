"""Counts that an index gives without a look at where the rows are: those of a scan, whatever became of the rows."""

from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.long import LONG

ROWS = 40_000
# A page of a B-tree.
PAGE = 4096


def write(path: Path, stable: bool) -> str:
    uri = str(path / "t")
    n = pa.array([None if n % 1000 == 7 else n for n in range(ROWS)], pa.int64())
    data = pa.table({"id": range(ROWS), "n": n, "c": [None if n % 9 == 0 else n % 9 for n in range(ROWS)]})
    lance.write_dataset(data, uri, max_rows_per_file=ROWS // 4, enable_stable_row_ids=stable)
    return uri


def indexed(uri: str) -> pennon.LanceDataset:
    table = pennon.dataset(uri)
    table.create_scalar_index("n", "BTREE")
    table.create_scalar_index("c", "BITMAP")
    return pennon.dataset(uri)


FILTERS = (
    *("n = 5", "n = 7", "n >= 100", "n < 30000 and n > 9", "n != 4", "n is null", "n is not null"),
    *("n in (1, 5000, 7)", "c = 3", "c in (1, 2)", "c != 2", "c is null", "not (c = 3)", "c > 5"),
    *("c = 1 and n < 9000", "c = 1 or n < 50"),
)


def compare(uri: str) -> None:
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    # In `make test` every second one, of the next version the others.
    for text in FILTERS if LONG else FILTERS[ours.version % 2 :: 2]:
        expected = theirs.scanner(columns=["id"], filter=text, use_scalar_index=False).to_table().num_rows
        assert ours.count_rows(text) == expected, text
        assert ours.scanner(filter=text).count_rows() == expected, text
        of_part = [f.count_rows(text) for f in ours.get_fragments()]
        assert sum(of_part) == expected, text
        first = ours.scanner(filter=text, fragments=ours.get_fragments()[:1]).count_rows()
        assert first == of_part[0], text
        assert ours.scanner(filter=text, limit=3).count_rows() == min(3, expected), text
        assert ours.scanner(filter=text, offset=2).count_rows() == max(0, expected - 2), text


@pytest.mark.parametrize("stable", [True, False])
def test_counts_are_those_of_a_scan(tmp_path: Path, stable: bool) -> None:
    uri = write(tmp_path, stable)
    table = indexed(uri)
    compare(uri)
    table.delete("id % 5 = 1")
    compare(uri)
    lance.dataset(uri).optimize.optimize_indices()
    compare(uri)
    indexed(uri)
    compare(uri)
    lance.dataset(uri).update({"n": "n + 3", "c": "8"}, where="id % 4 = 2")
    compare(uri)
    pennon.dataset(uri).optimize.optimize_indices()
    compare(uri)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=10)
    compare(uri)
    pennon.write_dataset(table.to_table().slice(0, 3000), uri, mode="append")
    compare(uri)
    pennon.dataset(uri).optimize.compact_files()
    compare(uri)
    pennon.dataset(uri).update({"n": "n - 1"}, where="c = 2")
    indexed(uri)
    compare(uri)


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("text", ["n >= 5000", "n != 12000", "n < 38000 and n > 4000", "n is not null"])
def test_pages_between_the_ends_are_not_read(tmp_path: Path, stable: bool, text: str) -> None:
    table = indexed(write(tmp_path, stable))
    before = table.counters().rows_decoded
    assert table.count_rows(text) > ROWS / 2
    # A page has values and rows.
    assert table.counters().rows_decoded - before <= 3 * 2 * PAGE


def test_rows_of_a_value_are_not_looked_up(tmp_path: Path) -> None:
    table = indexed(write(tmp_path, stable=True))
    table.count_rows("c = 5")
    before = table.counters().rows_decoded
    assert table.count_rows("c = 3") == ROWS // 9 + 1
    assert table.counters().rows_decoded - before <= 1
