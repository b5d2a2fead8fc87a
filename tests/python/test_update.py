"""Updates through the public API: values, identity, errors, conflicts, and what is left after a failure."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.files import all_files
from support.tables import numbers

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def lineage(table: pennon.LanceDataset) -> dict[int, tuple[int, int]]:
    """Created-at and last-updated-at version by row id."""
    columns = [table.to_table(columns=LINEAGE)[name].to_pylist() for name in LINEAGE]
    return {row: (created, updated) for row, created, updated in zip(*columns, strict=True)}


def test_values_and_identity(table: pennon.LanceDataset) -> None:
    assert table.update({"text": "concat(text, '!')"}, "id in (2, 5)") == {"num_rows_updated": 2}
    assert table.version == 2
    found = table.to_table(with_row_id=True, filter="text like '%!'")
    assert found.to_pydict() == {"id": [2, 5], "text": ["row 2!", "row 5!"], "_rowid": [2, 5]}
    assert table.take_rows([5, 2])["id"].to_pylist() == [5, 2]
    assert {row: versions for row, versions in lineage(table).items() if versions != (1, 1)} == {
        2: (1, 2),
        5: (1, 2),
    }


def test_the_object_moves_only_on_success(table: pennon.LanceDataset) -> None:
    other = pennon.dataset(table.uri)
    with pytest.raises(pennon.InvalidInputError, match="No field named nope"):
        table.update({"id": "nope"})
    assert (table.version, other.latest_version) == (1, 1)
    table.update({"id": "id"})
    assert (table.version, other.version, other.latest_version) == (2, 1, 2)


def test_messages_name_the_column(table: pennon.LanceDataset) -> None:
    with pytest.raises(
        pennon.InvalidInputError, match=r"Column 'idd' does not exist in dataset schema.*Did you mean id"
    ):
        table.update({"idd": "1"})
    with pytest.raises(pennon.InvalidInputError, match=r"column id: .*'one'"):
        table.update({"id": "'one'"})
    with pytest.raises(TypeError):
        table.update({"id": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="where must be"):
        table.update({"id": "1"}, 5)  # type: ignore[arg-type]


def test_of_rows_that_others_changed(table: pennon.LanceDataset) -> None:
    one, two, late = (pennon.dataset(table.uri) for _ in range(3))
    one.update({"id": "id + 100"}, "id = 1")
    before = all_files(table.uri)
    with pytest.raises(
        pennon.CommitConflictError, match=r"Too many concurrent writers\. Attempted 0 retries"
    ) as raised:
        two.update({"id": "id + 1000"}, "id = 1", conflict_retries=0)
    assert raised.value.retryable
    assert (all_files(table.uri), two.version) == (before, 1)
    # A pyarrow expression is looked for again, too.
    assert late.update({"id": "id + 1000"}, pc.field("text") == "row 1", 5, timedelta(seconds=9)) == {
        "num_rows_updated": 1
    }
    assert late.to_table(filter="text = 'row 1'")["id"].to_pylist() == [1101]
    # Another row of the fragment is no conflict.
    two.update({"id": "id + 1000"}, "id = 2", conflict_retries=0)
    assert two.version == 4
    assert sorted(two.to_table()["id"].to_pylist()) == [0, 3, 4, 5, 6, 7, 8, 9, 1002, 1101]


def test_data_files_that_cannot_be_written(table: pennon.LanceDataset, tmp_path: Path) -> None:
    """In a clone, which reads the data of its source and has no directory for its own yet."""
    clone = table.shallow_clone(str(tmp_path / "clone"), 1)
    blocker = Path(clone.uri) / "data"
    blocker.write_text("in the way")
    before = all_files(clone.uri)
    with pytest.raises(OSError, match="data"):
        clone.update({"id": "id + 1"})
    assert (all_files(clone.uri), clone.latest_version) == (before, clone.version)
    blocker.unlink()
    assert clone.update({"id": "id + 1"}) == {"num_rows_updated": 10}


def test_deletion_files_that_cannot_be_written(table: pennon.LanceDataset) -> None:
    """Data files are written first; they go when the deletion files fail."""
    before = all_files(table.uri)
    blocker = Path(table.uri) / "_deletions"
    blocker.write_text("in the way")
    with pytest.raises(OSError, match="_deletions"):
        table.update({"id": "id + 1"}, "id = 3")
    blocker.unlink()
    assert (all_files(table.uri), table.latest_version) == (before, 1)


def test_versions_move_for_rows_whose_update_was_executed(table: pennon.LanceDataset) -> None:
    table.insert(numbers(2, 10))
    table.update({"text": "text"}, "id = 0 or id = 11")
    table.delete("id = 4")
    assert {row: v for row, v in lineage(table).items() if v != (1, 1)} == {0: (1, 3), 10: (2, 2), 11: (2, 3)}
    assert 4 not in lineage(table)


@pytest.mark.parametrize("mode", ["rewrite_rows", "rewrite_columns"])
def test_only_rows_that_match_are_evaluated(table: pennon.LanceDataset, mode: Any) -> None:
    before = all_files(table.uri)
    with pytest.raises(pennon.InvalidInputError, match="Divide by zero"):
        table.update({"id": "10 / (id - 4)"}, "id < 5", mode=mode)
    assert (all_files(table.uri), table.version) == (before, 1)
    table.update({"id": "10 / (id - 4)"}, "id < 4", mode=mode)
    assert table.to_table().sort_by("id")["id"].to_pylist() == [-10, -5, -3, -2, 4, 5, 6, 7, 8, 9]


def test_the_rule(uri: str) -> None:
    """Most rows of a fragment and few bytes: columns; else rows."""
    # Forty times as many rows as the conditions say: what can be saved has to be worth it.
    ids = [i // 40 for i in range(4_000)]
    data = pa.table({"a": ids, **{f"c{i}": ids for i in range(9)}})

    def chosen(updates: dict[str, str], where: str | None) -> str:
        table = pennon.write_dataset(data, uri, mode="overwrite", max_rows_per_file=2_000)
        table.update(updates, where)
        return table.read_transaction(table.version).operation.update_mode

    assert chosen({"a": "1"}, None) == "rewrite_columns"
    assert chosen({"a": "1"}, "a < 26") == "rewrite_columns"
    assert chosen({"a": "1"}, "a < 25") == "rewrite_rows"
    assert chosen({"a": "1"}, "a < 26 or a = 50") == "rewrite_rows"
    assert chosen({f"c{i}": "1" for i in range(5)}, None) == "rewrite_columns"
    assert chosen({f"c{i}": "1" for i in range(6)}, None) == "rewrite_rows"
    assert chosen({"a": "1"}, "a > 1000") == "rewrite_rows"
    data = data.slice(0, 1)
    assert chosen({"a": "1"}, None) == "rewrite_rows"


def test_modes_that_cannot_be(table: pennon.LanceDataset) -> None:
    with pytest.raises(pennon.InvalidInputError, match='mode is "fast"'):
        table.update({"id": "1"}, mode="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["rewrite_rows", "rewrite_columns"])
def test_columns_beside_what_others_do(table: pennon.LanceDataset, mode: Any) -> None:
    """Columns of a fragment that somebody changed are written again on the newest version."""
    stale = [pennon.dataset(table.uri) for _ in range(3)]
    table.update({"id": "id + 100"}, "id = 1", mode=mode)
    with pytest.raises(pennon.CommitConflictError):
        stale[0].update({"text": "'x'"}, "id < 3", conflict_retries=0, mode="rewrite_columns")
    # Fragments nobody touched.
    stale[1].update({"text": "'y'"}, "id > 5", conflict_retries=0, mode="rewrite_columns")
    assert stale[2].update({"text": "'x'"}, "id < 3", mode="rewrite_columns") == {"num_rows_updated": 2}
    found = {row["id"]: row["text"] for row in stale[2].to_table().to_pylist()}
    assert [found[i] for i in (0, 101, 2, 3, 6)] == ["x", "row 1", "x", "row 3", "y"]
    stale[2].validate()


@pytest.mark.parametrize("mode", ["auto", "rewrite_rows", "rewrite_columns"])
def test_rows_by_id(table: pennon.LanceDataset, mode: Any) -> None:
    table.update({"text": "upper(text)"}, "id in (1, 7)")
    table.delete("id = 4")
    assert table.update_rows([7, 0, 3], {"text": ["seven", None, "three"]}, mode=mode) == {"num_rows_updated": 3}
    found = table.to_table(with_row_id=True).sort_by("_rowid").to_pydict()
    assert found["_rowid"] == [0, 1, 2, 3, 5, 6, 7, 8, 9] == found["id"]
    assert found["text"] == [None, "ROW 1", "row 2", "three", "row 5", "row 6", "seven", "row 8", "row 9"]
    moved = {row: v for row, v in lineage(table).items() if v != (1, 1)}
    assert moved == {1: (1, 2), 7: (1, 4), 0: (1, 4), 3: (1, 4)}
    assert table.update_rows(pa.chunked_array([[9], [8]]), {"text": ["nine", "eight"]})["num_rows_updated"] == 2
    assert table.to_table(filter="_rowid = 9")["text"].to_pylist() == ["nine"]
    # A column `_rowid` of any integer type; values are cast.
    assert table.update_rows({"_rowid": [2], "id": ["22"]}, mode=mode) == {"num_rows_updated": 1}
    assert table.to_table(filter="_rowid = 2")["id"].to_pylist() == [22]
    table.validate()


def test_ids_that_are_wrong(table: pennon.LanceDataset) -> None:
    table.delete("id = 4")
    before = all_files(table.uri)
    with pytest.raises(pennon.NotFoundError, match="3 of 4 row ids are not in version 2; the first is 4"):
        table.update_rows([99, 4, 0, 50], {"id": [1, 2, 3, 4]})
    with pytest.raises(pennon.errors.RepeatedRowError, match="2 row ids come more than once; the first is 3"):
        table.update_rows([3, 5, 1, 3, 5, 3], {"id": range(6)})
    with pytest.raises(pennon.InvalidInputError, match="1 nulls in column _rowid"):
        table.update_rows({"_rowid": [3, None], "id": [1, 2]})
    with pytest.raises(pennon.InvalidInputError, match="no column _rowid"):
        table.update_rows({"id": [1, 2]})
    with pytest.raises(pennon.InvalidInputError, match="column _rowid of type Utf8"):
        table.update_rows({"_rowid": ["1"], "id": [1]})
    with pytest.raises(pennon.InvalidInputError, match="No updates provided"):
        table.update_rows({"_rowid": [1]})
    with pytest.raises(pennon.InvalidInputError, match="Column 'idd' does not exist"):
        table.update_rows([1], {"idd": [1]})
    with pytest.raises(pennon.InvalidInputError, match=r"column id: .*'one'"):
        table.update_rows([1], {"id": ["one"]})
    assert (all_files(table.uri), table.version) == (before, 2)
    assert table.update_rows([], {"id": pa.array([], pa.int64())}) == {"num_rows_updated": 0}
    assert table.update_rows(pa.array([]), {"id": []}) == {"num_rows_updated": 0}
    assert table.update_rows({"_rowid": [], "id": []}) == {"num_rows_updated": 0}


def test_rows_by_address_without_stable_ids(uri: str) -> None:
    table = pennon.write_dataset(numbers(10), uri, max_rows_per_file=4, enable_stable_row_ids=False)
    table.delete("id = 5")
    assert table.update_rows([(1 << 32) + 2, 1], {"text": ["six", "one"]}) == {"num_rows_updated": 2}
    found = {row["id"]: row["text"] for row in table.to_table().to_pylist()}
    assert (found[6], found[1], found[2]) == ("six", "one", "row 2")
    with pytest.raises(pennon.NotFoundError, match="3 of 3 row ids"):
        table.update_rows([(1 << 32) + 1, 5, 9 << 32], {"text": ["a", "b", "c"]})


def test_rows_by_id_meet_others(table: pennon.LanceDataset) -> None:
    stale, gone = pennon.dataset(table.uri), pennon.dataset(table.uri)
    table.update({"id": "id + 100"}, "id = 1")
    assert stale.update_rows([1], {"text": ["new"]}) == {"num_rows_updated": 1}
    assert stale.to_table(filter="_rowid = 1").to_pydict() == {"id": [101], "text": ["new"]}
    stale.delete("id = 101")
    with pytest.raises(pennon.NotFoundError, match="1 of 1 row ids are not in version 4; the first is 1"):
        gone.update_rows([1], {"text": ["newer"]})


class Model:
    """A table as a dictionary: id -> value, text, created at, last updated at."""

    def __init__(self) -> None:
        self.rows: dict[int, list[object]] = {}
        self.next_id = 0
        self.version = 0


ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 12), st.just(0)),
    st.tuples(st.just("delete"), st.integers(1, 6), st.integers(0, 5)),
    st.tuples(st.just("update"), st.integers(1, 6), st.integers(0, 5)),
    st.tuples(st.just("columns"), st.integers(1, 6), st.integers(0, 5)),
    st.tuples(st.just("by id"), st.integers(1, 6), st.integers(0, 5)),
    st.tuples(st.just("swap"), st.integers(1, 6), st.integers(0, 5)),
    st.tuples(st.just("restore"), st.integers(1, 30), st.just(0)),
)


def run(uri: str, actions: list[tuple[str, int, int]], stable: bool) -> None:
    model = Model()
    states: list[tuple[dict[int, list[object]], int]] = [({}, 0)]

    def rows(count: int) -> pa.Table:
        ids = range(model.next_id, model.next_id + count)
        return pa.table({"a": pa.array(ids, pa.int64()), "t": [f"t{i}" for i in ids]})

    def add(count: int) -> None:
        for row in range(model.next_id, model.next_id + count):
            model.rows[row] = [row, f"t{row}", model.version, model.version]
        model.next_id += count

    model.version = 1
    table = pennon.write_dataset(rows(9), uri, max_rows_per_file=4, enable_stable_row_ids=stable, mode="overwrite")
    model.version = table.version
    first = table.version
    add(9)
    states.append(({k: list(v) for k, v in model.rows.items()}, model.version))
    for kind, number, rest in actions:
        model.version += 1
        matching = [row for row in model.rows.values() if int(str(row[0])) % number == rest]
        if kind == "append":
            table.insert(rows(number))
            add(number)
        elif kind == "delete":
            table.delete(f"a % {number} = {rest}")
            model.rows = {k: v for k, v in model.rows.items() if v not in matching}
        elif kind == "update":
            assert table.update({"a": "a + 7"}, f"a % {number} = {rest}") == {"num_rows_updated": len(matching)}
            for row in matching:
                row[0], row[3] = int(str(row[0])) + 7, model.version
        elif kind == "columns":
            updated = table.update({"a": "a + 3"}, f"a % {number} = {rest}", mode="rewrite_columns")
            assert updated == {"num_rows_updated": len(matching)}
            for row in matching:
                row[0], row[3] = int(str(row[0])) + 3, model.version
        elif kind == "by id":
            columns = ["_rowid", "a", "t"]
            found = table.to_table(columns=columns, filter=f"a % {number} = {rest}")[::-1].to_pydict()
            data = {"_rowid": found["_rowid"], "t": [f"{t}'" for t in found["t"]]}
            schema = pa.schema([("_rowid", pa.uint64()), ("t", pa.string())])
            mode = "rewrite_rows" if number % 2 else "rewrite_columns"
            updated = table.update_rows(pa.table(data, schema=schema), mode=mode)
            assert updated == {"num_rows_updated": len(matching)}
            for row in matching:
                row[1], row[3] = f"{row[1]}'", model.version
        elif kind == "swap":
            table.update({"a": "character_length(t)", "t": "concat(a, t)"}, f"a % {number} = {rest}")
            for row in matching:
                row[0], row[1], row[3] = len(str(row[1])), f"{row[0]}{row[1]}", model.version
        else:
            state, version = states[1 + number % (len(states) - 1)]
            table = table.checkout_version(version)
            table.restore()
            model.rows = {k: list(v) for k, v in state.items()}
        assert table.version == model.version
        table.validate()
        found = table.to_table(columns=["a", "t", *LINEAGE]).to_pylist()
        if stable:
            seen = {r["_rowid"]: [r["a"], r["t"], r[LINEAGE[1]], r[LINEAGE[2]]] for r in found}
            assert seen == model.rows
            assert len(found) == len(seen)
        else:
            assert sorted((r["a"], r["t"]) for r in found) == sorted((r[0], r[1]) for r in model.rows.values())
        states.append(({k: list(v) for k, v in model.rows.items()}, model.version))
    assert table.version >= first


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, max_size=10), stable=st.sampled_from([True, True, False]))
def test_agrees_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int, int]], stable: bool
) -> None:
    run(str(tmp_path_factory.mktemp("model") / "t"), actions, stable)


def test_names_in_back_ticks() -> None:
    data = pa.table({"user-id": [1, 2], "a`b": [0, 0], "`q`": [0, 0], "s": [{"k": 1}, {"k": 2}]})
    table = pennon.write_dataset(data, "memory://update-back-ticks", mode="overwrite")
    table.update({"`user-id`": "`user-id` + 1", "`a``b`": "2", "`q`": "3"})
    assert table.to_table().drop_columns("s").to_pylist()[0] == {"user-id": 2, "a`b": 2, "`q`": 3}
    with pytest.raises(pennon.InvalidInputError, match="'user-id' is assigned twice"):
        table.update({"user-id": "1", "`user-id`": "2"})
    for name in ("s.k", "`s`.`k`"):
        with pytest.raises(pennon.InvalidInputError, match="Nested column references"):
            table.update({name: "1"})
    ids = table.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
    with pytest.raises(pennon.InvalidInputError, match="No field named `user-id`"):
        table.update_rows(ids, {"`user-id`": [1, 2]})
