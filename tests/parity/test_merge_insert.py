"""The same merge done by both implementations to equal tables: equal rows, ids, versions, counts and errors."""

from __future__ import annotations

import decimal
import itertools
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree, contents, file_versions
from support.seeds import seeds
from support.spread import spread
from support.tables import upsert

Merge = Callable[[Any], Any]
Rows = list[dict[str, Any]]

TABLE = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "kind": pa.array(["a", "b"] * 4),
        "n": pa.array([i * 1.5 for i in range(8)]),
    }
)


def source(ids: list[int | None], n: list[float | None] | None = None) -> pa.Table:
    kinds = ["a" if i is None or i % 3 else "c" for i in ids]
    values = [9.0 + i for i in range(len(ids))] if n is None else n
    schema = pa.schema({"id": pa.int64(), "kind": pa.utf8(), "n": pa.float64()})
    return pa.table([ids, kinds, values], schema=schema)


class Pair:
    """One table twice: written by the reference, and by us."""

    def __init__(self, root: Path, table: pa.Table = TABLE, stable: bool = True) -> None:
        self.theirs = str(root / "theirs.lance")
        self.ours = str(root / "ours.lance")
        for uri in (self.theirs, self.ours):
            lance.write_dataset(table, uri, enable_stable_row_ids=stable, max_rows_per_file=3)

    def run(self, merge: Merge, data: Any, model: Callable[[Rows], Rows] | None = None) -> dict[str, int]:
        """Merges in both and compares; an error must be one in both, of a class that theirs is a base of.

        Where the reference fails with an internal error the model says what becomes of the rows.
        """
        before = pennon.dataset(self.ours).to_table().to_pylist()
        expected = outcome(merge, lance.dataset(self.theirs), data)
        found = outcome(merge, pennon.dataset(self.ours), data)
        if isinstance(expected, Exception) and "Internal error" in str(expected):
            assert model is not None, expected
            assert not isinstance(found, Exception), found
            rows = assert_both_agree(self.ours).select(list(before[0])).to_pylist()
            assert sorted(map(str, rows)) == sorted(map(str, model(before)))
            shutil.rmtree(self.theirs)
            shutil.copytree(self.ours, self.theirs)
        elif isinstance(expected, Exception):
            assert isinstance(found, type(expected)), (expected, found)
        else:
            assert found == expected
        self.compare()
        return found

    def compare(self) -> None:
        theirs, ours = lance.dataset(self.theirs), pennon.dataset(self.ours)
        assert ours.version == theirs.version
        assert state(ours) == state(theirs)
        assert_both_agree(self.ours)


def outcome(merge: Merge, dataset: Any, data: Any) -> Any:
    try:
        return merge(dataset).execute(data)
    except Exception as error:
        return error


def state(dataset: Any) -> list[str]:
    """All rows. The ids of rows that one commit inserted depend on the order in which a join finds them."""
    table = contents(dataset).drop_columns(["_rowaddr"])
    if not dataset.has_stable_row_ids:
        return sorted(str(list(row.values())) for row in table.drop_columns(["_rowid"]).to_pylist())
    rows, ids = [], []
    for row in table.to_pylist():
        if row["_row_created_at_version"] > 1:
            ids.append((row["_row_created_at_version"], row.pop("_rowid")))
        rows.append(list(row.values()))
    return sorted(map(str, rows)) + sorted(map(str, ids))


CLAUSES: dict[str, Merge] = {
    "upsert": upsert,
    "insert": lambda d: d.merge_insert("id").when_not_matched_insert_all(),
    "update": lambda d: d.merge_insert("id").when_matched_update_all(),
    "conditional": lambda d: d.merge_insert("id").when_matched_update_all("source.n > target.n"),
    "conditional insert": lambda d: (
        d.merge_insert("id")
        .when_matched_update_all("Source.N > target.n AND target.kind = 'a'")
        .when_not_matched_insert_all()
    ),
    "null condition": lambda d: d.merge_insert("id").when_matched_update_all("source.n > NULL"),
    "delete": lambda d: d.merge_insert("id").when_matched_delete(),
    "delete insert": lambda d: d.merge_insert("id").when_matched_delete().when_not_matched_insert_all(),
    "fail": lambda d: d.merge_insert("id").when_matched_fail().when_not_matched_insert_all(),
    "fail only": lambda d: d.merge_insert("id").when_matched_fail(),
    "replace": lambda d: upsert(d).when_not_matched_by_source_delete(),
    "replace some": lambda d: upsert(d).when_not_matched_by_source_delete("id > 3 AND kind = 'a'"),
    "only unmatched": lambda d: d.merge_insert("id").when_not_matched_by_source_delete(),
    "two keys": lambda d: d.merge_insert(["id", "kind"]).when_matched_update_all().when_not_matched_insert_all(),
    "key in other case": lambda d: d.merge_insert("ID").when_matched_update_all(),
    "key twice": lambda d: d.merge_insert(["id", "id"]).when_matched_update_all(),
    "last of two": lambda d: d.merge_insert("id").when_matched_fail().when_matched_delete(),
    "rewrite rows": lambda d: upsert(d).write_mode("rewrite_rows"),
    "rewrite columns": lambda d: d.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns"),
    "rewrite some columns": lambda d: (
        d.merge_insert("id").when_matched_update_all("source.id > 2").write_mode("rewrite_columns")
    ),
    "columns and rows": lambda d: upsert(d).write_mode("rewrite_columns"),
    "files of 2.1": lambda d: upsert(d).data_storage_version("2.1"),
    "files of no version": lambda d: upsert(d).data_storage_version("9.0"),
    "columns in files of 2.1": lambda d: (
        d.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns").data_storage_version("2.1")
    ),
    "nothing": lambda d: d.merge_insert("id"),
    "condition on no side": lambda d: d.merge_insert("id").when_matched_update_all("n > 1"),
    "condition of no column": lambda d: d.merge_insert("id").when_matched_update_all("source.zz > 1"),
    "condition of no syntax": lambda d: d.merge_insert("id").when_matched_update_all("source.n >"),
    "condition of no truth": lambda d: d.merge_insert("id").when_matched_update_all("source.n + 1"),
    "delete of no column": lambda d: upsert(d).when_not_matched_by_source_delete("zz > 3"),
    "delete of a side": lambda d: upsert(d).when_not_matched_by_source_delete("target.id > 3"),
    "delete of no truth": lambda d: upsert(d).when_not_matched_by_source_delete("id + 1"),
}

SOURCES = {
    "mixed": source([7, 3, 1, 8, 20], [0.0, 99.0, 1.0, 2.0, None]),
    "all": source([5, 4, 3, 2, 1, 0, 7, 6]),
    "none": source([100, 99]),
    "empty": source([]),
    "nulls": source([None, 2, None, 50]),
    "same new twice": source([40, 40, 1]),
    "same old twice": source([1, 1, 41], [100.0, 0.0, 1.0]),
    "other order": source([2, 30]).select(["n", "id", "kind"]),
    "key only": source([2, 30]).select(["id"]),
    "without a column": source([30, 2, 5]).select(["id", "n"]),
    "extra column": source([2, 30]).append_column("more", pa.array([1, 2])),
    "other type": source([2, 30]).set_column(2, "n", pa.array([1, 2])),
    "other key type": source([2, 30]).set_column(0, "id", pa.array([2, 30], pa.int32())),
    "no key": source([2, 30]).select(["n"]),
}


@spread(of=1, times=4)
@pytest.mark.parametrize(("clauses", "data"), [*itertools.product(CLAUSES, SOURCES)])
def test_clauses_and_sources(tmp_path: Path, clauses: str, data: str) -> None:
    Pair(tmp_path).run(CLAUSES[clauses], SOURCES[data])


@pytest.mark.parametrize("mode", ["rewrite_rows", "rewrite_columns"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_versions_of_new_files(tmp_path: Path, mode: str, version: str) -> None:
    pair = Pair(tmp_path)
    pair.run(
        lambda d: d.merge_insert("id").when_matched_update_all().write_mode(mode).data_storage_version(version),
        SOURCES["without a column"],
    )
    found = file_versions(pennon.dataset(pair.ours))
    assert found == file_versions(pennon.dataset(pair.theirs))
    assert any(some[-1] == version for some in found)


@pytest.mark.parametrize("clauses", ["upsert", "replace some", "delete insert"])
def test_a_table_without_stable_ids(tmp_path: Path, clauses: str) -> None:
    pair = Pair(tmp_path, stable=False)
    pair.run(CLAUSES[clauses], SOURCES["mixed"])


KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "floats": (pa.array([0.0, -0.0, 1.0, None]), pa.array([0.0, 2.0, None])),
    "minus zero": (pa.array([0.0, 1.0]), pa.array([-0.0])),
    "texts": (pa.array(["a", "", "c", None]), pa.array(["a", "d", "", None])),
    "large texts": (pa.array(["a", "b"], pa.large_string()), pa.array(["b", "x"], pa.large_string())),
    "bytes": (pa.array([b"a", b"\x00"]), pa.array([b"\x00", b"a\x00"])),
    "truth": (pa.array([True, False]), pa.array([False])),
    "tiny": (pa.array([1, 2, 255], pa.uint8()), pa.array([255, 7], pa.uint8())),
    "negative": (pa.array([-1, 2], pa.int16()), pa.array([-1, -2], pa.int16())),
    "large": (pa.array([2**63, 2], pa.uint64()), pa.array([2**63, 2**64 - 1], pa.uint64())),
    "decimals": (pa.array([decimal.Decimal("1.10")]), pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.20")])),
    "times": (pa.array([1, 2], pa.timestamp("us")), pa.array([2, 3], pa.timestamp("us"))),
    "other unit": (pa.array([1000], pa.timestamp("us")), pa.array([1], pa.timestamp("ms"))),
    "dates": (pa.array([1, 2], pa.date32()), pa.array([2, 3], pa.date32())),
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()),
    "structs": (pa.array([{"x": 1}, {"x": 2}]), pa.array([{"x": 2}, {"x": 3}])),
    "lists": (pa.array([[1], [2, 3]]), pa.array([[2, 3], []], pa.list_(pa.int64()))),
    "no values": (pa.nulls(2), pa.nulls(2)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_types_of_keys(tmp_path: Path, kind: str) -> None:
    old, new = KEYS[kind]
    pair = Pair(tmp_path, pa.table({"id": old, "n": pa.array(range(len(old)), pa.int64())}))
    pair.run(upsert, pa.table({"id": new, "n": pa.array(range(100, 100 + len(new)), pa.int64())}))


def test_not_a_number_is_a_key(tmp_path: Path) -> None:
    found = {}
    for package in (lance, pennon):
        uri = str(tmp_path / package.__name__)
        old = pa.table({"id": pa.array([math.nan, 1.0]), "n": pa.array([1, 2])})
        dataset = package.write_dataset(old, uri)
        counts = upsert(dataset).execute(pa.table({"id": pa.array([math.nan]), "n": pa.array([3])}))
        found[package] = counts, str(dataset.to_table().to_pydict())
    assert found[pennon] == found[lance]


def test_a_key_that_the_table_has_more_than_once(tmp_path: Path) -> None:
    pair = Pair(tmp_path, pa.concat_tables([TABLE, TABLE.slice(2, 4)]))
    found = pair.run(upsert, source([3, 4, 60]))
    assert found["num_updated_rows"] == 4


REQUIRED = pa.schema([pa.field("id", pa.int64(), False), pa.field("kind", pa.string(), False), ("n", pa.float64())])


@pytest.mark.parametrize("clauses", ["upsert", "update", "insert"])
@pytest.mark.parametrize(
    "data",
    [
        source([2, 30]).select(["id", "n"]),
        source([2]).select(["id", "n"]),
        source([2, 30]).set_column(1, "kind", pa.array(["x", None])),
        source([2, None]),
    ],
    ids=["required column missing", "and nothing to insert", "null value", "null key"],
)
def test_columns_that_must_not_be_null(tmp_path: Path, clauses: str, data: pa.Table) -> None:
    pair = Pair(tmp_path, TABLE.cast(REQUIRED))
    pair.run(CLAUSES[clauses], data)


def merged(rows: Rows, source: Rows, key: list[str], matched: str, insert: bool, delete: str | None) -> Rows:
    """What a merge makes of the rows. A null key matches nothing."""

    def key_of(row: dict[str, Any]) -> tuple[Any, ...] | None:
        values = tuple(row[name] for name in key)
        return None if None in values else values

    def is_updated(old: dict[str, Any], new: dict[str, Any]) -> bool:
        if matched != "if":
            return matched == "update"
        if len(new) == 3:
            return None not in (new["n"], old["n"]) and new["n"] >= old["n"]
        return new["id"] < 9

    sources = {key_of(row): row for row in source if key_of(row) is not None}
    found = []
    for row in rows:
        new = sources.get(key_of(row))
        if new is None:
            gone = delete == "all" or (delete is not None and row["n"] is not None and row["n"] < 9)
            found += [] if gone else [row]
        elif matched != "delete":
            found.append(row | new if is_updated(row, new) else row)
    keys = {key_of(row) for row in rows} - {None}
    inserted = [row for row in source if key_of(row) not in keys] if insert else []
    return found + [dict.fromkeys(rows[0]) | row for row in inserted]


@pytest.mark.parametrize("seed", seeds(12))
def test_random_merges_in_a_row(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    pair = Pair(tmp_path, stable=dice.random() < 0.8)
    key = dice.choice([["id"], ["kind", "id"]])
    for _ in range(6):
        ids = [dice.choice([None, *range(30)]) for _ in range(dice.randrange(9))]
        if dice.random() < 0.7:
            ids = list(dict.fromkeys(ids))
        data = source(ids, [dice.choice([None, float(dice.randrange(20))]) for _ in ids])
        if len(key) == 1 and dice.random() < 0.3:
            data = data.select(dice.choice([["id", "n"], ["kind", "id"], ["id"]]))
        matched = dice.choice(["nothing", "update", "if", "delete", "fail"])
        insert, delete = dice.random() < 0.6, dice.choice([None, None, "all", "n < 9"])

        full = len(data.schema) == 3

        def merge(
            dataset: Any,
            key: list[str] = key,
            matched: str = matched,
            insert: bool = insert,
            delete: str | None = delete,
            full: bool = full,
        ) -> Any:
            builder = dataset.merge_insert(key)
            if matched == "update":
                builder.when_matched_update_all()
            elif matched == "if":
                builder.when_matched_update_all("source.n >= target.n" if full else "source.id < 9")
            elif matched == "delete":
                builder.when_matched_delete()
            elif matched == "fail":
                builder.when_matched_fail()
            if insert:
                builder.when_not_matched_insert_all()
            if delete is not None:
                builder.when_not_matched_by_source_delete(None if delete == "all" else delete)
            return builder

        def model(
            rows: Rows,
            data: pa.Table = data,
            key: list[str] = key,
            matched: str = matched,
            insert: bool = insert,
            delete: str | None = delete,
        ) -> Rows:
            return merged(rows, data.to_pylist(), key, matched, insert, delete)

        pair.run(merge, data, model)
        if dice.random() < 0.3:
            row = dice.randrange(8)
            for uri in (pair.theirs, pair.ours):
                lance.dataset(uri).delete(f"id = {row}")


def test_columns_that_are_written_in_place(tmp_path: Path) -> None:
    """Rows that were deleted, columns that were written in place before, and both writers in turns."""
    pair = Pair(tmp_path)
    for uri in (pair.theirs, pair.ours):
        lance.dataset(uri).delete("id IN (1, 5, 6)")
    for data in (
        source([0, 3, 5, 7]).select(["id", "n"]),
        source([2, 3]).select(["kind", "id"]),
        source([3]).select(["n", "id"]),
    ):
        pair.run(CLAUSES["rewrite columns"], data)
        (pair.theirs, pair.ours) = (pair.ours, pair.theirs)
    files = [len(f.data_files()) for f in pennon.dataset(pair.ours).get_fragments()]
    assert max(files) > 1


def test_the_reference_merges_into_what_we_merged_and_back(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    pennon.write_dataset(TABLE, uri, max_rows_per_file=3)
    for turn, package in enumerate([pennon, lance, pennon, lance]):
        dataset = package.dataset(uri)
        found = upsert(dataset).execute(source([1, 10 + turn, 5]))
        assert (found["num_inserted_rows"], found["num_updated_rows"]) == (1, 2)
        assert_both_agree(uri)


@pytest.mark.parametrize("first", [pennon, lance], ids=["ours first", "theirs first"])
@pytest.mark.parametrize("rows", [1, 20_000])
def test_both_insert_one_key_at_a_time(tmp_path: Path, first: Any, rows: int) -> None:
    """With a declared key, which the reference needs for that; its filter and ours, listed or not, say enough."""
    uri = str(tmp_path / "t.lance")
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, ("n", pa.int64())])
    lance.write_dataset(pa.table([[1, 2], [0, 0]], schema=schema), uri, enable_stable_row_ids=True)
    second = lance if first is pennon else pennon
    stale = second.dataset(uri)
    ids = list(range(100, 100 + rows))
    upsert(first.dataset(uri)).execute(pa.table([ids, [1] * rows], schema=schema))
    found = upsert(stale).execute(pa.table([[100, 5], [2, 2]], schema=schema))
    assert (found["num_inserted_rows"], found["num_updated_rows"]) == (1, 1)
    assert lance.dataset(uri).count_rows("id = 100") == 1
    assert_both_agree(uri)


def test_transactions_say_the_same(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    found = {}
    for package, uri in ((lance, pair.theirs), (pennon, pair.ours)):
        transaction, counts = upsert(package.dataset(uri)).execute_uncommitted(source([1, 30]))
        operation = transaction.operation
        found[package] = (
            counts,
            operation.removed_fragment_ids,
            operation.fields_modified,
            # The reference lists the key too, whose values stay as they are.
            sorted({*operation.fields_for_preserving_frag_bitmap, 0}),
            operation.update_mode,
            len(operation.updated_fragments),
            [f.physical_rows for f in operation.new_fragments],
        )
        dataset = package.LanceDataset.commit(uri, transaction)
        assert dataset.version == 2
    assert found[pennon] == found[lance]
    pair.compare()
