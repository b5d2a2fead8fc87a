"""Columns of blobs that are changed, added and joined, and blobs under base paths: both read what either wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.blob import Blob, blob_array, blob_field

VALUES = [b"a" * 10, b"b" * 100, b"c" * 1000, None, b"", b"d" * 10]
VERSIONS = pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
LIBRARIES: dict[str, Any] = {"pennon": pennon, "lance": lance}
Rows = dict[int, bytes | None]


def blobs(version: str, values: list[Any], name: str = "b") -> tuple[pa.Field, pa.Array]:
    """Blob v2 of all kinds, or legacy blobs in files that have no others."""
    if version == "2.2":
        return blob_field(name, inline_size_threshold=50, dedicated_size_threshold=400), blob_array(values)
    field = pa.field(name, pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    return field, pa.array(values, pa.large_binary())


def rows(version: str, ids: list[int], values: list[Any], name: str = "b") -> pa.Table:
    field, array = blobs(version, values, name)
    return pa.table([pa.array(ids, pa.int64()), array], schema=pa.schema([pa.field("id", pa.int64()), field]))


def create(uri: Path, version: str, **options: Any) -> None:
    data = rows(version, list(range(6)), VALUES)
    data = data.add_column(1, "x", [[f"x{row}" for row in range(6)]])
    lance.write_dataset(data, str(uri), data_storage_version=version, enable_stable_row_ids=True, **options)


def read(uri: Path, column: str = "b") -> Rows:
    """By both."""
    found = []
    for library in LIBRARIES.values():
        dataset = library.dataset(str(uri))
        dataset.validate()
        table = dataset.scanner(blob_handling="all_binary").to_table()
        found.append(dict(zip(table["id"].to_pylist(), table[column].to_pylist(), strict=True)))
        row = table["id"].to_pylist().index(2)
        (blob,) = dataset.take_blobs(column, indices=[row])
        assert (None if blob is None else blob.readall()) == found[-1][2]
    assert found[0] == found[1]
    return found[0]


@VERSIONS
@pytest.mark.parametrize("key", ["id", "_rowid"])
@pytest.mark.parametrize("side", LIBRARIES)
def test_columns_of_a_fragment(tmp_path: Path, version: str, key: str, side: str) -> None:
    uri, library = tmp_path / "t", LIBRARIES[side]
    create(uri, version, max_rows_per_file=4)
    library.dataset(str(uri)).delete("id = 0")
    new: Rows = {1: b"n" * 5, 2: None, 3: b"q" * 2000}
    source = rows(version, list(new), list(new.values()))
    if key == "_rowid":
        source = source.rename_columns(["_rowid", "b"]).set_column(0, "_rowid", pa.array(new, pa.uint64()))
    dataset = library.dataset(str(uri))
    changed, fields = dataset.get_fragments()[0].update_columns(source, left_on=key, right_on=key)
    update = library.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    library.LanceDataset.commit(str(uri), update, read_version=dataset.version)
    expected = {row: value for row, value in enumerate(VALUES) if row} | new
    assert read(uri) == expected
    # The files of both sides are what a rewrite reads.
    for other in LIBRARIES.values():
        other.dataset(str(uri)).optimize.compact_files()
        assert read(uri) == expected


def test_external_blobs_of_other_rows_stay(tmp_path: Path) -> None:
    (tmp_path / "far").write_bytes(b"0123456789")
    uri = str(tmp_path / "t")
    far = Blob.from_uri((tmp_path / "far").as_uri())
    pennon.write_dataset(rows("2.2", [0, 1, 2], [far, b"old", None]), uri, allow_external_blob_outside_bases=True)
    before = lance.dataset(uri).to_table()["b"][0].as_py()
    dataset = pennon.dataset(uri)
    changed, fields = dataset.get_fragments()[0].update_columns(rows("2.2", [1], [b"new"]), "id", "id")
    update = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    pennon.LanceDataset.commit(uri, update, read_version=dataset.version)
    assert read(tmp_path / "t") == {0: b"0123456789", 1: b"new", 2: None}
    assert lance.dataset(uri).to_table()["b"][0].as_py() == before


def change_rows(dataset: Any, source: pa.Table) -> object:
    ids = dataset.to_table(columns=[], with_row_id=True)["_rowid"][:1]
    return dataset.update_rows(source.drop_columns("id").add_column(0, "_rowid", ids))


SOURCES: dict[str, Callable[[Any, pa.Table], object]] = {
    "merge": lambda dataset, source: (
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    ),
    "insert of a merge": lambda dataset, source: (
        dataset.merge_insert("id").when_not_matched_insert_all().execute(source)
    ),
    "update of columns": lambda dataset, source: dataset.get_fragments()[0].update_columns(source, "id", "id"),
    "update of rows": change_rows,
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("side", LIBRARIES)
def test_rows_of_a_source_do_not_name_files(tmp_path: Path, name: str, side: str) -> None:
    """Whoever gives a row does not get to read what the process can read."""
    (tmp_path / "secret").write_bytes(b"0123456789")
    uri = tmp_path / "t"
    create(uri, "2.2")
    dataset = LIBRARIES[side].dataset(str(uri))
    if side == "lance" and name == "update of rows":
        pytest.skip("the reference has no such method")
    new = 99 if name == "insert of a merge" else 1
    given = rows("2.2", [new], [Blob.from_uri((tmp_path / "secret").as_uri())])
    given = given.append_column("x", pa.array(["y"]))
    with pytest.raises((pennon.InvalidInputError, OSError, ValueError), match="outside registered external bases"):
        SOURCES[name](dataset, given)
    assert read(uri) == dict(enumerate(VALUES))
    inner = pa.struct([blob_field("inner")])
    nested = pa.table({"id": [1]}).append_column(
        pa.field("s", inner), pa.StructArray.from_arrays([given["b"].combine_chunks()], fields=list(inner))
    )
    if side == "pennon":
        table = pennon.write_dataset(
            nested, str(tmp_path / "nested"), allow_external_blob_outside_bases=True, data_storage_version="2.2"
        )
        with pytest.raises(pennon.InvalidInputError, match=r"in field 's'"):
            table.merge_insert("id").when_matched_update_all().execute(nested)
        # What the table has itself goes along.
        table.merge_insert("id").when_not_matched_insert_all().execute(pa.table({"id": [2]}))
        table.optimize.compact_files()
        assert table.count_rows() == 2


def test_computed_values_do_not_name_files(tmp_path: Path) -> None:
    (tmp_path / "far").write_bytes(b"0123456789")
    far = (tmp_path / "far").as_uri()
    data = rows("2.2", [0, 1, 2], [Blob.from_uri(far), b"old", None])
    table = pennon.write_dataset(data, tmp_path / "t", allow_external_blob_outside_bases=True)
    for value in (
        f"named_struct('data', null, 'uri', '{far}')",
        f"case when id = 5 then b else {{'uri': '{far}'}} end",
    ):
        with pytest.raises(pennon.InvalidInputError):
            table.update({"b": value}, "id = 1")
    assert table.version == 1
    # What the rows have goes along.
    table.update({"b": "b"})
    table.update({"b": "case when id = 1 then null else b end"})
    assert read(tmp_path / "t") == {0: b"0123456789", 1: None, 2: None}


def test_null_blobs_of_a_source(tmp_path: Path) -> None:
    """pyarrow has empty texts below their nulls."""
    uri = tmp_path / "t"
    create(uri, "2.2")
    table = pennon.dataset(str(uri))
    given = rows("2.2", [1, 9], [b"new", None]).append_column("x", pa.array(["y", "z"]))
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(given)
    change_rows(table, rows("2.2", [0], [None]).append_column("x", pa.array(["w"])))
    assert sorted(read(uri).items()) == sorted({**dict(enumerate(VALUES)), 1: b"new", 9: None, 0: None}.items())
    inner = pa.struct([blob_field("inner")])
    nested = pa.table({"id": [1, 2]}).append_column(
        pa.field("s", inner),
        pa.StructArray.from_arrays([blob_array([b"x", None])], fields=list(inner), mask=pa.array([False, True])),
    )
    other = pennon.write_dataset(nested, str(tmp_path / "nested"), data_storage_version="2.2")
    other.merge_insert("id").when_matched_update_all().execute(nested)
    assert other.count_rows("s is null") == 1


@VERSIONS
def test_more_blobs_than_a_batch_has(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    old = [None if row % 7 == 0 else bytes([row % 256]) * (row % 60) for row in range(300)]
    dataset = pennon.write_dataset(rows(version, list(range(300)), old), uri, data_storage_version=version)
    dataset.delete("id % 5 = 0")
    new: Rows = {row: b"new" * row for row in range(0, 300, 3)}
    source = rows(version, list(new), list(new.values()))
    changed, fields = dataset.get_fragments()[0].update_columns(source, "id", "id")
    update = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    pennon.LanceDataset.commit(uri, update, read_version=dataset.version)
    expected = {row: new.get(row, old[row]) for row in range(300) if row % 5}
    assert read(tmp_path / "t") == expected


Change = Callable[[Any, Any, str], object]
CHANGES: dict[str, tuple[Change, Rows]] = {
    "merge": (
        lambda _, dataset, version: (
            dataset.merge_insert("id").when_matched_update_all().execute(rows(version, [1, 2], [b"n" * 500, None]))
        ),
        {1: b"n" * 500, 2: None},
    ),
    "other columns of a merge": (
        lambda _, dataset, __: (
            dataset.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [1], "x": ["n"]}))
        ),
        {},
    ),
    "update of another column": (lambda _, dataset, __: dataset.update({"x": "'n'"}, where="id < 3"), {}),
    "append": (
        lambda library, dataset, version: library.write_dataset(
            rows(version, [8], [b"z" * 70]), dataset.uri, mode="append"
        ),
        {8: b"z" * 70},
    ),
}


@VERSIONS
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("side", LIBRARIES)
def test_rows(tmp_path: Path, version: str, change: str, side: str) -> None:
    create(tmp_path / "t", version)
    make, expected = CHANGES[change]
    make(LIBRARIES[side], LIBRARIES[side].dataset(str(tmp_path / "t")), version)
    assert read(tmp_path / "t") == dict(enumerate(VALUES)) | expected


@VERSIONS
@pytest.mark.parametrize("how", ["values", "schema", "join"])
@pytest.mark.parametrize("side", LIBRARIES)
def test_new_columns(tmp_path: Path, version: str, how: str, side: str) -> None:
    uri = tmp_path / "t"
    create(uri, version)
    dataset = LIBRARIES[side].dataset(str(uri))
    new = rows(version, list(range(6)), VALUES[::-1], "c")
    expected: Rows = dict(enumerate(VALUES[::-1]))
    if how == "values":
        dataset.add_columns(new.select(["c"]).to_reader())
    elif how == "schema":
        dataset.add_columns(new.select(["c"]).schema)
        expected = dict.fromkeys(range(6))
    else:
        dataset.merge(new.slice(1), "id")
        expected[0] = None
    assert read(uri, "c") == expected
    for library in LIBRARIES.values():
        library.dataset(str(uri)).update({"x": "'y'"}, where="id = 1")
        library.dataset(str(uri)).optimize.compact_files()
        assert read(uri, "c") == expected


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blob_v2_in_files_that_have_none(tmp_path: Path, version: str) -> None:
    """The reference adds a column of nulls, and can neither update, merge nor compact the table afterwards."""
    uri = tmp_path / "t"
    create(uri, version)
    dataset, column = pennon.dataset(str(uri)), rows("2.2", list(range(6)), VALUES, "c")
    inside = pa.schema([pa.field("s", pa.struct([column.schema.field("c")]))])
    for call in (
        lambda: dataset.add_columns(column.select(["c"]).schema),
        lambda: dataset.add_columns(column.schema.field("c")),
        lambda: dataset.add_columns(inside),
        lambda: dataset.add_columns(column.select(["c"]).to_reader()),
        lambda: dataset.merge(column, "id"),
        lambda: dataset.get_fragments()[0].merge(column, "id"),
    ):
        with pytest.raises(
            pennon.UnsupportedError, match=rf"c`: Blob v2 requires file version >= 2.2 \(got {version}"
        ):
            call()
    assert dataset.version == pennon.dataset(str(uri)).version == 1
    other = lance.dataset(str(uri))
    other.add_columns(column.select(["c"]).schema)
    with pytest.raises(OSError, match=r"requires file version >= 2\.2"):
        other.update({"x": "'y'"}, where="id = 1")


@pytest.mark.parametrize("how", ["schema", "values", "join"])
def test_legacy_blobs_are_added_as_blob_v2(tmp_path: Path, how: str) -> None:
    """Files of version 2.2 have no others; of values the reference writes what nobody can read."""
    uri = tmp_path / "t"
    create(uri, "2.2")
    dataset, new = pennon.dataset(str(uri)), rows("2.1", list(range(6)), VALUES, "c")
    expected: Rows = dict(enumerate(VALUES))
    if how == "schema":
        dataset.add_columns(new.select(["c"]).schema)
        expected = dict.fromkeys(range(6))
    elif how == "values":
        dataset.add_columns(new.select(["c"]).to_reader())
    else:
        dataset.merge(new, "id")
    assert read(uri, "c") == expected
    field, array = blobs("2.1", [b"y" * 70], "c")
    more = rows("2.2", [8], [b"z"]).append_column(field, array)
    for library in LIBRARIES.values():
        library.write_dataset(more, str(uri), mode="append")
        library.dataset(str(uri)).update({"x": "'y'"}, where="id = 1")
        library.dataset(str(uri)).optimize.compact_files()
        assert read(uri, "c") == expected | {8: b"y" * 70}


def files(root: Path) -> set[tuple[str, str, int]]:
    """Folders of files with blobs, their ending, and their bytes without the seal of Pennon."""
    found = set()
    for path in root.rglob("*.blob"):
        content = path.read_bytes()
        seal = 16 + int.from_bytes(content[-16:-8], "little") if content.endswith(b"PENNSEAL") else 0
        data = path.parent.with_suffix(".lance")
        assert data.exists()
        found.add((str(data.parent.relative_to(root)), path.name, len(content) - seal))
    return found


@pytest.mark.parametrize("is_root", [False, True])
def test_blobs_under_base_paths(tmp_path: Path, is_root: bool) -> None:
    descriptors, found = [], []
    data = rows("2.2", list(range(6)), VALUES)
    for side, library in LIBRARIES.items():
        uri, base = tmp_path / side / "t", tmp_path / side / "base"
        bases = [library.DatasetBasePath(str(base), name="base", is_dataset_root=is_root)]
        options = {"target_bases": ["base"], "data_storage_version": "2.2"}
        library.write_dataset(data, str(uri), initial_bases=bases, max_rows_per_file=4, **options)
        for appended in LIBRARIES.values():
            appended.write_dataset(data.slice(2, 1), str(uri), mode="append", **options)
        found.append(files(tmp_path / side))
        descriptors.append(lance.dataset(str(uri)).to_table()["b"].to_pylist())
        assert not list(uri.rglob("*.lance"))
        for reader in LIBRARIES.values():
            dataset = reader.dataset(str(uri))
            dataset.validate()
            table = dataset.scanner(blob_handling="all_binary").to_table()
            assert table["b"].to_pylist() == [*VALUES, VALUES[2], VALUES[2]]
            taken = dataset.take_blobs("b", indices=[1, 2, 3, 7])
            assert [blob and blob.readall() for blob in taken] == [VALUES[1], VALUES[2], None, VALUES[2]]
        assert pennon.verify(str(uri), data=True).ok
    assert found[0] == found[1]
    assert {folder for folder, _, _ in found[0]} == {"base/data" if is_root else "base"}
    assert descriptors[0] == descriptors[1]


def test_blobs_under_base_paths_through_all_verbs(tmp_path: Path) -> None:
    uri, base = tmp_path / "t", tmp_path / "base"
    bases = [pennon.DatasetBasePath(str(base), name="base")]
    data = rows("2.2", list(range(6)), VALUES).append_column("x", [["x"] * 6])
    dataset = pennon.write_dataset(data, str(uri), initial_bases=bases, target_bases=["base"])
    before = sorted(base.rglob("*"))
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.target_bases(["base"]).execute(
        rows("2.2", [1, 9], [b"new" * 40, b"more" * 200]).append_column("x", [["y"] * 2])
    )
    expected: Rows = dict(enumerate(VALUES)) | {1: b"new" * 40, 9: b"more" * 200}
    assert read(uri) == expected
    assert len(list(base.rglob("*.blob"))) == 4
    dataset.deep_clone(str(tmp_path / "deep"), dataset.version)
    dataset.optimize.compact_files()
    assert read(uri) == expected
    assert before == [path for path in sorted(base.rglob("*")) if path in before]
    blob = blob_array([b"x"])
    given = pa.array([{"data": b"z" * 1000}, {"data": b"x", "position": 3, "size": 1}], blob.storage.type)
    broken = pa.ExtensionArray.from_storage(blob.type, given)
    wrong = data.slice(0, 2).set_column(1, data.schema.field("b"), broken)
    with pytest.raises(pennon.InvalidInputError, match="data and a range"):
        pennon.write_dataset(wrong, str(uri), mode="append", target_bases=["base"])
    # Nothing is left of a write that failed.
    assert len(list(base.rglob("*.blob"))) == 4
    for path in base.rglob("*.blob"):
        path.unlink()
    assert read(tmp_path / "deep") == expected


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["marked", "large_binary", "binary", "binary_view"])
def test_blob_v2_of_bytes(tmp_path: Path, kind: str, nested: bool) -> None:
    """Rows whose blobs are plain bytes: legacy blobs, and what a scan with `blob_handling="all_binary"` gives."""
    path = tmp_path / "t"
    mark = {"lance-encoding:blob": "true"} if kind == "marked" else None
    binary = {"binary": pa.binary(), "binary_view": pa.binary_view()}.get(kind, pa.large_binary())
    field = pa.field("b", binary, metadata=mark)

    def table(ids: list[int], blob: pa.Field, values: pa.Array) -> pa.Table:
        if nested:
            texts = pa.array([str(row) for row in ids])
            values = pa.StructArray.from_arrays([texts, values], fields=[pa.field("t", pa.string()), blob])
            blob = pa.field("s", values.type)
        return pa.table([pa.array(ids, pa.int64()), values], schema=pa.schema([pa.field("id", pa.int64()), blob]))

    def of_bytes(ids: list[int], values: list[bytes | None]) -> pa.Table:
        return table(ids, field, pa.array(values, binary))

    blob, values = blobs("2.2", VALUES)
    created = table(list(range(6)), blob, values)
    pennon.write_dataset(created, path, schema=created.schema, data_storage_version="2.2")
    pennon.dataset(path).insert(of_bytes([6, 7], [b"", None]))
    upsert = pennon.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(of_bytes([0, 1, 8], [None, b"e" * 1000, b"f" * 100]))
    pennon.dataset(path).merge_insert("id").when_matched_update_all().execute(of_bytes([2], [b"g"]))
    expected = [None, b"e" * 1000, b"g", None, b"", b"d" * 10, b"", None, b"f" * 100]
    for library in LIBRARIES.values():
        dataset = library.dataset(str(path))
        ids = dataset.to_table(columns=["id"])["id"].to_pylist()
        found = dataset.take_blobs("s.b" if nested else "b", indices=list(range(len(ids))))
        by_id = {row: None if blob is None else blob.readall() for row, blob in zip(ids, found, strict=True)}
        assert [by_id[row] for row in range(9)] == expected
    assert pennon.dataset(path).verify().ok


def test_rows_of_another_table_with_blobs(tmp_path: Path) -> None:
    """A dataset as data is read with the bytes of its blobs."""
    for name in ("from", "to"):
        create(tmp_path / name, "2.2")
    source = pennon.dataset(tmp_path / "from")
    pennon.write_dataset(source, tmp_path / "to", mode="append")
    upsert = pennon.dataset(tmp_path / "to").merge_insert("x").when_not_matched_insert_all()
    assert upsert.execute(source)["num_inserted_rows"] == 0
    appended = pennon.dataset(tmp_path / "to").to_table(blob_handling="all_binary")["b"].to_pylist()
    assert appended == VALUES + VALUES
