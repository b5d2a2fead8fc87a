"""Indices over vectors whose entries do not say what they are: those of pylance before release 7 do not."""

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


def undescribed(
    uri: Path, kind: str = "IVF_FLAT", metric: str = "cosine", file: bytes | None = None, **changes: Any
) -> LanceDataset:
    """A table with an index whose entry has no more than the type of its details, and is changed; with one file."""
    table = pennon.write_dataset(pa.table({"id": range(ROWS), "v": vectors(1, ROWS)}), uri)
    table.create_index("v", kind, num_partitions=2, metric=metric, **KINDS[kind])
    if file is not None:
        (folder,) = (uri / "_indices").iterdir()
        (folder / "auxiliary.idx").unlink()
        (folder / "index.idx").write_bytes(file)
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
    message = bytes([10, 5, *b"v_idx", 0x2A, 2, 32, number]) if number else bytes([10, 5, *b"v_idx", 0x2A, 2, 8, 1])
    end = struct.pack("<QHH4s", 100, 0, 1, b"LANC")
    file = bytes(100) + struct.pack("<I", len(message)) + message + end
    table = undescribed(tmp_path / "t", "IVF_FLAT", "cosine", file, **changes)
    assert nearest(table) == nearest(table, metric=metric, use_index=False)
    assert table.stats.index_stats("v_idx")["num_indexed_rows"] == ROWS
    table.optimize.optimize_indices()
    assert nearest(table) == nearest(table, metric=metric, use_index=False)


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_an_index_that_covers_nothing_takes_rows(tmp_path: Path, kind: str) -> None:
    table = undescribed(tmp_path / "t", kind, "dot")
    table.delete("true")
    table.insert(pa.table({"id": range(ROWS), "v": vectors(2, ROWS)}))
    table.create_scalar_index("id", "BTREE")
    table.insert(pa.table({"id": range(ROWS, ROWS + 9), "v": vectors(3, 9)}))
    table.optimize.optimize_indices()
    for name in ("v_idx", "id_idx"):
        assert table.stats.index_stats(name)["num_unindexed_rows"] == 0
    (statistics,) = table.stats.index_stats("v_idx")["indices"]
    assert (statistics["index_type"], statistics["metric_type"]) == (kind, "dot")
    assert statistics["num_partitions"] == 2
    assert nearest(table) == nearest(table, metric="dot")


def test_an_index_that_covers_nothing_and_has_no_files_is_kept(tmp_path: Path) -> None:
    table = undescribed(tmp_path / "t")
    table.delete("true")
    table.insert(pa.table({"id": range(ROWS), "v": vectors(2, ROWS)}))
    table.create_scalar_index("id", "BTREE")
    shutil.rmtree(tmp_path / "t" / "_indices" / str(table.list_indices()[-1]["uuid"]))
    table.insert(pa.table({"id": range(ROWS, ROWS + 9), "v": vectors(3, 9)}))
    table = pennon.dataset(table.uri)
    table.optimize.optimize_indices()
    assert table.stats.index_stats("id_idx")["num_unindexed_rows"] == 0
    assert table.stats.index_stats("v_idx")["num_indexed_rows"] == 0


@pytest.mark.parametrize("has_directory", [True, False])
def test_an_entry_that_is_no_index_over_vectors_is_passed_over(tmp_path: Path, has_directory: bool) -> None:
    table = pennon.write_dataset(pa.table({"id": range(ROWS), "v": vectors(1, ROWS)}), tmp_path / "t")
    table.create_scalar_index("v", "ZONEMAP", name="zones")
    (entry,) = table.get_transactions(1)[0].operation.new_indices
    silent = dataclasses.replace(entry, index_details=None)
    operation = LanceOperation.CreateIndex(new_indices=[silent], removed_indices=[entry])
    table = LanceDataset.commit(table, operation, read_version=table.version)
    if not has_directory:
        shutil.rmtree(tmp_path / "t" / "_indices" / entry.uuid)
        table = pennon.dataset(table.uri)
    assert nearest(table) == nearest(table, metric="l2", use_index=False)
    table.create_index("v", "IVF_FLAT", num_partitions=1, metric="cosine", name="vectors")
    assert nearest(table) == nearest(table, metric="cosine", use_index=False)


@pytest.mark.parametrize("gone", [0, 1])
def test_one_of_two_segments_cannot_be_read(tmp_path: Path, gone: int) -> None:
    rows = pa.table({"id": range(ROWS), "v": vectors(1, ROWS)})
    table = pennon.write_dataset(rows, tmp_path / "t", max_rows_per_file=ROWS // 2)
    parts = [
        table.create_index_uncommitted(
            "v", "IVF_FLAT", name="v_idx", metric="cosine", num_partitions=2, fragment_ids=[fragment]
        )
        for fragment in range(2)
    ]
    silent = [dataclasses.replace(part, index_details=(part.index_details[0], b""), files=None) for part in parts]
    table = LanceDataset.commit(table, LanceOperation.CreateIndex(silent, []), read_version=1)
    shutil.rmtree(tmp_path / "t" / "_indices" / parts[gone].uuid)
    table = pennon.dataset(table.uri)
    assert nearest(table, nprobes=2) == nearest(table, metric="cosine", use_index=False)
    assert [index.index_type for index in table.describe_indices()] == ["IVF_FLAT"]
    assert table.index_config("v_idx").index_type == "IVF_FLAT"
    statistics = table.stats.index_stats("v_idx")
    assert (statistics["index_type"], statistics["num_indexed_rows"]) == ("IVF_FLAT", ROWS)
    assert [part["uuid"] for part in statistics["indices"]] == [parts[1 - gone].uuid]


def test_one_file_says_the_metric(tmp_path: Path) -> None:
    table = undescribed(tmp_path / "t")
    (folder,) = (tmp_path / "t" / "_indices").iterdir()
    (folder / "auxiliary.idx").unlink()
    table = pennon.dataset(table.uri)
    assert nearest(table) == nearest(table, metric="cosine", use_index=False)
    # Once: what cannot be opened is looked for again, what is known is not read again.
    reads = []
    for options in ({}, {"metric": "cosine"}):
        table.io_stats_incremental()
        nearest(table, **options)
        reads.append(table.io_stats_incremental().read_iops)
    assert reads[0] == reads[1]


def test_graphs_of_an_old_release(tmp_path: Path) -> None:
    """Its levels do not count their entry points."""
    golden = Path(__file__).parents[1] / "golden" / "old" / "lance-4.0.0-graphs"
    shutil.copytree(golden, tmp_path / "t")
    table = pennon.dataset(tmp_path / "t")
    assert [index["type"] for index in table.list_indices()] == ["IVF_HNSW_SQ"]
    for query in ([0.0, 25.0, 50.0, 75.0], [90.0, 90.0, 5.0, 5.0]):
        options: dict[str, Any] = {"q": query, "k": 9, "nprobes": 2, "refine_factor": 5}
        expected = nearest(table, **options, use_index=False)
        assert nearest(table, **options) == expected
        plan = table.scanner(nearest={"column": "v", "q": query, "k": 9}).explain_plan()
        assert "by v_idx (IVF_HNSW_SQ)" in plan
    table.insert(pa.table({"id": range(90, 99), "v": table.to_table(["v"], limit=9)["v"]}))
    table.optimize.optimize_indices()
    statistics = table.stats.index_stats("v_idx")
    assert (statistics["index_type"], statistics["num_indexed_rows"]) == ("IVF_HNSW_SQ", 99)
    exact = nearest(table, **options, use_index=False)
    assert sorted(nearest(table, **options)) == sorted(exact)
