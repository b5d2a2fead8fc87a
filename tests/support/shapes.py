"""Columns of every Arrow type that both implementations store, with and without nulls, plain and nested.

A shape is a function of a seeded generator and a number of rows. Values are chosen so that the reference's
default writer uses its different encodings: runs, small ranges, few distinct values, long and short strings.
"""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa

Shape = Callable[[random.Random, int], pa.Array]

SHAPES: dict[str, Shape] = {}


def shape(name: str) -> Callable[[Shape], Shape]:
    def register(function: Shape) -> Shape:
        SHAPES[name] = function
        return function

    return register


def with_nulls(rng: random.Random, values: list, share: float = 0.2) -> list:
    return [None if rng.random() < share else value for value in values]


def numbers(rng: random.Random, rows: int, low: int, high: int) -> list[int]:
    return [rng.randint(low, high) for _ in range(rows)]


def word(rng: random.Random, longest: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyzäß漢🙂 ", k=rng.randint(0, longest)))


def _integers() -> None:
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            name = f"{'' if signed else 'u'}int{bits}"
            low = -(2 ** (bits - 1)) if signed else 0
            high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
            kind = getattr(pa, name)()
            SHAPES[f"{name}-full-range"] = lambda rng, rows, k=kind, lo=low, hi=high: pa.array(
                numbers(rng, rows, lo, hi), k
            )
            SHAPES[f"{name}-nulls"] = lambda rng, rows, k=kind: pa.array(
                with_nulls(rng, numbers(rng, rows, 0, 100)), k
            )


_integers()


@shape("int64-runs")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([i // 97 for i in range(rows)], pa.int64())


@shape("int64-constant")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([42] * rows, pa.int64())


@shape("int32-small-range")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(numbers(rng, rows, 0, 30), pa.int32())


@shape("int32-all-null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None] * rows, pa.int32())


@shape("bool")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([rng.random() < 0.5 for _ in range(rows)])


@shape("bool-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [rng.random() < 0.5 for _ in range(rows)]))


@shape("float16")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(np.array([rng.uniform(-5, 5) for _ in range(rows)], dtype=np.float16))


@shape("float32-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [rng.gauss(0, 1) for _ in range(rows)]), pa.float32())


@shape("float64-special")
def _(rng: random.Random, rows: int) -> pa.Array:
    special = [float("inf"), float("-inf"), 0.0, -0.0, 5e-324]
    return pa.array([rng.choice(special) if rng.random() < 0.1 else rng.gauss(0, 1e9) for _ in range(rows)])


@shape("decimal128")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [decimal.Decimal(n).scaleb(-2) for n in numbers(rng, rows, -(10**12), 10**12)]
    return pa.array(with_nulls(rng, values), pa.decimal128(20, 2))


@shape("decimal256")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [decimal.Decimal(n) for n in numbers(rng, rows, -(10**30), 10**30)]
    return pa.array(with_nulls(rng, values), pa.decimal256(50, 0))


def _temporal() -> None:
    kinds = {
        "date32": pa.date32(),
        "date64": pa.date64(),
        "time32-s": pa.time32("s"),
        "time32-ms": pa.time32("ms"),
        "time64-us": pa.time64("us"),
        "time64-ns": pa.time64("ns"),
        "timestamp-s": pa.timestamp("s"),
        "timestamp-ms-offset": pa.timestamp("ms", "+01:00"),
        "timestamp-us-utc": pa.timestamp("us", "UTC"),
        "timestamp-ns-zone": pa.timestamp("ns", "America/New_York"),
        "duration-ms": pa.duration("ms"),
        "duration-ns": pa.duration("ns"),
    }
    day = 86_400_000
    for name, kind in kinds.items():

        def build(rng: random.Random, rows: int, kind: pa.DataType = kind) -> pa.Array:
            if pa.types.is_date64(kind):
                raw = [n * day for n in numbers(rng, rows, -1000, 30000)]
            else:
                raw = numbers(rng, rows, 0, 80_000)
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return pa.array(with_nulls(rng, raw), width).view(kind)

        SHAPES[name] = build


_temporal()


@shape("utf8-short")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([word(rng, 12) for _ in range(rows)])


@shape("utf8-few-distinct")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [f"carrier-{rng.randint(0, 9)}" for _ in range(rows)]), pa.utf8())


@shape("utf8-empty-and-null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None if i % 3 == 0 else "" for i in range(rows)], pa.utf8())


@shape("utf8-long")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [word(rng, 40) * 12 for _ in range(rows)]))


@shape("large-utf8")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [word(rng, 20) for _ in range(rows)]), pa.large_utf8())


@shape("binary")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [rng.randbytes(rng.randint(0, 30)) for _ in range(rows)]), pa.binary())


@shape("large-binary-big-values")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [rng.randbytes(rng.randint(200, 700)) for _ in range(rows)]
    return pa.array(with_nulls(rng, values), pa.large_binary())


@shape("fixed-size-binary")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [rng.randbytes(7) for _ in range(rows)]), pa.binary(7))


@shape("null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.nulls(rows)


@shape("fsl-float32")
def _(rng: random.Random, rows: int) -> pa.Array:
    flat = pa.array(np.random.default_rng(rng.randint(0, 99)).random(rows * 4, dtype=np.float32))
    return pa.FixedSizeListArray.from_arrays(flat, 4)


@shape("fsl-float32-wide")
def _(rng: random.Random, rows: int) -> pa.Array:
    flat = pa.array(np.random.default_rng(rng.randint(0, 99)).random(rows * 128, dtype=np.float32))
    return pa.FixedSizeListArray.from_arrays(flat, 128)


@shape("fsl-int16-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [with_nulls(rng, numbers(rng, 3, -9, 9)) for _ in range(rows)]
    return pa.array(with_nulls(rng, values), pa.list_(pa.int16(), 3))


@shape("struct")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.struct([pa.field("x", pa.int32()), pa.field("s", pa.utf8())])
    values = [{"x": rng.randint(0, 9), "s": word(rng, 6)} for _ in range(rows)]
    return pa.array(values, kind)


@shape("struct-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.struct(
        [
            pa.field("x", pa.int32()),
            pa.field("in", pa.struct([pa.field("y", pa.float64()), pa.field("s", pa.utf8())])),
        ]
    )
    values = [
        {
            "x": None if rng.random() < 0.3 else i,
            "in": None
            if rng.random() < 0.3
            else {"y": float(i), "s": None if rng.random() < 0.3 else word(rng, 5)},
        }
        for i in range(rows)
    ]
    return pa.array(with_nulls(rng, values), kind)


def _lists(rng: random.Random, rows: int, item: Callable[[], object], nulls: float = 0.2) -> list:
    return with_nulls(rng, [[item() for _ in range(rng.choice([0, 0, 1, 2, 5]))] for _ in range(rows)], nulls)


@shape("list-int64")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(_lists(rng, rows, lambda: rng.randint(0, 9), 0.0), pa.list_(pa.int64()))


@shape("list-int64-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    item = lambda: None if rng.random() < 0.2 else rng.randint(-(10**12), 10**12)  # noqa: E731
    return pa.array(_lists(rng, rows, item), pa.list_(pa.int64()))


@shape("list-utf8-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    item = lambda: None if rng.random() < 0.2 else word(rng, 8)  # noqa: E731
    return pa.array(_lists(rng, rows, item), pa.list_(pa.utf8()))


@shape("list-all-empty")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None if i % 5 == 0 else [] for i in range(rows)], pa.list_(pa.int32()))


@shape("list-long-items")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [[i] * (3000 if i == rows // 2 else 1) for i in range(rows)]
    return pa.array(values, pa.list_(pa.int32()))


@shape("large-list-float")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(_lists(rng, rows, lambda: rng.gauss(0, 1)), pa.large_list(pa.float32()))


@shape("list-list-int")
def _(rng: random.Random, rows: int) -> pa.Array:
    item = lambda: None if rng.random() < 0.2 else numbers(rng, rng.randint(0, 3), 0, 99)  # noqa: E731
    return pa.array(_lists(rng, rows, item), pa.list_(pa.list_(pa.int16())))


@shape("list-struct")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.list_(pa.struct([pa.field("p", pa.int64()), pa.field("q", pa.list_(pa.utf8()))]))
    item = lambda: (  # noqa: E731
        None
        if rng.random() < 0.2
        else {"p": rng.randint(0, 9), "q": None if rng.random() < 0.2 else [word(rng, 3)] * rng.randint(0, 2)}
    )
    return pa.array(_lists(rng, rows, item), kind)


@shape("struct-of-lists")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.struct([pa.field("a", pa.list_(pa.int32())), pa.field("b", pa.large_list(pa.binary()))])
    values = [
        {
            "a": None if rng.random() < 0.2 else numbers(rng, rng.randint(0, 4), 0, 9),
            "b": [rng.randbytes(3)] * rng.randint(0, 2),
        }
        for _ in range(rows)
    ]
    return pa.array(with_nulls(rng, values), kind)


@shape("dictionary")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = with_nulls(rng, [f"v{rng.randint(0, 20)}" for _ in range(rows)])
    return pa.array(values, pa.utf8()).dictionary_encode()


@shape("int64-few-distinct")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [rng.randint(-(2**62), 2**62) for _ in range(9)]
    return pa.array(with_nulls(rng, [rng.choice(values) for _ in range(rows)]), pa.int64())


@shape("uint8-runs")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([(i // 300) % 256 for i in range(rows)], pa.uint8())


@shape("int16-runs-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None if i // 50 % 4 == 0 else i // 200 for i in range(rows)], pa.int16())


@shape("float64-runs")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([(i // 123) * 0.1 for i in range(rows)], pa.float64())


@shape("float32-constant-and-null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [1.5] * rows), pa.float32())


@shape("bool-constant")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([True] * rows)


@shape("decimal128-few-distinct")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [decimal.Decimal(rng.randint(-(10**20), 10**20)) for _ in range(5)]
    return pa.array(with_nulls(rng, [rng.choice(values) for _ in range(rows)]), pa.decimal128(38, 0))


@shape("decimal256-constant")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([decimal.Decimal(-7)] * rows, pa.decimal256(60, 0))


@shape("timestamp-runs")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([1_700_000_000 + i // 40 for i in range(rows)], pa.int64()).view(pa.timestamp("s"))


@shape("utf8-all-empty")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([""] * rows)


@shape("utf8-all-null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None] * rows, pa.utf8())


@shape("utf8-constant")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(["always the same text"] * rows)


@shape("utf8-urls")
def _(rng: random.Random, rows: int) -> pa.Array:
    """Enough repeated parts for a symbol table."""
    return pa.array([f"https://example.com/items/{rng.randint(0, 10**9)}?page={i}" for i in range(rows)])


@shape("large-utf8-few-distinct")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [f"value {rng.randint(0, 30)}" for _ in range(rows)]), pa.large_utf8())


@shape("binary-few-distinct")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [rng.randbytes(12) for _ in range(7)]
    return pa.array([rng.choice(values) for _ in range(rows)], pa.binary())


@shape("binary-all-null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None] * rows, pa.large_binary())


@shape("fixed-size-binary-wide")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(with_nulls(rng, [rng.randbytes(300) for _ in range(rows)]), pa.binary(300))


@shape("fsl-bool")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([[rng.random() < 0.5 for _ in range(8)] for _ in range(rows)], pa.list_(pa.bool_(), 8))


@shape("fsl-bool-odd-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [with_nulls(rng, [rng.random() < 0.5 for _ in range(5)]) for _ in range(rows)]
    return pa.array(with_nulls(rng, values), pa.list_(pa.bool_(), 5))


@shape("fsl-wide-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    values = [with_nulls(rng, numbers(rng, 80, -9, 9), 0.1) for _ in range(rows)]
    return pa.array(with_nulls(rng, values), pa.list_(pa.int64(), 80))


@shape("fsl-float16-row-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    flat = pa.array(np.random.default_rng(rng.randint(0, 99)).random(rows * 6).astype(np.float16))
    mask = pa.array([rng.random() < 0.3 for _ in range(rows)])
    return pa.FixedSizeListArray.from_arrays(flat, 6, mask=mask)


@shape("list-of-fsl")
def _(rng: random.Random, rows: int) -> pa.Array:
    item = lambda: None if rng.random() < 0.2 else numbers(rng, 3, 0, 9)  # noqa: E731
    return pa.array(_lists(rng, rows, item), pa.list_(pa.list_(pa.int32(), 3)))


@shape("list-list-list-utf8")
def _(rng: random.Random, rows: int) -> pa.Array:
    def item(depth: int = 2) -> object:
        if rng.random() < 0.15:
            return None
        return word(rng, 6) if depth == 0 else [item(depth - 1) for _ in range(rng.randint(0, 3))]

    return pa.array(_lists(rng, rows, item), pa.list_(pa.list_(pa.large_list(pa.utf8()))))


@shape("list-one-item-each")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([[i] for i in range(rows)], pa.list_(pa.int64()))


@shape("list-bool-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    item = lambda: None if rng.random() < 0.2 else rng.random() < 0.5  # noqa: E731
    return pa.array(_lists(rng, rows, item), pa.list_(pa.bool_()))


@shape("list-of-long-texts")
def _(rng: random.Random, rows: int) -> pa.Array:
    item = lambda: None if rng.random() < 0.1 else word(rng, 30) * 14  # noqa: E731
    return pa.array(_lists(rng, rows, item), pa.list_(pa.utf8()))


@shape("list-of-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(_lists(rng, rows, lambda: None), pa.list_(pa.float64()))


@shape("list-of-dictionary")
def _(rng: random.Random, rows: int) -> pa.Array:
    lists = pa.array(_lists(rng, rows, lambda: f"v{rng.randint(0, 5)}"), pa.list_(pa.utf8()))
    return pa.ListArray.from_arrays(lists.offsets, lists.values.dictionary_encode(), mask=lists.is_null())


@shape("struct-without-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.struct(
        [
            pa.field("flag", pa.bool_(), nullable=False),
            pa.field("inner", pa.struct([pa.field("date", pa.date32()), pa.field("list", pa.list_(pa.int8()))])),
        ]
    )
    values = [{"flag": i % 3 == 0, "inner": {"date": None, "list": [1] * (i % 4)}} for i in range(rows)]
    return pa.array(values, kind)


@shape("struct-of-500")
def _(rng: random.Random, rows: int) -> pa.Array:
    """Wide: many columns of few values each."""
    part = pa.array(numbers(rng, rows, 0, 200), pa.uint8())
    return pa.StructArray.from_arrays([part] * 500, [f"c{i}" for i in range(500)])


@shape("struct-all-null")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array([None] * rows, pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.utf8()))]))


def _random_rows(rng: random.Random, rows: int, kind: pa.DataType, nulls: float) -> list:
    def value(kind: pa.DataType) -> object:
        if rng.random() < nulls:
            return None
        if pa.types.is_struct(kind):
            return {member.name: value(member.type) for member in kind}
        if pa.types.is_list(kind):
            return [value(kind.value_type) for _ in range(rng.choice([0, 0, 1, 2, 4]))]
        return word(rng, 5) if pa.types.is_string(kind) else rng.randint(-100, 100)

    return [value(kind) for _ in range(rows)]


DEEP = pa.struct(
    [("a", pa.int8()), ("b", pa.list_(pa.struct([("s", pa.utf8()), ("l", pa.list_(pa.int64()))])))],
)


@shape("deep")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(_random_rows(rng, rows, DEEP, 0.2), DEEP)


@shape("deep-without-nulls")
def _(rng: random.Random, rows: int) -> pa.Array:
    return pa.array(_random_rows(rng, rows, DEEP, 0.0), DEEP)


@shape("deep-list")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.list_(DEEP)
    return pa.array(_random_rows(rng, rows // 3, kind, 0.2) + [None] * (rows - rows // 3), kind)


@shape("map")
def _(rng: random.Random, rows: int) -> pa.Array:
    entries = [[(word(rng, 5), i) for _ in range(rng.randint(0, 3))] for i in range(rows)]
    return pa.array(with_nulls(rng, entries), pa.map_(pa.utf8(), pa.int64()))


@shape("map-of-structs")
def _(rng: random.Random, rows: int) -> pa.Array:
    value = lambda i: None if i % 7 == 0 else {"x": i, "y": [i] * (i % 3)}  # noqa: E731
    entries = [[(i + k, value(i)) for k in range(i % 4)] for i in range(rows)]
    kind = pa.map_(pa.int32(), pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int16()))]))
    return pa.array(entries, kind)


@shape("fsl-of-structs")
def _(rng: random.Random, rows: int) -> pa.Array:
    kind = pa.list_(pa.struct([("x", pa.int32()), ("s", pa.utf8())]), 2)
    values = [[{"x": i, "s": word(rng, 4)}, None if i % 5 == 0 else {"x": None, "s": "b"}] for i in range(rows)]
    return pa.array(with_nulls(rng, values), kind)


@shape("dictionary-int8-keys")
def _(rng: random.Random, rows: int) -> pa.Array:
    keys = pa.array(with_nulls(rng, numbers(rng, rows, 0, 4)), pa.int8())
    return pa.DictionaryArray.from_arrays(keys, pa.array(["a", "bb", "", "dddd", "e"], pa.large_utf8()))


@shape("dictionary-of-numbers")
def _(rng: random.Random, rows: int) -> pa.Array:
    keys = pa.array(numbers(rng, rows, 0, 2), pa.uint16())
    return pa.DictionaryArray.from_arrays(keys, pa.array([10**15, -1, 7], pa.int64()))


# Shapes with a number of rows of their own.
LARGE: dict[str, Callable[[], pa.Array]] = {
    "list-of-100000-items": lambda: pa.array([[1], list(range(100_000)), [], None, [2]], pa.list_(pa.int32())),
    "list-of-100000-texts": lambda: pa.array([["a"], [str(i) for i in range(100_000)], []], pa.list_(pa.utf8())),
    "70000-null-lists": lambda: pa.array([[1]] + [None] * 70_000 + [[], [2, 3]], pa.list_(pa.int64())),
    "70000-empty-lists": lambda: pa.array([[]] * 70_000 + [["b", "c"]], pa.list_(pa.utf8())),
    "one-null-in-100000": lambda: pa.array([None, *range(100_000)], pa.int32()),
    "texts-of-40000-bytes": lambda: pa.array([f"{i} is a number " * 3_000 for i in range(40)]),
    "bytes-of-40000": lambda: pa.array([random.Random(i).randbytes(40_000) for i in range(20)], pa.binary()),
    "150000-numbers": lambda: pa.array(np.random.default_rng(3).integers(0, 1000, 150_000)),
}


def columns(seed: int, rows: int, names: list[str] | None = None) -> dict[str, pa.Array]:
    """The named shapes (all by default) with this many rows, the same for the same seed."""
    return {name: SHAPES[name](random.Random(f"{seed}-{name}"), rows) for name in (names or sorted(SHAPES))}
