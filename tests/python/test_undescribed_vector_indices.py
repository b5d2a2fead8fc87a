"""Indices over vectors whose entries do not say what they are: those of pylance up to release 4.0 do not."""

from __future__ import annotations

import dataclasses
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon import LanceDataset, LanceOperation

KINDS: dict[str, dict[str, Any]] = {"IVF_FLAT": {}, "IVF_PQ": {"num_sub_vectors": 4}, "IVF_HNSW_SQ": {}}
ROWS, DIMENSION = 400, 8


def vectors(seed: int, rows: int) -> pa.Array:
    dice = random.Random(seed)
    values = pa.array([dice.gauss(0, 1) * dice.randint(1, 9) for _ in range(rows * DIMENSION)], pa.float32())
    return pa.FixedSizeListArray.from_arrays(values, DIMENSION)


def undescribed(uri: Path, kind: str = "IVF_FLAT", metric: str = "cosine", **changes: Any) -> LanceDataset:
    """A table with an index whose entry has no more than the type of its details, and is changed."""
    table = pennon.write_dataset(pa.table({"id": range(ROWS), "v": vectors(1, ROWS)}), uri)
    table.create_index("v", kind, num_partitions=2, metric=metric, **KINDS[kind])
    (entry,) = table.get_transactions(1)[0].operation.new_indices
    silent = dataclasses.replace(entry, **{"index_details": (entry.index_details[0], b""), **changes})
    operation = LanceOperation.CreateIndex(new_indices=[silent], removed_indices=[entry])
    return LanceDataset.commit(table, operation, read_version=table.version)


def nearest(table: LanceDataset, **options: Any) -> list[int]:
    query = {"column": "v", "q": [1.0, -2.0] * (DIMENSION // 2), "k": 10, **options}
    return table.to_table(["id"], nearest=query)["id"].to_pylist()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_files_say_kind_and_metric(tmp_path: Path, kind: str, metric: str) -> None:
    table = undescribed(tmp_path / "t", kind, metric)
    assert nearest(table) == nearest(table, metric=metric)
    plan = table.scanner(nearest={"column": "v", "q": [0.5] * DIMENSION, "k": 3}).explain_plan()
    assert f"by {metric} of v" in plan
    assert f"v_idx ({kind})" in plan
    fresh = pennon.dataset(table.uri)
    assert [index["type"] for index in fresh.list_indices()] == [kind]
    assert [index.index_type for index in fresh.describe_indices()] == [kind]
    assert fresh.stats.index_stats("v_idx")["index_type"] == kind
    assert fresh.index_config("v_idx").index_type == kind


def test_rows_are_added(tmp_path: Path) -> None:
    table = undescribed(tmp_path / "t")
    table.insert(pa.table({"id": range(ROWS, 2 * ROWS), "v": vectors(2, ROWS)}))
    table.optimize.optimize_indices()
    assert table.stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    exact = nearest(table, metric="cosine", use_index=False)
    assert nearest(table, nprobes=2) == exact


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_an_index_is_built_again(tmp_path: Path, kind: str) -> None:
    table = undescribed(tmp_path / "t", kind, "dot")
    table.optimize.optimize_indices(retrain=True)
    assert table.index_config("v_idx").index_type == kind
    assert nearest(table) == nearest(table, metric="dot")
    assert table.stats.index_stats("v_idx")["indices"][0]["metric_type"] == "dot"


def test_without_files_the_metric_must_be_given(tmp_path: Path) -> None:
    table = undescribed(tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "_indices")
    table = pennon.dataset(table.uri)
    with pytest.raises(pennon.UnsupportedError, match=r"does not say by which metric it was built.*give one"):
        nearest(table)
    assert nearest(table, metric="cosine") == nearest(table, metric="cosine", use_index=False)
    assert [index["type"] for index in table.list_indices()] == ["Vector"]
    assert table.stats.index_stats("v_idx")["num_indexed_rows"] == ROWS


# What release 0.15 writes, and 0.20: one file, whose end names the metric; the one has no details at all.
@pytest.mark.parametrize("changes", [{"index_details": None, "files": None}, {"files": None}])
@pytest.mark.parametrize(("number", "metric"), [(0, "l2"), (1, "cosine"), (2, "dot")])
def test_the_old_form_says_its_metric(tmp_path: Path, changes: dict[str, Any], number: int, metric: str) -> None:
    table = undescribed(tmp_path / "t", "IVF_FLAT", "cosine", **changes)
    (folder,) = (tmp_path / "t" / "_indices").iterdir()
    (folder / "auxiliary.idx").unlink()
    message = bytes([10, 5, *b"v_idx", 0x2A, 2, 32, number]) if number else bytes([10, 5, *b"v_idx", 0x2A, 2, 8, 1])
    end = struct.pack("<QHH4s", 100, 0, 1, b"LANC")
    (folder / "index.idx").write_bytes(bytes(100) + struct.pack("<I", len(message)) + message + end)
    table = pennon.dataset(table.uri)
    assert nearest(table) == nearest(table, metric=metric, use_index=False)
    assert table.stats.index_stats("v_idx")["num_indexed_rows"] == ROWS
    table.optimize.optimize_indices()
    assert nearest(table) == nearest(table, metric=metric, use_index=False)
