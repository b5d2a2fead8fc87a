"""What `verbs.py` compares: the same rows in tables of each format, and every verb in the manner of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark_pennon import LanceTable, read, write
from pyspark_pennon.tasks.workers import mapped

READS = ("read", "column", "range", "vectors")
FILES = 200
"""Those of the table that is compacted."""
VECTOR = 128
HANDED = {"vectors": 1 << 12}
"""Rows of a batch that a worker gives Spark: two megabytes or so."""


def rows(spark: SparkSession, first: int, last: int, files: int = 8) -> DataFrame:
    """A key, a text of 20 letters and a number in [0, 1) by which rows anywhere in the table are chosen."""
    texts = "format_string('name-%015d', id % 100000) AS text"
    return spark.range(first, last, 1, files).selectExpr(
        "id", texts, "pmod(hash(id, 7), 1000003) / 1000003D AS number"
    )


def changes(spark: SparkSession, count: int) -> DataFrame:
    """1 % of the rows: every 200th key that the table has, and as many keys after its last."""
    old = spark.range(0, count, 200, 2).selectExpr("id", "'merged' AS text", "2D AS number")
    new = spark.range(count, count + count // 200, 1, 2).selectExpr("id", "'new' AS text", "3D AS number")
    return old.union(new)


def embeddings(spark: SparkSession, count: int) -> DataFrame:
    """A key and a random array of floats."""
    floats = f"transform(sequence(1, {VECTOR}), at -> float(hash(id, at) / 2147483648D)) AS embedding"
    return spark.range(0, count, 1, 4).selectExpr("id", floats)


def start(verb: str) -> str:
    """The table from which a round of a verb starts."""
    return {"compaction": "small", "vectors": "wide"}.get(verb, "made")


def asked(verb: str, count: int) -> tuple[list[str] | None, str | None]:
    """The columns and the condition of a read."""
    first = count // 2
    return (
        ["number"] if verb == "column" else None,
        f"id BETWEEN {first} AND {first + count // 100 - 1}" if verb == "range" else None,
    )


def narrowed(frame: DataFrame, columns: list[str] | None, where: str | None) -> DataFrame:
    found = frame if where is None else frame.where(where)
    return found if columns is None else found.select(*columns)


class Parquet:
    """Spark's own source: reads, and an append to files that are there."""

    name = "parquet"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.uri = spark, root, ""

    def make(self, frame: DataFrame, name: str) -> None:
        frame.write.parquet(str(self.root / f"{name}.parquet"))

    def fresh(self, verb: str) -> None:
        self.uri = str(self.root / f"{start(verb)}.parquet")
        if verb == "append":
            shutil.rmtree(self.root / "round.parquet", ignore_errors=True)
            self.uri = shutil.copytree(self.uri, str(self.root / "round.parquet"))

    def append(self, frame: DataFrame) -> None:
        frame.write.mode("append").parquet(self.uri)

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        return narrowed(self.spark.read.parquet(self.uri), columns, where)


class Pennon:
    """Each round works on a copy of the directory."""

    name = "pennon"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.uri = spark, root, str(root / "round.pennon")

    def make(self, frame: DataFrame, name: str) -> None:
        write(frame, str(self.root / f"{name}.pennon"), durability="os")

    def fresh(self, verb: str) -> None:
        made = self.root / f"{start(verb)}.pennon"
        self.uri = str(made)
        if verb in READS:
            return
        self.uri = str(self.root / "round.pennon")
        shutil.rmtree(self.uri, ignore_errors=True)
        shutil.copytree(made, self.uri)
        self.base = LanceTable.forPath(self.spark, self.uri).history(1).first()["version"]
        if verb == "feed":
            self.update()

    def delete(self) -> None:
        LanceTable.forPath(self.spark, self.uri).delete("number < 0.001")

    def update(self) -> None:
        LanceTable.forPath(self.spark, self.uri).update("number < 0.01", {"text": "'changed'"})

    def merge(self, source: DataFrame) -> None:
        table = LanceTable.forPath(self.spark, self.uri).alias("t")
        merge = table.merge(source.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def feed(self) -> DataFrame:
        return LanceTable.forPath(self.spark, self.uri).changes(self.base + 1)

    def compaction(self) -> None:
        LanceTable.forPath(self.spark, self.uri).optimize().executeCompaction()

    def count(self) -> int:
        return LanceTable.forPath(self.spark, self.uri).count()

    def files(self) -> int:
        return int(LanceTable.forPath(self.spark, self.uri).detail().first()["numFiles"])

    def append(self, frame: DataFrame) -> None:
        write(frame, self.uri, mode="append", durability="os")

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        return read(self.spark, self.uri, columns=columns, where=where)


class Delta:
    """Deletion vectors; each round works on a copy of the directory."""

    name = "delta"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.uri = spark, root, str(root / "start.delta")
        self.round = 0

    def make(self, frame: DataFrame, name: str) -> None:
        for feed in ("false", "true") if name == "made" else ("false",):
            writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
            writer.option("delta.enableChangeDataFeed", feed).save(str(self.root / f"{name}.{feed}.delta"))

    def fresh(self, verb: str) -> None:
        # A path of its own each time: Delta caches the log of a path.
        if verb in READS:
            self.uri = str(self.root / f"{start(verb)}.false.delta")
            return
        shutil.rmtree(self.root / f"round{self.round}.delta", ignore_errors=True)
        self.round += 1
        self.uri = str(self.root / f"round{self.round}.delta")
        feed = "true" if verb == "feed" else "false"
        shutil.copytree(self.root / f"{start(verb)}.{feed}.delta", self.uri)
        if verb == "feed":
            self.update()
        self.rows().where("number < 0").count()

    def delete(self) -> None:
        self.spark.sql(f"DELETE FROM delta.`{self.uri}` WHERE number < 0.001")

    def update(self) -> None:
        self.spark.sql(f"UPDATE delta.`{self.uri}` SET text = 'changed' WHERE number < 0.01")

    def merge(self, source: DataFrame) -> None:
        source.createOrReplaceTempView("source")
        self.spark.sql(
            f"MERGE INTO delta.`{self.uri}` t USING source s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def feed(self) -> DataFrame:
        reader = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
        return reader.load(self.uri)

    def compaction(self) -> None:
        self.spark.sql(f"OPTIMIZE delta.`{self.uri}`")

    def count(self) -> int:
        return self.rows().count()

    def files(self) -> int:
        return int(self.spark.sql(f"DESCRIBE DETAIL delta.`{self.uri}`").first()["numFiles"])

    def append(self, frame: DataFrame) -> None:
        frame.write.format("delta").mode("append").save(self.uri)

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        return narrowed(self.spark.read.format("delta").load(self.uri), columns, where)


class Iceberg:
    """Format 3, merge-on-read; its metadata has whole paths, so a round rolls back to the first snapshot."""

    name = "iceberg"

    def __init__(self, spark: SparkSession, _root: Path) -> None:
        self.spark, self.table = spark, "ice.db.made"
        self.first: dict[str, int] = {}

    def make(self, frame: DataFrame, name: str) -> None:
        self.table = f"ice.db.{name}"
        writer = frame.writeTo(self.table).using("iceberg").tableProperty("format-version", "3")
        for verb in ("delete", "update", "merge"):
            writer = writer.tableProperty(f"write.{verb}.mode", "merge-on-read")
        writer.create()
        self.first[name] = self.spark.sql(f"SELECT snapshot_id FROM {self.table}.snapshots").first()[0]

    def fresh(self, verb: str) -> None:
        name = start(verb)
        self.table = f"ice.db.{name}"
        self.spark.sql(f"CALL ice.system.rollback_to_snapshot('db.{name}', {self.first[name]})")

    def compaction(self) -> None:
        self.spark.sql(f"CALL ice.system.rewrite_data_files('{self.table.removeprefix('ice.')}')")

    def count(self) -> int:
        return self.rows().count()

    def files(self) -> int:
        return self.spark.sql(f"SELECT * FROM {self.table}.data_files").count()

    def delete(self) -> None:
        self.spark.sql(f"DELETE FROM {self.table} WHERE number < 0.001")

    def update(self) -> None:
        self.spark.sql(f"UPDATE {self.table} SET text = 'changed' WHERE number < 0.01")

    def merge(self, source: DataFrame) -> None:
        source.createOrReplaceTempView("source")
        self.spark.sql(
            f"MERGE INTO {self.table} t USING source s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def append(self, frame: DataFrame) -> None:
        frame.writeTo(self.table).append()

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        return narrowed(self.spark.table(self.table), columns, where)


class Loaded:
    """Pennon by `spark.read.format` and `df.write.format`, which start Python processes in each query."""

    name = "load"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._pennon = Pennon(spark, root)

    def fresh(self, verb: str) -> None:
        self._pennon.fresh(verb)

    def append(self, frame: DataFrame) -> None:
        frame.write.format("pennon").mode("append").option("durability", "os").save(self._pennon.uri)

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        return narrowed(self._pennon.spark.read.format("pennon").load(self._pennon.uri), columns, where)


class Workers:
    """No table: what Spark and its workers in Python take for as many rows."""

    name = "workers"

    def __init__(self, spark: SparkSession, total: int, cores: int) -> None:
        self.spark, self.total, self.cores = spark, total, cores

    def fresh(self, verb: str) -> None:
        self.verb = verb

    def append(self, frame: DataFrame) -> None:
        mapped(frame, counted, "count long").collect()

    def feed(self) -> DataFrame:
        described = "id long, text string, number double, _change_type string, _commit_version long, "
        return self._given(self.total // 50, described + "_commit_timestamp timestamp, _rowid long")

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        if self.verb == "vectors":
            return self._given(self.total // 10, "id long, embedding array<float>")
        count = self.total if where is None else self.total // 100
        return self._given(count, "number double" if columns else "id long, text string, number double")

    def _given(self, count: int, schema: str) -> DataFrame:
        """A frame of so many rows, which as many tasks as cores give."""
        types = StructType.fromDDL(schema)
        each, step = count // self.cores, HANDED.get(self.verb, 1 << 16)

        def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                pass
            batch = made(types, min(each, step))
            for first in range(0, each, step):
                yield batch.slice(0, min(each - first, step))

        return mapped(self.spark.range(0, self.cores, 1, self.cores), give, types)


def made(types: StructType, count: int) -> pa.RecordBatch:
    """One batch of a schema of Spark's, with little work."""
    numbers = pa.array(np.arange(count))
    ways: dict[str, Callable[[], pa.Array]] = {
        "bigint": lambda: numbers,
        "double": lambda: numbers.cast(pa.float64()),
        "string": lambda: pc.binary_join_element_wise(
            "name", pc.utf8_lpad(numbers.cast(pa.string()), 15, "0"), "-"
        ),
        "timestamp": lambda: numbers.cast(pa.timestamp("us", "UTC")),
        "array<float>": lambda: pa.ListArray.from_arrays(
            np.arange(0, count * VECTOR + 1, VECTOR, np.int32), np.arange(count * VECTOR, dtype=np.float32)
        ),
    }
    return pa.RecordBatch.from_arrays(
        [ways[field.dataType.simpleString()]() for field in types.fields], types.names
    )


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"count": [sum(batch.num_rows for batch in batches)]})


Side = Pennon | Loaded | Delta | Iceberg | Parquet | Workers
