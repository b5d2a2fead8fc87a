"""Data of every shape that gets an encoding of its own: what Pennon writes the reference reads, in full, by range
and by position, and the file is hardly larger than the reference's.
"""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from support.compare import assert_same
from support.spread import spread

SHAPES: dict[str, Callable[[np.random.Generator, random.Random], pa.Array]] = {}
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
]
# A file of the reference may be smaller by a twentieth where these are stored.
SIZED = [
    "binary-few",
    "constant-with-nulls",
    "date32",
    "decimal128-few",
    "float64-random",
    "int32-null-runs",
    "int32-sequential",
    "int64-few",
    "int64-random",
    "int64-runs",
    "int64-small",
    "list-of-small",
    "text",
    "text-and-number",
    "utf8-constant",
    "utf8-few",
    "utf8-few-in-runs",
    "utf8-long",
    "utf8-some",
]


def shape(build: Callable) -> Callable:
    SHAPES[build.__name__.strip("_").replace("_", "-")] = build
    return build


def nulled(rng: random.Random, array: pa.Array, share: float) -> pa.Array:
    mask = pa.array([rng.random() < share for _ in range(len(array))])
    return pa.compute.if_else(mask, pa.scalar(None, array.type), array)


@shape
def int64_small(np_rng, rng):
    return pa.array(np_rng.integers(0, 1000, 20_000))


@shape
def int32_sequential(np_rng, rng):
    return pa.array(np.arange(20_000, dtype=np.int32))


@shape
def int64_random(np_rng, rng):
    return pa.array(np_rng.integers(-(2**62), 2**62, 20_000))


@shape
def float64_random(np_rng, rng):
    return pa.array(np_rng.random(20_000))


@shape
def date32(np_rng, rng):
    return pa.array(np_rng.integers(10_000, 20_000, 20_000).astype(np.int32)).view(pa.date32())


@shape
def uint8_small(np_rng, rng):
    return pa.array(np_rng.integers(0, 7, 20_000).astype(np.uint8))


@shape
def uint16_small_nulls(np_rng, rng):
    return nulled(rng, pa.array(np_rng.integers(0, 300, 20_000).astype(np.uint16)), 0.3)


@shape
def int32_null_runs(np_rng, rng):
    return pa.array([None if i // 500 % 2 else i for i in range(20_000)], pa.int32())


@shape
def int64_widths_of_all_kinds(np_rng, rng):
    return pa.array([rng.getrandbits(i // 300 % 64) for i in range(25_000)], pa.int64())


@shape
def int16_few_rows(np_rng, rng):
    return pa.array([1, 2, None, 4], pa.int16())


@shape
def list_of_small(np_rng, rng):
    values = [[rng.randint(0, 9) for _ in range(rng.randint(0, 4))] for _ in range(9_000)]
    return nulled(rng, pa.array(values, pa.list_(pa.int32())), 0.1)


@shape
def list_mostly_empty(np_rng, rng):
    """Runs of levels without values: chunks of bit packing with fewer than 1,024 values."""
    values = [[rng.randint(0, 9)] if i % 50 == 0 else [] for i in range(110_000)]
    return pa.array(values, pa.list_(pa.int32()))


@shape
def list_of_lists(np_rng, rng):
    values = [
        [[rng.randint(0, 99)] * rng.randint(0, 3) if rng.random() < 0.8 else None for _ in range(rng.randint(0, 3))]
        for _ in range(9_000)
    ]
    return pa.array(values, pa.list_(pa.list_(pa.int64())))


@shape
def struct_of_nulls(np_rng, rng):
    kind = pa.struct([("x", pa.int32()), ("t", pa.timestamp("us", "UTC"))])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    values = [
        None if rng.random() < 0.1 else {"x": None if i % 5 == 0 else i, "t": start + datetime.timedelta(seconds=i)}
        for i in range(9_000)
    ]
    return pa.array(values, kind)


@shape
def fixed_size_list_small(np_rng, rng):
    return nulled(rng, pa.array(np_rng.random((5_000, 4)).tolist(), pa.list_(pa.float32(), 4)), 0.1)


@shape
def fixed_size_list_wide(np_rng, rng):
    flat = pa.array(np_rng.random(2_000 * 128, dtype=np.float32))
    return pa.FixedSizeListArray.from_arrays(flat, 128)


@shape
def boolean(np_rng, rng):
    return nulled(rng, pa.array(np_rng.random(20_000) < 0.5), 0.1)


@shape
def decimal128(np_rng, rng):
    return pa.array([decimal.Decimal(rng.randint(-(10**12), 10**12)).scaleb(-2) for _ in range(9_000)])


@shape
def text(np_rng, rng):
    return pa.array([" ".join(rng.choices(WORDS, k=10)) for i in range(20_000)])


@shape
def text_and_number(np_rng, rng):
    return pa.array([" ".join(rng.choices(WORDS, k=8)) + f" {rng.randrange(10**6)}" for i in range(9_000)])


@shape
def utf8_long(np_rng, rng):
    return pa.array([" ".join(rng.choices(WORDS, k=80)) for _ in range(2_000)])


@shape
def utf8_few(np_rng, rng):
    return nulled(rng, pa.array([f"carrier-{rng.randint(0, 9)}" for _ in range(9_000)], pa.large_utf8()), 0.1)


@shape
def utf8_few_in_runs(np_rng, rng):
    return pa.array([f"carrier-{i // 200 % 20}" for i in range(30_000)])


@shape
def utf8_some(np_rng, rng):
    return pa.array([f"customer number {rng.randint(0, 3_000)}" for _ in range(30_000)])


@shape
def utf8_noise(np_rng, rng):
    return pa.array(["".join(map(chr, rng.choices(range(32, 127), k=20))) for _ in range(9_000)])


@shape
def utf8_not_ascii(np_rng, rng):
    return pa.array(["".join(map(chr, rng.choices(range(0x400, 0x440), k=10))) for _ in range(9_000)])


@shape
def binary_few(np_rng, rng):
    return pa.array([b"\x00abc" * rng.randint(1, 20) for _ in range(9_000)])


@shape
def dictionary_type(np_rng, rng):
    return pa.array([f"value number {rng.randint(0, 300)}" for _ in range(9_000)]).dictionary_encode()


@shape
def int64_few(np_rng, rng):
    return pa.array(np_rng.integers(-(2**62), 2**62, 100)[np_rng.integers(0, 100, 20_000)])


@shape
def int64_runs(np_rng, rng):
    return pa.array(np.repeat(np_rng.integers(0, 2**40, 400), 50))


@shape
def int32_short_runs(np_rng, rng):
    return pa.array(np.repeat(np_rng.integers(-(2**31), 2**31, 5_000), 4).astype(np.int32))


@shape
def constant_with_nulls(np_rng, rng):
    return pa.array([None if i // 300 % 2 else 7 for i in range(20_000)], pa.int32())


@shape
def utf8_constant(np_rng, rng):
    return pa.array(["the same everywhere"] * 9_000)


@shape
def large_utf8_constant_in_lists(np_rng, rng):
    return pa.array([["same"] * (i % 4) if i % 5 else None for i in range(9_000)], pa.list_(pa.large_utf8()))


@shape
def decimal128_few(np_rng, rng):
    return pa.array([decimal.Decimal(rng.randint(-20, 20)).scaleb(-2) for _ in range(20_000)], pa.decimal128(20, 2))


@shape
def list_of_words(np_rng, rng):
    values = [rng.choices(WORDS, k=rng.randint(0, 5)) if rng.random() < 0.9 else None for _ in range(9_000)]
    return pa.array(values, pa.list_(pa.utf8()))


@shape
def all_null_structs_and_empty_lists(np_rng, rng):
    values = [None if i % 9 == 0 else {"l": [] if i % 2 else None} for i in range(9_000)]
    return pa.array(values, pa.struct([("l", pa.list_(pa.int32()))]))


@shape
def huge_strings(np_rng, rng):
    return pa.array([(" ".join(rng.choices(WORDS, k=8)) * 2_000) if i % 3 else None for i in range(40)])


@shape
def binary_long(np_rng, rng):
    return pa.array([rng.randbytes(rng.randint(200, 700)) for _ in range(2_000)], pa.large_binary())


@shape
def float32_two_clusters(np_rng, rng):
    return pa.array((np_rng.random(20_000) * (1 - 2 * np_rng.integers(0, 2, 20_000))).astype(np.float32))


def write(array: pa.Array, path: Path, version: str, metadata: dict[str, str] | None = None) -> Path:
    """Writes one column with Pennon and returns its data file."""
    schema = pa.schema([pa.field("x", array.type, metadata=metadata)])
    pennon.write_dataset(pa.Table.from_arrays([array], schema=schema), str(path), data_storage_version=version)
    (file,) = path.glob("data/*.lance")
    return file


def write_reference(array: pa.Array, path: Path, version: str, metadata: dict[str, str] | None = None) -> Path:
    schema = pa.schema([pa.field("x", array.type, metadata=metadata)])
    lance.write_dataset(pa.Table.from_arrays([array], schema=schema), str(path), data_storage_version=version)
    (file,) = path.glob("data/*.lance")
    return file


def check(array: pa.Array, path: Path, file: Path) -> None:
    """The reference reads the file, and Pennon the table, as what was written."""
    expected = pa.table({"x": array})
    reader = LanceFileReader(str(file))
    assert_same(reader.read_all().to_table(), expected)
    rng = random.Random(len(array))
    for _ in range(5):
        start = rng.randrange(len(array))
        count = rng.randint(1, len(array) - start)
        assert_same(reader.read_range(start, count).to_table(), expected.slice(start, count))
    rows = sorted(rng.sample(range(len(array)), min(50, len(array))))
    assert_same(reader.take_rows(rows).to_table(), expected.take(rows))
    ours = pennon.dataset(str(path))
    assert_same(ours.to_table(), expected)
    assert_same(ours.take(rows), expected.take(rows))


def build(name: str) -> pa.Array:
    array = SHAPES[name](np.random.default_rng(7), random.Random(7))
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


@spread(of=1, times=2)
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_what_pennon_writes_both_read(tmp_path: Path, name: str, file_version: str) -> None:
    array = build(name)
    if file_version == "2.0" and name in ("struct-of-nulls", "all-null-structs-and-empty-lists"):
        with pytest.raises(pennon.InvalidInputError, match="null structs"):
            write(array, tmp_path / "t", file_version)
        return
    check(array, tmp_path / "t", write(array, tmp_path / "t", file_version))


@pytest.mark.parametrize("name", SIZED)
def test_files_are_hardly_larger_than_the_reference_s(tmp_path: Path, name: str, file_version: str) -> None:
    array = build(name)
    ours = write(array, tmp_path / "ours", file_version).stat().st_size
    theirs = write_reference(array, tmp_path / "theirs", file_version).stat().st_size
    # The files are small: checksums and what aligns them take up to 128 bytes.
    assert ours <= 1.05 * theirs + 128


OPTIONS = [
    {"compression": "zstd"},
    {"compression": "zstd", "compression-level": "9", "bss": "off"},
    {"compression": "lz4"},
    {"compression": "lz4", "bss": "on"},
    {"compression": "none"},
    {"compression": "fsst"},
    {"rle-threshold": "0.0"},
    {"dict-divisor": "100", "dict-size-ratio": "0.2", "dict-values-compression": "none"},
    {"dict-values-compression": "zstd", "dict-values-compression-level": "3"},
    {"structural-encoding": "miniblock"},
    {"structural-encoding": "fullzip"},
]
ASKED = [
    "boolean",
    "binary-few",
    "binary-long",
    "fixed-size-list-small",
    "float32-two-clusters",
    "int64-runs",
    "int64-small",
    "text",
    "utf8-few",
]


@spread()
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(f"{k}-{v}" for k, v in o.items()))
def test_what_a_field_asks_for(tmp_path: Path, name: str, options: dict[str, str], file_version: str) -> None:
    array = build(name)
    file = write(array, tmp_path / "t", file_version, {f"lance-encoding:{k}": v for k, v in options.items()})
    schema = pa.schema([pa.field("x", array.type)])
    reader = LanceFileReader(str(file))
    expected = pa.Table.from_arrays([array], schema=schema)
    assert reader.read_all().to_table().replace_schema_metadata().cast(schema).equals(expected)
    rows = [0, 17, len(array) // 2, len(array) - 1]
    assert reader.take_rows(rows).to_table().cast(schema).equals(expected.take(rows))
    ours = pennon.dataset(str(tmp_path / "t"))
    assert ours.to_table().cast(schema).equals(expected)
    assert ours.take(rows).cast(schema).equals(expected.take(rows))


def encoding(file: Path) -> str:
    """What the reference calls the layout of the first page."""
    return str(LanceFileReader(str(file)).metadata().columns[0].pages[0].encoding)


# Encodings of file version 2.0 are not chosen by options, except the compression of strings.
@pytest.mark.parametrize("file_version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("huge-strings", {}, ["FullZip", "General", "Zstd"]),
        ("float64-random", {"compression": "zstd", "bss": "on"}, ["General", "Zstd", "ByteStreamSplit"]),
        ("text", {"compression": "lz4"}, ["General", "Lz4", "Variable"]),
        ("text", {"compression": "none"}, ["Variable"]),
        ("float64-random", {"compression": "lz4", "bss": "on"}, ["General", "Lz4", "ByteStreamSplit"]),
        ("int64-small", {"structural-encoding": "fullzip"}, ["FullZip"]),
        ("fixed-size-list-wide", {"structural-encoding": "miniblock"}, ["MiniBlock"]),
        ("text", {}, ["Fsst"]),
        ("utf8-long", {}, ["FullZip", "Fsst"]),
        ("binary-long", {"compression": "none"}, ["FullZip"]),
        ("int64-runs", {"rle-threshold": "0.0", "dict-divisor": "1000"}, ["InlineBitpacking"]),
        ("utf8-few", {"dict-values-compression": "none"}, ["dictionary: Some", "InlineBitpacking"]),
        ("utf8-few", {"dict-size-ratio": "0.01"}, ["dictionary: None", "Fsst"]),
        ("utf8-few", {"dict-divisor": "5000"}, ["dictionary: None", "Fsst"]),
    ],
)
def test_options_have_an_effect(
    tmp_path: Path, name: str, options: dict[str, str], words: list[str], file_version: str
) -> None:
    file = write(build(name), tmp_path / "t", file_version, {f"lance-encoding:{k}": v for k, v in options.items()})
    found = encoding(file)
    assert all(word in found for word in words), found
    others = {"General", "Fsst", "ByteStreamSplit", "Rle"} - set(words)
    assert not any(word in found for word in others), found


@pytest.mark.parametrize("file_version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("int64-small", ["InlineBitpacking"]),
        ("int64-random", ["Flat"]),
        ("int32-short-runs", ["Rle"]),
        ("int32-null-runs", ["OutOfLineBitpacking"]),
        ("list-of-small", ["OutOfLineBitpacking", "InlineBitpacking"]),
        ("utf8-few", ["dictionary: Some"]),
        ("utf8-some", ["dictionary: Some"]),
        ("utf8-noise", ["Variable", "dictionary: None"]),
        ("decimal128-few", ["dictionary: Some"]),
        ("text", ["Fsst"]),
    ],
)
def test_what_data_gets_by_itself(tmp_path: Path, name: str, words: list[str], file_version: str) -> None:
    found = encoding(write(build(name), tmp_path / "t", file_version))
    if file_version == "2.2" and name == "int32-null-runs":
        words = ["Rle"]
    assert all(word in found for word in words), found
    assert ("General" in found) == (file_version == "2.2" and "dictionary: Some" in words), found


def test_wrong_options_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="field `x`: metadata `lance-encoding:compression` is `snappy`"):
        write(build("text"), tmp_path / "t", "2.2", {"lance-encoding:compression": "snappy"})
    assert not list(tmp_path.glob("**/*.lance"))
