"""Blob v2 (`lance.blob.v2`), written by one and read by the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.blob import Blob, BlobType, blob_array, blob_field
from pennon import _native
from pennon._table.writing import native_options

INLINE, DEDICATED = 64 << 10, 4 << 20
# On both sides of every threshold, nulls and empty ones between.
SIZES = [None, 0, 3, 1000, INLINE, INLINE + 1, None, DEDICATED, DEDICATED + 1, 70_000, 1, 0, 5_000_000, None]


def values(sizes: list[int | None], seed: int = 1) -> list[bytes | None]:
    rng = random.Random(seed)
    return [None if size is None else rng.randbytes(size) for size in sizes]


def table(sizes: list[int | None], **thresholds: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("b", **thresholds)])
    return pa.table([pa.array(range(len(sizes)), pa.int64()), blob_array(values(sizes))], schema=schema)


def many(count: int = 600) -> list[int | None]:
    rng = random.Random(9)
    return [rng.choice([None, 0, 5, 50, 51, 400, 401, 900]) for _ in range(count)]


def layout(uri: str, column: str = "b") -> list[Any]:
    """Of every blob where it is, except its position in the data file."""
    rows = lance.dataset(uri).scanner(columns=[column]).to_table()[column].to_pylist()
    return [row and (row["kind"], row["size"], row["blob_id"], row["kind"] and row["position"]) for row in rows]


def blob_bytes(path: Path) -> int:
    """The bytes of the blobs in a file, without the seal that Pennon writes behind them."""
    content = path.read_bytes()
    if not content.endswith(b"PENNSEAL"):
        return len(content)
    return len(content) - 16 - int.from_bytes(content[-16:-8], "little")


def files(uri: str) -> list[tuple[str, int]]:
    found = Path(uri).glob("data/*/*.blob")
    return sorted((path.name, blob_bytes(path)) for path in found)


def check_equal(uri: str, expected: list[bytes | None], column: str = "b") -> None:
    """Both read the same of a table, by every way."""
    reference, ours = lance.dataset(uri), pennon.dataset(uri)
    reference.validate()
    ours.validate()
    assert ours.schema == reference.schema
    both = reference.scanner(blob_handling="all_binary").to_table()
    assert ours.to_table(blob_handling="all_binary") == both
    if "." not in column:
        assert both[column].to_pylist() == expected
    assert ours.to_table() == reference.to_table()
    assert ours.to_table(blob_handling="all_descriptions") == reference.to_table()
    rows = [row for row in (5, 0, 3, len(expected) - 1, 3) if row < len(expected)]
    for dataset in (reference, ours):
        blobs = dataset.take_blobs(column, indices=rows)
        assert [blob and blob.readall() for blob in blobs] == [expected[row] for row in rows]
        if rows != sorted(set(rows)):
            rows = sorted(set(rows))
    assert ours.read_blobs(column, indices=rows) == reference.read_blobs(column, indices=rows)
    assert ours.take(rows) == reference.take(rows)
    assert ours.count_rows(f"{column} is null") == expected.count(None)


Write = Callable[..., Any]
WRITERS = pytest.mark.parametrize("write", [lance.write_dataset, pennon.write_dataset], ids=["lance", "pennon"])


@WRITERS
def test_all_kinds(tmp_path: Path, write: Write) -> None:
    uri = str(tmp_path / "t")
    write(table(SIZES), uri, data_storage_version="2.2", enable_stable_row_ids=True)
    check_equal(uri, values(SIZES))


@pytest.mark.parametrize(
    "thresholds",
    [
        {"inline_size_threshold": 50, "dedicated_size_threshold": 400, "pack_file_size_threshold": 3000},
        {"inline_size_threshold": 0, "dedicated_size_threshold": 1000},
        {"inline_size_threshold": 500, "dedicated_size_threshold": 50},
    ],
    ids=["all", "nothing-inline", "dedicated-first"],
)
def test_the_same_layout(tmp_path: Path, thresholds: dict[str, int]) -> None:
    data, uris = table(many(), **thresholds), [str(tmp_path / "lance"), str(tmp_path / "pennon")]
    for uri, write in zip(uris, (lance.write_dataset, pennon.write_dataset), strict=True):
        write(data, uri, data_storage_version="2.2", enable_stable_row_ids=True, max_rows_per_file=200)
        check_equal(uri, values(many()))
    assert layout(uris[0]) == layout(uris[1])
    assert files(uris[0]) == files(uris[1])
    assert len(files(uris[1])) >= 3


def test_a_limit_for_all_fields(tmp_path: Path) -> None:
    data, uris = table(many(), inline_size_threshold=4), [str(tmp_path / "lance"), str(tmp_path / "pennon")]
    for uri, write in zip(uris, (lance.write_dataset, pennon.write_dataset), strict=True):
        write(data, uri, data_storage_version="2.2", blob_pack_file_size_threshold=1000)
    assert layout(uris[0]) == layout(uris[1])


@WRITERS
def test_with_deletions_appended_and_rewritten(tmp_path: Path, write: Write) -> None:
    uri, sizes = str(tmp_path / "t"), many()
    data = table(sizes, inline_size_threshold=50, dedicated_size_threshold=400)
    write(data, uri, data_storage_version="2.2", enable_stable_row_ids=True, max_rows_per_file=250)
    lance.dataset(uri).delete("id % 3 = 0")
    pennon.dataset(uri).delete("id % 7 = 1 or (id > 500 and b is null)")
    pennon.write_dataset(data.slice(0, 9), uri, mode="append")
    lance.write_dataset(data.slice(9, 9), uri, mode="append")
    left = [row for row in range(len(sizes)) if row % 3 and row % 7 != 1 and not (row > 500 and sizes[row] is None)]
    expected = [values(sizes)[row] for row in [*left, *range(18)]]
    check_equal(uri, expected)
    table_before = pennon.dataset(uri)
    before = table_before.to_table(with_row_id=True, columns=["id"])
    old = [part.metadata for part in table_before.get_fragments()]
    numbers = [part.fragment_id for part in table_before.get_fragments()]
    _, written = _native.rewrite_fragments(table_before._native, numbers, native_options())
    group = pennon.LanceOperation.RewriteGroup(old, [pennon.FragmentMetadata._of(part.parts) for part in written])
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Rewrite([group], []), read_version=table_before.version)
    # By row id, which is the order of the rows before.
    check_equal(uri, expected)
    assert pennon.dataset(uri).to_table(with_row_id=True, columns=["id"]) == before
    # Blobs go with the files they belong to.
    pennon.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    check_equal(uri, expected)
    assert len(list(Path(uri).glob("data/*.lance"))) == 1
    assert {path.parent.name for path in Path(uri).glob("data/*/*.blob")} == {
        path.stem for path in Path(uri).glob("data/*.lance")
    }


@WRITERS
def test_in_structs_and_lists(tmp_path: Path, write: Write) -> None:
    blobs = [b"ab", None, b"c" * 70_000, b"", b"d" * 5_000_000, b"e"]
    inside = pa.StructArray.from_arrays(
        [blob_array(blobs), pa.array(range(6))],
        fields=[pa.field("b", BlobType()), pa.field("x", pa.int64())],
        mask=pa.array([False, False, False, True, False, False]),
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 4, None, 5, 6], pa.int32()), blob_array(blobs))
    uri, data = str(tmp_path / "t"), pa.table({"s": inside, "l": lists})
    # A slice is written by Pennon alone: of structs the reference makes a panic.
    write(data if write is lance.write_dataset else data.slice(1), uri, data_storage_version="2.2")
    start = 0 if write is lance.write_dataset else 1
    for fragments in (1, 2):
        reference, ours = lance.dataset(uri), pennon.dataset(uri)
        assert ours.to_table() == reference.to_table()
        whole = ours.to_table(blob_handling="all_binary")
        assert whole == reference.scanner(blob_handling="all_binary").to_table()
        structs = [{"b": b, "x": x} if x != 3 else None for x, b in enumerate(blobs)]
        assert whole["s"].to_pylist() == structs[start:] + structs[1:] * (fragments - 1)
        items = [[b"ab"], [], [None, b"c" * 70_000, b""], [b"d" * 5_000_000], None, [b"e"]]
        assert whole["l"].to_pylist() == items[start:] + items[1:] * (fragments - 1)
        found = ours.take_blobs("s.b", indices=[5 - start, 1 - start, 3 - start, 2 - start])
        assert [blob and blob.read() for blob in found] == [b"e", None, None, b"c" * 70_000]
        if fragments == 1:
            pennon.write_dataset(data.slice(1), uri, mode="append")


def test_written_by_workers(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table([pa.array(values(SIZES), pa.large_binary())], schema=pa.schema([field]))
    plan = pennon.jobs.plan_overwrite(uri, data.schema, tasks=2)
    plan.commit([task.run(data) for task in plan.tasks])
    check_equal(uri, values(SIZES) * 2)


def test_updated_and_merged(tmp_path: Path) -> None:
    uri, sizes = str(tmp_path / "t"), many(80)
    thresholds = {"inline_size_threshold": 50, "dedicated_size_threshold": 400}
    data = table(sizes, **thresholds)
    dataset = pennon.write_dataset(data, uri, max_rows_per_file=30)
    dataset.update({"id": "id + 1000"}, where="id % 4 = 0")
    expected = {row + 1000 * (row % 4 == 0): value for row, value in enumerate(values(sizes))}
    new = table([7, 60, 500, None], **thresholds)
    new = new.set_column(0, "id", pa.array([1, 2, 5000, 5001]))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)
    expected |= dict(zip([1, 2, 5000, 5001], values([7, 60, 500, None]), strict=True))
    found = lance.dataset(uri).scanner(blob_handling="all_binary").to_table()
    assert dict(zip(found["id"].to_pylist(), found["b"].to_pylist(), strict=True)) == expected
    check_equal(uri, found["b"].to_pylist())


def external(path: Path) -> list[Any]:
    path.write_bytes(b"external bytes 0123456789")
    uri = path.as_uri()
    return [Blob.from_uri(uri), Blob.from_uri(uri, 3, 5), b"in", None, Blob.empty()]


EXTERNAL = [b"external bytes 0123456789", b"ernal", b"in", None, b""]


@WRITERS
def test_addresses(tmp_path: Path, write: Write) -> None:
    uri, data = str(tmp_path / "t"), pa.table({"b": blob_array(external(tmp_path / "far away"))})
    with pytest.raises(OSError, match="outside registered external bases"):
        write(data, uri, data_storage_version="2.2")
    assert not list(Path(uri).glob("**/*.lance"))
    write(data, uri, data_storage_version="2.2", allow_external_blob_outside_bases=True)
    check_equal(uri, EXTERNAL)
    # A rewrite keeps addresses.
    before = lance.dataset(uri).to_table()
    dataset = pennon.dataset(uri)
    _, written = _native.rewrite_fragments(dataset._native, [0], native_options())
    group = pennon.LanceOperation.RewriteGroup(
        [part.metadata for part in dataset.get_fragments()], [pennon.FragmentMetadata._of(f.parts) for f in written]
    )
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Rewrite([group], []), read_version=dataset.version)
    check_equal(uri, EXTERNAL)
    assert lance.dataset(uri).to_table() == before


def test_addresses_below_a_base(tmp_path: Path) -> None:
    uri, data = str(tmp_path / "t"), pa.table({"b": blob_array(external(tmp_path / "far"))})
    base = lance.DatasetBasePath(tmp_path.as_uri(), name="base")
    lance.write_dataset(data, uri, data_storage_version="2.2", initial_bases=[base])
    assert lance.dataset(uri).to_table()["b"][0].as_py()["blob_id"] == 1
    check_equal(uri, EXTERNAL)


@pytest.mark.parametrize("path", ["../top", "/topto", "a/../x"])
def test_addresses_that_leave_their_base(tmp_path: Path, path: str) -> None:
    """The file is at hand, and still not read."""
    uri, base = str(tmp_path / "t"), tmp_path / "base"
    (base / "a").mkdir(parents=True)
    for name in ("base/letter", "top", "base/x"):
        (tmp_path / name).write_bytes(b"bytes")
    blobs = pa.table({"b": blob_array([Blob.from_uri((base / "letter").as_uri())])})
    bases = [lance.DatasetBasePath(base.as_uri(), name="base")]
    lance.write_dataset(blobs, uri, data_storage_version="2.2", initial_bases=bases)
    check_equal(uri, [b"bytes"])
    data = next(Path(uri).glob("data/*.lance"))
    assert b"letter" in data.read_bytes()
    data.write_bytes(data.read_bytes().replace(b"letter", path.encode()))
    for call in (
        lambda table: table.to_table(blob_handling="all_binary"),
        lambda table: table.take_blobs("b", indices=[0])[0].readall(),
    ):
        with pytest.raises(pennon.CorruptError, match="is not inside the table"):
            call(pennon.dataset(uri))


def test_copies_of_addresses(tmp_path: Path) -> None:
    uri, data = str(tmp_path / "t"), pa.table({"b": blob_array(external(tmp_path / "far"))})
    pennon.write_dataset(data, uri, external_blob_mode="ingest")
    (tmp_path / "far").unlink()
    check_equal(uri, EXTERNAL)
    with pytest.raises(pennon.InvalidInputError, match="external_blob_mode"):
        pennon.write_dataset(data, uri, external_blob_mode="move")
    with pytest.raises(pennon.InvalidInputError, match="only applies"):
        pennon.write_dataset(data, uri, external_blob_mode="ingest", allow_external_blob_outside_bases=True)


@WRITERS
def test_blobs_of_the_first_kind_become_those_of_the_second(tmp_path: Path, write: Write) -> None:
    uri = str(tmp_path / "t")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table([pa.array(values(SIZES), pa.large_binary())], schema=pa.schema([field]))
    write(data, uri, data_storage_version="2.2")
    check_equal(uri, values(SIZES))
    pennon.write_dataset(data.slice(0, 4), uri, mode="append")
    pennon.write_dataset(pa.table({"b": blob_array([b"x"])}), uri, mode="append")
    check_equal(uri, [*values(SIZES), *values(SIZES)[:4], b"x"])


def test_clones_have_their_blobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = pennon.write_dataset(table(SIZES), uri)
    dataset.deep_clone(str(tmp_path / "deep"), 1)
    dataset.shallow_clone(str(tmp_path / "shallow"), 1)
    check_equal(str(tmp_path / "shallow"), values(SIZES))
    for path in Path(uri).glob("data/**/*.blob"):
        path.unlink()
    check_equal(str(tmp_path / "deep"), values(SIZES))
    with pytest.raises(pennon.CorruptError, match=r"\.blob"):
        pennon.dataset(uri).to_table(blob_handling="all_binary")
    with pytest.raises(pennon.CorruptError, match=r"\.blob"):
        pennon.dataset(uri).read_blobs("b", indices=[8])


def test_our_own_module(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    field = pennon.blob_field("b", inline_size_threshold=10, nullable=False)
    assert field.metadata == blob_field("b", inline_size_threshold=10).metadata
    assert field.type.extension_name == "lance.blob.v2"
    given = [b"a" * 11, pennon.Blob.empty(), bytearray(b"xyz")]
    data = pa.table([pennon.blob_array(given)], schema=pa.schema([field]))
    dataset = pennon.write_dataset(data, uri)
    check_equal(uri, [b"a" * 11, b"", b"xyz"])
    file = dataset.take_blobs("b", ids=[0], buffer_size=4)[0]
    assert file is not None
    assert (file.read(3), file.tell(), file.seek(-2, 2), file.read(), file.read(1)) == (b"aaa", 3, 9, b"aa", b"")
    assert file.read_ranges([(0, 1), (10, 1)]) == [b"a", b"a"]
    with pytest.raises(pennon.InvalidInputError, match="12 of a blob of 11"):
        file.read_range(0, 12)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with pytest.raises(ValueError, match="Exactly one"):
        dataset.take_blobs("b")
    with pytest.raises(pennon.InvalidInputError, match="blob_handling"):
        dataset.to_table(blob_handling="bytes")
    other = pennon.write_dataset({"a": [1]}, str(tmp_path / "other"))
    for opened in (other, lance.dataset(str(tmp_path / "other"))):
        with pytest.raises(ValueError, match="the column 'a' is not a blob column"):
            opened.take_blobs("a", indices=[0])


def refused(tmp_path: Path, data: pa.Table, error: type[Exception], match: str, **options: Any) -> None:
    uri = tmp_path / "refused"
    with pytest.raises(error, match=match):
        pennon.write_dataset(data, str(uri), **options)
    assert not list(uri.glob("**/*.lance"))
    assert not list(uri.glob("**/*.blob"))


def test_refused(tmp_path: Path) -> None:
    blob = pa.table({"b": blob_array([b"x"])})
    for version in ("2.0", "2.1"):
        refused(tmp_path, blob, pennon.UnsupportedError, "`b`: Blob v2 requires", data_storage_version=version)
    mapped = pa.table({"m": pa.MapArray.from_arrays([0, 1], [1], blob_array([b"x"]))})
    refused(tmp_path, mapped, pennon.UnsupportedError, r"`m`: blob v2 \(lance.blob.v2\) in a map")
    named = {"ARROW:extension:name": "lance.blob.v2"}
    wrong = pa.schema([pa.field("b", pa.struct({"data": pa.binary(), "uri": pa.utf8()}), metadata=named)])
    refused(tmp_path, pa.table([[None]], schema=wrong), pennon.SchemaMismatchError, "`b`: blobs .* are structs")
    storage = BlobType().storage_type
    big = {"data": b"x" * 5_000_000}
    for value, says in [
        ({"data": None, "uri": None}, "neither"),
        ({"data": b"x", "uri": "y"}, "both"),
        ({"uri": "y", "position": 3}, "only one"),
        ({"uri": "y", "position": 3, "size": 0}, "0 bytes"),
        ({"uri": ""}, "empty uri"),
        ({"data": b"x", "position": 3, "size": 1}, "a range"),
    ]:
        array = pa.ExtensionArray.from_storage(BlobType(), pa.array([big, value], storage))
        refused(tmp_path, pa.table({"b": array}), pennon.InvalidInputError, f"field b: .*{says}")


def test_damaged_descriptors(tmp_path: Path) -> None:
    """Any byte of a data file may be another one: blobs come, or an error that says what is wrong."""
    uri = str(tmp_path / "t")
    data = table([3, 60, 500, None, 0], inline_size_threshold=50, dedicated_size_threshold=400)
    pennon.write_dataset(data, uri, durability="os")
    (path,) = Path(uri).glob("data/*.lance")
    good, outcomes = path.read_bytes(), {"read": 0, "refused": 0}
    for at in range(len(good)):
        value = (0xFF, good[at] ^ 1, 3)[at % 3]
        path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
        try:
            dataset = pennon.dataset(uri)
            found = dataset.to_table(columns=["b"], blob_handling="all_binary")
            assert found.num_rows == 5
            dataset.read_blobs("b", indices=[0, 1, 2, 3, 4])
            outcomes["read"] += 1
        except (pennon.CorruptError, pennon.UnsupportedError):
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 50, outcomes


@pytest.mark.parametrize("side", ["pennon", "lance"])
def test_verify_finds_blob_files_that_are_gone(tmp_path: Path, side: str) -> None:
    """Those that a version refers to, when its data is looked at; blobs of versions that are gone are nobody's."""
    uri = str(tmp_path / "t")
    write = {"pennon": pennon, "lance": lance}[side].write_dataset
    write(table(SIZES), uri, data_storage_version="2.2")
    write(table(SIZES[:9]), uri, mode="append")
    assert pennon.verify(uri, data=True).ok
    blob_files = sorted(Path(uri).glob("data/*/*.blob"))
    assert len(blob_files) > 4
    for path in blob_files:
        whole = path.read_bytes()
        for content in (None, whole[: blob_bytes(path) - 1], b""):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            assert pennon.verify(uri).ok
            (found,) = pennon.verify(uri, data=True).findings
            assert (found.kind, found.path) == ("missing_file" if content is None else "wrong_size", str(path))
            path.write_bytes(whole)
    assert pennon.dataset(uri).verify(data=True).ok


@pytest.mark.parametrize("matched", [[0], [0, 2]], ids=len)
def test_a_merge_leaves_external_blobs_of_other_rows(tmp_path: Path, matched: list[int]) -> None:
    (tmp_path / "far").write_bytes(b"0123456789")
    far = Blob.from_uri(f"file://{tmp_path}/far")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64()), blob_field("b")])
    data = pa.Table.from_arrays(
        [pa.array(range(3)), pa.array(range(3)), blob_array([b"a", far, b"z"])], schema=schema
    )
    new = [b"new"] * len(matched)
    source = pa.table(
        {"id": matched, "b": blob_array(new)}, schema=pa.schema([schema.field("id"), schema.field("b")])
    )
    options = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    table = pennon.write_dataset(data, str(tmp_path / "t"), **options)
    merged = table.merge_insert("id").when_matched_update_all().execute(source)
    assert merged["num_updated_rows"] == len(matched)
    expected = [b"new" if row in matched else old for row, old in enumerate([b"a", b"0123456789", b"z"])]
    assert table.to_table(blob_handling="all_binary").sort_by("id")["b"].to_pylist() == expected
