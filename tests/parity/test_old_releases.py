"""Tables of old releases: manifests that do not say how many rows there are, and files of version 0.1."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree
from support.spread import spread

GOLDEN = Path(__file__).parents[1] / "golden" / "old" / "lance-0.7.5"
FRAGMENTS, FILES, DELETION, PHYSICAL_ROWS, DELETED_ROWS = 2, 2, 3, 4, 4

Fields = list[tuple[int, Any]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at


def decoded(data: bytes) -> Fields:
    """The fields of a message: numbers and bytes, which is all that a manifest's fragments have."""
    fields: Fields = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value: Any
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        fields.append((tag >> 3, value))
    return fields


def encoded(fields: Fields) -> bytes:
    def number(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    out = b""
    for field, value in fields:
        if isinstance(value, int):
            out += number(field << 3) + number(value)
        else:
            out += number(field << 3 | 2) + number(len(value)) + value
    return out


def without(fields: Fields, number: int) -> Fields:
    return [(field, value) for field, value in fields if field != number]


def forget_rows(uri: str, deleted_too: bool = False) -> None:
    """Takes the numbers of rows out of the newest manifest, as releases before 0.8 did not write them."""
    version = lance.dataset(uri).version
    path = Path(uri) / "_versions" / f"{2**64 - 1 - version:020}.manifest"
    file = path.read_bytes()
    start = struct.unpack("<Q", file[-16:-8])[0]
    length = struct.unpack("<I", file[start : start + 4])[0]

    def forget(fragment: bytes) -> bytes:
        fields = without(decoded(fragment), PHYSICAL_ROWS)
        deletion = lambda value: encoded(without(decoded(value), DELETED_ROWS)) if deleted_too else value  # noqa: E731
        return encoded([(n, deletion(value) if n == DELETION else value) for n, value in fields])

    fields = decoded(file[start + 4 : start + 4 + length])
    manifest = encoded([(n, forget(value) if n == FRAGMENTS else value) for n, value in fields])
    path.write_bytes(file[:start] + struct.pack("<I", len(manifest)) + manifest + file[-16:])


@pytest.fixture(params=[False, True], ids=["deletions counted", "deletions not counted"])
def uri(tmp_path: Path, stable: bool, file_version: str, request: pytest.FixtureRequest) -> str:
    """Fragments of 40, 40 and 20 rows, a tenth of them deleted, and a manifest that counts none of them."""
    uri = str(tmp_path / "t")
    data = pa.table({"id": pa.array(range(100), pa.int64()), "s": [f"s{i}" for i in range(100)]})
    table = lance.write_dataset(
        data, uri, max_rows_per_file=40, enable_stable_row_ids=stable, data_storage_version=file_version
    )
    table.delete("id % 10 = 3")
    forget_rows(uri, request.param)
    return uri


LIVE = [i for i in range(100) if i % 10 != 3]


def test_rows_are_counted_in_the_files(uri: str) -> None:
    table = pennon.dataset(uri)
    assert table.count_rows() == lance.dataset(uri).count_rows() == 90
    assert [part.physical_rows for part in table.get_fragments()] == [40, 40, 20]
    assert [part.count_rows() for part in table.get_fragments()] == [36, 36, 18]
    assert table.to_table()["id"].to_pylist() == LIVE
    assert table.to_table(filter="id >= 55 and id < 66")["id"].to_pylist() == [i for i in LIVE if 55 <= i < 66]
    assert table.count_rows("s > 's5'") == len([i for i in LIVE if f"s{i}" > "s5"])
    assert table.take([0, 50, 89])["id"].to_pylist() == [LIVE[0], LIVE[50], LIVE[89]]
    assert table.to_table(offset=70, limit=3)["id"].to_pylist() == LIVE[70:73]
    assert table.versions()[-1]["metadata"]["total_rows"] == "90"
    assert "rows=90" in repr(table)
    table.validate()
    report = pennon.verify(uri)
    assert report.ok, str(report)


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + count), pa.int64()), "s": ["new"] * count})


COMMITS: dict[str, tuple[Callable[[Any], object], Callable[[list[int]], list[int]]]] = {
    "append": (lambda t: t.insert(rows(500, 2)), lambda ids: [*ids, 500, 501]),
    "delete": (lambda t: t.delete("id > 50 and id < 60"), lambda ids: [i for i in ids if not 50 < i < 60]),
    "delete all": (lambda t: t.delete("true"), lambda _: []),
    "delete a fragment": (lambda t: t.delete("id < 40"), lambda ids: [i for i in ids if i >= 40]),
    "update": (lambda t: t.update({"id": "id + 1000"}, "id = 7"), lambda ids: [i for i in ids if i != 7] + [1007]),
    "merge": (
        lambda t: t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(98, 4)),
        lambda ids: [i for i in ids if i < 98] + [98, 99, 100, 101],
    ),
    "compact": (lambda t: t.optimize.compact_files(), lambda ids: ids),
    "add columns": (lambda t: t.add_columns({"double": "id * 2"}), lambda ids: ids),
    "drop columns": (lambda t: t.drop_columns(["s"]), lambda ids: ids),
    "config": (lambda t: t.update_config({"a": "b"}), lambda ids: ids),
    "restore": (lambda t: t.restore(), lambda ids: ids),
}


@spread(of=1, times=2)
@pytest.mark.parametrize("name", COMMITS)
def test_commits_say_how_many_rows_there_are(uri: str, name: str) -> None:
    """As after a commit of the reference, which cannot delete, update or merge here before another commit."""
    commit, expected = COMMITS[name]
    commit(pennon.dataset(uri))
    found = assert_both_agree(uri)
    assert found["id"].to_pylist() == expected(LIVE)
    for part in lance.dataset(uri).get_fragments():
        metadata = part.metadata
        assert metadata.physical_rows > 0
        assert metadata.deletion_file is None or metadata.deletion_file.num_deleted_rows > 0
    pennon.dataset(uri).validate()
    # From here on the reference can do everything again.
    lance.dataset(uri).delete("id = 97")
    assert_both_agree(uri)


def test_history_across_the_commit(uri: str) -> None:
    version = pennon.dataset(uri).version
    pennon.dataset(uri).delete("id = 5")
    old = pennon.dataset(uri, version=version)
    assert old.count_rows() == 90
    assert old.to_table().num_rows == 90
    assert pennon.dataset(uri).count_rows() == 89


@pytest.mark.parametrize("file_version", ["2.2"], indirect=True)
def test_a_missing_file_is_an_error(uri: str) -> None:
    gone = next((Path(uri) / "data").iterdir())
    gone.unlink()
    with pytest.raises(pennon.CorruptError, match=gone.name):
        pennon.dataset(uri).count_rows()


def test_a_table_of_lance_0_7_5(tmp_path: Path) -> None:
    """Neither the rows nor the deleted ones are counted, and the files are of version 0.1."""
    uri = str(tmp_path / "t")
    shutil.copytree(GOLDEN, uri)
    table = pennon.dataset(uri)
    assert table.count_rows() == len(table) == lance.dataset(uri).count_rows() == 9
    assert "rows=9" in repr(table)
    assert [part.physical_rows for part in table.get_fragments()] == [6, 4]
    assert assert_both_agree(uri)["id"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert table.to_table(filter="s = 's6' or id = 1").to_pydict() == {"id": [1, 6], "s": ["s1", "s6"]}
    assert table.take([8, 3], columns=["s"])["s"].to_pylist() == ["s9", "s4"]
    assert pennon.dataset(uri, version=1).count_rows() == 10
    assert [entry["version"] for entry in table.versions()] == [1, 2]
    report = pennon.verify(uri)
    assert report.ok, str(report)


def test_commits_to_a_table_of_lance_0_7_5(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    shutil.copytree(GOLDEN, uri)
    more = pa.table({"id": pa.array([20], pa.int64()), "s": ["x"]})
    with pytest.raises(pennon.UnsupportedError, match=r"0\.1 \(legacy\).*compact_files"):
        pennon.dataset(uri).insert(more)
    assert lance.dataset(uri).version == 2
    pennon.dataset(uri).delete("id = 7")
    assert assert_both_agree(uri)["id"].to_pylist() == [0, 1, 2, 4, 5, 6, 8, 9]
    assert pennon.dataset(uri).versions()[-1]["metadata"]["total_rows"] == "8"
    lance.dataset(uri).delete("id = 0")
    assert pennon.dataset(uri).optimize.compact_files(data_storage_version="2.2").fragments_removed == 2
    pennon.dataset(uri).insert(more)
    assert assert_both_agree(uri)["id"].to_pylist() == [1, 2, 4, 5, 6, 8, 9, 20]
    assert pennon.dataset(uri).cleanup_old_versions(retain_versions=1).old_versions > 2
    assert_both_agree(uri)
