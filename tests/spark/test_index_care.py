"""`optimizeIndices` by tasks: indices of all kinds with the answers of those that the wheel takes care of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.indices import IndexConfig
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable
from pyspark_pennon.indices import care as index_care
from support.spread import spread
from support.vectors import KINDS, PARTITIONS, exact, table_of, vectors, written

MORE = 1400
VALUES: dict[str, tuple[str, Any, str]] = {
    "BTREE": ("id", IndexConfig("BTREE", {"zone_size": 100}), "id BETWEEN 1990 AND 2600"),
    "ZONEMAP": ("id", IndexConfig("ZONEMAP", {"rows_per_zone": 64}), "id BETWEEN 1990 AND 2600"),
    "BLOOMFILTER": ("id", IndexConfig("BLOOMFILTER", {"number_of_items": 64}), "id IN (3, 2500)"),
    "BITMAP": ("s", "BITMAP", "s = '3'"),
    "LABEL_LIST": ("tags", "LABEL_LIST", "array_has(tags, 2)"),
}


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_care, "_LEAST_ROWS", 100)


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uris(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Two copies of a table: for Spark and for the wheel."""
    written(str(tmp_path / "spark"), vectors(), stable=request.param)
    table = pennon.dataset(str(tmp_path / "spark"))
    table.add_columns({"tags": "make_array(id % 3, id % 5)"})
    return str(tmp_path / "spark"), str(tmp_path / "wheel")


def appended(uri: str) -> None:
    rows = table_of(vectors(MORE, seed=2), 2000)
    tags = pa.array([[n % 3, n % 5] for n in range(2000, 2000 + MORE)], pa.list_(pa.int64()))
    pennon.write_dataset(rows.append_column("tags", tags), uri, mode="append", max_rows_per_file=350)


def changed_both(uris: tuple[str, str], change: Callable[[str], object]) -> None:
    """What happens to the table before the indices are taken care of, and a copy of the result."""
    change(uris[0])
    shutil.copytree(*uris)


def covered(uri: str, name: str) -> bool:
    return bool(pennon.dataset(uri).stats.index_stats(name)["num_unindexed_fragments"] == 0)


def segments(uri: str, name: str) -> int:
    return int(pennon.dataset(uri).stats.index_stats(name)["num_segments"])


@spread(of=1)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("retrain", [False, True], ids=["", "retrain"])
def test_values(spark: SparkSession, uris: tuple[str, str], kind: str, retrain: bool) -> None:
    column, config, predicate = VALUES[kind]

    def change(uri: str) -> None:
        pennon.dataset(uri).create_scalar_index(column, config, "i")
        appended(uri)
        pennon.dataset(uri).delete("id % 13 = 5")

    changed_both(uris, change)
    before = pennon.dataset(uris[0])
    LanceTable.forPath(spark, uris[0]).optimizeIndices(["i"], retrain=retrain)
    pennon.dataset(uris[1]).optimize.optimize_indices(index_names=["i"], retrain=retrain)
    ours, wheels = map(pennon.dataset, uris)
    assert ours.version == before.version + 1
    assert covered(uris[0], "i")
    is_merged = kind in ("BITMAP", "LABEL_LIST") and ours.has_stable_row_ids
    assert segments(uris[0], "i") == (2 if retrain else 1 if is_merged else 3)
    for table in (ours, wheels, lance.dataset(uris[0])):
        found = table.scanner(filter=predicate, columns=["id"], scan_in_order=True).to_table()["id"].to_pylist()
        assert found == before.to_table(columns=["id"], filter=predicate, use_scalar_index=False)["id"].to_pylist()
    assert "rows found by indices: i" in ours.scanner(filter=predicate).explain_plan()
    if retrain:
        figures = [table.index_statistics("i")["segments"] for table in (ours, wheels)]
        for name in ("rows_per_zone", "number_of_items", "probability"):
            assert {part.get(name) for part in figures[0]} == {figures[1][0].get(name)}
        if kind == "BTREE":
            assert sum(part["num_pages"] for part in figures[0]) >= figures[1][0]["num_pages"] > 25


def test_one_segment_after_values_were_replaced(spark: SparkSession, uris: tuple[str, str]) -> None:
    """The reference would take rows of the first segment that have other values now for rows of the second."""
    table = pennon.dataset(uris[0])
    table.create_scalar_index("id", "BTREE", "i")
    table.update({"id": "id + 5000"}, where="id >= 1000", mode="rewrite_columns")
    LanceTable.forPath(spark, uris[0]).optimizeIndices()
    assert covered(uris[0], "i")
    assert segments(uris[0], "i") == 1
    for library in (pennon, lance):
        counts = [library.dataset(uris[0]).count_rows(f"id = {number}") for number in (999, 1500, 6500)]
        assert counts == [1, 0, 1]


@spread(of=1)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors(spark: SparkSession, uris: tuple[str, str], kind: str) -> None:
    """The same partitions, centroids and codebook, so the same distances of the same rows."""
    parameters = {"num_partitions": PARTITIONS, **KINDS[kind]}

    def change(uri: str) -> None:
        pennon.dataset(uri).create_index("vec", kind, "i", metric="cosine", **parameters)
        appended(uri)

    changed_both(uris, change)
    before = pennon.dataset(uris[0])
    centroids = before.index_statistics("i")["indices"][0]["centroids"]
    LanceTable.forPath(spark, uris[0]).optimizeIndices()
    pennon.dataset(uris[1]).optimize.optimize_indices()
    ours, wheels = map(pennon.dataset, uris)
    assert ours.version == before.version + 1
    assert covered(uris[0], "i")
    by_driver = kind in ("IVF_SQ", "IVF_HNSW_SQ")
    assert segments(uris[0], "i") == (1 if by_driver or ours.has_stable_row_ids else 3)
    for segment in ours.index_statistics("i")["indices"]:
        assert segment["centroids"] == centroids
    for query in vectors(8, seed=9):
        asked = {"column": "vec", "q": query, "k": 20, "nprobes": PARTITIONS, "ef": 4000}
        found, expected = (table.to_table(columns=["id"], nearest=asked).to_pylist() for table in (ours, wheels))
        if "HNSW" not in kind:
            assert found == expected
        else:  # the graphs are others
            assert len({row["id"] for row in found} & {row["id"] for row in expected}) >= 18
        refined = lance.dataset(uris[0]).to_table(columns=["id"], nearest={**asked, "refine_factor": 10})
        nearest = exact(ours, {**asked, "metric": "cosine"})["id"].to_pylist()
        assert len({*refined["id"].to_pylist()} & {*nearest}) >= 18


@spread(of=1)
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT"])
def test_vectors_again(spark: SparkSession, uris: tuple[str, str], kind: str) -> None:
    """With new centroids, as many of them, and the other parameters."""
    uri = uris[0]
    parameters = {"num_partitions": PARTITIONS, **KINDS[kind]}
    pennon.dataset(uri).create_index("vec", kind, "i", metric="dot", **parameters)
    appended(uri)
    old = pennon.dataset(uri)
    LanceTable.forPath(spark, uri).optimizeIndices(retrain=True)
    new = pennon.dataset(uri)
    assert new.version == old.version + 1
    (before,), (after,) = old.describe_indices(), new.describe_indices()
    assert len(after.segments) == 2
    assert covered(uri, "i")
    for name in ("metric_type", "hnsw", "compression"):
        assert after.details.get(name) == before.details.get(name)
    (first, *_), indices = (table.index_statistics("i")["indices"] for table in (old, new))
    assert {len(segment["centroids"]) for segment in indices} == {PARTITIONS}
    assert indices[0]["centroids"] == indices[1]["centroids"] != first["centroids"]


def test_updates_move_rows(spark: SparkSession, uris: tuple[str, str]) -> None:
    """Rows with ids that other segments have, by their old values, are found by their new ones alone."""
    names = ("b", "m", "v")

    def change(uri: str) -> None:
        table = pennon.dataset(uri)
        table.create_scalar_index("id", "BTREE", "b")
        table.create_scalar_index("s", "BITMAP", "m")
        table.create_index("vec", "IVF_FLAT", "v", num_partitions=PARTITIONS)
        appended(uri)
        LanceTable.forPath(spark, uri).optimizeIndices()
        pennon.dataset(uri).update({"s": "'0'"}, where="id % 3 = 0")
        pennon.dataset(uri).update({"id": "id + 100000"}, where="id % 4 = 1")

    changed_both(uris, change)
    LanceTable.forPath(spark, uris[0]).optimizeIndices()
    pennon.dataset(uris[1]).optimize.optimize_indices()
    assert all(covered(uris[0], name) for name in names)
    for predicate in ("s = '0'", "s = '3'", "id < 900", "id > 100000"):
        expected = sorted(pennon.dataset(uris[1]).to_table(["id"], filter=predicate)["id"].to_pylist())
        for module in (pennon, lance):
            found = module.dataset(uris[0]).to_table(["id"], filter=predicate)["id"].to_pylist()
            assert sorted(found) == expected, (module.__name__, predicate)


def test_values_replaced_in_place(spark: SparkSession, uris: tuple[str, str]) -> None:
    """An index does not cover a fragment any more whose values were replaced, and covers newer ones."""

    def change(uri: str) -> None:
        pennon.dataset(uri).create_scalar_index("id", "BTREE", "b")
        appended(uri)
        LanceTable.forPath(spark, uri).optimizeIndices()
        values = spark.range(3000).selectExpr("id", "id * 7 AS n")
        LanceTable.forPath(spark, uri).addColumns({"n": "id"})
        pennon.dataset(uri).create_scalar_index("n", "BTREE", "n")
        LanceTable.forPath(spark, uri).updateColumnsFrom(values.where("id < 1200"), on="id")

    changed_both(uris, change)
    assert not covered(uris[0], "n")
    LanceTable.forPath(spark, uris[0]).optimizeIndices()
    pennon.dataset(uris[1]).optimize.optimize_indices()
    assert covered(uris[0], "n")
    assert segments(uris[0], "n") == 1
    for predicate in ("n = 700", "n = 1500", "n > 8000", "n BETWEEN 10 AND 20"):
        expected = sorted(pennon.dataset(uris[1]).to_table(["id"], filter=predicate)["id"].to_pylist())
        for module in (pennon, lance):
            found = module.dataset(uris[0]).to_table(["id"], filter=predicate)["id"].to_pylist()
            assert sorted(found) == expected, (module.__name__, predicate)


def test_few_rows_and_deferred_moves_are_for_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*_: Any) -> Any:
        pytest.fail("tasks were planned")

    monkeypatch.setattr(index_care, "_built", built)
    uri = str(tmp_path / "table")
    written(uri, vectors(), stable=False)
    pennon.dataset(uri).create_scalar_index("id", "BTREE", "b")
    pennon.write_dataset(table_of(vectors(150), 2000), uri, mode="append")
    table = LanceTable.forPath(spark, uri)
    table.optimizeIndices()
    assert covered(uri, "b")
    assert segments(uri, "b") == 1
    pennon.write_dataset(table_of(vectors(900), 3000), uri, mode="append", max_rows_per_file=300)
    pennon.dataset(uri).optimize.compact_files(defer_index_remap=True)
    table.optimizeIndices()
    assert covered(uri, "b")
    assert pennon.dataset(uri).count_rows("id >= 3000") == 900
    version = pennon.dataset(uri).version
    table.optimizeIndices()
    assert pennon.dataset(uri).version == version
    with pytest.raises(pennon.NotFoundError, match="nope"):
        table.optimizeIndices(["b", "nope"])


def test_all_indices_are_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    written(uri, vectors(), stable=True)
    table = pennon.dataset(uri)
    table.create_scalar_index("id", "BTREE", "b")
    table.create_scalar_index("s", "BITMAP", "m")
    table.create_index("vec", "IVF_PQ", "v", num_partitions=PARTITIONS, num_sub_vectors=8)
    pennon.write_dataset(table_of(vectors(MORE), 2000), uri, mode="append", max_rows_per_file=350)
    version = pennon.dataset(uri).version
    LanceTable.forPath(spark, uri).optimizeIndices()
    assert pennon.dataset(uri).version == version + 1
    assert all(covered(uri, name) for name in ("b", "m", "v"))


def test_branches_and_clones(spark: SparkSession, tmp_path: Path) -> None:
    """Indices whose files are those of another table are taken care of, too."""
    uri = str(tmp_path / "table")
    written(uri, vectors(), stable=True)
    table = LanceTable.forPath(spark, uri)
    table.createIndex("id", name="b")
    table.createIndex("vec", "IVF_PQ", "v", parameters={"num_partitions": PARTITIONS, "num_sub_vectors": 8})
    for other in (table.createBranch("dev"), table.clone(str(tmp_path / "clone"))):
        for first in (2000, 4000):
            more = table_of(vectors(MORE), first)
            pennon.write_dataset(more, other.uri, mode="append", max_rows_per_file=350)
            other.optimizeIndices()
            assert covered(other.uri, "b")
            assert covered(other.uri, "v")
        assert pennon.dataset(other.uri).count_rows("id >= 4000") == MORE
    assert len(pennon.dataset(uri).list_indices()) == 4


def test_another_writer_drops_an_index(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt conflicts, and the next one takes care of what there is."""
    uri = str(tmp_path / "table")
    written(uri, vectors(), stable=True)
    for name in ("b", "c"):
        pennon.dataset(uri).create_scalar_index("id", "BTREE", name)
    pennon.write_dataset(table_of(vectors(MORE), 2000), uri, mode="append", max_rows_per_file=350)
    commit, dropped = index_care.commit_entries, []

    def commit_later(*arguments: Any) -> None:
        if not dropped:
            dropped.append("b")
            pennon.dataset(uri).drop_index("b")
        commit(*arguments)

    monkeypatch.setattr(index_care, "commit_entries", commit_later)
    LanceTable.forPath(spark, uri).optimizeIndices()
    assert [index.name for index in pennon.dataset(uri).describe_indices()] == ["c"]
    assert covered(uri, "c")


def test_a_store_that_fails_is_an_error(
    spark: SparkSession, uris: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no reason to train a large index on the driver."""
    uri = uris[0]
    pennon.dataset(uri).create_index("vec", "IVF_PQ", "i", num_partitions=PARTITIONS, num_sub_vectors=4)
    appended(uri)

    def fail(*_given: Any, **_options: Any) -> Any:
        raise pennon.StoreError("503 Slow Down")

    monkeypatch.setattr(pennon.LanceDataset, "index_config", fail)
    with pytest.raises(pennon.StoreError, match="Slow Down"):
        LanceTable.forPath(spark, uri).optimizeIndices()
    assert not covered(uri, "i")


@spread(of=1)
@pytest.mark.parametrize("kind", ["BTREE", "IVF_FLAT"])
def test_a_lost_file_of_an_index_is_made_again(spark: SparkSession, uris: tuple[str, str], kind: str) -> None:
    uri = uris[0]
    table = pennon.dataset(uri)
    if kind == "BTREE":
        table.create_scalar_index("id", kind, "i")
    else:
        table.create_index("vec", kind, "i", num_partitions=PARTITIONS)
    appended(uri)
    for path in Path(uri, "_indices").rglob("*.*"):
        path.unlink()
    LanceTable.forPath(spark, uri).optimizeIndices(["i"], retrain=True)
    assert covered(uri, "i")
    predicate = "id BETWEEN 1990 AND 2600"
    for module in (pennon, lance):
        assert module.dataset(uri).count_rows(predicate) == 611
    if kind == "IVF_FLAT":
        asked = {"column": "vec", "q": vectors()[7], "k": 1, "nprobes": PARTITIONS}
        assert pennon.dataset(uri).to_table(["id"], nearest=asked)["id"].to_pylist() == [7]
