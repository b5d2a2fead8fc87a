"""Replace where: rows of a table against a plain list."""

from __future__ import annotations

import lance
import pennon
import pyarrow as pa
import pytest
from pennon.jobs import JobPlan
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import read, write
from pyspark_pennon.options.source import WriteOptions
from pyspark_pennon.types.storable import stored_columns
from pyspark_pennon.writes.replace import replace_rows


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Ids 0 to 29 in three fragments; `part` is null for every tenth."""
    parts = [None if at % 10 == 0 else at % 3 for at in range(30)]
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("part", pa.int32()), ("v", pa.list_(pa.int8(), 1))]
    )
    rows = pa.table({"id": list(range(30)), "part": parts, "v": [[1]] * 30}, schema=schema)
    return pennon.write_dataset(rows, uri, max_rows_per_file=10)


def rows(uri: str) -> list[tuple[int, int | None, list[int] | None]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    return sorted(tuple(row.values()) for row in dataset.to_table().to_pylist())


def test_rows_that_match_are_replaced(spark: SparkSession, table: pennon.LanceDataset) -> None:
    before = rows(table.uri)
    kept = {row["_rowid"]: row["id"] for row in table.to_table(with_row_id=True).to_pylist() if row["part"] != 1}
    new = spark.sql("SELECT id + 100 AS id, 1 AS part, array(tinyint(7)) AS v FROM range(5)")
    condition = fn.udf(lambda part: part == 1, "boolean")(fn.col("part"))
    done = write(new, table.uri, mode="overwrite", replace_where=condition)
    old = [row for row in before if row[1] == 1]
    assert (done["num_deleted_rows"], done["num_inserted_rows"], done["version"]) == (len(old), 5, 2)
    expected = sorted([*(row for row in before if row not in old), *((at, 1, [7]) for at in range(100, 105))])
    assert rows(table.uri) == expected
    after = pennon.dataset(table.uri).to_table(with_row_id=True).to_pylist()
    assert {row["_rowid"]: row["id"] for row in after if row["id"] < 100} == kept
    # NULL is not true: no row of it is replaced, and none may come in.
    with pytest.raises(pennon.InvalidInputError, match="1 rows of a batch do not satisfy replace_where"):
        write(
            new.limit(1).withColumn("part", fn.lit(None).cast("int")),
            table.uri,
            mode="overwrite",
            replace_where="part = 1",
        )
    nothing = write(new.where("false"), table.uri, mode="overwrite", replace_where="part = 77")
    assert (nothing["version"], nothing["num_deleted_rows"]) == (2, 0)
    emptied = write(new.where("false"), table.uri, mode="overwrite", replace_where="part = 1")
    assert (emptied["version"], emptied["num_deleted_rows"], emptied["num_files"]) == (3, 5, 0)
    assert rows(table.uri) == [row for row in expected if row[1] != 1]


def test_new_columns_and_columns_that_are_missing(spark: SparkSession, table: pennon.LanceDataset) -> None:
    new = spark.sql("SELECT 100L AS id, 1 AS part, 'x' AS note")
    with pytest.raises(pennon.SchemaMismatchError, match="no column 'note'"):
        write(new, table.uri, mode="overwrite", replace_where="part = 1")
    with pytest.raises(pennon.SchemaMismatchError, match="'id' is missing"):
        write(new.select("part"), table.uri, mode="overwrite", replace_where="part = 1")
    with pytest.raises(AnalysisException, match="nope"):
        write(new.drop("note"), table.uri, mode="overwrite", replace_where="nope = 1")
    assert pennon.dataset(table.uri).version == 1
    write(new, table.uri, mode="overwrite", replace_where="part = 1", merge_schema=True)
    found = read(spark, table.uri, where="part = 1").collect()
    assert [tuple(row) for row in found] == [(100, 1, None, "x")]


def test_without_a_table_the_rows_are_checked(spark: SparkSession, uri: str) -> None:
    frame = spark.range(4)
    with pytest.raises(pennon.InvalidInputError, match="do not satisfy replace_where"):
        write(frame, uri, mode="overwrite", replace_where="id < 3")
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)
    assert write(frame, uri, mode="overwrite", replace_where="id < 4")["version"] == 1
    assert sorted(lance.dataset(uri).to_table().to_pydict()["id"]) == [0, 1, 2, 3]
    assert lance.dataset(uri).schema.names == ["id"]


def test_changes_by_others_meanwhile(
    spark: SparkSession, table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, attempts = JobPlan.commit, []

    def later(plan: JobPlan, results: list[object], **_options: object) -> object:
        if not attempts:
            pennon.dataset(table.uri).update({"part": "2"}, where="id = 4")
            pennon.dataset(table.uri).insert(
                table.schema.empty_table().from_pylist([{"id": 50, "part": 1, "v": [0]}], table.schema)
            )
        attempts.append(1)
        return commit(plan, results)

    monkeypatch.setattr(JobPlan, "commit", later)
    new = spark.sql("SELECT 100L AS id, 1 AS part")
    write(new, table.uri, mode="overwrite", replace_where="part = 1")
    found = [row[:2] for row in rows(table.uri)]
    assert (4, 2) in found  # it does not match any more
    assert [row for row in found if row[1] == 1] == [(100, 1)]
    assert len(attempts) == 2


def test_a_table_without_stable_row_ids(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset({"id": list(range(6))}, uri, max_rows_per_file=2, enable_stable_row_ids=False)
    done = write(
        spark.sql("SELECT 40L AS id"), uri, mode="overwrite", replace_where="id % 2 = 0 AND id > 1 OR id = 40"
    )
    assert done["num_deleted_rows"] == 2
    assert sorted(lance.dataset(uri).to_table().to_pydict()["id"]) == [0, 1, 3, 5, 40]


def test_a_table_that_was_dropped_meanwhile(spark: SparkSession, uri: str) -> None:
    frame = spark.range(4)
    columns = stored_columns(frame.schema, drop_system_columns=False)
    with pytest.raises(pennon.NotFoundError):
        replace_rows(frame, columns, WriteOptions(uri), "id < 4")
