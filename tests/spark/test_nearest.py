"""The nearest vectors by Spark: as the wheel finds them, and indices over vectors built by tasks."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon.vector import vec_to_table
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, nearest
from pyspark_pennon.reads import search_tasks, searches
from support.spark_frames import frame_of
from support.spread import spread
from support.vectors import KINDS, PARTITIONS, vectors, written


@pytest.fixture
def uri(tmp_path: Any) -> str:
    uri = str(tmp_path / "table")
    written(uri, vectors(), stable=True)
    return uri


def queries(spark: SparkSession, count: int = 20) -> Any:
    rows = [(f"q{n}", vector.tolist()) for n, vector in enumerate(vectors(count, seed=1))]
    frame = frame_of(spark, [*rows, ("none", None)], "question string, vec array<float>")
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


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_bytes(spark: SparkSession, tmp_path: Any, version: str) -> None:
    """Legacy blobs, and blob v2 from file version 2.2 on."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("vec", pa.list_(pa.float32(), 2)), blob])
    data = pa.table(
        [pa.array([[1, 0], [0, 1]], schema.types[0]), pa.array([b"ab", None], blob.type)], schema=schema
    )
    pennon.write_dataset(data, tmp_path / "t", data_storage_version=version)
    asked = frame_of(spark, [([1.0, 0.0],)], "vec array<float>")
    found = nearest(spark, str(tmp_path / "t"), asked, 2, column="vec").orderBy("_distance").collect()
    assert [row.b for row in found] == [b"ab", None]


def test_the_version_is_that_of_the_frame(spark: SparkSession, uri: str) -> None:
    before = expected(uri)
    frame = nearest(spark, uri, queries(spark), 5, column="vec", columns=["id"])
    pennon.dataset(uri).delete("id < 1900")
    assert found_by(frame) == before


def test_a_tag_of_a_branch(spark: SparkSession, uri: str) -> None:
    table = pennon.dataset(uri)
    table.create_branch("dev", 1)
    branch = pennon.dataset(uri, version=("dev", None))
    branch.delete("id < 1900")
    table.delete("id >= 1900")
    assert branch.version == table.version
    table.tags.create("trial", ("dev", branch.version))
    found = found_by(nearest(spark, uri, queries(spark), 5, column="vec", columns=["id"], tag="trial"))
    assert found == expected(branch.uri)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_built_by_tasks(spark: SparkSession, uri: str, kind: str) -> None:
    parameters: dict[str, Any] = {"metric": "cosine", "num_partitions": PARTITIONS, **KINDS[kind]}
    LanceTable.forPath(spark, uri).createIndex("vec", kind, parameters=parameters)
    assert len(pennon.dataset(uri).list_indices()) == 2
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
    table, of_the_reference = lance.dataset(uri), 0
    for question, vector in zip(exact, vectors(20, seed=1), strict=True):
        asked = {"column": "vec", "q": vector, "k": 5, **options}
        found = table.to_table(columns=["id"], nearest=asked)["id"].to_pylist()
        of_the_reference += len({*found} & {*exact[question]})
        assert "ANNSubIndex" in table.scanner(nearest=asked).explain_plan()
    assert of_the_reference >= 0.9 * 100


def test_a_graph_is_built_as_it_is_asked_for(spark: SparkSession, uri: str) -> None:
    """In one large partition the graph decides what is found: the more of it is searched the more of them."""
    table = LanceTable.forPath(spark, uri)
    parameters = {"num_partitions": 1, "m": 6, "ef_construction": 30, "max_level": 3}
    table.createIndex("vec", "ivf_hnsw_sq", "graph", parameters=parameters)
    described = next(iter(pennon.dataset(uri).describe_indices()))
    assert (described.name, described.index_type) == ("graph", "IVF_HNSW_SQ")
    assert described.details["hnsw"] == {"max_connections": 6, "construction_ef": 30, "max_level": 3}
    exact = expected(uri, metric="l2", use_index=False)
    shares = []
    for ef in (5, 200):
        frame = nearest(spark, uri, queries(spark), 5, column="vec", options={"ef": ef, "refine_factor": 10})
        found = found_by(frame)
        assert found == expected(uri, ef=ef, refine_factor=10)
        shares.append(sum(len({*rows} & {*exact[question]}) for question, rows in found.items()) / 100)
    assert shares[0] <= shares[1]
    assert shares[1] >= 0.95
    with pytest.raises(pennon.InvalidInputError, match="no parameter 'connections'"):
        table.createIndex("vec", "IVF_HNSW_SQ", parameters={"connections": 6})


def test_few_vectors(spark: SparkSession, tmp_path: Any) -> None:
    uri = str(tmp_path / "few")
    written(uri, vectors(20), stable=True)
    LanceTable.forPath(spark, uri).createIndex("vec", "IVF_PQ", parameters={"num_sub_vectors": 8})
    assert found_by(nearest(spark, uri, queries(spark), 5, column="vec")) == expected(uri)


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are divided among tasks, too."""
    monkeypatch.setattr(searches, "_LEAST_TASK_BYTES", 1 << 10)


def in_order(frame: Any, names: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in frame.collect()]


@spread(of=1)
@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("tasks", [2, 7])
@pytest.mark.parametrize(
    ("filter_sql", "options"),
    [
        (None, {}),
        ("s IN ('1', '2')", {"distance_range": (1.0, 30.0)}),
        ("id < 0", {"use_index": False}),
    ],
)
def test_few_queries_are_answered_by_fragments(
    spark: SparkSession,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    tasks: int,
    filter_sql: str | None,
    options: dict[str, Any],
) -> None:
    """The rows, distances and order of the wheel, also of many rows at the same distance."""
    uri = str(tmp_path / "equal")
    values = np.repeat(vectors(150), 12, axis=0)[np.random.default_rng(3).permutation(1800)]
    written(uri, values, stable=True)
    table = pennon.dataset(uri)
    table.update({"s": "'2'"}, where="id % 5 = 0")  # ids are not in the order of addresses any more
    table.delete("id % 11 = 3")
    if "use_index" in options:
        table.create_index("vec", "IVF_FLAT", num_partitions=PARTITIONS)
        filter_sql = None
    monkeypatch.setattr(searches, "parallelism", lambda _: tasks)
    monkeypatch.setattr(search_tasks, "_MERGED_ROWS", 50)
    asked = queries(spark)
    frame = nearest(spark, uri, asked, 25, column="vec", filter_sql=filter_sql, with_row_id=True, options=options)
    assert frame.rdd.getNumPartitions() == 1
    rows = [row for row in asked.collect() if row.vec is not None]
    found = pennon.dataset(uri).to_table(
        columns=["id", "s", "_rowid"],
        filter=filter_sql,
        prefilter=True,
        nearest={"column": "vec", "q": [row.vec for row in rows], "k": 25, **options},
    )
    names = [rows[number].question for number in found["query_index"].to_pylist()]
    expected = zip(names, *(found[name].to_pylist() for name in ("id", "s", "_rowid", "_distance")), strict=True)
    assert in_order(frame, ["question", "id", "s", "_rowid", "_distance"]) == list(expected)


@pytest.mark.usefixtures("divided")
def test_which_searches_are_divided_by_fragments(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partitions(**options: Any) -> int:
        return int(nearest(spark, uri, queries(spark), 5, column="vec", **options).rdd.getNumPartitions())

    assert partitions() == 1
    with monkeypatch.context() as patch:
        patch.setattr(searches, "MOST_QUERIES", 20)
        assert partitions() == 3
        patch.setattr(searches, "MOST_QUERIES", 21)
        assert partitions() == 1
        patch.setattr(searches, "_MOST_FOUND", 5 * 20)
        assert partitions() == 3
    pennon.dataset(uri).create_index("vec", "IVF_FLAT", num_partitions=PARTITIONS, metric="cosine")
    assert partitions() == 3
    assert partitions(metric="cosine") == 3
    assert partitions(metric="l2") == 1
    assert partitions(options={"use_index": False}) == 1
    none = nearest(spark, uri, queries(spark).where("false"), 5, column="vec", metric="l2")
    assert none.collect() == []


@pytest.mark.parametrize("rows_divided", [True, False])
def test_vectors_of_spark_ml(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, rows_divided: bool
) -> None:
    if rows_divided:
        monkeypatch.setattr(searches, "_LEAST_TASK_BYTES", 1 << 10)
    values = vectors(3, seed=1).astype("f8")
    values[0, 1:] = 0
    sparse = Vectors.sparse(values.shape[1], [0], values[0, :1])
    rows = [("q0", sparse), ("q1", Vectors.dense(values[1])), ("none", None), ("q2", Vectors.dense(values[2]))]
    asked = spark.createDataFrame(rows, ["question", "a.b"])
    table = pennon.dataset(uri)
    expected = {
        f"q{n}": table.to_table(columns=["id"], nearest={"column": "vec", "q": value, "k": 5})["id"].to_pylist()
        for n, value in enumerate(values)
    }
    assert found_by(nearest(spark, uri, asked, 5, column="vec", query_column="a.b")) == expected


def test_rows_that_no_index_covers_are_left_out(spark: SparkSession, uri: str) -> None:
    table = pennon.dataset(uri)
    table.create_index("vec", "IVF_FLAT", num_partitions=PARTITIONS, metric="cosine")
    rows = table.to_table(columns=["id", "s"]).slice(0, 20)
    same = vec_to_table(vectors(20, seed=1))["vector"]
    rows = rows.set_column(0, "id", pa.array(range(9000, 9020), rows.schema.field("id").type))
    table.insert(rows.append_column("vec", same).select(table.schema.names).cast(table.schema))
    for metric in ("cosine", "l2"):
        options = {"nprobes": PARTITIONS, "fast_search": True}
        frame = nearest(spark, uri, queries(spark), 5, column="vec", metric=metric, options=options)
        found = found_by(frame)
        for n, vector in enumerate(vectors(20, seed=1)):
            asked = {"column": "vec", "q": vector, "k": 5, "metric": metric, "nprobes": PARTITIONS}
            expected = pennon.dataset(uri).to_table(columns=["id"], nearest=asked, fast_search=True)
            assert found.get(f"q{n}", []) == expected["id"].to_pylist()
        assert len(found) == (20 if metric == "cosine" else 0)
    frame = nearest(spark, uri, queries(spark), 5, column="vec", options={"fast_search": False})
    assert {rows[0] for rows in found_by(frame).values()} == set(range(9000, 9020))


@pytest.mark.parametrize("rows_divided", [True, False])
def test_lists_of_vectors(
    spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, rows_divided: bool
) -> None:
    """Several vectors are one query then."""
    if rows_divided:
        monkeypatch.setattr(searches, "_LEAST_TASK_BYTES", 1 << 10)
    uri = str(tmp_path / "lists")
    values = pa.ListArray.from_arrays(
        pa.array(range(0, 601, 3), pa.int32()), vec_to_table(vectors(600))["vector"].chunk(0)
    )
    pennon.write_dataset(pa.table({"id": range(200), "vec": values}), uri, max_rows_per_file=50)
    asked = [(n, vectors(2, seed=n).tolist()) for n in range(4)]
    frame = nearest(spark, uri, spark.createDataFrame(asked, "n int, vec array<array<float>>"), 4, column="vec")
    for n, query in asked:
        found = pennon.dataset(uri).to_table(columns=["id"], nearest={"column": "vec", "q": query, "k": 4})
        assert in_order(frame.where(f"n = {n}"), ["id", "_distance"]) == list(
            zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True)
        )
    single = frame_of(spark, [(query[0],) for _, query in asked], "vec array<float>")
    assert nearest(spark, uri, single, 4, column="vec").count() == 16
    with pytest.raises(pennon.SchemaMismatchError, match="has the Spark type array<array<string>>"):
        nearest(spark, uri, frame_of(spark, [([["x"]],)], "vec array<array<string>>"), column="vec")


def test_what_is_wrong_is_said_at_once(spark: SparkSession, uri: str) -> None:
    asked = queries(spark)
    for error, arguments in (
        ("no column of vectors 'id'", {"column": "id", "query_column": "vec"}),
        ("queries have no column 'nothing'", {"column": "vec", "query_column": "nothing"}),
        ("must be > 0", {"column": "vec", "k": 0}),
        ("Unknown option 'foo' of nearest; Options are: approx_mode", {"column": "vec", "options": {"foo": 1}}),
        ("did you mean 'nprobes'", {"column": "vec", "options": {"nprobe": 1}}),
        ("give the argument filter_sql=", {"column": "vec", "options": {"filter": "id = 1"}}),
        ("fast_search must be a bool, found 'yes'", {"column": "vec", "options": {"fast_search": "yes"}}),
        ("options must be a dict, found list", {"column": "vec", "options": ["fast_search"]}),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            nearest(spark, uri, asked, **arguments)
    for value, kind in (("'x'", "string"), ("array('x')", "array<string>"), ("array(vec)", "array<array<float>>")):
        message = f"'vec' of the queries has the Spark type {kind}: expected an array of numbers, or a vector of"
        with pytest.raises(pennon.SchemaMismatchError, match=message):
            nearest(spark, uri, asked.withColumn("vec", fn.expr(value)), column="vec")
    for name in ("id", "ID", "_Distance"):
        clashing = asked.withColumnRenamed("question", name)
        with pytest.raises(ValueError, match=rf"\['{name}'\] are in the queries and in the result"):
            nearest(spark, uri, clashing, column="vec")
