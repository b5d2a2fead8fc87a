"""Merges: the builder, a model of rows by key, writers at a time, sources that fail."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pennon.types import RewriteMode
from support.files import all_files
from support.tables import numbers, upsert


def texts(rows: dict[int | None, str] | list[tuple[int | None, str]]) -> pa.Table:
    pairs = list(rows.items()) if isinstance(rows, dict) else rows
    return pa.table(
        {"id": pa.array([i for i, _ in pairs], pa.int64()), "text": pa.array([t for _, t in pairs], pa.utf8())}
    )


def contents(table: pennon.LanceDataset) -> dict[int, str]:
    rows = table.to_table().to_pylist()
    found = {row["id"]: row["text"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_upsert(table: pennon.LanceDataset) -> None:
    found = upsert(table).execute(texts({3: "three", 50: "fifty"}))
    assert found == {"num_inserted_rows": 1, "num_updated_rows": 1, "num_deleted_rows": 0}
    assert table.version == 2
    assert contents(table)[3] == "three"
    assert contents(table)[50] == "fifty"
    rows = table.to_table(
        columns=["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    ).to_pylist()
    assert [tuple(row.values()) for row in rows[-2:]] == [(3, 3, 1, 2), (50, 10, 2, 2)]


SOURCES: dict[str, Any] = {
    "dict": {"_rowid": [3, 99], "text": ["three", "none"]},
    "list of dicts": [{"_rowid": 3, "text": "three"}, {"_rowid": 99, "text": "none"}],
    "table": pa.table({"_rowid": pa.array([3, 99], pa.int8()), "text": ["three", "none"]}),
    "with a null": {"_rowid": [None, 3], "text": ["none", "three"]},
    "no id": {"_rowid": [], "text": []},
}


@pytest.mark.parametrize("form", ["as it is", "reader"])
@pytest.mark.parametrize("name", SOURCES)
def test_row_ids_of_python_as_keys(table: pennon.LanceDataset, name: str, form: str) -> None:
    source = SOURCES[name]
    if form == "reader":
        made = pa.Table.from_pylist(source) if isinstance(source, list) else pa.table(source)
        source = made.to_reader()
    changed = 0 if name == "no id" else 1
    merge = table.merge_insert("_rowid").when_matched_update_all()
    assert merge.execute(source)["num_updated_rows"] == changed
    assert contents(table)[3] == ("three" if changed else "row 3")


def test_plans_of_merges_by_row_id(table: pennon.LanceDataset) -> None:
    merge = table.merge_insert("_rowid").when_matched_update_all()
    schema = pa.schema({"_rowid": pa.int64(), "text": pa.string()})
    assert "on=[_rowid]" in merge.explain_plan(schema)
    assert "num_updated_rows=1" in merge.analyze_plan({"_rowid": [3], "text": ["three"]})
    _, counts = merge.execute_uncommitted([{"_rowid": 3, "text": "three"}])
    assert counts["num_updated_rows"] == 1


@pytest.mark.parametrize("source", [{"_rowid": [3, -1]}, pa.table({"_rowid": [3, -1]}).to_reader()])
def test_row_ids_that_are_negative(table: pennon.LanceDataset, source: Any) -> None:
    with pytest.raises(pennon.InvalidInputError, match="The column _rowid must not be negative, found -1"):
        table.merge_insert("_rowid").when_matched_delete().execute(source)
    with pytest.raises(pennon.SchemaMismatchError, match="The key column _rowid of the source must be uint64"):
        table.merge_insert("_rowid").when_matched_delete().execute(pa.table({"_rowid": [1.5]}))
    with pytest.raises(pennon.InvalidInputError, match=r"column _rowid: .* would change the value 1\.5"):
        table.merge_insert("_rowid").when_matched_delete().execute({"_rowid": [1.5]})
    assert table.latest_version == 1


EMPTY: dict[str, Callable[[], Any]] = {
    "table": lambda: pa.table({"id": [], "text": []}),
    "dict": lambda: {"id": [], "text": []},
    "reader": lambda: pa.table({"id": [], "text": []}).to_reader(),
    "one column": lambda: pa.table({"id": pa.array([], pa.int64()), "text": []}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_source_without_rows_has_the_types_of_the_table(table: pennon.LanceDataset, name: str) -> None:
    merge = upsert(table).when_not_matched_by_source_delete("id < 2")
    assert merge.execute(EMPTY[name]()) == {
        "num_inserted_rows": 0,
        "num_updated_rows": 0,
        "num_deleted_rows": 2,
    }
    assert table.schema.types == [pa.int64(), pa.string()]


def test_nulls_of_no_type(table: pennon.LanceDataset) -> None:
    for at, data in enumerate(
        (pa.table({"id": [1], "text": [None]}), pa.table({"id": [2], "text": [None]}).to_reader())
    ):
        assert upsert(table).execute(data)["num_updated_rows"] == 1
        assert contents(table)[at + 1] is None
    with pytest.raises(pennon.PennonError, match="other"):
        upsert(table).execute({"id": [], "other": []})


def test_the_builder_says_what_it_does(table: pennon.LanceDataset) -> None:
    merge = table.merge_insert(["id"]).when_matched_update_all("source.id > 3")
    merge = merge.when_not_matched_by_source_delete("id < 2").use_index(False).write_mode("auto")
    assert repr(merge) == (
        "MergeInsertBuilder(on=['id'], when_matched='update if source.id > 3', when_not_matched='nothing', "
        "when_not_matched_by_source='delete if id < 2')"
    )
    plan = merge.explain_plan(pa.schema({"id": pa.int64()}))
    assert "when_matched=UpdateIf(source.id > 3)" in plan
    assert "Take: projection=[text]" in plan
    assert "projection=[id]" in plan
    before = all_files(table.uri)
    measured = merge.analyze_plan(texts({1: "x", 5: "y"}))
    assert "num_updated_rows=1" in measured
    assert "num_deleted_rows=1" in measured
    assert all_files(table.uri) == before
    assert table.version == 1


def test_every_kind_of_source(table: pennon.LanceDataset) -> None:
    data = texts({3: "again"})
    for number, source in enumerate(
        [data, data.to_batches()[0], data.to_reader(), data.to_pylist(), data.to_pydict(), data.to_pandas()]
    ):
        upsert(table).execute(source)
        assert table.version == 2 + number
    upsert(table).execute(iter(data.to_batches()), schema=data.schema)
    assert contents(table)[3] == "again"
    # Views of text are as good as text.
    views = pa.table({"id": data["id"], "text": data["text"].cast(pa.string_view())})
    assert upsert(table).execute(views)["num_updated_rows"] == 1


def test_uncommitted(table: pennon.LanceDataset) -> None:
    transaction, found = upsert(table).execute_uncommitted(texts({3: "three", 50: "fifty"}))
    assert found["num_inserted_rows"] == 1
    assert table.version == 1 == table.latest_version
    table = pennon.LanceDataset.commit(table, transaction)
    assert contents(table)[50] == "fifty"
    table.validate()


def test_the_declared_key(uri: str) -> None:
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    table = pennon.write_dataset(numbers(4).cast(pa.schema([key, ("text", pa.utf8())])), uri)
    table.merge_insert().when_matched_delete().execute({"id": [2]})
    assert sorted(contents(table)) == [0, 1, 3]


def test_names_of_keys(uri: str) -> None:
    data = pa.table({"user-id": [1, 2], "a`b": [1, 2], "n": [0, 0], "s": [{"k": 1}, {"k": 2}]})
    table = pennon.write_dataset(data, uri)
    for key, name in (("`user-id`", "user-id"), ("`a``b`", "a`b"), ("a`b", "a`b"), ("USER-ID", "user-id")):
        merge = table.merge_insert(key).when_matched_update_all()
        assert merge.execute({name: [2], "n": [7]})["num_updated_rows"] == 1
    with pytest.raises(pennon.InvalidInputError, match=r"'s\.k' is a member of a struct: keys are columns"):
        table.merge_insert("s.k")


def test_wrong_calls(table: pennon.LanceDataset) -> None:
    with pytest.raises(ValueError, match="key column 'nope' does not exist"):
        table.merge_insert("nope")
    with pytest.raises(ValueError, match="requires join keys"):
        table.merge_insert()
    with pytest.raises(TypeError, match="`on` argument"):
        table.merge_insert(5)  # type: ignore[arg-type]
    merge = upsert(table)
    with pytest.raises(ValueError, match="Invalid write_mode"):
        merge.write_mode("other")
    with pytest.raises(pennon.InvalidInputError, match="conflict_retries is -1"):
        merge.conflict_retries(-1)
    with pytest.raises(TypeError):
        merge.retry_timeout(5)
    with pytest.raises(TypeError, match="list of str"):
        merge.target_bases("x")
    with pytest.raises(ValueError, match="target_bases cannot be empty"):
        merge.target_bases([])
    with pytest.raises(pennon.InvalidInputError, match=r"'x' not found.*there are none"):
        upsert(table).target_bases(["x"]).execute(texts({1: "x"}))
    with pytest.raises(pennon.InvalidInputError, match="together"):
        upsert(table).target_bases(["x"]).target_all_bases().execute(texts({1: "x"}))
    for version in ("0.1", "9.0"):
        with pytest.raises((ValueError, OSError), match="version"):
            upsert(table).data_storage_version(version).execute(texts({1: "x"}))
    with pytest.raises(ValueError, match="not configured"):
        table.merge_insert("id").execute(texts({1: "x"}))
    with pytest.raises(OSError, match=r"Ambiguous merge inserts are prohibited.*\(id = 3\)"):
        merge.execute(texts([(3, "a"), (3, "b")]))
    with pytest.raises(pennon.SchemaMismatchError, match=r"unexpected=\[more\]"):
        merge.execute({"id": [1], "text": ["x"], "more": [1]})
    with pytest.raises(pennon.InvalidInputError, match="no such key column"):
        merge.execute({"text": ["x"]})
    assert table.version == 1 == table.latest_version


class SourceError(Exception):
    pass


def test_a_source_that_raises_in_the_middle(table: pennon.LanceDataset) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield from texts({1: "x"}).to_batches()
        raise SourceError("in the middle")

    before = all_files(table.uri)
    with pytest.raises(SourceError, match="in the middle"):
        upsert(table).execute(source(), schema=numbers(0).schema)
    assert all_files(table.uri) == before
    assert upsert(table).execute(texts({1: "x"}))["num_updated_rows"] == 1


def test_a_stream_that_does_not_fit_into_memory(table: pennon.LanceDataset) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        for start in range(9000, -1, -1000):
            yield from texts({i: f"new {i}" for i in range(start, start + 1000)}).to_batches()

    merge = upsert(table).memory_limit(1000)
    found = merge.execute(source(), schema=numbers(0).schema)
    assert found == {"num_inserted_rows": 9990, "num_updated_rows": 10, "num_deleted_rows": 0}
    assert contents(table) == {i: f"new {i}" for i in range(10_000)}
    assert table.to_table(with_row_id=True)["_rowid"].to_pylist()[:10] == list(range(10))


@pytest.mark.parametrize("mode", ["rewrite_rows", "rewrite_columns"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_large_rows_are_put_together_in_pieces(uri: str, mode: RewriteMode, in_memory: bool) -> None:
    """They are put together in pieces, here of 64 KiB; a row of the source may match many of the table."""
    size = 20_000
    rows = {"i": [k % 30 for k in range(100)], "kept": range(100), "img": [b"old"] * 100}
    table = pennon.write_dataset(rows, uri, max_rows_per_file=60)
    schema = pa.schema([("i", pa.int64()), ("img", pa.binary())])
    source = pa.Table.from_batches([pa.record_batch([[k], [b"%02d" % k * size]], schema) for k in range(29, 4, -1)])
    merge = table.merge_insert("i").when_matched_update_all("target.img != source.img").write_mode(mode)
    result = merge.memory_limit(1000).execute(source if in_memory else source.to_reader())
    assert result["num_updated_rows"] == sum(k % 30 >= 5 for k in range(100))
    found = table.to_table().sort_by("kept").to_pylist()
    new = [b"%02d" % k * size if k >= 5 else b"old" for k in rows["i"]]
    assert [tuple(row.values()) for row in found] == list(zip(rows["i"], range(100), new, strict=True))


def test_hardly_any_memory_for_keys_is_no_endless_merge(uri: str) -> None:
    table = pennon.write_dataset({"i": range(100_000)}, uri)
    source = pa.table({"i": range(50_000, 150_000)}).to_reader()
    merge = table.merge_insert("i").when_matched_update_all().when_not_matched_insert_all()
    begin = time.monotonic()
    assert merge.memory_limit(0).execute(source)["num_updated_rows"] == 50_000
    assert time.monotonic() - begin < 10


def test_a_folder_for_temporary_files_that_is_not_there(
    table: pennon.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(pennon.StoreError, match=f"a temporary file in {tmp_path / 'none'}: "):
        upsert(table).memory_limit(0).execute(texts({1: "one"}).to_reader())


KEYS = st.one_of(st.none(), st.integers(0, 12))
CLAUSES = st.fixed_dictionaries(
    {
        "matched": st.sampled_from(["nothing", "update", "if", "delete"]),
        "insert": st.booleans(),
        "unmatched": st.sampled_from([None, "all", "id < 6"]),
        "source": st.dictionaries(KEYS, st.text("abc", max_size=3), max_size=8),
        "memory": st.sampled_from([None, 0]),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.sets(st.integers(0, 12)), programs=st.lists(CLAUSES, min_size=1, max_size=4))
def test_merges_are_like_those_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, start: set[int], programs: list[dict[str, Any]]
) -> None:
    """Rows by key, with ids and both versions; a key that is null never matches."""
    uri = str(tmp_path_factory.mktemp("model") / "t.lance")
    table = pennon.write_dataset(texts({i: str(i) for i in sorted(start)}), uri, max_rows_per_file=3)
    model = {i: (str(i), row, 1, 1) for row, i in enumerate(sorted(start))}
    null_rows: list[str] = []
    next_id = len(model)
    for program in programs:
        version, source = table.version + 1, dict(program["source"])
        merge = table.merge_insert("id")
        if program["matched"] == "update":
            merge.when_matched_update_all()
        elif program["matched"] == "if":
            merge.when_matched_update_all("source.text > target.text")
        elif program["matched"] == "delete":
            merge.when_matched_delete()
        if program["insert"]:
            merge.when_not_matched_insert_all()
        if program["unmatched"] is not None:
            merge.when_not_matched_by_source_delete(None if program["unmatched"] == "all" else program["unmatched"])
        if program["memory"] is not None:
            merge.memory_limit(program["memory"])
        if program["matched"] == "nothing" and not program["insert"] and program["unmatched"] is None:
            continue
        data = texts(source)
        counts = merge.execute(data if program["memory"] is None else data.to_reader())
        expected = {"num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 0}
        old = dict(model)
        for key, text in source.items():
            if key is not None and key in old:
                same, row, created, _ = old[key]
                if program["matched"] == "delete":
                    del model[key]
                    expected["num_deleted_rows"] += 1
                elif program["matched"] == "update" or (program["matched"] == "if" and text > same):
                    model[key] = (text, row, created, version)
                    expected["num_updated_rows"] += 1
            elif program["insert"]:
                if key is None:
                    null_rows.append(text)
                else:
                    model[key] = (text, next_id, version, version)
                next_id += 1
                expected["num_inserted_rows"] += 1
        if program["unmatched"] is not None:
            for key in old:
                if key not in source and (program["unmatched"] == "all" or key < 6):
                    del model[key]
                    expected["num_deleted_rows"] += 1
            if program["unmatched"] == "all":
                kept = [source[None]] if None in source and program["insert"] else []
                expected["num_deleted_rows"] += len(null_rows) - len(kept)
                null_rows = kept
        assert counts == expected
        columns = ["id", "text", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        rows = [tuple(row.values()) for row in table.to_table(columns=columns).to_pylist()]
        assert {row[0]: row[1:] for row in rows if row[0] is not None} == model
        assert sorted(row[1] for row in rows if row[0] is None) == sorted(null_rows)
        assert len(rows) == len(model) + len(null_rows)
    table.validate()


def _merge_many(uri: str, writer: int, rounds: int, sums: Any) -> None:
    inserted = 0
    for round in range(rounds):
        table = pennon.dataset(uri)
        merge = upsert(table).conflict_retries(100).retry_timeout(timedelta(minutes=2))
        found = merge.execute(texts({1000 + round: f"w{writer}", 5: f"w{writer}"}))
        inserted += found["num_inserted_rows"]
    sums.put(inserted)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_new_key_is_inserted_once(table: pennon.LanceDataset, kind: str) -> None:
    """The reference inserts it twice where no primary key is declared."""
    context = multiprocessing.get_context("spawn")
    sums: Any = context.Queue()
    make = threading.Thread if kind == "threads" else context.Process
    writers = [make(target=_merge_many, args=(table.uri, writer, 4, sums)) for writer in range(3)]
    for writer in writers:
        writer.start()
    inserted = sum(sums.get(timeout=120) for _ in writers)
    for writer in writers:
        writer.join()
    assert inserted == 4
    table.checkout_latest()
    assert sorted(contents(table)) == [*range(10), *range(1000, 1004)]
    assert table.version == 1 + 3 * 4
    table.validate()
