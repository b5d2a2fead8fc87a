"""Every Arrow type in tables: several fragments, deletions of both kinds. What one writes the other reads alike.

A table has several columns, each of a shape; files alone are compared in `test_files.py`.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree, assert_same, contents
from support.long import LONG
from support.refusals import works
from support.shapes import SHAPES, columns
from support.spread import spread

pytestmark = pytest.mark.slow

# One fragment large enough for a bitmap deletion file (5,000 deleted rows), two small ones, one never touched.
FRAGMENTS = [11_000, 700, 1]
DELETIONS = ["id < 11000 and id % 2 = 0", "id in (11003, 11011) or id = 11500"]
TABLES = 10


@functools.cache
def column(name: str) -> pa.Array:
    return SHAPES[name](random.Random(f"4-{name}"), sum(FRAGMENTS))


def write_all(module: object, uri: str, names: list[str], stable: bool, file_version: str) -> pa.Table:
    ids = pa.array(range(sum(FRAGMENTS)), pa.int64())
    everything = pa.table({"id": ids, **{name: column(name) for name in names}})
    start = 0
    for rows in FRAGMENTS:
        part = everything.slice(start, rows)
        if module is lance:  # it panics on slices of structs in structs
            part = everything.take(pa.array(range(start, start + rows)))
        module.write_dataset(  # type: ignore[attr-defined]
            part,
            uri,
            mode="append" if start else "create",
            enable_stable_row_ids=stable,
            data_storage_version=file_version,
        )
        start += rows
    dataset = module.dataset(uri)  # type: ignore[attr-defined]
    for predicate in DELETIONS:
        dataset.delete(predicate)
    return everything


@spread()
@pytest.mark.parametrize("number", range(TABLES))
@pytest.mark.parametrize("writer", [lance, pennon], ids=["reference-writes", "pennon-writes"])
def test_every_type(tmp_path: Path, number: int, writer: object, stable: bool, file_version: str) -> None:
    uri = str(tmp_path / "t")
    names = works(file_version, "writes" if writer is pennon else "reads")[number::TABLES]
    everything = write_all(writer, uri, names, stable, file_version)
    table = assert_both_agree(uri)

    live = [
        i for i in range(everything.num_rows) if not (i < 11_000 and i % 2 == 0) and i not in (11003, 11011, 11500)
    ]
    assert_same(table.select(["id", *names]), everything.take(live))

    kinds = {Path(f.deletion_file()).suffix for f in pennon.dataset(uri).get_fragments() if f.deletion_file()}
    assert kinds == {".arrow", ".bin"}

    positions = [0, 5_499, 5_500, 17, 5_600, 17]
    assert_same(pennon.dataset(uri).take(positions), lance.dataset(uri).take(positions))
    ids = table["_rowid"].take(positions).to_pylist()
    assert_same(pennon.dataset(uri)._take_rows(ids), lance.dataset(uri)._take_rows(ids))
    # How row ids are kept is not in the files of values.
    for version in (1, 2, 3, 4) if LONG else (2, 4) if stable else (4,):
        assert_both_agree(uri, version)


def test_all_columns_in_one_table(tmp_path: Path, file_version: str) -> None:
    """A wide table, projection and filters on top of every type at once."""
    rows = 3_000
    # Structs cannot be null in file version 2.0.
    inner, outer = (
        ("`struct`.x", "struct.s") if file_version == "2.0" else ("`struct-nulls`.x", "struct-nulls.in.s")
    )
    everything = {"id": pa.array(range(rows), pa.int64()), **columns(9, rows, works(file_version, "writes"))}
    for writer, uri in ((lance, str(tmp_path / "theirs")), (pennon, str(tmp_path / "ours"))):
        writer.write_dataset(
            pa.table(everything),
            uri,
            enable_stable_row_ids=True,
            data_storage_version=file_version,
            max_rows_per_file=1_100,
        )
        assert_both_agree(uri)
        theirs, ours = lance.dataset(uri), pennon.dataset(uri)
        for options in (
            {"columns": ["utf8-short", "id"], "filter": "id % 7 = 3", "with_row_id": True},
            {"columns": [outer, "id"], "limit": 100, "offset": 1_050},
            {"columns": {"double": "id * 2", "size": "length(`utf8-short`)"}, "filter": "`bool`"},
            {"filter": f"{inner} > 5 and `int64-nulls` is not null", "columns": ["id"]},
            {"columns": [], "with_row_address": True},
        ):
            assert_same(ours.to_table(**options), theirs.to_table(**options))


def test_versions_are_read_alike_after_the_reference_compacted(tmp_path: Path) -> None:
    """Compaction by the reference leaves bitmap segments and unmerged version runs: both must be read right."""
    uri = str(tmp_path / "t")
    for number in range(6):
        part = pa.table({"id": pa.array(range(number * 500, number * 500 + 500), pa.int64())})
        pennon.write_dataset(part, uri, mode="append" if number else "create")
    pennon.dataset(uri).delete("id % 3 = 1 and id < 1700")
    theirs = lance.dataset(uri)
    theirs.update({"id": "id + 100000"}, where="id % 10 = 0")
    theirs.optimize.compact_files()
    theirs.update({"id": "id + 1000000"}, where="id % 7 = 0")
    for version in range(1, theirs.latest_version + 1):
        assert_both_agree(uri, version)
    pennon.dataset(uri).delete("id > 1000000 and id % 2 = 0")
    assert_both_agree(uri)
    table = contents(pennon.dataset(uri))
    sample = table["_rowid"].to_pylist()[::13]
    assert_same(pennon.dataset(uri)._take_rows(sample), lance.dataset(uri)._take_rows(sample))


ALL_NULL = {
    "floats": pa.array([[None, None]] * 3, pa.list_(pa.float32(), 2)),
    "null lists too": pa.array([[None, None], None, [None, None]], pa.list_(pa.int8(), 2)),
    "booleans": pa.array([[None] * 9] * 3, pa.list_(pa.bool_(), 9)),
    "nested": pa.array([[[None, None]], None], pa.list_(pa.list_(pa.float32(), 2), 1)),
    "binary": pa.array([[None, None]] * 3, pa.list_(pa.binary(3), 2)),
    "in lists": pa.array([[[None, None]], [], None, [None, [None, None]]], pa.list_(pa.list_(pa.float64(), 2))),
    "in structs": pa.array([{"x": [None]}, None, {"x": None}], pa.struct({"x": pa.list_(pa.decimal128(20, 2), 1)})),
}


@pytest.mark.parametrize("name", ALL_NULL)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_fixed_size_lists_of_nulls_by_the_reference(tmp_path: Path, version: str, name: str) -> None:
    uri, column = str(tmp_path / "t"), ALL_NULL[name]
    if (version, name) == ("2.0", "in structs"):
        column = column.drop_null()
    data = pa.table({"v": column, "i": range(len(column))})
    lance.write_dataset(data, uri, data_storage_version=version)
    expected = lance.dataset(uri).to_table()["v"].to_pylist()
    table = pennon.dataset(uri)
    assert table.to_table()["v"].to_pylist() == expected
    assert table.take([len(column) - 1])["v"].to_pylist() == expected[-1:]
    table.update({"i": "i + 1"})
    assert pennon.dataset(uri).to_table()["v"].to_pylist() == expected


def test_fixed_size_lists_of_no_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pennon.UnsupportedError, match="need items of a type"):
        pennon.write_dataset(pa.table({"v": pa.array([[None], None], pa.list_(pa.null(), 1))}), tmp_path / "t")
