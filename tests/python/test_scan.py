"""Scans with all their options, takes and samples."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

import numpy as np
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import numbers

LINEAGE = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def ids(table: pa.Table) -> list[int]:
    return table["id"].to_pylist()


def test_projection(table: pennon.LanceDataset) -> None:
    assert table.to_table(columns=["text", "id"]).schema.names == ["text", "id"]
    assert table.to_table(columns={"twice": "id * 2"}, limit=2)["twice"].to_pylist() == [0, 2]
    assert table.to_table(columns=["_rowid", "id"]).schema.names == ["_rowid", "id"]
    with pytest.raises(ValueError, match="No field named idd"):
        table.to_table(columns=["idd"])
    with pytest.raises(ValueError, match="id"):
        table.to_table(columns=["id", "id"])
    with pytest.raises(TypeError, match="list of names"):
        table.to_table(columns="id")
    assert table.to_table(columns=[np.str_("id")]).schema.names == ["id"]
    for columns in ([1], ["id", ("a", "id")], [("a", "id", "id")], [("a", 1)], {"a": 1}, {1: "id"}):
        with pytest.raises(TypeError, match="columns must be names, or SQL expressions by name, found"):
            table.to_table(columns=columns)  # type: ignore[arg-type]


def test_system_columns(table: pennon.LanceDataset) -> None:
    found = table.to_table(columns=LINEAGE)
    assert found.schema.types == [pa.uint64()] * 4
    assert found["_rowid"].to_pylist() == list(range(10))
    assert found["_rowaddr"].to_pylist()[4] == 1 << 32
    assert set(found["_row_created_at_version"].to_pylist()) == {1}
    both = table.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert both.schema.names == ["id", "_rowid", "_rowaddr"]


def test_filter_limit_offset(table: pennon.LanceDataset) -> None:
    assert ids(table.to_table(filter="id >= 3 AND text != 'row 5'")) == [3, 4, 6, 7, 8, 9]
    assert ids(table.to_table(filter="id >= 3", limit=2, offset=1)) == [4, 5]
    assert ids(table.to_table(offset=100)) == []
    assert ids(table.to_table(filter="_rowid = 7")) == [7]
    assert table.count_rows() == 10
    assert table.count_rows("id < 3") == 3
    for option in ("limit", "offset"):
        with pytest.raises(ValueError, match="must be non-negative"):
            table.to_table(**{option: -1})


@pytest.mark.parametrize(
    ("predicate", "message"),
    [("idd = 1", "No field named idd"), ("id = = 1", "rror parsing"), ("id + 1", "does not return a boolean")],
)
def test_wrong_filters(table: pennon.LanceDataset, predicate: str, message: str) -> None:
    for call in (table.to_table, table.scanner):
        with pytest.raises(ValueError, match=message):
            call(filter=predicate)
    with pytest.raises(ValueError, match=message):
        table.count_rows(predicate)
    with pytest.raises(OSError, match=message):
        table.delete(predicate)


def test_batches(table: pennon.LanceDataset) -> None:
    batches = table.to_batches(batch_size=3)
    assert batches.schema == table.schema  # type: ignore[attr-defined]
    found = list(batches)
    assert max(batch.num_rows for batch in found) <= 3
    assert ids(pa.Table.from_batches(found)) == list(range(10))
    strict = table.to_batches(batch_size=3, strict_batch_size=True)
    assert [batch.num_rows for batch in strict] == [3, 3, 3, 1]
    for batch_size in (0, -1):
        with pytest.raises(pennon.InvalidInputError, match=f"must be between 1 and 4294967295, got {batch_size}"):
            table.to_table(batch_size=batch_size)


@pytest.mark.parametrize(
    "options",
    [{}, {"filter": "id > 1"}, {"order_by": ["text"]}, {"filter": pc.field("id").cast(pa.float32()) > 1.5}],
    ids=str,
)
@pytest.mark.parametrize("begun", [0, 1, 2])
def test_batches_are_closed(table: pennon.LanceDataset, options: dict[str, Any], begun: int) -> None:
    reads = [
        table.to_batches(batch_size=2, **options),
        table.scanner(batch_size=2, **options).to_batches(),
        table.get_fragments()[1].to_batches(batch_size=2, **options),
    ]
    for batches in reads:
        with contextlib.closing(batches):  # type: ignore[type-var]
            for _ in range(begun):
                assert next(batches).num_rows > 0
        assert list(batches) == []
        with pytest.raises(StopIteration):
            next(batches)
        batches.close()  # type: ignore[attr-defined]
        assert batches.schema == table.schema  # type: ignore[attr-defined]


def test_batches_are_closed_after_the_last_one_and_by_forks(table: pennon.LanceDataset) -> None:
    batches = table.to_batches()
    rows = sum(batch.num_rows for batch in batches)
    batches.close()  # type: ignore[attr-defined]
    assert rows == table.count_rows()
    batches = table.to_batches(batch_size=2)
    assert next(batches).num_rows == 2
    if (child := os.fork()) == 0:
        batches.close()  # type: ignore[attr-defined]
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sum(batch.num_rows for batch in batches) == rows - 2


@pytest.mark.parametrize("rows", ["abc", "0", "-3", "1.5", str(2**32)])
def test_the_environment_has_a_wrong_size_of_batches(
    table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", rows)
    expected = f"LANCE_DEFAULT_BATCH_SIZE is '{rows}', expected a whole number from 1 to 4294967295"
    with pytest.raises(pennon.InvalidInputError, match=re.escape(expected)):
        table.to_table()


def test_unordered(table: pennon.LanceDataset) -> None:
    assert sorted(ids(table.to_table(scan_in_order=False))) == list(range(10))


def test_fragments(table: pennon.LanceDataset) -> None:
    parts = table.get_fragments()
    assert [part.fragment_id for part in parts] == [0, 1, 2]
    assert ids(table.scanner(fragments=parts[1:2]).to_table()) == [4, 5, 6, 7]
    part = table.get_fragment(1)
    assert part is not None
    assert ids(part.to_table(filter="id > 5")) == [6, 7]
    assert ids(part.take([3, 0])) == [7, 4]
    assert ids(part.head(1)) == [4]
    assert part.count_rows() == 4
    assert part.count_rows("id = 4") == 1
    assert sum(batch.num_rows for batch in part.to_batches()) == 4
    assert part.deletion_file() is None
    assert part.metadata.files[0].path.endswith(".lance")
    assert table.get_fragment(9) is None
    assert [part.fragment_id for part in table.get_fragments(pc.field("id") > 100)] == [0, 1, 2]


def test_fragment_with_deletions(table: pennon.LanceDataset) -> None:
    table.delete("id = 5")
    part = table.get_fragment(1)
    assert part is not None
    assert (part.num_deletions, part.physical_rows, part.count_rows()) == (1, 4, 3)
    assert part.deletion_file().startswith("_deletions/1-1-")  # type: ignore[union-attr]
    stats = table.stats.dataset_stats()
    assert stats == {"num_deleted_rows": 1, "num_fragments": 3, "num_small_files": 3}


def test_include_deleted_rows(table: pennon.LanceDataset) -> None:
    table.delete("id = 5")
    found = table.to_table(include_deleted_rows=True, with_row_id=True)
    assert found["_rowid"].null_count == 1
    assert found.num_rows == 10


def test_take(table: pennon.LanceDataset) -> None:
    assert ids(table.take([9, 0, 0])) == [9, 0, 0]
    assert ids(table.take(pa.array([1, 2]))) == [1, 2]
    assert table.take([1], columns=["text"]).schema.names == ["text"]
    assert ids(table.take([])) == []
    table.delete("id = 1")
    assert ids(table.take([1])) == [2]
    with pytest.raises(OSError, match="non-existent fragment"):
        table.take([100])
    with pytest.raises(pennon.InvalidInputError, match="must not be negative nor exceed 64 bits, found -3"):
        table.take([0, -1, -3])
    with pytest.raises(pennon.InvalidInputError, match=f"found {2**64}"):
        table.take([2**64])
    with pytest.raises(TypeError):
        table.take([1.5])


def test_take_by_numbers_of_any_kind(table: pennon.LanceDataset) -> None:
    for rows in (
        (3, 1),
        range(3, 0, -2),
        np.array([3, 1]),
        [np.int32(3), 1],
        pa.chunked_array([[3], [1]]),
        iter([3, 1]),
    ):
        assert ids(table.take(rows)) == [3, 1]


def test_take_by_id_and_address(table: pennon.LanceDataset) -> None:
    table.delete("id = 5")
    assert ids(table._take_rows([8, 5, 0])) == [8, 0]
    assert ids(table._take_row_addresses([(2 << 32) + 1, 0])) == [9, 0]


def test_head_slice_sample(table: pennon.LanceDataset) -> None:
    assert ids(table.head(3)) == [0, 1, 2]
    assert ids(table.slice(3, 6)) == [3, 4, 5]
    drawn = ids(table.sample(4))
    assert len(set(drawn)) == 4
    assert ids(table.sample(10, randomize_order=False)) == list(range(10))
    with pytest.raises(ValueError, match="num_rows is 11, but the table has 10 rows"):
        table.sample(11)


def test_default_scan_options(table: pennon.LanceDataset, uri: str) -> None:
    shown = pennon.dataset(uri, default_scan_options={"with_row_id": True})
    assert shown.schema.names == shown.to_table().schema.names == ["id", "text", "_rowid"]
    assert shown.to_table(with_row_id=False).schema.names == ["id", "text"]
    with pytest.raises(ValueError, match="wth_row_id"):
        pennon.dataset(uri, default_scan_options={"wth_row_id": True}).to_table()


def test_streams(table: pennon.LanceDataset) -> None:
    assert ids(pa.table(table)) == list(range(10))
    assert ids(pa.table(table.scanner(filter="id < 2"))) == [0, 1]
    reader = table.scanner().to_reader()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all().num_rows == 10
    scanner = table.scanner(columns=["id"])
    assert scanner.projected_schema.names == ["id"]
    assert scanner.dataset_schema.names == ["id", "text"]
    assert scanner.count_rows() == 10
    assert ids(scanner.head(2)) == [0, 1]
    for _ in range(2):
        assert ids(scanner.to_table()) == list(range(10))


def test_no_columns(table: pennon.LanceDataset) -> None:
    assert table.to_table(columns=[]).num_columns == 0
    assert sum(batch.num_rows for batch in table.to_batches(columns=[])) == 10


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [6, 7, 8, 9]),
        ({"limit": 2}, [6, 7]),
        ({"offset": 3}, [9]),
        ({"limit": 2, "offset": 1}, [7, 8]),
        ({"limit": 0}, []),
    ],
)
def test_pyarrow_expressions(table: pennon.LanceDataset, options: dict[str, int], expected: list[int]) -> None:
    expression = (pc.field("id") > 5) & pc.field("text").is_valid()
    assert ids(table.to_table(filter=expression, **options)) == expected
    assert table.to_table(["text"], filter=expression, **options).schema.names == ["text"]
    assert table.scanner(filter=expression, **options).count_rows() == len(expected)
    assert ids(table.scanner(filter=expression, **options).to_reader().read_all()) == expected


def test_pyarrow_expressions_elsewhere(table: pennon.LanceDataset) -> None:
    assert table.count_rows(pc.field("id") > 5) == 4
    assert ids(table.to_table(filter=pc.field(0) == 3)) == [3]
    assert table.to_table(["text"], filter=pc.field(0) == 3)["text"].to_pylist() == ["row 3"]
    assert table.to_table({"a": "-id"}, filter=pc.field("id") > 5)["a"].to_pylist() == [-6, -7, -8, -9]
    with pytest.raises(pennon.UnsupportedError, match="include_deleted_rows together with SQL columns"):
        table.to_table({"a": "id"}, filter=pc.field("id") + 1 > 5, include_deleted_rows=True, with_row_id=True)
    for wrong in (pc.field("absent") > 5, pc.add(pc.field("id"), 1), pc.field("text") > 5):
        with pytest.raises(pennon.InvalidInputError, match="does not fit the columns"):
            table.scanner(filter=wrong)


def test_pyarrow_methods_that_would_need_pyarrows_data(table: pennon.LanceDataset) -> None:
    for call in (
        lambda: table.filter(pc.field("id") > 1),
        lambda: table.join(table, "id"),
        lambda: table.join_asof(table, "id", [], 1),
        lambda: table.sort_by("id"),
        lambda: table.replace_schema(table.schema),
        lambda: table.scanner().take([1]),
        lambda: table.scanner(full_text_query="a"),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_duckdb(table: pennon.LanceDataset) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.connect().register("flights", table).execute("SELECT sum(id) FROM flights WHERE id > 5")
    assert rows.fetchall() == [(30,)]


def test_datafusion(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 5")
    shown = pennon.dataset(uri, default_scan_options={"limit": 1, "columns": ["text"]})
    context = pytest.importorskip("datafusion").SessionContext()
    context.register_dataset("rows", shown)
    query = "SELECT id FROM rows WHERE id > 3 AND text <> 'row 8' ORDER BY id DESC LIMIT 4"
    assert context.sql(query).to_pydict() == {"id": [9, 7, 6, 4]}
    assert context.sql("SELECT count(*) AS count FROM rows").to_pydict() == {"count": [9]}


def test_a_schema_names_columns(table: pennon.LanceDataset) -> None:
    (fragment, *_) = table.get_fragments(pc.field("id") > 100)
    schema = pa.schema([table.schema.field("text")])
    assert fragment.scanner(schema).to_table().schema == schema
    assert fragment.scanner(schema, columns=["id"]).to_table()["id"].to_pylist() == [0, 1, 2, 3]
    assert fragment.scanner(schema=None).projected_schema == table.schema


def test_polars(table: pennon.LanceDataset) -> None:
    polars = pytest.importorskip("polars")
    lazy = polars.scan_pyarrow_dataset(table)
    assert lazy.filter(polars.col("id") > 5).select("id").collect()["id"].to_list() == [6, 7, 8, 9]
    assert polars.DataFrame(table)["id"].to_list() == list(range(10))


def test_large_scan(uri: str) -> None:
    table = pennon.write_dataset(numbers(100_000), uri, max_rows_per_file=30_000)
    assert table.to_table().equals(numbers(100_000))
    assert table.count_rows("id % 10 = 0") == 10_000


def test_a_name_that_is_another_in_back_ticks() -> None:
    data = pa.table({"`q`": [0, 1], "q": [2, 3], "id": [4, 5]})
    table = pennon.write_dataset(data, "memory://scan-back-ticks", mode="overwrite")
    assert table.to_table() == data
    assert table.to_table(columns=["q", "`q`"]) == data.select(["q", "`q`"])
    assert table.take([1], columns=["q"])["q"].to_pylist() == [3]
    assert table.to_table(columns=["id"], filter="q = 2")["id"].to_pylist() == [4]
    assert table.to_table(columns=["id"], filter="```q``` = 1")["id"].to_pylist() == [5]
    table.update({"q": "q + `id`"}, where="id = 5")
    assert table.to_table().sort_by("id").to_pydict() == {"`q`": [0, 1], "q": [2, 8], "id": [4, 5]}
