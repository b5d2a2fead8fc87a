"""Filters that are pyarrow expressions: the core evaluates what it can as pyarrow does, and skips by statistics."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pennon._predicate import SYSTEM_COLUMNS, split
from support.long import LONG

NAN, INF = float("nan"), float("inf")
FLOATS = [NAN, -NAN, INF, -INF, 0.0, -0.0, 1.0, -1.5, 0.1, 5e-324, 1.7e308]
UTC = timezone.utc
MOMENTS = [datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1), datetime(2024, 2, 29, 12)]
TEXTS = ["", "a", "A", "aa", "é", "É", "'", '`"\\', "%", "_", "\U0001f600", "\n"]
BYTES = [b"", b"\x00", b"a", b"\xff", b"aa"]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "uint64": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "float": (pa.float32(), FLOATS[:-2]),
    "double": (pa.float64(), FLOATS),
    "bool": (pa.bool_(), [True, False]),
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "binary": (pa.binary(), BYTES),
    "large_binary": (pa.large_binary(), BYTES),
    "fixed": (pa.binary(2), [b"aa", b"\x00\xff"]),
    "date32": (pa.date32(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "date64": (pa.date64(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "time32": (pa.time32("ms"), [time(0), time(0, 0, 0, 1000), time(23, 59, 59)]),
    "time64": (pa.time64("us"), [time(0), time(0, 0, 0, 1), time(23, 59, 59)]),
    "timestamp_s": (pa.timestamp("s"), MOMENTS),
    "timestamp_ns": (pa.timestamp("ns"), MOMENTS),
    "timestamp_utc": (pa.timestamp("us", "UTC"), MOMENTS),
    "timestamp_zone": (pa.timestamp("ms", "Europe/Berlin"), MOMENTS),
    "duration": (pa.duration("us"), [timedelta(-1), timedelta(0), timedelta(microseconds=1)]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.10"), Decimal("0.00"), Decimal("1.10"), Decimal("9999999.99")]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "Mixed case": (pa.int64(), [0, 1]),
    "mixed case": (pa.int64(), [2, 3]),
    "select": (pa.int64(), [0, 1]),
    "back`tick": (pa.int64(), [0, 1]),
}
LEFT_TO_PYARROW = {"dictionary", "back`tick"}
MEMBER = ("struct", "Inner member")
ROWS = 300


@lru_cache
def rows() -> pa.Table:
    columns = {"i": pa.array(range(ROWS))}
    for at, (name, (data_type, values)) in enumerate(VALUES.items()):
        cycle = [None, *values]
        columns[name] = pa.array([cycle[(i * (at + 1) + i // 7) % len(cycle)] for i in range(ROWS)], data_type)
    members = columns["int8"]
    nulls = pa.array([i % 4 == 0 for i in range(ROWS)])
    columns["struct"] = pa.StructArray.from_arrays([members], [MEMBER[1]], mask=nulls)
    columns["list"] = pa.array([None if i % 3 == 0 else [i] for i in range(ROWS)])
    return pa.table(columns)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pennon.LanceDataset:
    return pennon.write_dataset(rows(), tmp_path_factory.mktemp("predicate") / "t", max_rows_per_file=77)


def scalars(name: str) -> st.SearchStrategy[pa.Scalar]:
    """Values to compare a column with: mostly of its type, and those it has."""
    data_type, values = VALUES[name]
    value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    exact = st.sampled_from(values).map(lambda value: pa.scalar(value, value_type))
    if pa.types.is_integer(data_type):
        others: Any = st.sampled_from([pa.scalar(v) for v in (-129, 0, 1, 300, 2**40, 1.5, 1.0)])
    elif pa.types.is_floating(data_type):
        edges = [0.1, -0.1, 1.0, -0.0, NAN, INF, 1e300, -1e300, 1e-300, -1e-300, 3.4028235e38]
        kinds = [pa.scalar(v, t) for v in edges for t in (pa.float32(), pa.float64())]
        others = st.sampled_from([*kinds, pa.scalar(1), pa.scalar(2**53 + 1)])
    elif pa.types.is_timestamp(data_type) and data_type.tz is None:
        odd = datetime(1970, 1, 1, 0, 0, 0, 1)
        others = st.sampled_from([pa.scalar(v, pa.timestamp("us")) for v in (MOMENTS[1], odd)])
    elif pa.types.is_decimal(data_type):
        others = st.sampled_from([pa.scalar(Decimal(v)) for v in ("0", "1.1", "0.001")])
    elif pa.types.is_string(value_type) or pa.types.is_large_string(value_type):
        others = st.sampled_from(TEXTS).map(lambda text: pa.scalar(text, pa.string()))
    else:
        others = exact
    return st.one_of(exact, exact, others, st.just(pa.scalar(None, value_type)))


COMPARE = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]


@st.composite
def column_tests(draw: st.DrawFn) -> pc.Expression:
    """A test of one column."""
    name = draw(st.sampled_from([*VALUES, MEMBER]))
    field = pc.field(*name) if isinstance(name, tuple) else pc.field(name)
    name = "int8" if isinstance(name, tuple) else name
    data_type = VALUES[name][0]
    kinds = ["compare", "flipped", "null", "valid", "in", "column"]
    kinds += ["nan"] * pa.types.is_floating(data_type) + ["bool"] * 3 * pa.types.is_boolean(data_type)
    kinds += ["text"] * 2 * (pa.types.is_string(data_type) or pa.types.is_large_string(data_type))
    kind = draw(st.sampled_from(kinds))
    if kind == "compare":
        return draw(st.sampled_from(COMPARE))(field, draw(scalars(name)))
    if kind == "flipped":
        return draw(st.sampled_from(COMPARE))(pc.scalar(draw(scalars(name))), field)
    if kind == "column":
        return draw(st.sampled_from(COMPARE))(field, pc.field(name))
    if kind == "null":
        return field.is_null(nan_is_null=draw(st.booleans()))
    if kind == "valid":
        return field.is_valid()
    if kind == "in":
        values = draw(st.lists(scalars(name), max_size=4))
        value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        found = [value.as_py() for value in values if value.type == value_type]
        value_set = pa.array(found, value_type)
        test = pc.is_in(field, value_set, skip_nulls=draw(st.booleans()))
        return pc.if_else(field.is_valid(), test, pa.scalar(None, pa.bool_())) if draw(st.booleans()) else test
    if kind == "nan":
        return field.is_nan()
    if kind == "bool":
        return field
    text = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring]))
    return text(field, draw(st.sampled_from(TEXTS)), ignore_case=draw(st.sampled_from([False, False, True])))


def combined(parts: st.SearchStrategy[pc.Expression]) -> st.SearchStrategy[pc.Expression]:
    several = st.lists(parts, min_size=2, max_size=3)
    operators = st.sampled_from([pc.and_kleene, pc.or_kleene])
    joined = st.builds(lambda operator, found: reduce(operator, found), operators, several)
    return st.one_of(joined, joined, parts.map(pc.invert))


EXPRESSIONS = st.recursive(column_tests(), lambda parts: combined(parts), max_leaves=6)


EXAMPLE_COUNT = 5000 if LONG else 250
EXAMPLES = settings(
    max_examples=EXAMPLE_COUNT, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def rows_where(expression: pc.Expression) -> list[int] | None:
    """What pyarrow finds; nothing if it does not compare these types."""
    try:
        return rows().filter(expression)["i"].to_pylist()
    except pa.ArrowException:
        return None


@EXAMPLES
@given(EXPRESSIONS)
def test_rows_are_those_of_pyarrow(table: pennon.LanceDataset, expression: pc.Expression) -> None:
    expected = rows_where(expression)
    if expected is not None:
        assert table.to_table(["i"], filter=expression)["i"].to_pylist() == expected
        assert table.count_rows(expression) == len(expected)


@EXAMPLES
@given(EXPRESSIONS)
def test_nulls_are_those_of_pyarrow(table: pennon.LanceDataset, expression: pc.Expression) -> None:
    text, rest = split(expression, table.schema)
    expected = rows_where(expression.is_null())
    if expected is not None and rest is None:
        assert table.to_table(["i"], filter=f"({text}) IS NULL")["i"].to_pylist() == expected


@pytest.mark.parametrize("name", VALUES)
def test_what_is_translated(table: pennon.LanceDataset, name: str) -> None:
    data_type, values = VALUES[name]
    field, value = pc.field(name), pa.scalar(values[-1], data_type)
    expressions = [compare(field, value) for compare in COMPARE] + [field.is_null(), field.is_valid()]
    if not (pa.types.is_floating(data_type) or name in LEFT_TO_PYARROW):
        expressions += [field.isin(pa.array(values, data_type)), ~field.isin(pa.array([None], data_type))]
    for expression in expressions:
        text, rest = split(expression, table.schema)
        assert (rest is None) == (text is not None)
        assert (rest is None) == (name not in LEFT_TO_PYARROW), expression


SINGLES = [0.0, 1.0, 0.1, 0.9, 1e-45, 1.1754944e-38, 3.4028235e38, INF]


def test_limits_between_floats(tmp_path: Path) -> None:
    """A limit that 32-bit floats do not have lies between two of them."""
    stored = pa.array([None, NAN, *(sign * value for value in SINGLES for sign in (1, -1))], pa.float32())
    data = pa.table({"f": stored, "i": range(len(stored))})
    table = pennon.write_dataset(data, tmp_path / "t")
    values = [value for value in stored.to_pylist() if value is not None]
    limits = [*values, *(near for v in values for near in (math.nextafter(v, -INF), math.nextafter(v, INF)))]
    for limit in [*limits, 1e300, -1e300, 1e-300, -1e-300, 1e-46, -1e-46]:
        for compare in COMPARE:
            expression = compare(pc.field("f"), limit)
            found = table.to_table(["i"], filter=expression)["i"]
            assert found.to_pylist() == data.filter(expression)["i"].to_pylist(), expression
            is_translated = split(expression, table.schema)[1] is None
            assert is_translated or compare in (pc.equal, pc.not_equal) or math.isnan(limit)


def test_parts_are_translated(table: pennon.LanceDataset) -> None:
    field = pc.field
    expression = (field("int8") > 0) & (field("i") + 1 > 1) & (field("string") == "a")
    text, rest = split(expression, table.schema)
    assert text == "(`int8` > arrow_cast('0', 'Int8')) AND (`string` = 'a')"
    assert rest is not None
    assert table.to_table(["i"], filter=expression).equals(rows().filter(expression).select(["i"]))
    assert split((field("int8") > 0) | (field("i") + 1 > 1), table.schema)[0] is None
    with pytest.raises(pennon.InvalidInputError, match="cannot be evaluated: overflow"):
        table.to_table(filter=field("int8") + 1 > 1)
    # Long chains are flat; what is deep or very long is left to pyarrow.
    chain = reduce(pc.or_kleene, [field("i") == value for value in range(1000)])
    assert split(chain, table.schema)[1] is None
    assert table.count_rows(chain) == ROWS
    deep = reduce(lambda e, i: ~(e & (field("i") != i)), range(60), field("i") >= 0)
    assert split(deep, table.schema)[0] is None
    assert table.count_rows(deep) == rows().filter(deep).num_rows
    assert split(reduce(lambda e, _: ~e, range(2000), field("bool")), table.schema)[0] is None
    assert split(field("i").isin(range(20_000)), table.schema)[0] is None
    assert table.count_rows(field("i").isin(range(20_000))) == ROWS


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("INT8") > 0,
        pc.field("struct", "inner member") > 0,
        pc.field("struct", "Inner member", "x") > 0,
        pc.field("absent").is_null(),
        pc.field("int8") > "a",
        pc.field("string"),
        pc.field("string").is_nan(),
        pc.field("timestamp_s") > MOMENTS[0].replace(tzinfo=UTC),
    ],
)
def test_what_pyarrow_refuses(table: pennon.LanceDataset, expression: pc.Expression) -> None:
    with pytest.raises((pa.ArrowException, TypeError)):
        rows().filter(expression)
    with pytest.raises(pennon.InvalidInputError, match="does not fit the columns"):
        table.scanner(filter=expression)


def test_system_columns_and_changes(tmp_path: Path) -> None:
    table = pennon.write_dataset(rows(), tmp_path / "t", max_rows_per_file=77)
    table.delete((pc.field("int8") > 0) & (pc.field("double") <= INF))
    expected = rows().filter(pc.invert(pc.coalesce((pc.field("int8") > 0) & (pc.field("double") <= INF), False)))
    assert table.to_table(["i"]).equals(expected.select(["i"]))
    changed = table.update({"i": "-1"}, where=pc.field("string").isin(["a", "é"]))
    assert changed["num_rows_updated"] == expected.filter(pc.field("string").isin(["a", "é"])).num_rows
    assert table.count_rows(pc.field("i") == -1) == changed["num_rows_updated"]


@pytest.mark.parametrize("column", SYSTEM_COLUMNS.names)
@pytest.mark.parametrize("is_translated", [True, False])
def test_system_columns_are_columns_in_every_verb(tmp_path: Path, column: str, is_translated: bool) -> None:
    table = pennon.write_dataset({"i": range(6)}, tmp_path / "t", max_rows_per_file=3)
    table.update({"i": "i"}, where="i = 2 OR i = 4")
    moved = table.to_table(["i", column])
    limit = sorted(moved[column].to_pylist())[4]
    value = pc.field(column) if is_translated else pc.field(column) + pa.scalar(0, pa.uint64())
    expression = value >= pa.scalar(limit, pa.uint64())
    assert (split(expression, table.schema)[1] is None) == is_translated
    expected = moved.filter(expression)["i"].to_pylist()
    assert 0 < len(expected) < 6 or column == "_row_created_at_version"
    assert table.to_table(filter=expression).column_names == ["i"]
    assert table.to_table(["i"], filter=expression)["i"].to_pylist() == expected
    assert table.head(6, filter=expression)["i"].to_pylist() == expected
    assert table.count_rows(expression) == len(expected)
    assert table.to_table(["i"], filter=expression, limit=2, offset=1)["i"].to_pylist() == expected[1:3]
    assert table.update({"i": "i"}, where=expression)["num_rows_updated"] == len(expected)
    expected = table.to_table(["i", column]).filter(expression)["i"].to_pylist()
    assert table.delete(expression)["num_deleted_rows"] == len(expected)
    assert sorted(table.to_table()["i"].to_pylist()) == sorted(set(range(6)) - set(expected))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> pennon.LanceDataset:
    """More rows than one run of statistics has."""
    count = 40_000
    start = datetime(2000, 1, 1)
    data = pa.table(
        {
            "i": range(count),
            "f": pa.array([i / 2 for i in range(count)]),
            "s": [f"k{i:06}" for i in range(count)],
            "t": pa.array([start + timedelta(hours=i) for i in range(count)], pa.timestamp("us")),
            "st": [{"x": i} for i in range(count)],
            "dict": pa.array([f"k{i // 9000}" for i in range(count)]).dictionary_encode(),
        }
    )
    return pennon.write_dataset(data, tmp_path_factory.mktemp("large") / "t")


def decoded(table: pennon.LanceDataset, call: Any) -> tuple[Any, int]:
    """What a call returns, and how many rows were decoded for it."""
    before = table.counters().rows_decoded
    found = call()
    return found, table.counters().rows_decoded - before


PRUNED = [
    pc.field("i") == 33_000,
    pc.field("f") > 19_990,
    ~(pc.field("i") <= 39_990),
    ~(pc.field("f") <= 19_990),
    pc.field("s").isin(["k000001", "k000002"]),
    pc.starts_with(pc.field("s"), "k03999"),
    pc.field("t") < datetime(2000, 2, 1),
    pc.field("st", "x") >= 39_000,
    (pc.field("i") + 1 > 0) & (pc.field("i") < 100),
    (pc.field("i") == 5) | (pc.field("s") == "k000006"),
]


@pytest.mark.parametrize("expression", PRUNED, ids=str)
def test_statistics_are_used(large: pennon.LanceDataset, expression: pc.Expression) -> None:
    found, count = decoded(large, lambda: large.to_table(["i"], filter=expression))
    assert found.equals(pa.table(large).filter(expression).select(["i"]))
    # The columns of a filter are decoded, then those of the result.
    assert 0 < count <= 2 * 8192
    plan = large.scanner(filter=expression).analyze_plan()
    assert "rows: 8192 left after deletions and statistics" in plan or "rows: 7232 left" in plan


def test_limits_reach_the_core(large: pennon.LanceDataset) -> None:
    expression = pc.field("f") >= 0
    assert large.head(3, columns=["i"], filter=expression)["i"].to_pylist() == [0, 1, 2]
    assert "then in pyarrow" not in large.scanner(filter=expression).explain_plan()


def test_polars_prunes(large: pennon.LanceDataset) -> None:
    polars = pytest.importorskip("polars")
    lazy, col = polars.scan_pyarrow_dataset(large), polars.col
    for predicate, expected in (
        (col("i") > 39_990, range(39_991, 40_000)),
        (col("s").is_in(["k000003", "zz"]), [3]),
        (col("i").is_between(5, 7) & (col("f") != 3), [5, 7]),
        (col("t") < datetime(2000, 1, 1, 2), [0, 1]),
    ):
        found, count = decoded(large, lambda p=predicate: lazy.filter(p).select("i").collect()["i"].to_list())
        assert found == list(expected)
        assert 0 < count <= 2 * 8192


def test_duckdb_prunes(large: pennon.LanceDataset) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("t", large)
    for predicate, expected in (
        ("i > 39990", range(39_991, 40_000)),
        ("s in ('k000003', 'zz')", [3]),
        ("i between 5 and 7 and f <> 3", [5, 7]),
        ("t < timestamp '2000-01-01 02:00:00'", [0, 1]),
        ("st.x = 39999", [39_999]),
    ):
        query = f"select i from t where {predicate} order by i"
        found, count = decoded(large, lambda q=query: connection.sql(q).fetchall())
        assert [i for (i,) in found] == list(expected)
        assert 0 < count <= 2 * 8192
    # What is not translated is evaluated all the same.
    assert connection.sql("select count(*) from t where dict = 'k3'").fetchall() == [(9000,)]


def test_fragments_and_pyarrow_agree(large: pennon.LanceDataset) -> None:
    expression = (pc.field("i") > 100) & ~pc.field("s").isin(["k000200"])
    dataset = pyarrow.dataset.dataset(pa.table(large))
    assert large.count_rows(expression) == dataset.count_rows(filter=expression)
    (part,) = large.get_fragments()
    assert part.count_rows(expression) == dataset.count_rows(filter=expression)


@pytest.mark.parametrize("expression", PRUNED[:4])
def test_deletes_and_updates_prune(large: pennon.LanceDataset, tmp_path: Path, expression: pc.Expression) -> None:
    """Rows of zones that cannot match are not decoded, and the same rows change as by pyarrow's own evaluation."""
    copy = large.deep_clone(str(tmp_path / "copy"), large.version)
    matching = pa.table(large).filter(expression)["i"].to_pylist()
    assert matching
    updated, count = decoded(copy, lambda: copy.update({"f": "-1.0"}, where=expression))
    assert updated == {"num_rows_updated": len(matching)}
    assert count <= 4 * 8192
    assert copy.to_table(columns=["i"], filter="f = -1.0")["i"].to_pylist() == matching
    left = large.deep_clone(str(tmp_path / "left"), large.version)
    assert left.delete(expression) == {"num_deleted_rows": len(matching)}
    assert left.count_rows() == large.count_rows() - len(matching)
    assert left.count_rows(expression) == 0
