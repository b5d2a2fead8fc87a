"""Sources whose structs lack members of the table's: merges change what is given, rows that come have nulls."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pyarrow.compute
import pytest
from support.compare import LINEAGE, assert_both_agree, contents

INNER = pa.struct([("p", pa.int32()), ("q", pa.string())])
OUTER = pa.struct([("x", pa.int64()), ("n", INNER), ("y", pa.string())])
SCHEMA = pa.schema([("id", pa.int64()), ("s", OUTER), ("z", pa.int64())])


def value(data_type: pa.DataType, dice: random.Random, nulls: float) -> Any:
    if dice.random() < nulls:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: value(field.type, dice, nulls) for field in data_type}
    number = dice.randrange(1000)
    return str(number) if pa.types.is_string(data_type) else number


def part_of(data_type: pa.DataType, dice: random.Random) -> pa.DataType:
    """The struct with some of its members, at least one, in some order."""
    chosen = dice.sample(list(data_type), dice.randint(1, data_type.num_fields))
    return pa.struct([(f.name, part_of(f.type, dice) if pa.types.is_struct(f.type) else f.type) for f in chosen])


def rows(keys: range, schema: pa.Schema, dice: random.Random, nulls: float) -> pa.Table:
    columns = {f.name: [value(f.type, dice, nulls) for _ in keys] for f in schema if f.name != "id"}
    return pa.table({"id": keys, **columns}, schema=schema)


def by_id(uri: str | Path) -> pa.Table:
    """The rows as both libraries read them, by their keys."""
    has_fixed_size_lists = any(pa.types.is_fixed_size_list(field.type) for field in pennon.dataset(uri).schema)
    # Of structs the reference does not read these together with other columns.
    found = contents(pennon.dataset(uri)) if has_fixed_size_lists else assert_both_agree(uri)
    return found.drop_columns(LINEAGE).sort_by("id")


def members(table: pa.Table) -> list[dict[str, Any]]:
    return table.flatten().flatten().to_pylist()


@pytest.mark.parametrize("seed", range(24))
def test_merges_change_the_members_they_have(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    version = dice.choice(["2.1", "2.2"])
    stable, by_index = dice.random() < 0.5, dice.random() < 0.3
    table = rows(range(40), SCHEMA, dice, 0.2)
    given = [("id", pa.int64()), ("s", part_of(OUTER, dice)), *([("z", pa.int64())] if dice.random() < 0.5 else [])]
    source = rows(range(dice.randint(0, 30), dice.randint(30, 60)), pa.schema(given), dice, 0.2)
    insert = dice.random() < 0.5
    is_partial = len(given) < len(SCHEMA) or source.schema.field("s").type != OUTER
    modes = ["auto", "rewrite_rows", *(["rewrite_columns"] if is_partial and not insert else [])]
    tables = {}
    for mode in (None, *modes):
        module, uri = (lance, str(tmp_path / "theirs")) if mode is None else (pennon, str(tmp_path / mode))
        dataset: Any = module.write_dataset(
            table, uri, data_storage_version=version, enable_stable_row_ids=stable, max_rows_per_file=16
        )
        if by_index:
            dataset.create_scalar_index("id", "BTREE")
        merge = dataset.merge_insert("id").when_matched_update_all()
        if insert:
            merge = merge.when_not_matched_insert_all()
        if mode is not None:
            merge = merge.write_mode(mode)
        merge.execute(source)
        # The reference does not read nulls of structs whose members are in several files, as it writes them here.
        found = dataset.to_table() if mode is None else by_id(uri)
        tables[mode] = found.sort_by("id")
        assert members(tables[mode]) == members(tables[None]), mode
        assert mode is None or tables[mode].equals(tables["auto"])


def test_a_source_on_disk_is_no_different(tmp_path: Path) -> None:
    dice = random.Random(1)
    table, schema = (
        rows(range(2_000), SCHEMA, dice, 0.1),
        pa.schema([("id", pa.int64()), ("s", pa.struct([("y", pa.string())]))]),
    )
    source = rows(range(1_000, 3_000), schema, dice, 0.1)
    results = []
    for limit in (None, 1):
        dataset = pennon.write_dataset(table, tmp_path / str(limit), max_rows_per_file=500)
        merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        if limit is not None:
            merge = merge.memory_limit(limit)
        merge.execute(source)
        results.append(by_id(tmp_path / str(limit)))
    assert results[0].equals(results[1])


def test_members_that_may_not_be_null_are_wanted(tmp_path: Path) -> None:
    strict = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.string())])
    table = pa.table({"id": [1], "s": pa.array([{"x": 1, "y": "a"}], strict)})
    dataset = pennon.write_dataset(table, tmp_path / "t")
    source = pa.table({"id": [1, 2], "s": [{"y": "b"}] * 2})
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(pennon.SchemaMismatchError, match=r"missing=\[s\.x\]"):
        merge.execute(source)
    assert dataset.version == 1


LISTS = {
    "list": pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())])),
    "large list": pa.large_list(pa.struct([("x", pa.int64()), ("y", pa.string())])),
    "fixed-size list": pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]), 2),
    "list of lists": pa.list_(pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
    "in a struct": pa.struct(
        [("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))), ("k", pa.int64())]
    ),
}


def without(data_type: pa.DataType, name: str) -> pa.DataType:
    """The type without members of that name."""
    if pa.types.is_struct(data_type):
        return pa.struct([(f.name, without(f.type, name)) for f in data_type if f.name != name])
    if pa.types.is_large_list(data_type):
        return pa.large_list(without(data_type.value_type, name))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(without(data_type.value_type, name), data_type.list_size)
    return pa.list_(without(data_type.value_type, name)) if pa.types.is_list(data_type) else data_type


def items(data_type: pa.DataType, dice: random.Random) -> Any:
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return (
            None if dice.random() < 0.1 else [items(data_type.value_type, dice) for _ in range(dice.randrange(4))]
        )
    if pa.types.is_fixed_size_list(data_type):
        return [items(data_type.value_type, dice) for _ in range(data_type.list_size)]
    if pa.types.is_struct(data_type):
        return {field.name: items(field.type, dice) for field in data_type}
    return value(data_type, dice, 0.2)


@pytest.mark.parametrize("name", LISTS)
def test_items_of_lists_get_null_members(tmp_path: Path, name: str, file_version: str) -> None:
    if name == "fixed-size list" and file_version != "2.2":
        pytest.skip("fixed-size lists of structs need file version 2.2")
    dice, whole = random.Random(name), LISTS[name]
    part = without(whole, "y")
    table = pa.table({"id": range(20), "c": pa.array([items(whole, dice) for _ in range(20)], whole)})
    more = pa.table({"id": range(20, 40), "c": pa.array([items(part, dice) for _ in range(20)], part)})
    uri = str(tmp_path / "t")
    if file_version == "2.0" and name == "in a struct":
        table, more = (t.filter(pa.compute.is_valid(t["c"])) for t in (table, more))
    dataset = pennon.write_dataset(table, uri, data_storage_version=file_version)
    dataset.insert(more)
    expected = pa.concat_tables([table, filled(more, whole)])
    assert by_id(uri).equals(expected)
    changed = pa.table({"id": range(10), "c": pa.array([items(part, dice) for _ in range(10)], part)})
    dataset.merge_insert("id").when_matched_update_all().execute(changed)
    found = by_id(uri)
    wanted = pa.concat_tables([filled(changed, whole), expected.slice(10)])
    if name != "in a struct":
        assert found.equals(wanted)
    dataset.optimize.compact_files()
    assert by_id(uri).equals(found)


def filled(table: pa.Table, whole: pa.DataType) -> pa.Table:
    """The rows with nulls for members that they lack."""
    return pa.table({"id": table["id"], "c": pa.array(table["c"].to_pylist(), whole)})
