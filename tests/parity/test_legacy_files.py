"""Tables with data files of version 0.1, which the reference writes on request and old releases always wrote.

The format has no nulls: what the reference reads from a file is the oracle, not what was written. It leaves out
batches by statistics of what was written, nulls included, so filters are compared with `use_stats=False`.
"""

from __future__ import annotations

import datetime
import decimal
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pennon.file
import pyarrow as pa
import pytest
from pennon.cli import main
from support import forge
from support.compare import assert_both_agree, assert_same

OLD = Path(__file__).parents[1] / "golden" / "old"
ROWS, GROUP, PER_FILE = 100, 16, 40
RANDOM = random.Random(1)
DAY = datetime.date(2013, 1, 1)


def values(make: Callable[[], Any], kind: pa.DataType, nulls: float = 0.2) -> pa.Array:
    return pa.array([None if RANDOM.random() < nulls else make() for _ in range(ROWS)], kind)


def small() -> int:
    return RANDOM.randint(0, 90)


def word() -> str:
    return "".join(RANDOM.choices("abcäß€ ", k=RANDOM.randint(0, 6)))


def some(make: Callable[[], Any]) -> list[Any]:
    return [None if RANDOM.random() < 0.2 else make() for _ in range(RANDOM.randint(0, 3))]


def shared(kind: pa.DataType, nulls: float = 0.2) -> pa.Array:
    words = [word() for _ in range(5)]
    plain = values(lambda: RANDOM.choice(words), pa.string(), nulls)
    return plain.dictionary_encode().cast(pa.dictionary(pa.int8(), kind))


ITEM = pa.struct([("a", pa.int16()), ("b", pa.string()), ("c", pa.list_(pa.int64()))])
TEMPORAL = [
    *[pa.time32(unit) for unit in ("s", "ms")],
    *[pa.time64(unit) for unit in ("us", "ns")],
    *[pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")],
    pa.timestamp("us", "Europe/Berlin"),
    *[pa.duration(unit) for unit in ("s", "ns")],
]


def item() -> dict[str, Any]:
    return {"a": small(), "b": word(), "c": some(small)}


def columns() -> dict[str, pa.Array]:
    found = {name: values(small, pa.type_for_alias(name)) for name in ("int8", "int16", "int32", "int64")}
    found |= {name: values(small, pa.type_for_alias(name)) for name in ("uint8", "uint16", "uint32", "uint64")}
    found |= {str(kind): values(small, pa.int64()).cast(pa.int32()).cast(kind) for kind in TEMPORAL[:2]}
    found |= {str(kind): values(small, pa.int64()).cast(kind) for kind in TEMPORAL[2:]}
    return found | {
        "half": values(lambda: float(small()), pa.float16()),
        "float": values(RANDOM.random, pa.float32()),
        "double": values(RANDOM.random, pa.float64()),
        "bool": values(lambda: RANDOM.random() < 0.5, pa.bool_()),
        "null": pa.nulls(ROWS),
        "date32": values(lambda: DAY + datetime.timedelta(small()), pa.date32()),
        "date64": values(lambda: DAY + datetime.timedelta(small()), pa.date64()),
        "decimal128": values(lambda: decimal.Decimal(small()).scaleb(-2), pa.decimal128(20, 2)),
        "decimal256": values(lambda: decimal.Decimal(small()), pa.decimal256(60, 0)),
        "string": values(word, pa.string()),
        "large_string": values(word, pa.large_string()),
        "binary": values(lambda: word().encode(), pa.binary()),
        "large_binary": values(lambda: word().encode(), pa.large_binary()),
        "no nulls": values(word, pa.string(), 0),
        "binary3": values(lambda: RANDOM.randbytes(3), pa.binary(3)),
        "vector": values(lambda: [float(small())] * 3, pa.list_(pa.float32(), 3)),
        "bits": values(lambda: RANDOM.choices([True, False, None], k=5), pa.list_(pa.bool_(), 5)),
        "matrix": values(lambda: [[small(), small()]] * 3, pa.list_(pa.list_(pa.int16(), 2), 3)),
        "list": values(lambda: some(small), pa.list_(pa.int32())),
        "large_list": values(lambda: some(word), pa.large_list(pa.string())),
        "list_bool": values(lambda: some(lambda: True), pa.list_(pa.bool_())),
        "list_list": values(lambda: some(lambda: some(word)), pa.list_(pa.list_(pa.string()))),
        "list_vector": values(lambda: some(lambda: [1.0, 2.0]), pa.list_(pa.list_(pa.float64(), 2))),
        "struct": values(item, ITEM),
        "list_struct": values(lambda: some(item), pa.list_(ITEM)),
        "deep": values(lambda: {"s": {"l": some(item)}}, pa.struct([("s", pa.struct([("l", pa.list_(ITEM))]))])),
        "dictionary": shared(pa.string()),
        "dictionary_binary": shared(pa.large_binary()),
        "dictionary_number": values(small, pa.int64()).dictionary_encode(),
        "dictionary_in_struct": pa.StructArray.from_arrays([shared(pa.string(), 0)], names=["d"]),
    }


COLUMNS = columns()
# The reference panics at a take of this one, and filters take.
NOT_TAKEN = "bits"
# Statistics, and what they leave out, are made of these; a filter of each kind of value.
FILTERS = [
    "id % 3 = 1",
    "id >= 30 and id < 75",
    "int32 = 0",
    "int32 is null or int32 > 50",
    "double > 0.5",
    "string is null",
    "string = ''",
    "string > 'b' and bool",
    "not bool",
    "decimal128 is not null",
    "date32 > date '2013-02-01'",
    "struct.a = 0",
    "struct.b is not null",
    "dictionary is not null",
    "list_struct is not null",
    "id in (3, 50, 97)",
]


def write(uri: str, names: list[str] | None = None, **options: Any) -> lance.LanceDataset:
    """Three fragments of several batches."""
    chosen = COLUMNS if names is None else {name: COLUMNS[name] for name in names}
    data = pa.table({"id": pa.array(range(ROWS), pa.int64()), **chosen})
    given = {"max_rows_per_group": GROUP, "max_rows_per_file": PER_FILE, "data_storage_version": "legacy"}
    return lance.write_dataset(data, uri, **{**given, **options})


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("legacy") / "t")
    write(uri)
    return uri


@pytest.fixture(scope="module")
def deleted(everything: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """With deletion files, and a fragment that is gone."""
    uri = str(tmp_path_factory.mktemp("legacy") / "t")
    shutil.copytree(everything, uri)
    lance.dataset(uri).delete("id in (3, 17) or id >= 80")
    return uri


@pytest.fixture(params=["everything", "deleted"])
def table(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)


def theirs(uri: str, **options: Any) -> pa.Table:
    return lance.dataset(uri).scanner(use_stats=False, **options).to_table()


@pytest.mark.parametrize("name", ["id", *COLUMNS])
def test_every_type(table: str, name: str) -> None:
    ours = pennon.dataset(table)
    expected = theirs(table, columns=[name])
    assert_same(ours.to_table(columns=[name]), expected)
    assert_same(ours.to_table(columns=[name], batch_size=7), expected)
    assert_same(ours.to_table(columns=[name], offset=21, limit=30), expected.slice(21, 30))
    rows = [0, 1, 15, 16, 17, 39, 40, 41, 60, 5, 5]
    assert_same(ours.take(rows, columns=[name]), expected.take(rows))
    if name == NOT_TAKEN:
        return
    assert_same(ours.take(rows, columns=[name]), lance.dataset(table).take(rows, columns=[name]))
    ids = [0, 5, (1 << 32) + 3, (1 << 32) + 17, 2]
    assert_same(ours._take_rows(ids, columns=[name]), lance.dataset(table)._take_rows(ids, columns=[name]))


def test_all_columns_and_who_the_rows_are(table: str) -> None:
    found = assert_both_agree(table)
    assert found.num_rows == pennon.dataset(table).count_rows()
    report = pennon.verify(table)
    assert report.ok, str(report)


@pytest.mark.parametrize("columns", [["struct.b"], ["struct.c", "id"], ["deep.s.l"], ["int8", "string", "list"]])
def test_projections(table: str, columns: list[str]) -> None:
    assert_same(pennon.dataset(table).to_table(columns=columns), theirs(table, columns=columns))


@pytest.mark.parametrize("condition", FILTERS)
def test_filters(table: str, condition: str) -> None:
    ours = pennon.dataset(table)
    names = [name for name in ours.schema.names if name != NOT_TAKEN]
    expected = theirs(table, filter=condition, columns=names)
    assert_same(ours.to_table(filter=condition).select(names), expected)
    assert ours.count_rows(condition) == expected.num_rows
    assert_same(ours.to_table(filter=condition, columns=["id", "vector"]), expected.select(["id", "vector"]))


def test_a_bitmap_of_deleted_rows(uri: str) -> None:
    data = pa.table({"id": pa.array(range(12_000), pa.int64()), "s": [f"s{i}" for i in range(12_000)]})
    lance.write_dataset(data, uri, data_storage_version="legacy").delete("id % 2 = 0")
    assert [f.metadata.deletion_file.file_type for f in lance.dataset(uri).get_fragments()] == ["bitmap"]
    assert assert_both_agree(uri)["id"].to_pylist() == list(range(1, 12_000, 2))
    pennon.dataset(uri).delete("id % 3 = 0")
    assert pennon.dataset(uri).take([3], columns=["s"]).to_pydict() == {"s": ["s11"]}
    assert assert_both_agree(uri).num_rows == 4_000


def test_filters_are_about_what_is_read(uri: str) -> None:
    """The reference leaves out batches without nulls, although it reads nulls from them."""
    lance.write_dataset(pa.table({"s": ["a", "", "b"]}), uri, data_storage_version="legacy")
    assert lance.dataset(uri).to_table()["s"].to_pylist() == ["a", None, "b"]
    assert lance.dataset(uri).count_rows("s is null") == 0
    assert pennon.dataset(uri).count_rows("s is null") == theirs(uri, filter="s is null").num_rows == 1


def test_fields_that_may_not_be_null(uri: str) -> None:
    schema = pa.schema([pa.field("s", pa.string(), False), pa.field("l", pa.list_(pa.string()), False)])
    data = pa.table([pa.array(["a", "", "b"]), pa.array([["", "x"], [], [""]])], schema=schema)
    lance.write_dataset(data, uri, data_storage_version="legacy")
    assert assert_both_agree(uri)["s"].to_pylist() == ["a", "", "b"]


def test_schema_evolution(uri: str) -> None:
    written = write(uri, ["int32", "string", "struct"])
    written.add_columns({"more": "id * 2", "text": "string"})
    assert_both_agree(uri)
    lance.dataset(uri).drop_columns(["int32"])
    lance.dataset(uri).alter_columns({"path": "string", "name": "renamed"})
    assert_both_agree(uri)
    pennon.dataset(uri).drop_columns(["more"])
    pennon.dataset(uri).alter_columns({"path": "text", "name": "other"})
    found = assert_both_agree(uri)
    assert found.schema.names[:4] == ["id", "renamed", "struct", "other"]
    assert pennon.dataset(uri, version=1).to_table().schema.names == ["id", "int32", "string", "struct"]


def test_stable_row_ids(uri: str) -> None:
    write(uri, ["string", "struct"], enable_stable_row_ids=True)
    lance.dataset(uri).delete("id % 4 = 1")
    assert_both_agree(uri)
    pennon.dataset(uri).delete("id % 4 = 2")
    found = assert_both_agree(uri)
    assert found["_rowid"].to_pylist() == found["id"].to_pylist() == [i for i in range(ROWS) if i % 4 in (0, 3)]


@pytest.mark.parametrize("condition", ["id % 10 = 3", "id < 35 and id > 2", "id >= 40 and id < 80", "true"])
def test_deletes(everything: str, uri: str, condition: str) -> None:
    shutil.copytree(everything, uri)
    kept = [] if condition == "true" else theirs(uri, filter=f"not ({condition})", columns=["id"])["id"].to_pylist()
    expected = theirs(uri).take(pa.array(kept, pa.int64()))
    pennon.dataset(uri).delete(condition)
    found = assert_both_agree(uri)
    assert_same(found.select(expected.schema.names), expected)
    assert lance.dataset(uri).data_storage_version == "0.1"
    # The values of dictionaries are still where the reference looks for them.
    lance.dataset(uri).delete("id = 77")
    assert_both_agree(uri)
    pennon.dataset(uri, version=1).restore()
    assert_same(theirs(uri), theirs(everything))
    assert_both_agree(uri)


def test_other_commits(everything: str, uri: str, tmp_path: Path) -> None:
    shutil.copytree(everything, uri)
    table = pennon.dataset(uri)
    table.update_config({"a": "b"})
    table.tags.create("old", 1)
    assert_same(pennon.dataset(uri, version="old").to_table(), theirs(uri))
    clone = str(tmp_path / "clone")
    pennon.dataset(uri).shallow_clone(clone, 1)
    assert_both_agree(clone)
    assert_same(pennon.dataset(clone).to_table(), theirs(uri))
    cleaned = pennon.dataset(uri).cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert cleaned.old_versions == 0
    assert_both_agree(uri)


@pytest.mark.parametrize("by", [lance, pennon], ids=["pylance", "pennon"])
def test_indices(uri: str, by: Any) -> None:
    write(uri, ["int32", "string"])
    by.dataset(uri).create_scalar_index("id", "BTREE")
    by.dataset(uri).create_scalar_index("int32", "BITMAP")
    for _ in range(2):
        for condition in ("id = 44", "id > 90 and string is not null", "int32 = 0", "int32 in (5, 7)"):
            expected = (
                lance.dataset(uri).scanner(filter=condition, use_stats=False, use_scalar_index=False).to_table()
            )
            assert_same(pennon.dataset(uri).to_table(filter=condition), expected)
        pennon.dataset(uri).delete("id = 95")
    assert_both_agree(uri)


MORE = pa.table({"id": pa.array([500, 501], pa.int64()), "string": ["x", "y"]})
REFUSED: dict[str, Callable[[pennon.LanceDataset], object]] = {
    "append": lambda t: t.insert(MORE),
    "write": lambda t: pennon.write_dataset(MORE, t.uri, mode="append"),
    "update": lambda t: t.update({"id": "id + 1"}, "id < 5"),
    "update in another version": lambda t: t.update({"id": "id + 1"}, "id < 5", data_storage_version="2.2"),
    "merge": lambda t: t.merge_insert("id").when_not_matched_insert_all().execute(MORE),
    "add columns": lambda t: t.add_columns({"more": "id + 1"}),
    "compact": lambda t: t.optimize.compact_files(),
    "compact some": lambda t: t.optimize.compact_files(data_storage_version="2.2", excluded_fragment_ids=[1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_mix_versions_is_refused(uri: str, name: str) -> None:
    write(uri, ["string"])
    files = sorted(path.name for path in (Path(uri) / "data").iterdir())
    with pytest.raises(
        pennon.UnsupportedError, match=r"0\.1 \(legacy\).*compact_files\(data_storage_version=\"2\.2\"\)"
    ):
        REFUSED[name](pennon.dataset(uri))
    assert lance.dataset(uri).to_table().num_rows == ROWS
    assert sorted(path.name for path in (Path(uri) / "data").iterdir()) == files
    assert_both_agree(uri)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_compaction_carries_a_table_over(table: str, uri: str, version: Any) -> None:
    shutil.copytree(table, uri)
    expected, fragments = theirs(uri), len(lance.dataset(uri).get_fragments())
    metrics = pennon.dataset(uri).optimize.compact_files(data_storage_version=version)
    assert metrics.fragments_removed == fragments
    found = assert_both_agree(uri)
    assert_same(found.select(expected.schema.names), expected)
    assert lance.dataset(uri).data_storage_version == pennon.dataset(uri).data_storage_version == version
    before = lance.dataset(table).version
    assert_same(pennon.dataset(uri, version=before).to_table(), expected)
    pennon.dataset(uri).insert(expected.slice(0, 2))
    lance.dataset(uri).delete("id = 0")
    assert_both_agree(uri)


def test_fragments_of_any_size_are_carried_over(uri: str) -> None:
    write(uri, ["string"])
    expected = theirs(uri)
    pennon.dataset(uri).optimize.compact_files(data_storage_version="2.2", target_rows_per_fragment=5)
    assert_same(assert_both_agree(uri).select(expected.schema.names), expected)
    assert pennon.dataset(uri).optimize.compact_files(data_storage_version="2.2").fragments_removed > 0


def test_overwriting(uri: str) -> None:
    write(uri, ["string", "dictionary"])
    pennon.write_dataset(MORE, uri, mode="overwrite")
    assert pennon.dataset(uri).data_storage_version == "2.2"
    assert assert_both_agree(uri)["id"].to_pylist() == [500, 501]
    assert_same(pennon.dataset(uri, version=1).to_table(), lance.dataset(uri, version=1).to_table())


def test_a_table_of_which_nothing_is_left(uri: str) -> None:
    write(uri, ["string"])
    pennon.dataset(uri).delete("true")
    pennon.dataset(uri).insert(MORE)
    assert pennon.dataset(uri).data_storage_version == "2.2"
    assert assert_both_agree(uri)["id"].to_pylist() == [500, 501]


@pytest.mark.parametrize("keep", [0.999, 0.9, 0.5, 0.02, 0])
def test_files_that_are_cut_short(uri: str, keep: float) -> None:
    write(uri, ["string"])
    file = next((Path(uri) / "data").iterdir())
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(pennon.CorruptError, match=file.name):
        pennon.dataset(uri).to_table()


def test_files_are_registered(uri: str) -> None:
    """Appended by a transaction that refers to files the reference wrote."""
    write(uri, ["string", "struct"])
    fragments = lance.fragment.write_fragments(
        theirs(uri).slice(0, 9), uri, data_storage_version="legacy", mode="append"
    )
    ours = [pennon.FragmentMetadata.from_json(json.dumps(f.to_json())) for f in fragments]
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Append(ours), read_version=1)
    assert assert_both_agree(uri).num_rows == ROWS + 9


def test_the_columns_of_lance_0_7_5(uri: str) -> None:
    """Files of minor version 1, whose page table begins with field 0: the reference does not read them any more."""
    shutil.copytree(OLD / "lance-0.7.5-merged", uri)
    table = pennon.dataset(uri)
    assert table.to_table().to_pydict() == {
        "k": [1, 2, 3, 4, 5],
        "s": ["a", "b", "c", "d", "e"],
        "v": ["v1", "v2", "v3", "v4", "v5"],
        "w": [1.5, 2.5, 3.5, 4.5, 5.5],
    }
    assert table.count_rows("w > 2") == 4
    assert table.take([4, 1], columns=["v"])["v"].to_pylist() == ["v5", "v2"]
    table.optimize.compact_files(data_storage_version="2.2")
    assert assert_both_agree(uri)["v"].to_pylist() == ["v1", "v2", "v3", "v4", "v5"]


def test_files_without_a_table(everything: str) -> None:
    file = next((Path(everything) / "data").iterdir())
    reader = pennon.file.LanceFileReader(str(file), columns=["id", "string", "struct"])
    expected = theirs(everything, columns=["id", "string", "struct"])
    first = reader.read_all().to_table()
    assert_same(first, expected.slice(expected["id"].to_pylist().index(first["id"][0].as_py()), len(first)))
    assert reader.metadata().num_rows == len(first)
    assert main(["inspect", str(file)]) == 0


@pytest.mark.parametrize("difference", [-500, 500])
def test_a_size_that_is_not_that_of_the_file(tmp_path: Path, difference: int) -> None:
    """As releases of the reference from 0.29 to 7.1 record it; they look at it as little as later ones do."""
    uri = str(tmp_path / "t")
    data = pa.table({"a": range(1000)})
    lance.write_dataset(data, uri, data_storage_version="0.1", enable_stable_row_ids=False)
    size = pennon.dataset(uri).get_fragments()[0].metadata.files[0].file_size_bytes

    def with_another_size(message: Any) -> Any:
        return [
            (number, kind, value + difference if (kind, value) == (0, size) else value)
            for number, kind, value in message
        ]

    forge.forge_data_files(uri, with_another_size)
    assert lance.dataset(uri).to_table().equals(data)
    table = pennon.dataset(uri)
    assert table.to_table().equals(data)
    assert table.to_table(filter="a = 7")["a"].to_pylist() == [7]
    assert table.verify(data=True).ok
    table.delete("a < 500")
    table.optimize.compact_files(data_storage_version="2.2")
    assert pennon.dataset(uri).count_rows() == 500
