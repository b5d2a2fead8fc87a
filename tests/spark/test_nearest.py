"""The nearest vectors by Spark: as the wheel finds them, and indices over vectors built by tasks."""

from __future__ import annotations

from typing import Any

import lance
import pennon
import pytest
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable, nearest
from support.vectors import PARTITIONS, vectors, written


@pytest.fixture
def uri(tmp_path: Any) -> str:
    uri = str(tmp_path / "table")
    written(uri, vectors(), stable=True)
    return uri


def queries(spark: SparkSession, count: int = 20) -> Any:
    rows = [(f"q{n}", vector.tolist()) for n, vector in enumerate(vectors(count, seed=1))]
    frame = spark.createDataFrame([*rows, ("none", None)], "question string, vec array<float>")
    return frame.repartition(3)


def expected(uri: str, count: int = 20, **options: Any) -> dict[str, list[int]]:
    table = pennon.dataset(uri)
    found = {}
    for n, vector in enumerate(vectors(count, seed=1)):
        asked = {"column": "vec", "q": vector, "k": 5, **options}
        found[f"q{n}"] = table.to_table(columns=["id"], nearest=asked)["id"].to_pylist()
    return found


def found_by(frame: Any) -> dict[str, list[int]]:
    found: dict[str, list[tuple[float, int]]] = {}
    for row in frame.collect():
        found.setdefault(row["question"], []).append((row["_distance"], row["id"]))
    return {question: [id for _, id in sorted(rows)] for question, rows in found.items()}


def test_without_an_index(spark: SparkSession, uri: str) -> None:
    frame = nearest(spark, uri, queries(spark), 5, column="vec")
    assert frame.columns == ["question", "id", "s", "_distance"]
    assert found_by(frame) == expected(uri)


def test_the_version_is_that_of_the_frame(spark: SparkSession, uri: str) -> None:
    before = expected(uri)
    frame = nearest(spark, uri, queries(spark), 5, column="vec", columns=["id"])
    pennon.dataset(uri).delete("id < 1900")
    assert found_by(frame) == before


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
def test_an_index_built_by_tasks(spark: SparkSession, uri: str, kind: str) -> None:
    parameters: dict[str, Any] = {"metric": "cosine", "num_partitions": PARTITIONS}
    if kind == "IVF_PQ":
        parameters["num_sub_vectors"] = 8
    LanceTable.forPath(spark, uri).createIndex("vec", kind, parameters=parameters)
    statistics = lance.dataset(uri).stats.index_stats("vec_idx")
    assert statistics["num_unindexed_rows"] == 0
    assert statistics["index_type"] == kind
    assert {segment["num_partitions"] for segment in statistics["indices"]} == {PARTITIONS}
    options = {"nprobes": PARTITIONS, "refine_factor": 20}
    frame = nearest(spark, uri, queries(spark), 5, column="vec", options=options)
    assert found_by(frame) == expected(uri, **options)
    exact = expected(uri, metric="cosine", use_index=False)
    same = sum(len(set(rows) & set(exact[question])) for question, rows in found_by(frame).items())
    assert same >= 0.9 * 100


def test_few_vectors(spark: SparkSession, tmp_path: Any) -> None:
    uri = str(tmp_path / "few")
    written(uri, vectors(20), stable=True)
    LanceTable.forPath(spark, uri).createIndex("vec", "IVF_PQ", parameters={"num_sub_vectors": 8})
    assert found_by(nearest(spark, uri, queries(spark), 5, column="vec")) == expected(uri)


def test_what_is_wrong_is_said_at_once(spark: SparkSession, uri: str) -> None:
    asked = queries(spark)
    for error, arguments in (
        ("no column of vectors 'id'", {"column": "id", "query_column": "vec"}),
        ("queries have no column 'nothing'", {"column": "vec", "query_column": "nothing"}),
        ("must be > 0", {"column": "vec", "k": 0}),
        ("unexpected keyword argument 'foo'", {"column": "vec", "options": {"foo": 1}}),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            nearest(spark, uri, asked, **arguments)
    clashing = asked.withColumnRenamed("question", "id")
    with pytest.raises(ValueError, match=r"\['id'\] are in the queries and in the result"):
        nearest(spark, uri, clashing, column="vec")
