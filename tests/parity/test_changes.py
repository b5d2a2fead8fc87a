"""The change feed of tables that the reference changed, next to the states of the two versions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_same
from support.feeds import apply, composed, feed, state
from support.long import LONG
from support.seeds import seeds
from support.spread import spread
from support.tables import numbers

SPILL = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"}


def create(uri: str, count: int = 40, rows_per_file: int = 15) -> lance.LanceDataset:
    return lance.write_dataset(numbers(count), uri, enable_stable_row_ids=True, max_rows_per_file=rows_per_file)


def kinds(uri: str, begin: int, end: int | None = None, **options: Any) -> dict[str, list[int]]:
    """Row ids by type of change."""
    found: dict[str, list[int]] = {}
    for change in feed(pennon.dataset(uri), begin, end, columns=[], **options):
        found.setdefault(change["_change_type"], []).append(change["_rowid"])
    return {kind: sorted(ids) for kind, ids in found.items()}


def test_each_kind_of_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = create(uri)
    assert kinds(uri, 0) == {"insert": list(range(40))}
    assert kinds(uri, 1) == {}
    table.insert(numbers(3, 40))
    assert kinds(uri, 1) == {"insert": [40, 41, 42]}
    table.delete("id in (3, 41)")
    assert kinds(uri, 2) == {"delete": [3, 41]}
    assert kinds(uri, 1) == {"insert": [40, 42], "delete": [3]}
    table.update({"text": "'new'"}, where="id = 7 or id = 20")
    assert kinds(uri, 3) == {"update_postimage": [7, 20]}
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(numbers(8, 38))
    assert kinds(uri, 4) == {"update_postimage": [38, 39, 40, 42], "insert": [43, 44, 45, 46]}
    before = table.version
    table.optimize.compact_files()
    assert table.version > before
    assert kinds(uri, before) == kinds(uri, before, mode="each") == {}
    assert kinds(uri, 3, before) == kinds(uri, 3)
    before = table.version
    table.add_columns({"double": "id * 2"})
    everything = sorted(table.to_table(columns=["_rowid"])["_rowid"].to_pylist())
    assert kinds(uri, before) == {"update_postimage": everything}
    found = feed(pennon.dataset(uri), before, columns=["text"], drop_unchanged=True)
    assert found == []
    assert len(feed(pennon.dataset(uri), before, drop_unchanged=True)) == len(everything)
    before = table.version
    table.add_columns([pa.field("nothing", pa.utf8())])
    table.drop_columns(["double"])
    table.alter_columns({"path": "text", "name": "words"})
    assert kinds(uri, before) == kinds(uri, before, mode="each") == {}
    images = feed(pennon.dataset(uri), 3, 4, images="both")
    assert [(c["_rowid"], c["text"]) for c in images] == [(7, "row 7"), (7, "new"), (20, "row 20"), (20, "new")]
    renamed = feed(pennon.dataset(uri), 3, columns=["words"], images="both")
    assert ("update_preimage", 7, "row 7") in [(c["_change_type"], c["_rowid"], c["words"]) for c in renamed]
    before = table.version
    lance.dataset(uri, version=3).restore()
    restored = kinds(uri, before)
    assert restored["delete"] == [43, 44, 45, 46]
    assert restored["update_postimage"] == sorted(set(everything) - {43, 44, 45, 46})
    assert kinds(uri, 3) == {}
    before = lance.dataset(uri).version
    lance.write_dataset(numbers(2, 100), uri, mode="overwrite")
    assert kinds(uri, before) == {"delete": sorted(set(everything) - {43, 44, 45, 46}), "insert": [47, 48]}
    pennon.dataset(uri).validate()


def test_columns_changed_in_place(tmp_path: Path) -> None:
    """Fragments whose columns were rewritten without a word in the lineage: the values decide."""
    uri = str(tmp_path / "t")
    table = create(uri)
    fragment = table.get_fragments()[1]
    new, fields = fragment.update_columns(
        pa.table({"id": [16, 17, 99], "text": ["x", "row 17", "z"]}), left_on="id"
    )
    operation = lance.LanceOperation.Update(
        updated_fragments=[new], fields_modified=fields, update_mode="rewrite_columns"
    )
    table = lance.LanceDataset.commit(uri, operation, read_version=1)
    changed = [row for row in table.to_table(with_row_id=True).to_pylist() if row["text"] != f"row {row['id']}"]
    assert [row["_rowid"] for row in changed] == [16]
    ours = pennon.dataset(uri)
    marked = ours.to_table(columns=["_rowid"], filter="_row_last_updated_at_version = 2")["_rowid"].to_pylist()
    found = feed(ours, 1, images="both")
    assert [(c["_rowid"], c["text"]) for c in found if c["_rowid"] == 16] == [(16, "row 16"), (16, "x")]
    assert {c["_rowid"] for c in found} == {16, *marked}
    assert feed(ours, 1, columns=["id"], drop_unchanged=True) == []
    assert apply(ours, 1, 2) == state(ours, 2)


def test_data_replaced(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = create(uri)
    table.add_columns({"double": "id * 2"})
    column = pa.table({"double": pa.array([-1] * 15, pa.int64())})
    written = lance.fragment.LanceFragment.create(str(tmp_path / "other"), column)
    other = lance.LanceDataset.commit(
        str(tmp_path / "other"), lance.LanceOperation.Overwrite(column.schema, [written])
    )
    file = other.get_fragments()[0].data_files()[0]
    path = Path(str(tmp_path / "other"), "data", file.path)
    path.rename(Path(uri, "data", file.path))
    old = table.get_fragments()[0].metadata.files[-1]
    new = lance.fragment.DataFile(
        file.path, old.fields, file.column_indices, file.file_major_version, file.file_minor_version
    )
    table = lance.LanceDataset.commit(
        uri,
        lance.LanceOperation.DataReplacement([lance.LanceOperation.DataReplacementGroup(0, new)]),
        read_version=table.version,
    )
    ours = pennon.dataset(uri)
    assert kinds(uri, 2) == {"update_postimage": list(range(15))}
    assert apply(ours, 2, 3) == state(ours, 3)


def change(uri: str, dice: random.Random, next_id: int) -> int:
    """A random change by the reference or Pennon; gives the next id that no row has had."""
    table = lance.dataset(uri)
    steps = [
        "append",
        "update",
        "update",
        "merge",
        "delete",
        "delete",
        "compact",
        "restore",
        "overwrite",
        "columns",
    ]
    kind = dice.choice(steps)
    if kind == "append":
        dice.choice([lance, pennon]).dataset(uri).insert(pad(table, numbers(9, next_id)))
        return next_id + 9
    if kind == "update":
        every = dice.choice([2, 7, 31])
        table.update({"text": "concat(text, '+')"}, where=f"id % {every} = {dice.randrange(every)}")
    elif kind == "merge":
        start = max(next_id - dice.randrange(20), 0)
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pad(table, numbers(12, start)))
        return max(next_id, start + 12)
    elif kind == "delete":
        ours = dice.choice([lance, pennon]).dataset(uri)
        ours.delete(f"id % 5 = {dice.randrange(5)} and id > {dice.randrange(next_id)}")
    elif kind == "compact":
        table.optimize.compact_files(target_rows_per_fragment=dice.choice([10, 30, 1000]))
    elif kind == "restore":
        version = dice.randrange(max(1, table.version - 6), table.version + 1)
        dice.choice([lance, pennon]).dataset(uri, version=version).restore()
    elif kind == "overwrite":
        lance.write_dataset(numbers(12, next_id), uri, mode="overwrite", max_rows_per_file=5)
        return next_id + 12
    elif "double" in table.schema.names:
        table.drop_columns(["double"])
    else:
        table.add_columns({"double": dice.choice(["id * 2", "cast(null as bigint)"])})
    return next_id


def pad(table: lance.LanceDataset, data: pa.Table) -> pa.Table:
    for field in table.schema:
        if field.name not in data.schema.names:
            data = data.append_column(field, pa.nulls(data.num_rows, field.type))
    return data.select(table.schema.names)


@spread(of=1)
@pytest.mark.parametrize("spill", [False, True], ids=["inline", "spilled"])
@pytest.mark.parametrize("seed", seeds(8 if LONG else 4))
def test_random_histories(tmp_path: Path, seed: int, spill: bool) -> None:
    """state(a) + changes(a, b) = state(b), and the feed of (a, c) is that of (a, b) and (b, c) together."""
    uri, dice = str(tmp_path / "t"), random.Random(seed)
    table = create(uri)
    if spill:
        table.update_config(SPILL)
    next_id = 40
    for _ in range(14):
        next_id = change(uri, dice, next_id)
    ours = pennon.dataset(uri)
    for _ in range(15):
        a, b, c = sorted(dice.randrange(0, ours.version + 1) for _ in range(3))
        if b == 0:
            continue
        for mode in ("net", "each"):
            assert apply(ours, a, c, mode=mode) == state(ours, c), (a, c, mode)
        assert composed(ours, a, b, c) == feed_by_id(ours, a, c), (a, b, c)


def feed_by_id(dataset: pennon.LanceDataset, begin: int, end: int) -> dict[int, str]:
    return {c["_rowid"]: c["_change_type"] for c in feed(dataset, begin, end, columns=[])}


@pytest.mark.parametrize("seed", seeds(4))
def test_delta_is_the_references(tmp_path: Path, seed: int) -> None:
    """Where that is right: with the end at the version of the dataset."""
    uri, dice = str(tmp_path / "t"), random.Random(100 + seed)
    create(uri)
    next_id = 40
    for _ in range(12):
        next_id = change(uri, dice, next_id)
    newest = lance.dataset(uri).version
    for begin in range(newest + 1):
        end = dice.randrange(max(begin, 1), newest + 1)
        theirs = lance.dataset(uri, version=end).delta(begin_version=begin, end_version=end)
        ours = pennon.dataset(uri).delta(begin_version=begin, end_version=end)
        for name in ("get_inserted_rows", "get_updated_rows", "get_deleted_row_ids"):
            found, expected = (getattr(delta, name)().read_all().sort_by("_rowid") for delta in (ours, theirs))
            assert_same(found, expected)
        found, expected = ([t.uuid for t in delta.list_transactions()] for delta in (ours, theirs))
        assert found == expected


def test_delta_that_ends_earlier(tmp_path: Path) -> None:
    """The reference misses what changed after the end."""
    uri = str(tmp_path / "t")
    table = create(uri)
    table.insert(numbers(4, 40))
    table.update({"text": "'once'"}, where="id in (1, 2)")
    table.update({"text": "'twice'"}, where="id in (2, 40)")
    table.delete("id in (1, 41)")
    arguments = {"begin_version": 1, "end_version": 3}
    theirs, ours = table.delta(**arguments), pennon.dataset(uri).delta(**arguments)
    inserted, updated = (ours.get_inserted_rows().read_all(), ours.get_updated_rows().read_all())
    assert [(row["_rowid"], row["text"]) for row in inserted.to_pylist()] == [
        (i, f"row {i}") for i in range(40, 44)
    ]
    assert [(row["_rowid"], row["text"]) for row in updated.to_pylist()] == [(1, "once"), (2, "once")]
    assert theirs.get_updated_rows().read_all().num_rows == 0
