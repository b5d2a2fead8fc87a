"""Counters of requests, bytes, retries, caches and rows, and the plans of scans with what executing them took."""

from __future__ import annotations

import re
from pathlib import Path

import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon.stats import Counters, process_counters

ROWS = 40_000
FRAGMENT = 10_000


@pytest.fixture
def table(tmp_path: Path) -> pennon.LanceDataset:
    """Four fragments of 10,000 rows, for which there are statistics."""
    data = pa.table({"n": range(ROWS), "text": [f"row {n}" for n in range(ROWS)]})
    pennon.write_dataset(data, str(tmp_path / "t"), max_rows_per_file=FRAGMENT)
    return pennon.dataset(str(tmp_path / "t"))


def files(root: Path, part: str) -> int:
    """Bytes of the files in a folder of a table."""
    return sum(file.stat().st_size for file in (root / part).glob("*"))


def test_bytes_are_those_of_files(tmp_path: Path) -> None:
    data = pa.table({"n": range(ROWS)})
    table = pennon.write_dataset(data, str(tmp_path / "t"))
    written = table.io_stats_incremental()
    root = tmp_path / "t"
    manifests, transactions = files(root, "_versions"), files(root, "_transactions")
    assert written.written_bytes >= files(root, "data") + manifests + transactions
    assert written.written_bytes <= files(root, "data") + manifests + transactions + 64
    assert table.io_stats_snapshot() == (0, 0, 0, 0)
    table.to_table()
    read = table.io_stats_snapshot()
    # The end of a file is read with its footer, and may be read again as values.
    assert 0 < read.read_bytes <= 2 * files(root, "data")
    assert read == table.io_stats_snapshot()
    assert (read.write_iops, read.written_bytes) == (0, 0)
    assert table.io_stats_incremental() == read
    assert table.io_stats_incremental() == (0, 0, 0, 0)


def test_a_cached_file_is_not_asked_again(table: pennon.LanceDataset) -> None:
    def scan() -> Counters:
        before = table.counters()
        table.to_table(columns=["n"])
        return Counters(*(new - old for new, old in zip(table.counters(), before, strict=True)))

    first, second = scan(), scan()
    # The footers of the four files.
    assert (first.cache_misses, first.cache_hits) == (4, 0)
    assert (second.cache_misses, second.cache_hits) == (0, 4)
    assert first.read_requests - second.read_requests >= 4
    assert first.read_bytes > second.read_bytes > 0
    assert first.rows_decoded == second.rows_decoded == ROWS


def test_versions_and_fragments_share_them(table: pennon.LanceDataset) -> None:
    table.insert(pa.table({"n": [ROWS], "text": ["more"]}))
    before = table.counters().rows_decoded
    table.checkout_version(1).take([0], columns=["n"])
    table.get_fragments()[4].to_table(columns=["n"])
    assert table.counters().rows_decoded - before == 2


def test_two_tables_count_for_themselves(table: pennon.LanceDataset) -> None:
    other, whole = pennon.dataset(table.uri), process_counters()
    before = other.counters()
    table.to_table()
    assert other.counters() == before
    now = process_counters()
    assert now.rows_decoded - whole.rows_decoded == ROWS
    assert pennon.iops_counter() == now.read_requests > whole.read_requests
    assert pennon.bytes_read_counter() == now.read_bytes > whole.read_bytes


def test_retries(table: pennon.LanceDataset) -> None:
    other = pennon.dataset(table.uri)
    other.delete("n = 1")
    table.delete("n = 30000")
    # The version is rebased before it is published: nobody took the name in between.
    assert table.counters().commit_retries == 0
    assert table.version == 3


def figure(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, text
    return int(found.group(1))


def test_explain_reads_nothing(table: pennon.LanceDataset) -> None:
    scanner = table.scanner(columns=["text"], filter="n >= 13000 and n < 13010", limit=5)
    before = table.counters()
    plan = scanner.explain_plan()
    assert table.counters() == before
    assert f"scan of {table.uri} at version 1" in plan
    assert "columns: text" in plan
    assert "filter: n >= 13000 and n < 13010" in plan
    assert "at most 5" in plan
    assert "fragments: 4 of 4, 40000 rows to look at" in plan


def test_analyze_counts_what_a_scan_does(table: pennon.LanceDataset) -> None:
    options = {"columns": ["text"], "filter": "n >= 13000 and n < 13010"}
    expected = table.to_table(**options).num_rows
    before = table.counters()
    analysis = table.scanner(**options).analyze_plan()
    after = table.counters()
    assert table.scanner(**options).explain_plan() in analysis
    assert figure(analysis, r"result: (\d+) rows") == expected == 10
    assert figure(analysis, r", (\d+) matched") == 10
    # Statistics leave one fragment of four.
    assert figure(analysis, r"rows: (\d+) left") <= FRAGMENT
    assert figure(analysis, r"fragments opened: (\d+)") == 4
    assert figure(analysis, r"rows decoded: (\d+)") == after.rows_decoded - before.rows_decoded <= FRAGMENT + 10
    assert figure(analysis, r"requests: (\d+)") == after.read_requests - before.read_requests
    assert figure(analysis, r"bytes read: (\d+)") == after.read_bytes - before.read_bytes
    without = table.scanner(use_stats=False, **options).analyze_plan()
    assert figure(without, r"rows: (\d+) left") == ROWS


def test_analyze_counts_one_scan(table: pennon.LanceDataset) -> None:
    batches = iter(table.to_batches(batch_size=10))
    next(batches)
    analysis = table.scanner(columns=["n"], filter="n = 5").analyze_plan()
    assert 1 <= figure(analysis, r"rows decoded: (\d+)") <= FRAGMENT
    assert sum(batch.num_rows for batch in batches) == ROWS - 10


def test_deleted_rows_are_not_looked_at(table: pennon.LanceDataset) -> None:
    table.delete("n < 16000")
    analysis = table.scanner(filter="text != ''", use_stats=False).analyze_plan()
    assert figure(analysis, r"rows: (\d+) left") == figure(analysis, r"result: (\d+) rows") == 24_000


def test_analyze_counting(table: pennon.LanceDataset) -> None:
    analysis = table.scanner(filter="n >= 39990", use_stats=False).analyze_plan(count_rows=True)
    assert figure(analysis, r"result: (\d+) rows") == 10
    # The other column is not read for a count.
    assert figure(analysis, r"rows decoded: (\d+)") == ROWS


def test_a_pyarrow_filter_is_shown(table: pennon.LanceDataset) -> None:
    plan = table.scanner(columns=["text"], filter=pc.field("n") + 1 > 3, limit=2).explain_plan()
    assert "then in pyarrow" in plan
    assert "filter: (add_checked(n, 1) > 3)\n  skip 0, at most 2 rows" in plan
    assert plan.endswith("columns: text")
