"""`default_scan_options` are for scans of the dataset: what reads rows for another purpose does not use them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.sampler
import pennon
import pennon.sampler
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pennon import jobs
from support.spread import spread

DATA = pa.table({"id": [9, 1, 8, 3, 7, 5, 6, 2, 4, 0], "s": list("abcdefghij")})
EVEN = DATA.set_column(0, "id", pc.multiply(DATA["id"], 2))


def ordering(library: ModuleType) -> Any:
    return [importlib.import_module(f"{library.__name__}.dataset").ColumnOrdering("id")]


OPTIONS: dict[str, Callable[[ModuleType], dict[str, Any]]] = {
    "order_by": lambda library: {"order_by": ordering(library)},
    "filter": lambda library: {"filter": "id < 5"},
    "expression": lambda library: {"filter": pc.field("id") < 5},
    "limit": lambda library: {"limit": 2},
    "offset": lambda library: {"offset": 3},
    "columns": lambda library: {"columns": ["s"]},
    "expressions": lambda library: {"columns": {"id": "id + 100", "s": "s"}},
    "with_row_id": lambda library: {"with_row_id": True},
    "with_row_address": lambda library: {"with_row_address": True},
    "deleted": lambda library: {"include_deleted_rows": True, "with_row_id": True},
}


def inserted(table: Any) -> pa.Table:
    table.insert(EVEN)
    return table.delta(table.version - 1).get_inserted_rows().read_all()


# Fragment 0 has six rows, of which one is deleted.
CALLS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "count_rows": lambda library, table: table.count_rows(),
    "count_rows filter": lambda library, table: table.count_rows("id > 2"),
    "len": lambda library, table: len(table),
    "take": lambda library, table: table.take([1, 3]),
    "fragment.take": lambda library, table: table.get_fragment(0).take([0, 2, 4]),
    "fragment.take all live": lambda library, table: table.get_fragment(1).take([0, 2]),
    "session.take": lambda library, table: table.get_fragment(0).open_session(["id"]).take([1, 4]),
    "fragment.count_rows": lambda library, table: table.get_fragment(0).count_rows(),
    "fragment.count_rows filter": lambda library, table: table.get_fragment(0).count_rows("id > 2"),
    "fragment.count_rows expression": lambda library, table: table.get_fragment(0).count_rows(pc.field("id") > 2),
    "fragment.schema": lambda library, table: table.get_fragment(0).schema,
    "fragment.head": lambda library, table: table.get_fragment(0).head(3),
    "fragment.to_table": lambda library, table: table.get_fragment(0).to_table(),
    "fragment.to_table limit": lambda library, table: table.get_fragment(0).to_table(["id"], limit=4, offset=1),
    "fragment.scanner": lambda library, table: table.get_fragment(0).scanner(filter="id > 2").to_table(),
    "fragment.scanner.count_rows": lambda library, table: table.get_fragment(0).scanner().count_rows(),
    "fragment.to_batches": lambda library, table: pa.Table.from_batches(table.get_fragment(0).to_batches()),
    "delta": lambda library, table: inserted(table),
    "batches of a sampler": lambda library, table: [
        batch["id"].to_pylist()
        for batch in library.sampler.ShardedBatchSampler(1, 2)(table, batch_size=2, columns=["id"])
    ],
    "fragments of a sampler": lambda library, table: [
        value
        for batch in library.sampler.FullScanSampler()(table, batch_size=2, columns=["id"])
        for value in batch["id"].to_pylist()
    ],
}


@spread(of=1, times=4)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("options", OPTIONS)
def test_calls_find_what_the_reference_finds(tmp_path: Path, options: str, call: str) -> None:
    if call == "fragments of a sampler" and options in ("expressions", "deleted"):
        pytest.skip("the reference refuses them: a sampler gives names of columns, and asks for no row ids")
    found = []
    for library in (pennon, lance):
        uri = str(tmp_path / library.__name__)
        pennon.write_dataset(DATA, uri, max_rows_per_file=6).delete("id = 1")
        table = library.dataset(uri, default_scan_options=OPTIONS[options](library))
        found.append(CALLS[call](library, table))
    assert found[0] == found[1]


@pytest.mark.parametrize("options", OPTIONS)
def test_all_rows_that_match_are_counted(tmp_path: Path, options: str) -> None:
    pennon.write_dataset(DATA, tmp_path / "t", max_rows_per_file=6).delete("id = 1")
    table = pennon.dataset(tmp_path / "t", default_scan_options=OPTIONS[options](pennon))
    for filter in ("id > 2", pc.field("id") > 2, pc.abs(pc.field("id")) > 2):
        assert table.count_rows(filter) == 7
    assert table.count_rows("id > 2", limit=3) == 3
    assert table.count_rows(offset=4) == 5


def tens(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"ten": pc.multiply(batch["id"], 10)})


def merged_columns(table: Any) -> None:
    parts = [fragment.merge_columns(tens, ["id"]) for fragment in table.get_fragments()]
    operation = pennon.LanceOperation.Merge([fragment for fragment, _ in parts], parts[0][1])
    pennon.LanceDataset.commit(table, operation, read_version=table.version)


NEW_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "function": lambda table: table.add_columns(tens),
    "read_columns": lambda table: table.add_columns(tens, read_columns=["id"], batch_size=2),
    "batch_udf": lambda table: table.add_columns(pennon.batch_udf(pa.schema({"ten": pa.int64()}))(tens)),
    "expression": lambda table: table.add_columns({"ten": "id * 10"}),
    "merge_columns": merged_columns,
    "job": lambda table: jobs.run(jobs.plan_add_columns(table, tens, tasks=2)),
}


@spread(of=1, times=2)
@pytest.mark.parametrize("add", NEW_COLUMNS)
@pytest.mark.parametrize("options", OPTIONS)
def test_new_values_are_in_their_rows(tmp_path: Path, options: str, add: str) -> None:
    pennon.write_dataset(DATA, tmp_path / "t", max_rows_per_file=6).delete("id = 1")
    NEW_COLUMNS[add](pennon.dataset(tmp_path / "t", default_scan_options=OPTIONS[options](pennon)))
    found = lance.dataset(str(tmp_path / "t")).to_table()
    assert found["id"].to_pylist() == [9, 8, 3, 7, 5, 6, 2, 4, 0]
    assert found["ten"].to_pylist() == [90, 80, 30, 70, 50, 60, 20, 40, 0]


def test_a_sample_of_what_matches(tmp_path: Path) -> None:
    pennon.write_dataset(DATA, tmp_path / "t")
    table = pennon.dataset(tmp_path / "t", default_scan_options={"limit": 2})
    for wanted, found in ((5, 5), (100, 7)):
        batches = pennon.sampler.maybe_sample(table, wanted, ["id"], filt="id > 2")
        ids = [value for batch in batches for value in batch["id"].to_pylist()]
        assert len(ids) == found == len(set(ids) - {0, 1, 2})
