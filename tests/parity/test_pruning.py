"""Filters on tables with and without statistics: the same rows as the reference, and as without statistics."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_same
from support.spread import spread

pytestmark = pytest.mark.slow

ROWS = 30_000
PREDICATES = [
    "i = 17000",
    "i < 40",
    "i >= 29990",
    "i between 8190 and 8194",
    "i not between 10 and 29990",
    "i in (1, 2, 3, 20000, 50000)",
    "i is null",
    "i is not null and i < 100",
    "i <> 5 and i < 20",
    "not (i > 12)",
    "f < 10",
    "f = 0",
    "f < 0",
    "f <= -0.0",
    "f > 29980.5",
    "s = 'k00123'",
    "s like 'k0012%'",
    "s like 'k_012%'",
    "starts_with(s, 'k2999')",
    "s > 'k29990'",
    "s < 'k00003' or s is null",
    "long > 'xxxx'",
    "b",
    "not b",
    "b is null",
    "st.m = 77",
    "st.m is null and i < 100",
    "d < date '1970-01-05'",
    "t >= timestamp '2024-01-20 00:00:00'",
    "t < timestamp '2023-01-01 00:00:00'",
    "i = 5 or s = 'k20000'",
    "i < 100 and s like 'k00%' and f > 50",
    "i % 7 = 0 and i < 30",
    "u = 3",
    "bin = X'00000007'",
]
# The reference compares decimals with nothing but decimals.
OURS_ALONE = ["dec > 299.5", "dec <= cast('0.07' as decimal(12, 2))", "dec = cast(250 as decimal(12, 2))"]
LINEAGE = [
    "_rowid = 8200",
    "_rowid < 3 or _rowid in (5, 29999)",
    "_rowaddr >= 4294967290",
    "_row_last_updated_at_version > 1",
    "_row_created_at_version = 2 and i < 31000",
    "_row_last_updated_at_version in (2, 3)",
    "_row_created_at_version = 77",
]


def batch(start: int, rows: int = ROWS, null_structs: bool = True) -> pa.Table:
    rng = np.random.default_rng(start)
    at = np.arange(start, start + rows)
    missing = rng.random(rows) < 0.02
    zero = datetime(2024, 1, 1, tzinfo=timezone.utc).replace(tzinfo=None)

    def column(values: object, data_type: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, data_type, mask=missing)

    floats = at.astype(np.float64)
    floats[::1000], floats[1::1000] = -0.0, 0.0
    return pa.table(
        {
            "at": at,
            "i": column(at),
            "f": column(floats),
            "s": column([f"k{n:05}" for n in at]),
            "long": column(["x" * (60 + n % 9) + str(n) for n in at]),
            "b": column(at < start + 9000),
            "st": pa.StructArray.from_arrays(
                [column(at // 3)],
                fields=[pa.field("m", pa.int64())],
                mask=pa.array(at % 11 == 0) if null_structs else None,
            ),
            "d": column(at // 1000, pa.int32()).cast(pa.date32()),
            "t": column([zero + timedelta(minutes=int(n)) for n in at], pa.timestamp("us")),
            "dec": column([Decimal(int(n)) / 100 for n in at], pa.decimal128(12, 2)),
            "u": column(at % 5, pa.uint8()),
            "bin": column([int(n % 70_000).to_bytes(4, "big") for n in at], pa.binary()),
            "noise": rng.integers(0, 1 << 62, rows),
        }
    )


@pytest.fixture(
    scope="module",
    params=[(lance, "stable"), (pennon, "stable"), (pennon, "2.0")],
    ids=["reference-writes", "pennon-writes", "pennon-writes-2.0"],
)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("pruning") / "t")
    module, version = request.param
    for start, mode in [(0, "create"), (ROWS, "append"), (2 * ROWS, "append")]:
        rows = ROWS if mode == "create" else 1000
        data = batch(start, rows, null_structs=version != "2.0")
        module.write_dataset(data, uri, mode=mode, enable_stable_row_ids=True, data_storage_version=version)
    module.dataset(uri).delete("i % 10 = 3 and i < 20000")
    return uri


@spread(of=1, times=2)
@pytest.mark.parametrize("predicate", PREDICATES + LINEAGE)
def test_same_rows(table: str, predicate: str) -> None:
    ours, theirs = pennon.dataset(table), lance.dataset(table)
    expected = theirs.to_table(filter=predicate, with_row_id=True)
    assert_same(ours.to_table(filter=predicate, with_row_id=True), expected)
    assert_same(ours.to_table(filter=predicate, with_row_id=True, use_stats=False), expected)
    assert ours.count_rows(predicate) == expected.num_rows
    limited = theirs.to_table(columns=["at"], filter=predicate, limit=7, offset=2)
    assert_same(ours.to_table(columns=["at"], filter=predicate, limit=7, offset=2), limited)


@pytest.mark.parametrize("predicate", OURS_ALONE)
def test_same_rows_as_without_statistics(table: str, predicate: str) -> None:
    ours = pennon.dataset(table)
    found = ours.to_table(filter=predicate, with_row_id=True)
    assert found.num_rows > 0
    assert_same(found, ours.to_table(filter=predicate, with_row_id=True, use_stats=False))


def test_nan_is_kept(tmp_path: Path) -> None:
    values = np.arange(20_000, dtype=np.float64)
    values[100], values[10_000] = np.nan, -np.nan
    noise = np.random.default_rng(1).integers(0, 1 << 62, len(values))
    pennon.write_dataset(pa.table({"f": values, "noise": noise}), tmp_path / "t")
    ours, theirs = pennon.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    predicates = ["f > 19998", "f < 1", "f <> 3", "f >= 'nan'::double", "f = 'nan'::double", "not (f < 19999)"]
    predicates += ["isnan(f)", "not isnan(f) and f > 9", "not (f <= 19000 and not isnan(f))", "isnan(f) or f = 5"]
    for predicate in predicates:
        assert ours.count_rows(predicate) == ours.count_rows(predicate, use_stats=False)
        assert ours.count_rows(predicate) == theirs.count_rows(predicate)


def test_deletes_see_the_same_rows(tmp_path: Path) -> None:
    choice = random.Random(4)
    for number, predicate in enumerate(choice.sample(PREDICATES, 12)):
        data = batch(0)
        ours = pennon.write_dataset(data, tmp_path / f"ours{number}")
        theirs = lance.write_dataset(data, tmp_path / f"theirs{number}")
        ours.delete(predicate)
        theirs.delete(predicate)
        assert_same(ours.to_table(["at"]), theirs.to_table(["at"]))


@pytest.mark.parametrize("version", ["2.0", "stable"])
def test_the_reference_reads_files_with_statistics(tmp_path: Path, version: str) -> None:
    from lance.file import LanceFileReader

    data = batch(0, null_structs=version != "2.0")
    written = pennon.write_dataset(data, tmp_path / "t", data_storage_version=version)
    fragment = written.get_fragments()[0]
    path = tmp_path / "t" / "data" / fragment.data_files()[0].path
    reader = LanceFileReader(str(path))
    sizes = [buffer.size for buffer in reader.metadata().global_buffers]
    assert len(sizes) == 2
    assert sizes[1] * 100 < path.stat().st_size
    assert reader.read_all().to_table().equals(data)
    small = pennon.write_dataset(batch(0, 10), tmp_path / "small").get_fragments()[0]
    path = tmp_path / "small" / "data" / small.data_files()[0].path
    assert len(LanceFileReader(str(path)).metadata().global_buffers) == 1
