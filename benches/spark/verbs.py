"""Reads and row-level verbs from PySpark against parquet, Delta and Iceberg: one session, the same rows, in turns.

    python benches/spark/verbs.py [--rows 2000000] [--rounds 5] [--cores 2] [--only delete,merge] [--json out]

Claims: delete of 0.1 %, update of 1 % and merge of 1 % (half new) at least 1.5 times as fast as Delta with deletion
vectors; the change feed of 1 % changed at least twice as fast as Delta's; `LanceTable.count()` in 50 ms. Compaction
of 200 files is with the defaults of each side, without a target. Iceberg is format 3, merge-on-read. Whole rows and
one column of three at most 1.3 times parquet's time; 1 % of the rows by a range of keys, a tenth as many rows with
arrays of 128 floats, and an append of as many rows as the table has in parquet's time at most.
Counts and sums over all columns of all sides are compared after each verb, once before the rounds; every round
starts from the table as it was made. Ratios are Pennon's median divided by the other one: below 1 is faster, so the
targets against Delta are 0.67 and 0.5. Reads go to Spark's sink `noop`.

What is comparable: all sides have eight files and as many shuffle partitions as cores. Delta keeps the state of a
log in as many partitions as cores, not in its default of 50, and has read the log of the table before the clock
starts, as in a session that has used the table. Pennon's verbs sync their files, those of the others do not.
What is not: Pennon's feed follows from row ids, Delta writes files for its feed while rows change, so Delta's verbs
run on a table without a feed, and only the case of the feed on one with it.

It needs the packages of `requirements.txt` next to this file, in an environment of its own: the jars of the peers
are those for Spark 4.1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable, read, write
from pyspark_pennon.workers import mapped

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
TARGETS = {
    **dict.fromkeys(("delete", "update", "merge"), ("Delta", 0.67)),
    "feed": ("Delta", 0.5),
    **dict.fromkeys(("read", "column"), ("parquet", 1.3)),
    **dict.fromkeys(("range", "vectors", "append"), ("parquet", 1.0)),
}
FILES = 200
VECTOR = 128
TITLES = {
    "read": "whole rows",
    "column": "one column of three",
    "range": "1 % of the rows, by a range of keys",
    "vectors": f"arrays of {VECTOR} floats, a tenth of the rows",
    "append": "append of as many rows",
    "crossing": "as many rows handed to Python and counted",
    "delete": "delete 0.1 % of the rows, anywhere",
    "update": "update 1 % of the rows, anywhere",
    "merge": "merge of 1 %, half of them new",
    "feed": "change feed after an update of 1 %",
    "compaction": f"compaction of {FILES} files",
    "count": "count of all rows",
}
READS = ("read", "column", "range", "vectors")


def session(arguments: argparse.Namespace, warehouse: Path) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    jars = ("spark.jars", arguments.jars) if arguments.jars else ("spark.jars.packages", ",".join(PACKAGES))
    spark = (
        SparkSession.builder.master(f"local[{arguments.cores}]")
        .appName("pennon-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(arguments.cores))
        .config("spark.databricks.delta.snapshotPartitions", str(arguments.cores))
        .config(*jars)
        .config("spark.sql.extensions", ",".join(extensions))
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(warehouse))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


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


def wide(spark: SparkSession, count: int) -> DataFrame:
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

    name = "Pennon"

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

    def crossing(self, frame: DataFrame) -> None:
        """What Spark takes to hand rows to Python: the least that an append can take."""
        mapped(frame, counted, "count long").collect()

    def rows(self, columns: list[str] | None = None, where: str | None = None) -> DataFrame:
        return read(self.spark, self.uri, columns=columns, where=where)


class Delta:
    """Deletion vectors; each round works on a copy of the directory."""

    name = "Delta"

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

    name = "Iceberg"

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


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"count": [sum(batch.num_rows for batch in batches)]})


Side = Pennon | Delta | Iceberg | Parquet


def can(side: Side, verb: str) -> bool:
    return verb in READS or hasattr(side, verb)


def run(side: Side, verb: str, source: DataFrame, count: int) -> float:
    """Seconds of a verb, or of reading all rows that are asked for."""
    side.fresh(verb)
    started = time.perf_counter()
    if verb == "merge":
        side.merge(source)  # type: ignore[union-attr]
    elif verb in ("append", "crossing"):
        getattr(side, verb)(rows(source.sparkSession, 0, count))
    elif verb in READS:
        side.rows(*asked(verb, count)).write.format("noop").mode("overwrite").save()
    elif verb == "feed":
        side.feed().write.format("noop").mode("overwrite").save()  # type: ignore[union-attr]
    else:
        getattr(side, verb)()
    return time.perf_counter() - started


def answer(side: Side, verb: str, count: int) -> str:
    if verb == "compaction":
        print(f"{side.name}: {side.files()} files after compaction", file=sys.stderr)  # type: ignore[union-attr]
        if side.files() > FILES // 10:  # type: ignore[union-attr]
            raise SystemExit(f"{side.name} has more than {FILES // 10} files after compaction")
    if verb == "crossing":
        return ""  # nothing to compare
    if verb == "count":
        return str(side.count())  # type: ignore[union-attr]
    frame = side.feed() if verb == "feed" else side.rows(*asked(verb, count))  # type: ignore[union-attr]
    sums = {
        "id": "sum(id)",
        "text": "sum(crc32(text))",
        "number": "round(sum(number), 3)",
        "embedding": f"round(sum(embedding[{VECTOR - 1}]), 3)",
        "_change_type": "sum(crc32(_change_type))",
    }
    return str(frame.selectExpr("count(*)", *(sums[name] for name in sums if name in frame.columns)).first())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default=",".join(TITLES), help="verbs, with commas between")
    parser.add_argument("--jars", help="files of the peers, instead of packages that Spark fetches")
    parser.add_argument("--json", type=Path, help="a file for all times")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="pennon-verbs-") as directory:
        root = Path(directory)
        spark = session(arguments, root / "warehouse")
        every: list[Side] = [Pennon(spark, root), Delta(spark, root), Iceberg(spark, root), Parquet(spark, root)]
        verbs = arguments.only.split(",")
        for side in every:
            side.make(rows(spark, 0, arguments.rows), "made")
            if "vectors" in verbs:
                side.make(wide(spark, arguments.rows // 10), "wide")
            if "compaction" in verbs and can(side, "compaction"):
                side.make(rows(spark, 0, arguments.rows, FILES), "small")
                side.fresh("compaction")
                if side.files() != FILES:  # type: ignore[union-attr]
                    raise SystemExit(f"{side.name} has another number of files than {FILES}")
        source = changes(spark, arguments.rows)
        print(f"{arguments.rows:,} rows, {arguments.rounds} rounds, medians, load {os.getloadavg()[0]:.1f}")
        peers = [side.name for side in every[1:]]
        print(f"| case | target | Pennon, s | {' | '.join(f'{name}, s' for name in peers)} |", end="")
        print(f" {' | '.join(f'Pennon / {name}' for name in peers)} |")
        print("|" + "---|" * 9, flush=True)
        for verb in verbs:
            sides = [side for side in every if can(side, verb)]
            answers = {}
            for side in sides:
                run(side, verb, source, arguments.rows)
                answers[side.name] = answer(side, verb, arguments.rows)
            if len(set(answers.values())) != 1:
                raise SystemExit(f"{verb}: the sides differ: {answers}")
            times: dict[str, list[float]] = {side.name: [] for side in sides}
            for number in range(arguments.rounds):
                for side in sides if number % 2 else reversed(sides):
                    times[side.name].append(run(side, verb, source, arguments.rows))
            medians = {name: statistics.median(found) for name, found in times.items()}
            results.append({"case": TITLES[verb], "rows": arguments.rows, "seconds": times})
            judge, target = TARGETS.get(verb, ("", 0.0))
            seconds = [f"{medians[name]:.3f}" if name in medians else "" for name in ("Pennon", *peers)]
            ratios = []
            for name in peers:
                ratio = medians["Pennon"] / medians[name] if name in medians else None
                shown = "" if ratio is None else f"{ratio:.2f}"
                ratios.append(f"**{shown}**" if ratio and name == judge and ratio > target else shown)
            wanted = f"{target} {judge}" if judge else ""
            print("| " + " | ".join([TITLES[verb], wanted, *seconds, *ratios]) + " |", flush=True)
        print(f"load at the end {os.getloadavg()[0]:.1f}", flush=True)
        spark.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
