"""Data files: every column shape, version and direction. What one side writes, both read alike.

A file has one column, so that a shape that fails hides no other. What is refused stands in `refusals.py`. Shapes in
tables are in `test_types.py`.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pennon
import pennon.file
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from support.compare import assert_same
from support.refusals import (
    ALL,
    NOT_IN_FORMAT,
    OPTIONS_NOT_IN_FORMAT,
    OPTIONS_NOT_WRITTEN,
    OPTIONS_REFUSED,
    REFUSED,
    VERSIONS,
    works,
)
from support.shapes import LARGE, SHAPES
from support.spread import spread

ROWS = 2_500


@functools.cache
def column(name: str) -> pa.Array:
    return LARGE[name]() if name in LARGE else SHAPES[name](random.Random(f"7-{name}"), ROWS)


def every_shape(rows: int, version: str, direction: str) -> pa.Table:
    """All shapes that work as the columns of one table."""
    names = works(version, direction)
    return pa.table({name: SHAPES[name](random.Random(name), 5).slice(0, rows) for name in names})


def table(name: str, version: str, direction: str) -> pa.Table:
    if name in ("no-rows", "one-row"):
        return every_shape(int(name == "one-row"), version, direction)
    return pa.table({"value": column(name)})


def write(writer: type, path: Path, data: pa.Table, **options: object) -> str:
    if writer is pennon.file.LanceFileWriter:
        options["durability"] = "os"  # the reference never syncs
    with writer(str(path), data.schema, **options) as file:
        file.write_batch(data)
    return str(path)


def paths(kind: pa.DataType, name: str) -> list[str]:
    """Paths of the fields below a field."""
    if pa.types.is_struct(kind):
        return [
            p for member in kind for p in (f"{name}.{member.name}", *paths(member.type, f"{name}.{member.name}"))
        ]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = f"{name}.{kind.value_field.name}"
        return [item, *paths(kind.value_type, item)] if pa.types.is_nested(kind.value_type) else []
    return []


def assert_read_alike(path: str, expected: pa.Table, seed: str, members: bool = True) -> None:
    """Both read the same from a file, in every way of reading: expected rows, types as the reference says."""
    rng = random.Random(seed)
    ours, theirs = pennon.file.LanceFileReader(path), LanceFileReader(path)
    rows = expected.num_rows
    assert ours.num_rows() == theirs.num_rows() == rows
    assert ours.metadata().schema.equals(theirs.metadata().schema, check_metadata=True)
    # The largest arrays of the reference come in batches that differ from ours.
    everything = ours.read_all().to_table()
    assert_same(everything, expected.cast(everything.schema) if everything.schema != expected.schema else expected)
    assert_same(everything, theirs.read_all().to_table())
    for batch_size in (1024, 7):
        start = rng.randrange(rows + 1)
        count = rng.randint(0, min(rows - start, 50 * batch_size))
        found = ours.read_range(start, count, batch_size=batch_size).to_table()
        assert_same(found, everything.slice(start, count))
        assert_same(found, theirs.read_range(start, count).to_table())
    for count in (1, 2, 90):
        picks = sorted(rng.sample(range(rows), min(count, rows)))
        found = ours.take_rows(picks).to_table()
        assert_same(found, everything.take(pa.array(picks, pa.int64())))
        assert_same(found, theirs.take_rows(picks).to_table())
    nested = [path for field in expected.schema for path in paths(field.type, field.name) if members]
    # Of a field and one inside it the reference puts the inner one first, if it is asked for first.
    pairs = [
        [a, b] for a, b in itertools.permutations(nested[:12], 2) if not a.startswith(b) and not b.startswith(a)
    ]
    for columns in [[path] for path in nested[:12]] + rng.sample(pairs, min(len(pairs), 2)):
        found = pennon.file.LanceFileReader(path, columns=columns).read_all().to_table()
        assert_same(found, LanceFileReader(path, columns=columns).read_all().to_table())


@spread(of=1, times=2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(ALL))
def test_reads(tmp_path: Path, name: str, version: str) -> None:
    path = tmp_path / "a.lance"
    if name in NOT_IN_FORMAT[version]:
        with pytest.raises((ValueError, OSError, NotImplementedError, RuntimeError)):
            write(LanceFileWriter, path, table(name, version, "reads"), version=version)
        return
    refused = name in REFUSED["reads", version]
    data = table(name, version, "reads")
    if data.num_columns == 0:
        assert refused
        return
    write(LanceFileWriter, path, data, version=version)
    if refused:
        with pytest.raises(pennon.UnsupportedError):
            pennon.file.LanceFileReader(path).read_all().to_table()
        return
    assert_read_alike(str(path), data, name + version)


@spread(of=1, times=2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(ALL))
def test_writes(tmp_path: Path, name: str, version: str) -> None:
    path = tmp_path / "a.lance"
    data = table(name, version, "writes")
    if name in NOT_IN_FORMAT[version] | REFUSED["writes", version]:
        with pytest.raises((pennon.UnsupportedError, pennon.InvalidInputError)):
            write(pennon.file.LanceFileWriter, path, data, version=version)
        assert list(tmp_path.iterdir()) == []
        return
    write(pennon.file.LanceFileWriter, path, data, version=version)
    assert_read_alike(str(path), data, name + version)


@pytest.mark.parametrize("version", VERSIONS)
def test_small_pages(tmp_path: Path, version: str) -> None:
    """Many pages per column, whose rows do not end together; batches that end in the middle of pages."""
    names = ["int64-nulls", "utf8-urls", "list-utf8-nulls", "struct-nulls", "fsl-int16-nulls", "bool", "deep"]
    names = [name for name in (*names, "deep-without-nulls") if name in works(version, "writes")]
    data = pa.table({name: column(name) for name in names})
    path = str(tmp_path / "a.lance")
    with pennon.file.LanceFileWriter(path, data.schema, version=version, max_page_bytes=2_000) as writer:
        for start in range(0, ROWS, 333):
            writer.write_batch(data.slice(start, 333))
    columns = pennon.file.LanceFileReader(path).metadata().columns
    # In file version 2.0 structs have a column, of one page.
    assert all(len(c.pages) > 1 or c.pages[0].encoding == "struct" for c in columns if c.name != "bool")
    assert_read_alike(path, data, version)
    with LanceFileWriter(path, data.schema, version=version, data_cache_bytes=1) as writer:
        for start in range(0, ROWS, 333):
            # Not a slice: the reference panics on slices of structs in structs.
            writer.write_batch(data.take(pa.array(range(start, min(start + 333, ROWS)))))
    assert_read_alike(path, data, version)


def test_unstable_version(tmp_path: Path) -> None:
    """Files of version 2.3 are refused by name."""
    path = write(LanceFileWriter, tmp_path / "a.lance", pa.table({"a": [1, 2]}), version="2.3")
    with pytest.raises(pennon.UnsupportedError, match=r"2\.3"):
        pennon.file.LanceFileReader(path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", [LanceFileWriter, pennon.file.LanceFileWriter], ids=["reference", "pennon"])
def test_what_files_say(tmp_path: Path, writer: type, version: str) -> None:
    """Metadata, statistics and buffers are read alike."""
    data = pa.table({name: column(name) for name in ("int64-nulls", "utf8-urls", "struct", "list-int64")})
    path = str(tmp_path / "a.lance")
    with writer(path, data.schema.with_metadata({"k": "v"}), version=version) as file:
        file.write_batch(data)
        file.add_schema_metadata("added", "later")
        assert [file.add_global_buffer(b"one"), file.add_global_buffer(b"")] == [1, 2]
    ours, theirs = pennon.file.LanceFileReader(path), LanceFileReader(path)
    found, expected = ours.metadata(), theirs.metadata()
    for name in (
        "num_rows",
        "num_data_bytes",
        "num_column_metadata_bytes",
        "num_global_buffer_bytes",
        "major_version",
        "minor_version",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.schema.metadata == {b"k": b"v", b"added": b"later"}

    def places(buffers: list) -> list[tuple[int, int]]:
        return [(buffer.position, buffer.size) for buffer in buffers]

    assert places(found.global_buffers) == places(expected.global_buffers)
    for ours_column, their_column in zip(found.columns, expected.columns, strict=True):
        assert [places(p.buffers) for p in ours_column.pages] == [places(p.buffers) for p in their_column.pages]
    statistics = [[(c.num_pages, c.size_bytes) for c in r.file_statistics().columns] for r in (ours, theirs)]
    assert statistics[0] == statistics[1]
    for index in (0, 1, 2):
        assert ours.read_global_buffer(index) == theirs.read_global_buffer(index)


def _numbers(kind: pa.DataType) -> pa.Array:
    rng = random.Random(4)
    return pa.array([rng.randint(0, 1000) for _ in range(4000)], pa.int32()).cast(kind)


def _texts() -> pa.Array:
    rng = random.Random(5)
    return pa.array([f"text number {rng.randint(0, 10**6)} of many" for _ in range(4000)])


def _few() -> pa.Array:
    rng = random.Random(6)
    return pa.array([f"text number {rng.randint(0, 9)} of many" for _ in range(4000)])


def _packed(text: bool) -> pa.Array:
    members = {"a": pa.array(range(4000), pa.int32()), "b": _numbers(pa.float64())}
    if text:
        members["c"] = _texts()
    return pa.StructArray.from_arrays(list(members.values()), names=list(members))


def _blobs() -> pa.Array:
    rng = random.Random(7)
    blobs = [rng.randbytes(rng.randint(1, 3000)) for _ in range(60)]
    return pa.array([None, b"", *blobs, None], pa.large_binary())


# Options in a column's metadata that change how the reference stores it: values, options, and what its own page
# description must say then (checked, so that no case tests the default by mistake).
OPTIONS: dict[str, tuple[Callable[[], pa.Array], dict[str, str], str | None]] = {}
SAYS = {"zstd": "CompressionAlgorithmZstd", "lz4": "CompressionAlgorithmLz4", "fsst": None, "none": None}
for _scheme, _says in SAYS.items():
    for _name, _make, _applies in (
        ("int32", lambda: _numbers(pa.int32()), True),
        ("float64", lambda: _numbers(pa.float64()), True),
        ("utf8", _texts, True),
        ("few-texts", _few, True),
        ("nulls", lambda: column("int64-nulls"), True),
        ("list", lambda: column("list-utf8-nulls"), True),
        ("list-of-long-texts", lambda: column("list-of-long-texts"), _scheme == "zstd"),
        ("bool", lambda: column("bool"), False),
        ("fsl", lambda: column("fsl-float32"), False),
        ("wide-fsl", lambda: column("fsl-float32-wide"), False),
        # LZ4 is refused for single values: the reference takes zstd then.
        ("long-texts", lambda: column("utf8-long"), _scheme == "zstd"),
        ("fixed-binary", lambda: column("fixed-size-binary"), True),
    ):
        OPTIONS[f"{_scheme}-{_name}"] = (_make, {"compression": _scheme}, _says if _applies else None)
OPTIONS |= {
    "zstd-level": (_texts, {"compression": "zstd", "compression-level": "9"}, None),
    "bss-float32": (lambda: _numbers(pa.float32()), {"bss": "on", "compression": "lz4"}, "ByteStreamSplit"),
    "bss-float64": (lambda: _numbers(pa.float64()), {"bss": "on", "compression": "zstd"}, "ByteStreamSplit"),
    "bss-off": (lambda: _numbers(pa.float64()), {"bss": "off", "compression": "zstd"}, None),
    "rle-always": (lambda: column("int64-runs"), {"rle-threshold": "1.0"}, "Rle"),
    "rle-nulls": (lambda: column("int16-runs-nulls"), {"rle-threshold": "1.0"}, None),
    "rle-never": (lambda: column("int64-runs"), {"rle-threshold": "0.0"}, None),
    "dictionary-often": (_texts, {"dict-divisor": "1", "dict-size-ratio": "1.0"}, None),
    "dictionary-never": (_few, {"dict-size-ratio": "0.0001"}, None),
    "dictionary-zstd": (_few, {"dict-values-compression": "zstd", "dict-values-compression-level": "3"}, None),
    "dictionary-plain": (_few, {"dict-values-compression": "none"}, None),
    "miniblock": (
        lambda: column("fsl-float32-wide").slice(0, 50),
        {"structural-encoding": "miniblock"},
        "MiniBlock",
    ),
    "fullzip": (lambda: column("int64-full-range"), {"structural-encoding": "fullzip"}, "FullZip"),
    "fullzip-utf8": (lambda: column("utf8-short"), {"structural-encoding": "fullzip"}, "FullZip"),
    "fullzip-list": (lambda: column("list-int64-nulls"), {"structural-encoding": "fullzip"}, "FullZip"),
    "fullzip-list-utf8": (lambda: column("list-utf8-nulls"), {"structural-encoding": "fullzip"}, "FullZip"),
    "fullzip-bool": (lambda: column("bool"), {"structural-encoding": "fullzip"}, None),
    "fullzip-struct": (lambda: column("deep"), {"structural-encoding": "fullzip"}, None),
    "packed": (lambda: _packed(text=False), {"packed": "true"}, "PackedStruct"),
    "packed-text": (lambda: _packed(text=True), {"packed": "true"}, "VariablePackedStruct"),
    "blob": (_blobs, {"blob": "true"}, None),
}
# Columns that are stored unlike any other: what holds them, and the versions that know them.
SPECIAL: dict[str, tuple[Callable[[], tuple[pa.Array, pa.Field]], list[str]]] = {}


def special(name: str, versions: str) -> Callable:
    def register(make: Callable) -> Callable:
        SPECIAL[name] = (make, versions.split())
        return make

    return register


def _flagged(kind: pa.DataType, flag: str, name: str = "value") -> pa.Field:
    return pa.field(name, kind, metadata={f"lance-encoding:{flag}": "true"})


@special("packed-nulls", "2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    values = [None if i % 9 == 4 else {"a": i, "b": bytes([i % 256] * 3)} for i in range(3000)]
    kind = pa.struct([("a", pa.int32()), ("b", pa.binary(3))])
    return pa.array(values, kind), _flagged(kind, "packed")


@special("packed-only-nulls", "2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.struct([("a", pa.int32())])
    return pa.array([None] * 50, kind), _flagged(kind, "packed")


@special("packed-lists", "2.0 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.struct([("a", pa.int8()), ("v", pa.list_(pa.float32(), 3))])
    return pa.array([{"a": i % 99, "v": [i, i + 0.5, -i]} for i in range(3000)], kind), _flagged(kind, "packed")


@special("packed-text-nulls", "2.2")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.struct([("t", pa.utf8()), ("v", pa.list_(pa.int16(), 2)), ("b", pa.large_binary())])
    value = lambda i: {"t": f"text {i}", "v": [i, None if i % 7 == 0 else 1], "b": b"x" * (i % 5)}  # noqa: E731
    return pa.array([None if i % 9 == 4 else value(i) for i in range(3000)], kind), _flagged(kind, "packed")


@special("packed-wide", "2.0 2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    values = pa.StructArray.from_arrays(
        [pa.array(range(i, i + 500)) for i in range(40)], [f"m{i}" for i in range(40)]
    )
    return values, _flagged(values.type, "packed")


@special("list-of-packed", "2.0 2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    item = _flagged(pa.struct([("a", pa.int32()), ("b", pa.float64())]), "packed", "item")
    values = [None if i % 5 == 3 else [{"a": i, "b": k / 3} for k in range(i % 4)] for i in range(3000)]
    return pa.array(values, pa.list_(item)), pa.field("value", pa.list_(item))


@special("packed-in-struct", "2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    member = _flagged(pa.struct([("a", pa.int32()), ("b", pa.float64())]), "packed", "p")
    kind = pa.struct([member, ("x", pa.int32())])
    value = lambda i: {"p": None if i % 4 == 0 else {"a": i, "b": i / 3}, "x": i}  # noqa: E731
    return pa.array([None if i % 9 == 4 else value(i) for i in range(3000)], kind), pa.field("value", kind)


@special("blob-in-struct", "2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.struct([_flagged(pa.large_binary(), "blob", "b"), ("x", pa.int32())])
    value = lambda i: {"b": None if i % 4 == 0 else bytes(i % 50), "x": i}  # noqa: E731
    return pa.array([None if i % 9 == 4 else value(i) for i in range(3000)], kind), pa.field("value", kind)


@special("list-of-blobs", "2.0")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.list_(_flagged(pa.large_binary(), "blob", "item"))
    values = [
        None if i % 5 == 3 else [None if k == 1 else bytes(i % 50) for k in range(i % 4)] for i in range(3000)
    ]
    return pa.array(values, kind), pa.field("value", kind)


@special("only-null-blobs", "2.0 2.1 2.2")
def _() -> tuple[pa.Array, pa.Field]:
    return pa.nulls(20, pa.large_binary()), _flagged(pa.large_binary(), "blob")


@special("fsl-of-structs-with-lists", "2.2")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.list_(pa.struct([("x", pa.int32()), ("l", pa.list_(pa.utf8()))]), 3)
    item = lambda i: None if i % 7 == 0 else {"x": i, "l": None if i % 5 == 0 else [str(i)] * (i % 3)}  # noqa: E731
    values = [None if i % 9 == 4 else [item(i), item(i + 1), item(2 * i)] for i in range(3000)]
    return pa.array(values, kind), pa.field("value", kind)


@special("fsl-of-structs-in-struct", "2.2")
def _() -> tuple[pa.Array, pa.Field]:
    kind = pa.struct([("f", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.bool_())]), 2))])
    item = lambda i: {"x": None if i % 3 == 0 else i, "y": i % 2 == 0}  # noqa: E731
    value = lambda i: {"f": None if i % 6 == 1 else [item(i), item(i + 1)]}  # noqa: E731
    return pa.array([None if i % 9 == 4 else value(i) for i in range(3000)], kind), pa.field("value", kind)


def with_options(kind: pa.DataType, name: str, options: dict[str, str]) -> pa.Field:
    """The field with the options on it, and on the items of a list, which is where the reference looks then."""
    if pa.types.is_list(kind):
        kind = pa.list_(with_options(kind.value_type, "item", options))
    return pa.field(name, kind, metadata={f"lance-encoding:{key}": value for key, value in options.items()})


def optioned(name: str) -> pa.Table:
    make, options, _ = OPTIONS[name]
    values = make()
    field = with_options(values.type, "value", options)
    return pa.table([values.cast(field.type)], schema=pa.schema([field]))


@spread(of=1, times=2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_options_are_written(tmp_path: Path, name: str, version: str) -> None:
    path = tmp_path / "a.lance"
    if name in OPTIONS_NOT_WRITTEN[version]:
        with pytest.raises((pennon.UnsupportedError, pennon.InvalidInputError)):
            write(pennon.file.LanceFileWriter, path, optioned(name), version=version)
        return
    write(pennon.file.LanceFileWriter, path, optioned(name), version=version)
    assert_read_alike(str(path), optioned(name), name, members=not name.startswith("packed"))


@spread()
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("max_page_bytes", [None, 2_000])
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_columns_are_written(tmp_path: Path, name: str, max_page_bytes: int | None, version: str) -> None:
    make, versions = SPECIAL[name]
    values, field = make()
    data = pa.table([values], schema=pa.schema([field]))
    if version not in versions:
        with pytest.raises((pennon.UnsupportedError, pennon.InvalidInputError)):
            write(pennon.file.LanceFileWriter, tmp_path / "a.lance", data, version=version)
        return
    path, options = str(tmp_path / "a.lance"), {"max_page_bytes": max_page_bytes} if max_page_bytes else {}
    with pennon.file.LanceFileWriter(path, data.schema, version=version, durability="os", **options) as writer:
        for start in range(0, len(values), 333):
            writer.write_batch(data.slice(start, 333))
    assert_read_alike(path, data, name, members=False)


@spread(of=1, times=2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_options_are_read(tmp_path: Path, name: str, version: str) -> None:
    data, says = optioned(name), OPTIONS[name][2]
    path = tmp_path / "a.lance"
    if name in OPTIONS_NOT_IN_FORMAT[version]:
        with pytest.raises((ValueError, OSError, NotImplementedError, RuntimeError)):
            write(LanceFileWriter, path, data, version=version)
        return
    write(LanceFileWriter, path, data, version=version)
    if says and version == "2.2":
        assert any(says in page.encoding for c in LanceFileReader(str(path)).metadata().columns for page in c.pages)
    if name in OPTIONS_REFUSED[version]:
        with pytest.raises(pennon.UnsupportedError):
            pennon.file.LanceFileReader(path).read_all().to_table()
        return
    # The reference reads a member of a packed struct wrong, or not at all, if it is asked for alone.
    members = not name.startswith("packed")
    assert_read_alike(str(path), data, name, members=members)
    if not members:
        found = pennon.file.LanceFileReader(path, columns=["value.b"]).read_all().to_table()
        assert found["value"].combine_chunks().field("b").equals(data["value"].combine_chunks().field("b"))
