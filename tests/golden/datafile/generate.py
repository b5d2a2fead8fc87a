"""Writes the data files of this folder: .lance files of pylance, and what pylance reads from each as Arrow IPC.

Run with pylance 14.0.2: `python generate.py`, or `python generate.py 0.1` for the files of that version alone.
"""

import datetime
import decimal
import random
import shutil
import sys
import tempfile
from pathlib import Path

import lance
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

FOLDER = Path(__file__).parent
RANDOM = random.Random(20130101)


def some(make, rows, nulls=0.0):
    """That many values, some of them null."""
    return [None if RANDOM.random() < nulls else make() for _ in range(rows)]


def word(low=0, high=12):
    return "".join(RANDOM.choices("abcdefghijklmnop qrstuvwxyzäß€", k=RANDOM.randint(low, high)))


def of(make, most=4, nulls=0.0):
    """A maker of lists, some of them null or empty."""
    return lambda: None if RANDOM.random() < nulls else some(make, RANDOM.randint(0, most), nulls)


def number(bits, signed=True):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda: RANDOM.randint(low, high)


def small():
    return RANDOM.randint(0, 90)


def integers():
    columns = {}
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            name = f"{'int' if signed else 'uint'}{bits}"
            kind = pa.type_for_alias(name)
            columns[f"{name}_full"] = pa.array(some(number(bits, signed), 1100, 0.2), kind)
            columns[f"{name}_small"] = pa.array(some(small, 1100), kind)
    columns["runs"] = pa.array([i // 100 * 1000003 for i in range(1100)], pa.int64())
    columns["few"] = pa.array(RANDOM.choices([number(64)() for _ in range(9)], k=1100), pa.int64())
    return columns


def numbers():
    rows = 600
    day = datetime.date(2013, 1, 1)
    columns = {
        "half": pa.array(some(lambda: float(small()), rows, 0.1), pa.float16()),
        "single": pa.array(some(RANDOM.random, rows), pa.float32()),
        "double": pa.array(some(RANDOM.random, rows, 0.1), pa.float64()),
        "bool": pa.array(some(lambda: RANDOM.random() < 0.5, rows, 0.1), pa.bool_()),
        "decimal128": pa.array(some(lambda: decimal.Decimal(small()).scaleb(-2), rows, 0.1), pa.decimal128(20, 2)),
        "decimal256": pa.array(some(lambda: decimal.Decimal(number(64)()), rows), pa.decimal256(60, 0)),
        "date32": pa.array(some(lambda: day + datetime.timedelta(small()), rows, 0.1), pa.date32()),
        "date64": pa.array(some(lambda: day + datetime.timedelta(small()), rows), pa.date64()),
        "binary7": pa.array(some(lambda: RANDOM.randbytes(7), rows, 0.1), pa.binary(7)),
    }
    for kind in (
        [pa.time32(u) for u in ("s", "ms")]
        + [pa.time64(u) for u in ("us", "ns")]
        + [pa.timestamp(u) for u in ("s", "ms", "us", "ns")]
        + [pa.timestamp("us", "Europe/Berlin"), pa.duration("ns")]
    ):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        columns[str(kind)] = pa.array(some(small, rows, 0.1), storage).cast(kind)
    return columns


def text():
    rows = 1300
    pool = [word(4, 20) for _ in range(20)]
    columns = {"urls": pa.array([f"https://www.example.com/path/{small()}/item?x={i}" for i in range(rows)])}
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        columns[f"{kind}"] = pa.array(some(word, rows, 0.2), pa.string()).cast(kind)
        columns[f"{kind}_few"] = pa.array(some(lambda: RANDOM.choice(pool), rows, 0.1), pa.string()).cast(kind)
    return columns


def long_bytes():
    return RANDOM.randbytes(RANDOM.randint(0, 500))


def large():
    rows = 40
    floats = pa.list_(pa.float32(), 80)
    vector = lambda: [float(small()) for _ in range(80)]  # noqa: E731
    holes = lambda: some(lambda: float(small()), 80, 0.2)  # noqa: E731
    return {
        "long": pa.array(some(lambda: word(250, 600), rows, 0.2)),
        "long_binary": pa.array(
            some(lambda: RANDOM.randbytes(RANDOM.randint(0, 500)), rows, 0.2), pa.large_binary()
        ),
        "huge": pa.array([word(20, 30) * 1400 if i % 20 == 0 else None for i in range(rows)]),
        "binary300": pa.array(some(lambda: RANDOM.randbytes(300), rows, 0.1), pa.binary(300)),
        "vector": pa.array(some(vector, rows), floats),
        "vector_null": pa.array(some(vector, rows, 0.2), floats),
        "vector_holes": pa.array(some(holes, rows, 0.2), floats),
        "list": pa.array(some(of(lambda: word(200, 400), 3, 0.2), rows, 0.2), pa.list_(pa.string())),
        "list_vector": pa.array(some(of(vector, 2, 0.2), rows, 0.2), pa.list_(floats)),
        "struct": pa.array(some(lambda: {"v": vector()}, rows, 0.2), pa.struct([("v", floats)])),
    }


def fixed_size_lists():
    rows = 500
    inner = pa.list_(pa.int16(), 3)
    return {
        "plain": pa.array(some(lambda: some(small, 3), rows), pa.list_(pa.float32(), 3)),
        "null": pa.array(some(lambda: some(small, 3), rows, 0.2), pa.list_(pa.int64(), 3)),
        "holes": pa.array(some(lambda: some(small, 3, 0.2), rows, 0.2), pa.list_(pa.int32(), 3)),
        "bool": pa.array(some(lambda: some(lambda: RANDOM.random() < 0.5, 5, 0.2), rows), pa.list_(pa.bool_(), 5)),
        "nested": pa.array(some(lambda: some(lambda: some(small, 3, 0.2), 2, 0.2), rows, 0.2), pa.list_(inner, 2)),
        "in_list": pa.array(some(of(lambda: some(small, 3), 3, 0.2), rows, 0.2), pa.list_(inner)),
    }


def lists():
    rows = 1300
    int32 = pa.int32()
    return {
        "plain": pa.array(some(of(small), rows), pa.list_(int32)),
        "null": pa.array(some(of(small, 5, 0.2), rows), pa.list_(int32)),
        "text": pa.array(some(of(word, 3, 0.2), rows), pa.list_(pa.string())),
        "large": pa.array(some(of(RANDOM.random, 3, 0.2), rows), pa.large_list(pa.float64())),
        "bool": pa.array(some(of(lambda: True, 3, 0.2), rows), pa.list_(pa.bool_())),
        "of_list": pa.array(some(of(of(small, 3, 0.2), 3, 0.2), rows), pa.list_(pa.list_(int32))),
        "sparse": pa.array([[i] if i % 400 == 3 else None for i in range(rows)], pa.list_(int32)),
        "long": pa.array([list(range(9000)) if i == 600 else [] for i in range(rows)], pa.list_(int32)),
        "all_empty": pa.array([[]] * rows, pa.list_(int32)),
        "all_null": pa.nulls(rows, pa.list_(int32)),
        "null_or_empty": pa.array(RANDOM.choices([None, []], k=rows), pa.list_(int32)),
    }


MEMBERS = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.string()))])
WHOLE = pa.struct([("x", pa.int64()), ("y", pa.string())])
DEEP = pa.struct([("i", pa.int8()), ("l", pa.list_(pa.struct([("s", pa.string()), ("v", pa.list_(pa.int64()))])))])


def maybe(make, nulls=0.2):
    return None if RANDOM.random() < nulls else make()


def members():
    return {"a": maybe(small), "b": maybe(word), "c": of(word, 2, 0.2)()}


def deep():
    item = lambda: {"s": maybe(word), "v": of(small, 3, 0.2)()}  # noqa: E731
    return {"i": 3, "l": of(item, 3, 0.2)()}


def nested():
    rows = 500
    strict = pa.struct([pa.field("v", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False)])
    return {
        "struct": pa.array(some(members, rows, 0.2), MEMBERS),
        "whole": pa.array(some(lambda: {"x": small(), "y": word()}, rows), WHOLE),
        "strict": pa.array(some(lambda: {"v": [1, small()]}, rows, 0.2), strict),
        "list_struct": pa.array(some(of(members, 3, 0.2), rows), pa.list_(MEMBERS)),
        "deep": pa.array(some(deep, rows, 0.2), DEEP),
        "list_deep": pa.array(some(of(deep, 2, 0.2), rows), pa.list_(DEEP)),
    }


def constants():
    rows = 1200
    return {
        "null": pa.nulls(rows),
        "null_int": pa.nulls(rows, pa.int32()),
        "null_text": pa.nulls(rows, pa.string()),
        "null_struct": pa.nulls(rows, pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        "number": pa.array([77] * rows, pa.int64()),
        "number_or_null": pa.array(RANDOM.choices([None, 77], k=rows), pa.int64()),
        "true": pa.array([True] * rows),
        "text": pa.array(["the same"] * rows),
        "long_text": pa.array(["the same " * 30] * rows),
        "empty_text": pa.array([""] * rows),
        "bytes40": pa.array([b"x" * 40] * rows, pa.binary(40)),
        "list": pa.array([[7] * small() if small() < 9 else [] for _ in range(rows)], pa.list_(pa.int32())),
    }


def dictionaries():
    pool = [word(3, 9) for _ in range(30)]
    words = pa.array(RANDOM.choices(pool, k=1200))
    holes = pa.array(some(lambda: RANDOM.choice(pool), 1200, 0.2))
    return {
        "text": words.dictionary_encode(),
        "null": holes.dictionary_encode(),
        "int8": words.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        "numbers": pa.array([small() * 10**12 for _ in range(1200)]).dictionary_encode(),
    }


def compressed(scheme):
    rows = 1200
    columns = {
        "int64": pa.array(some(small, rows), pa.int64()),
        "int32": pa.array(some(number(16), rows, 0.2), pa.int32()),
        "single": pa.array(some(lambda: small() / 4, rows), pa.float32()),
        "double": pa.array(some(lambda: small() / 4, rows), pa.float64()),
        "text": pa.array(some(word, rows, 0.1)),
        "list": pa.array(some(of(word, 3, 0.2), rows), pa.list_(pa.string())),
    }
    return columns, {"lance-encoding:compression": scheme}


PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}


def packed(version):
    rows = 700
    pair = pa.struct([("a", pa.int32()), ("b", pa.float64())])
    wide = pa.struct(
        [
            ("i", pa.int8()),
            ("d", pa.decimal128(20, 2)),
            ("f", pa.binary(5)),
            ("h", pa.float16()),
            ("t", pa.timestamp("us")),
        ]
    )
    inside = pa.struct([pa.field("p", pair, metadata=PACKED), pa.field("q", pa.int8())])
    make = lambda: {"a": small(), "b": RANDOM.random()}  # noqa: E731
    all_widths = lambda: {"i": small(), "d": decimal.Decimal(small()), "f": b"12345", "h": 2.5, "t": small()}  # noqa: E731
    columns = {
        "pair": (pa.array(some(make, rows), pair), PACKED),
        "null": (pa.array(some(make, rows, 0.2), pair), PACKED),
        "wide": (pa.array(some(all_widths, rows, 0.1), wide), PACKED),
        "all_null": (pa.nulls(rows, pair), PACKED),
        "inside": (pa.array(some(lambda: {"p": maybe(make), "q": small()}, rows, 0.2), inside), None),
        "list": (pa.array(some(of(make, 4, 0.2), rows), pa.list_(pa.field("item", pair, metadata=PACKED))), None),
    }
    if version != "2.1":
        text = pa.struct([("a", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("b", pa.large_binary())])
        vector = pa.struct([("v", pa.list_(pa.float32(), 3)), ("i", pa.int16()), ("s", pa.string())])
        make_text = lambda: {"a": small(), "s": word(), "d": RANDOM.random(), "b": word().encode()}  # noqa: E731
        make_long = lambda: {"a": small(), "s": word(60, 90), "d": 1.5, "b": b"x"}  # noqa: E731
        make_vector = lambda: {"v": [1, 2, small()], "i": small(), "s": word()}  # noqa: E731
        columns |= {
            "text": (pa.array(some(make_text, rows), text), PACKED),
            "text_null": (pa.array(some(make_text, rows, 0.2), text), PACKED),
            "text_fsst": (pa.array(some(make_long, rows, 0.2), text), PACKED),
            "vector": (pa.array(some(make_vector, rows, 0.2), vector), PACKED),
        }
    return columns


def blobs():
    rows = 120
    make = lambda: RANDOM.randbytes(RANDOM.choice([0, 1, 90, 700]))  # noqa: E731
    kind = pa.large_binary()
    member = pa.struct([pa.field("b", kind, metadata=BLOB), pa.field("i", pa.int8())])
    return {
        "plain": (pa.array(some(make, rows), kind), BLOB),
        "null": (pa.array(some(make, rows, 0.2), kind), BLOB),
        "empty": (pa.array([b""] * rows, kind), BLOB),
        "all_null": (pa.nulls(rows, kind), BLOB),
        "member": (pa.array(some(lambda: {"b": maybe(make), "i": 1}, rows, 0.2), member), None),
    }


def fixed_size_structs():
    rows = 400
    item = pa.struct([("a", pa.int32()), ("s", pa.string())])
    lists = pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32()))])
    make = lambda: {"a": maybe(small), "s": maybe(word)}  # noqa: E731
    full = lambda: {"a": small(), "s": word()}  # noqa: E731
    with_list = lambda: {"a": small(), "l": of(small, 3, 0.2)()}  # noqa: E731
    outer = pa.struct([pa.field("f", pa.list_(item, 2))])
    return {
        "plain": (pa.array(some(lambda: [full(), full()], rows), pa.list_(item, 2)), None),
        "null": (pa.array(some(lambda: [maybe(make), maybe(make), make()], rows, 0.2), pa.list_(item, 3)), None),
        "items_null": (pa.array(some(lambda: [maybe(make), maybe(make)], rows), pa.list_(item, 2)), None),
        "of_list": (pa.array(some(lambda: [maybe(with_list), with_list()], rows, 0.2), pa.list_(lists, 2)), None),
        "member": (pa.array(some(lambda: {"f": maybe(lambda: [make(), maybe(make)])}, rows, 0.2), outer), None),
        "all_null": (pa.nulls(rows, pa.list_(item, 2)), None),
    }


def nested_maps():
    rows = 300
    item = pa.struct([("a", pa.int32()), ("s", pa.string())])
    pairs = lambda make: lambda: [(word(1), maybe(make)) for _ in range(RANDOM.randint(0, 3))]  # noqa: E731
    strict = lambda: [(word(1), of(small, 3, 0.2)())]  # noqa: E731
    struct = pa.struct([pa.field("m", pa.map_(pa.string(), pa.int64())), pa.field("i", pa.int8())])
    return {
        "of_list": (
            pa.array(some(pairs(of(small, 3, 0.2)), rows, 0.2), pa.map_(pa.string(), pa.list_(pa.int32()))),
            None,
        ),
        "of_struct": (
            pa.array(some(pairs(lambda: {"a": small(), "s": word()}), rows, 0.2), pa.map_(pa.string(), item)),
            None,
        ),
        "of_map": (
            pa.array(
                some(pairs(lambda: [(small(), 1)]), rows, 0.2),
                pa.map_(pa.string(), pa.map_(pa.int32(), pa.int64())),
            ),
            None,
        ),
        "in_list": (
            pa.array(some(of(pairs(small), 3, 0.2), rows, 0.2), pa.list_(pa.map_(pa.string(), pa.int32()))),
            None,
        ),
        "in_struct": (pa.array(some(lambda: {"m": maybe(pairs(small)), "i": 1}, rows, 0.2), struct), None),
        "no_nulls": (pa.array(some(strict, rows), pa.map_(pa.string(), pa.list_(pa.int32()))), None),
    }


def options():
    """Encodings that only field metadata brings about."""
    rows = 600
    key = "lance-encoding:"
    long = lambda: word(40, 90)  # noqa: E731
    pool = [word(3, 9) for _ in range(30)]
    fullzip, split = {f"{key}structural-encoding": "fullzip"}, {f"{key}bss": "on"}
    zstd, lz4 = {f"{key}compression": "zstd"}, {f"{key}compression": "lz4"}
    return {
        "fullzip_int": (pa.array(some(small, rows, 0.1), pa.int32()), fullzip),
        "fullzip_bool": (pa.array(some(lambda: RANDOM.random() < 0.5, rows, 0.1), pa.bool_()), fullzip),
        "fullzip_text": (pa.array(some(word, rows, 0.1)), fullzip),
        "fullzip_fsst": (pa.array(some(long, rows, 0.1)), fullzip),
        "fullzip_zstd": (pa.array(some(long, rows, 0.1)), fullzip | zstd),
        "fullzip_lz4": (pa.array(some(of(long, 3, 0.2), rows), pa.list_(pa.string())), fullzip | lz4),
        "fullzip_list": (pa.array(some(of(small, 4, 0.2), rows), pa.list_(pa.int64())), fullzip),
        "miniblock_long": (
            pa.array(some(lambda: word(300, 400), 50, 0.1) * 12),
            {f"{key}structural-encoding": "miniblock"},
        ),
        "split_single": (pa.array(some(RANDOM.random, rows), pa.float32()), split | lz4),
        "split_double": (pa.array(some(RANDOM.random, rows, 0.1), pa.float64()), split | zstd),
        "split_plain": (pa.array(some(number(32), rows), pa.int32()), {f"{key}compression": "fsst"}),
        "general_half": (pa.array(some(lambda: float(small()), rows), pa.float16()), zstd),
        "general_lists": (
            pa.array(some(lambda: [RANDOM.random(), None, 1.0], rows, 0.1), pa.list_(pa.float32(), 3)),
            zstd,
        ),
        "dictionary_zstd": (
            pa.array(RANDOM.choices(pool, k=rows)),
            zstd | {f"{key}dict-values-compression": "zstd"},
        ),
        "dictionary_plain": (pa.array(RANDOM.choices(pool, k=rows)), {f"{key}dict-values-compression": "none"}),
        "runs": (pa.array([i // 7 % 90 for i in range(rows)], pa.int16()), {f"{key}rle-threshold": "1.0"}),
    }


def write(name, columns, version, metadata=None, pieces=3, **options):
    """`metadata`: that of every field, or per field if its values are dictionaries; a column may bring its own."""
    metadata = metadata or {}
    each = any(isinstance(value, dict) for value in metadata.values())
    own = lambda n: metadata.get(n) if each else metadata  # noqa: E731
    columns = {n: c if isinstance(c, tuple) else (c, own(n)) for n, c in columns.items()}
    fields = [pa.field(n, c.type, metadata=m) for n, (c, m) in columns.items()]
    batch = pa.record_batch([c for c, _ in columns.values()], schema=pa.schema(fields))
    path = FOLDER / f"{name}-{version}.lance"
    step = max(1, -(-len(batch) // pieces))
    with LanceFileWriter(str(path), batch.schema, version=version, **options) as writer:
        for start in range(0, max(1, len(batch)), step):
            writer.write_batch(batch.slice(start, step))
    if name == "fixed_size_structs":  # the reference reads such columns only one by one
        one = lambda n: LanceFileReader(str(path), columns=[n]).read_all().to_table().combine_chunks().column(n)  # noqa: E731
        read = pa.table({n: one(n) for n in columns})
    else:
        read = LanceFileReader(str(path)).read_all().to_table().combine_chunks()
    assert read.num_rows == len(batch)
    zstd = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path.with_suffix(".arrow"), read.schema, options=zstd) as out:
        out.write_table(read)


def main():
    FOLDER.mkdir(exist_ok=True)
    for version in ("2.1", "2.2"):
        for make in (integers, numbers, text, large, fixed_size_lists, lists, nested, constants, dictionaries):
            write(make.__name__, make(), version)
        for scheme in ("zstd", "lz4", "none"):
            columns, metadata = compressed(scheme)
            write(scheme, columns, version, metadata)
        pages = {k: v for k, v in {**lists(), **text()}.items() if k in ("null", "text", "urls", "large_string")}
        write("pages", pages, version, data_cache_bytes=1)
        write("no_rows", {k: v.slice(0, 0) for k, v in {**nested(), **numbers()}.items()}, version)
    entries = pa.map_(pa.string(), pa.int32())
    maps = [maybe(lambda: [(word(1), maybe(small)) for _ in range(RANDOM.randint(0, 3))]) for _ in range(500)]
    write("maps", {"map": pa.array(maps, entries)}, "2.2")
    for version in ("2.1", "2.2"):
        write("packed", packed(version), version, pieces=1)  # the reference cannot write slices of them
        write("blobs", blobs(), version)
        write("options", options(), version)
    write("fixed_size_structs", fixed_size_structs(), "2.2", pieces=1)
    write("nested_maps", nested_maps(), "2.2")
    version_2_0()
    version_0_1()


def version_0_1():
    """Tables of one fragment, in groups of rows: what the reference reads is not all that was written."""
    rows = 90
    key = pa.int16()
    shared = lambda values: pa.array(RANDOM.choices(values, k=rows)).dictionary_encode()  # noqa: E731
    keyed = lambda kind: shared([word(1, 9) for _ in range(5)]).cast(pa.dictionary(key, kind))  # noqa: E731
    tables = {
        "numbers": {**integers(), **numbers(), "null": pa.nulls(rows)},
        "text": text(),
        "fixed_size_lists": fixed_size_lists(),
        "lists": {n: c for n, c in lists().items() if n != "long"},
        # The reference cannot read lists whose items may not be null.
        "nested": {n: c for n, c in nested().items() if n != "strict"},
        "dictionaries": {
            "text": keyed(pa.string()),
            "large_text": keyed(pa.large_string()),
            "binary": keyed(pa.binary()),
            "numbers": pa.array(some(small, rows, 0.1), pa.int64()).dictionary_encode(),
            "empty_text": shared(["", "a", "b"]),
            "in_struct": pa.StructArray.from_arrays([keyed(pa.string())], names=["d"]),
            "in_list": pa.ListArray.from_arrays(range(rows + 1), keyed(pa.string())),
        },
    }
    tables["rows"] = {"id": pa.array([1, 2, None, 4, 5]), "s": pa.array(["a", "bc", None, "", "def"])}
    for name, columns in tables.items():
        table = pa.table({n: c.slice(0, rows) for n, c in columns.items()})
        group = 2 if name == "rows" else 40
        path = FOLDER / f"legacy_{name}-0.1.lance"
        with tempfile.TemporaryDirectory() as folder:
            lance.write_dataset(table, folder, data_storage_version="legacy", max_rows_per_group=group)
            (data,) = (Path(folder) / "data").iterdir()
            shutil.copy(data, path)
            read = lance.dataset(folder).to_table().combine_chunks()
        zstd = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(path.with_suffix(".arrow"), read.schema, options=zstd) as out:
            out.write_table(read)


def version_2_0():
    """Arrays instead of levels: fewer rows, since hardly anything is compressed, and no null structs."""

    def first(rows, columns, *names):
        return {n: c.slice(0, rows) for n, c in columns.items() if not names or n in names}

    def without_null_structs(array):
        kind = array.type
        if pa.types.is_struct(kind):
            children = [without_null_structs(array.field(i)) for i in range(kind.num_fields)]
            fields = [kind.field(i).with_type(c.type) for i, c in enumerate(children)]
            return pa.StructArray.from_arrays(children, fields=fields)
        if pa.types.is_list(kind):
            items = without_null_structs(array.values)
            return pa.ListArray.from_arrays(array.offsets, items, mask=array.is_null())
        return array

    RANDOM.seed(20)
    version = "2.0"
    write("integers", first(150, integers(), "int8_full", "uint16_full", "int64_full", "int32_small"), version)
    write("numbers", first(150, numbers()), version)
    texts = first(140, text())
    texts["short"] = pa.array(RANDOM.choices(["a", None, ""], k=140))
    texts["all_null"] = pa.nulls(140, pa.string())
    texts["all_null_binary"] = pa.nulls(140, pa.binary())
    write("text", texts, version)
    write("large", first(8, large(), "long", "binary300", "vector_null", "list_vector"), version)
    write("fixed_size_lists", first(120, fixed_size_lists()), version)
    write("lists", first(220, lists()), version)
    write("nested", {n: without_null_structs(c) for n, c in first(90, nested()).items()}, version)
    write("constants", first(150, constants(), "null", "null_int", "true", "text", "list"), version)
    write("dictionaries", first(200, dictionaries()), version)
    for scheme in ("zstd", "lz4", "none", "fsst"):
        columns, metadata = compressed(scheme)
        write(scheme, first(150, columns, "int32", "text", "list"), version, metadata)
    pages = first(200, {**lists(), **text()}, "null", "of_list", "sparse", "string", "string_few", "large_string")
    write("pages", pages, version, data_cache_bytes=1)
    write("no_rows", {k: v.slice(0, 0) for k, v in {**nested(), **numbers()}.items()}, version)
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int16(), 3)), ("z", pa.float64())])
    packed = pa.array([{"x": i, "y": [i, small(), 3], "z": i / 4} for i in range(60)], inner)
    write("packed", {"packed": packed}, version, {"packed": {"packed": "true"}})
    blobs = pa.array(some(lambda: RANDOM.randbytes(RANDOM.randint(0, 90)), 20, 0.3), pa.large_binary())
    write("blobs", {"blobs": blobs}, version, {"blobs": {"lance-encoding:blob": "true"}})


if __name__ == "__main__":
    version_0_1() if sys.argv[1:] == ["0.1"] else main()
