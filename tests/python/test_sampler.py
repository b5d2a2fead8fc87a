"""Samplers, next to those of pylance."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.sampler as theirs
import pennon
import pennon.sampler as ours
import pyarrow as pa
import pytest
from lance._dataset.sharded_batch_iterator import ShardedBatchIterator
from pennon import _sample
from pennon._table.rows import take
from support.calls import refused

ROWS = 100


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[pennon.LanceDataset, Any]:
    """The same table in both: a hundred rows in fragments of 17, some of them deleted."""
    uri = str(tmp_path_factory.mktemp("samplers") / "table")
    data = pa.table({"i": range(ROWS + 5), "j": range(100, ROWS + 105)})
    table = pennon.write_dataset(data, uri, max_rows_per_file=17)
    table.delete("i >= 100 or i = 200")
    return table, lance.dataset(uri)


def values(batches: Any, column: str | int = 0) -> list[list[int]]:
    return [batch[column].to_pylist() for batch in batches]


def rows(batches: Any, column: str | int = 0) -> list[int]:
    return [value for batch in values(batches, column) for value in batch]


SAMPLERS: list[Callable[[Any], Any]] = [
    lambda module: module.FullScanSampler(),
    lambda module: module.ShardedFragmentSampler(1, 2),
    lambda module: module.ShardedFragmentSampler(0, 3, randomize=True, seed=5),
    lambda module: module.ShardedFragmentSampler(0, 1, True, 6),
    lambda module: module.ShardedFragmentSampler(8, 9),
    lambda module: module.ShardedBatchSampler(0, 3),
    lambda module: module.ShardedBatchSampler(2, 3),
    lambda module: module.ShardedBatchSampler(0, 3, randomize=True, seed=3),
    lambda module: module.ShardedBatchSampler(0, 1, True, 4),
    lambda module: module.ShardedBatchSampler(30, 31),
    lambda module: module.ShardedFixedBatchSampler(1, 2, batch_size=10, total_num_rows=100),
]


@pytest.mark.parametrize("make", SAMPLERS)
@pytest.mark.parametrize("options", [{"batch_size": 10}, {}, {"batch_size": 7, "columns": ["j"]}])
def test_batches_are_those_of_the_reference(
    tables: Any, make: Callable[[Any], Any], options: dict[str, Any]
) -> None:
    mine = list(make(ours)(tables[0], **options))
    other = list(make(theirs)(tables[1], **options))
    assert values(mine) == values(other)
    assert [batch.schema.names for batch in mine] == [batch.schema.names for batch in other]


@pytest.mark.parametrize("make", SAMPLERS[:6])
def test_filters(tables: Any, make: Callable[[Any], Any]) -> None:
    mine = make(ours)(tables[0], batch_size=10, filter="i > 15 and i != 40")
    assert rows(mine) == rows(make(theirs)(tables[1], batch_size=10, filter="i > 15 and i != 40"))


@pytest.mark.parametrize("make", SAMPLERS[:4])
def test_row_ids(tables: Any, make: Callable[[Any], Any]) -> None:
    options = {"batch_size": 10, "with_row_id": True, "columns": ["j"]}
    mine = [batch.to_pydict() for batch in make(ours)(tables[0], **options)]
    assert mine == [batch.to_pydict() for batch in make(theirs)(tables[1], **options)]


def test_row_ids_of_batches(tables: Any) -> None:
    # The reference warns and leaves them out.
    for filter in (None, "i >= 0"):
        batch = next(ours.ShardedBatchSampler(1, 2)(tables[0], batch_size=5, with_row_id=True, filter=filter))
        assert batch.schema.names == ["i", "j", "_rowid"]


@pytest.mark.parametrize("randomize", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_processes_share_what_matches(tables: Any, world: int, randomize: bool) -> None:
    # The reference fails for ranks that get no row of a batch.
    found: list[int] = []
    for rank in range(world):
        sampler = ours.ShardedBatchSampler(rank, world, randomize=randomize, seed=3)
        batches = values(sampler(tables[0], batch_size=4, filter="i % 3 != 0"))
        assert sorted(map(len, batches))[1:] == [4] * (len(batches) - 1)
        assert batches == values(sampler(tables[0], batch_size=4, filter="i % 3 != 0"))
        found += [value for batch in batches for value in batch]
    assert sorted(found) == [i for i in range(ROWS) if i % 3]


def test_many_batches_that_match_are_mixed(tmp_path: Path) -> None:
    table = pennon.write_dataset({"i": list(range(1_000))}, tmp_path / "t")
    sampler = ours.ShardedBatchSampler(0, 1, randomize=True, seed=1)
    first = rows(sampler(table, batch_size=5, filter="i >= 0"))
    assert sorted(first) == list(range(1_000))
    assert first != sorted(first)
    sampler.set_epoch(1)
    assert rows(sampler(table, batch_size=5, filter="i >= 0")) != first


@pytest.mark.parametrize("randomize", [False, True])
@pytest.mark.parametrize("size", [1, 3, 16, 200])
def test_batches_that_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, randomize: bool
) -> None:
    data = pa.table(
        {
            "i": range(300),
            "s": [{"x": i, "y": str(i)} for i in range(300)],
            "l": [[i] * (i % 4) for i in range(300)],
        }
    )
    table = pennon.write_dataset(data, tmp_path / "t", max_rows_per_file=70)
    table.delete("i % 7 = 3")

    def read(columns: Any) -> list[pa.RecordBatch]:
        sampler = ours.ShardedBatchSampler(1, 2, randomize=randomize, seed=2)
        return list(sampler(table, batch_size=size, columns=columns, with_row_id=True))

    shapes: list[Any] = [None, ["s.x", "_rowaddr", "i"], {"twice": "i * 2", "l": "l"}]
    together = [read(columns) for columns in shapes]
    # No row more than a batch is read at once.
    monkeypatch.setattr(_sample, "_READ_ROWS", 1)
    assert together == [read(columns) for columns in shapes]
    assert all(batch.num_rows <= size for batches in together for batch in batches)


def test_wide_rows_are_read_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pa.table({"i": range(64), "wide": [bytes(1000)] * 64})
    table = pennon.write_dataset(data, tmp_path / "t")
    sizes: list[int] = []
    monkeypatch.setattr(_sample, "_READ_BYTES", 10_000)
    monkeypatch.setattr(
        _sample, "take", lambda *given, **more: [sizes.append(len(given[2])), take(*given, **more)][1]
    )
    assert rows(ours.ShardedBatchSampler(0, 1)(table, batch_size=2)) == list(range(64))
    assert sizes[0] == 2
    assert 2 < max(sizes) <= 10
    assert len(sizes) < 16


def test_epochs(tables: Any) -> None:
    # In the reference the epoch has an effect on fixed batches only.
    for make in (
        lambda seed: ours.ShardedFragmentSampler(0, 1, True, seed),
        lambda seed: ours.ShardedBatchSampler(0, 1, True, seed),
    ):
        sampler = make(3)
        sampler.set_epoch(2)
        assert rows(sampler(tables[0], batch_size=10)) == rows(make(5)(tables[0], batch_size=10))
        assert rows(sampler(tables[0], batch_size=10)) != rows(make(3)(tables[0], batch_size=10))
    for epoch in range(3):
        mine, other = (m.ShardedFixedBatchSampler(0, 2, True, 3, 4, 50) for m in (ours, theirs))
        mine.set_epoch(epoch)
        other.set_epoch(epoch)
        assert list(mine) == list(other)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("total", [0, 5, 21, 101])
@pytest.mark.parametrize("randomize", [False, True])
def test_fixed_batches(world: int, total: int, randomize: bool) -> None:
    everything: list[int] = []
    for rank in range(world):
        mine, other = (m.ShardedFixedBatchSampler(rank, world, randomize, 7, 10, total) for m in (ours, theirs))
        assert list(mine) == list(other)
        assert len(mine) == len(list(mine)), "the reference counts the batches of the first process for all"
        everything += [position for batch in mine for position in batch]
    assert sorted(everything) == list(range(total))
    assert list(ours.ShardedFixedBatchSampler(0, 2)) == list(theirs.ShardedFixedBatchSampler(0, 2)) == []


def test_own_samplers(tables: Any) -> None:
    class Backwards(ours.FragmentSampler):
        def iter_fragments(self, ds: pennon.LanceDataset, *args: Any, **kwargs: Any) -> Any:
            yield from reversed(ds.get_fragments())

    assert rows(Backwards()(tables[0], batch_size=ROWS))[:3] == [85, 86, 87]
    with pytest.raises(TypeError, match="abstract"):
        ours.Sampler()


@pytest.mark.parametrize("n", [0, 1, 30, 99, 100, 1_000])
@pytest.mark.parametrize("max_takes", [1, 7, 2048])
@pytest.mark.parametrize("filt", [None, "i > 50"])
def test_maybe_sample(tables: Any, n: int, max_takes: int, filt: str | None) -> None:
    matching = [i for i in range(ROWS) if filt is None or i > 50]
    batches = list(ours.maybe_sample(tables[0], n, ["i", "j"], 8, max_takes, filt))
    drawn = rows(batches)
    assert len(drawn) == min(n, len(matching))
    assert set(drawn) <= set(matching)
    assert max(Counter(drawn).values(), default=1) == 1
    assert rows(batches, "j") == [i + 100 for i in drawn]
    assert all(batch.num_rows <= 8 for batch in batches)
    if filt is None:
        reference = rows(theirs.maybe_sample(tables[1], n, ["i"], 8, max_takes))
        assert abs(len(reference) - len(drawn)) <= n % max_takes, "their runs all have one length"
        if n >= len(matching):
            assert drawn == reference


def test_deleted_rows_are_not_sampled(tmp_path: Path) -> None:
    table = pennon.write_dataset({"i": list(range(100))}, tmp_path / "t", max_rows_per_file=30)
    table.delete("i < 10 or i % 7 = 0")
    kept = {i for i in range(10, 100) if i % 7}
    assert set(rows(ours.maybe_sample(table, len(kept) - 1, "i"))) < kept
    assert set(rows(ours.maybe_sample(table, 100, "i"))) == kept
    matching = {i for i in kept if i > 40}
    for n in (5, len(matching) - 1):
        for takes in (3, 100):
            drawn = rows(ours.maybe_sample(table, n, "i", max_takes=takes, filt="i > 40"))
            assert len(set(drawn)) == n
            assert set(drawn) < matching
    shares = [rows(ours.ShardedBatchSampler(rank, 3)(table, batch_size=7)) for rank in range(3)]
    assert sorted(i for share in shares for i in share) == sorted(kept)


def test_samples_are_random(tables: Any) -> None:
    def draw(seed: int, n: int = 5, takes: int = 2048) -> list[int]:
        random.seed(seed)
        return rows(ours.maybe_sample(tables[0], n, "i", max_takes=takes))

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    counts = Counter(value for seed in range(400) for value in draw(seed))
    assert len(counts) == ROWS
    assert max(counts.values()) < 60
    # With few takes the rows are runs, one in each part of the table.
    run = draw(1, 20, 4)
    assert run == sorted(run)
    assert sum(b - a == 1 for a, b in pairwise(run)) >= 16
    assert draw(1, 20, 4) != draw(2, 20, 4)


def test_samples_of_a_place_and_of_expressions(tables: Any) -> None:
    for module, table in zip((ours, theirs), tables, strict=True):
        assert len(rows(module.maybe_sample(table.uri, 10, "i"))) == 10
        doubled = rows(module.maybe_sample(table, 10, {"x": "i * 2"}))
        assert all(value % 2 == 0 for value in doubled)


def iterators() -> list[dict[str, Any]]:
    return [
        {},
        {"batch_size": 10},
        {"batch_size": 10, "with_row_id": True, "columns": ["j"]},
        {"batch_size": 10, "granularity": "batch"},
        {"batch_size": 10, "granularity": "batch", "columns": ["j"]},
    ]


@pytest.mark.parametrize("options", iterators())
@pytest.mark.parametrize("place", [False, True])
def test_iterators(tables: Any, options: dict[str, Any], place: bool) -> None:
    mine, other = (table.uri if place else table for table in tables)
    with pytest.warns(DeprecationWarning, match="sampler"):
        found = ours.ShardedBatchIterator(mine, 1, 3, **options)
    with pytest.warns(UserWarning, match="Sampler"):
        expected = ShardedBatchIterator(other, 1, 3, **options)
    first = [b.to_pydict() for b in found]
    assert first == [b.to_pydict() for b in expected] != []
    assert [b.to_pydict() for b in found] == first, "it can be iterated over more than once"


def test_wrong_input(tables: Any) -> None:
    table = tables[0]
    for kind in (ours.ShardedFragmentSampler, ours.ShardedBatchSampler, ours.ShardedFixedBatchSampler):
        refused("rank is 2 of 2", kind, 2, 2)
        refused("rank is -1 of 2", kind, -1, 2)
        refused("rank is 0 of 0", kind, 0, 0)
    refused("batch_size is -1", ours.ShardedFixedBatchSampler, 0, 1, batch_size=-1)
    for sampler in (ours.FullScanSampler(), ours.ShardedBatchSampler(0, 1)):
        refused("batch_size is 0", lambda sampler=sampler: list(sampler(table, batch_size=0)))
        refused("nope", lambda sampler=sampler: list(sampler(table, columns=["nope"])))
        refused("nope", lambda sampler=sampler: list(sampler(table, filter="nope > 1")))
    refused("is -5, expected", ours.maybe_sample, table, -5, "i")
    refused("max_takes is 0", ours.maybe_sample, table, 5, "i", max_takes=0)
    refused("a int, expected a pennon.LanceDataset", ours.maybe_sample, 5, 5, "i")
    refused("nope", lambda: list(ours.maybe_sample(table, 5, "nope")))
    refused("nope", lambda: list(ours.maybe_sample(table, 5, "i", filt="nope > 1")))
    with pytest.warns(DeprecationWarning, match="sampler"):
        refused("granularity is 'x'", ours.ShardedBatchIterator, table, 0, 1, granularity="x")


def test_torch(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    with pytest.raises(pennon.MissingPackageError, match="pip install torch"):
        ours.ShardedFragmentSampler.from_torch()
    torch, distributed = ModuleType("torch"), ModuleType("torch.distributed")
    distributed.get_rank, distributed.get_world_size = lambda: 1, lambda: 3  # type: ignore[attr-defined]
    torch.distributed = distributed  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    for made, same in (
        (ours.ShardedFragmentSampler.from_torch(), ours.ShardedFragmentSampler(1, 3)),
        (ours.ShardedBatchSampler.from_torch(True, 2), ours.ShardedBatchSampler(1, 3, True, 2)),
    ):
        assert rows(made(tables[0])) == rows(same(tables[0]))
    fixed = ours.ShardedFixedBatchSampler.from_torch(10, 100)
    assert list(fixed) == list(ours.ShardedFixedBatchSampler(1, 3, batch_size=10, total_num_rows=100))
    with pytest.warns(DeprecationWarning, match="sampler"):
        assert rows(ours.ShardedBatchIterator.from_torch(tables[0]))[0] == 17
