"""Row-level verbs from PySpark against Delta and Iceberg: one session, the same rows, in turns.

    python benches/spark/verbs.py [--rows 2000000] [--rounds 5] [--cores 2] [--only delete,merge] [--json out]

Claims: delete of 0.1 %, update of 1 % and merge of 1 % (half new) at least 1.5 times as fast as Delta with deletion
vectors; the change feed of 1 % changed at least twice as fast as Delta's; `LanceTable.count()` in 50 ms. Compaction
of 200 files is with the defaults of each side, without a target. Iceberg is format 3, merge-on-read.
Counts and sums over all columns of all sides are compared after each verb, once before the rounds; every round
starts from the table as it was made. Ratios are Pennon's median divided by the other one: below 1 is faster, so the
targets are 0.67 and 0.5.

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
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable, read, write

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
TARGETS = {"delete": 0.67, "update": 0.67, "merge": 0.67, "feed": 0.5}
FILES = 200
TITLES = {
    "delete": "delete 0.1 % of the rows, anywhere",
    "update": "update 1 % of the rows, anywhere",
    "merge": "merge of 1 %, half of them new",
    "feed": "change feed after an update of 1 %",
    "compaction": f"compaction of {FILES} files",
    "count": "count of all rows",
}


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


def start(verb: str) -> str:
    """The table from which a round of a verb starts."""
    return "small" if verb == "compaction" else "made"


class Pennon:
    """Each round works on a copy of the directory."""

    name = "Pennon"

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.uri = spark, root, str(root / "round.pennon")

    def make(self, frame: DataFrame, name: str) -> None:
        write(frame, str(self.root / f"{name}.pennon"), durability="os")

    def fresh(self, verb: str) -> None:
        shutil.rmtree(self.uri, ignore_errors=True)
        shutil.copytree(self.root / f"{start(verb)}.pennon", self.uri)
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

    def rows(self) -> DataFrame:
        return read(self.spark, self.uri)


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
        shutil.rmtree(self.uri, ignore_errors=True)
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

    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.uri)


class Iceberg:
    """Format 3, merge-on-read; its metadata has whole paths, so a round rolls back to the first snapshot."""

    name = "Iceberg"

    def __init__(self, spark: SparkSession, _root: Path) -> None:
        self.spark, self.table = spark, "ice.db.made"
        self.first: dict[str, int] = {}

    def make(self, frame: DataFrame, name: str) -> None:
        self.table = f"ice.db.{name}"
        modes = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
        self.spark.sql(
            f"CREATE TABLE {self.table} (id BIGINT, text STRING, number DOUBLE) USING iceberg "
            f"TBLPROPERTIES ('format-version'='3', {modes})"
        )
        frame.writeTo(self.table).append()
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

    def rows(self) -> DataFrame:
        return self.spark.table(self.table)


Side = Pennon | Delta | Iceberg


def run(side: Side, verb: str, source: DataFrame) -> float:
    """Seconds of a verb, or of reading the whole feed."""
    side.fresh(verb)
    started = time.perf_counter()
    if verb == "merge":
        side.merge(source)
    elif verb == "feed":
        side.feed().write.format("noop").mode("overwrite").save()  # type: ignore[union-attr]
    else:
        getattr(side, verb)()
    return time.perf_counter() - started


def answer(side: Side, verb: str) -> str:
    frame = side.feed() if verb == "feed" else side.rows()  # type: ignore[union-attr]
    kind = "sum(crc32(_change_type))" if verb == "feed" else "0"
    if verb == "compaction":
        print(f"{side.name}: {side.files()} files after compaction", file=sys.stderr)
        if side.files() > FILES // 10:
            raise SystemExit(
                f"{side.name} has {side.files()} files after compaction, expected {FILES // 10} at most"
            )
    if verb == "count":
        return str(side.count())
    return str(frame.selectExpr("count(*)", "sum(id)", "sum(crc32(text))", "round(sum(number), 3)", kind).first())


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
        every: list[Side] = [Pennon(spark, root), Delta(spark, root), Iceberg(spark, root)]
        for side in every:
            side.make(rows(spark, 0, arguments.rows), "made")
            if "compaction" in arguments.only.split(","):
                side.make(rows(spark, 0, arguments.rows, FILES), "small")
                side.fresh("compaction")
                if side.files() != FILES:
                    raise SystemExit(f"{side.name} has {side.files()} files, expected {FILES}")
        source = changes(spark, arguments.rows)
        print(f"{arguments.rows:,} rows, {arguments.rounds} rounds, medians, load {os.getloadavg()[0]:.1f}")
        print("| case | target | Pennon, s | Delta, s | Iceberg, s | Pennon / Delta | Pennon / Iceberg |")
        print("|" + "---|" * 7, flush=True)
        for verb in arguments.only.split(","):
            sides = [side for side in every if hasattr(side, verb)]
            answers = {}
            for side in sides:
                run(side, verb, source)
                answers[side.name] = answer(side, verb)
            if len(set(answers.values())) != 1:
                raise SystemExit(f"{verb}: the sides differ: {answers}")
            times: dict[str, list[float]] = {side.name: [] for side in sides}
            for number in range(arguments.rounds):
                for side in sides if number % 2 else reversed(sides):
                    times[side.name].append(run(side, verb, source))
            medians = {name: statistics.median(found) for name, found in times.items()}
            results.append({"case": TITLES[verb], "rows": arguments.rows, "seconds": times})
            ours, target = medians["Pennon"], TARGETS.get(verb)
            ratio = ours / medians["Delta"]
            seconds = [f"{medians[name]:.3f}" if name in medians else "" for name in ("Pennon", "Delta", "Iceberg")]
            shown = f"**{ratio:.2f}**" if target and ratio > target else f"{ratio:.2f}"
            other = f"{ours / medians['Iceberg']:.2f}" if "Iceberg" in medians else ""
            print("| " + " | ".join([TITLES[verb], str(target or ""), *seconds, shown, other]) + " |", flush=True)
        print(f"load at the end {os.getloadavg()[0]:.1f}", flush=True)
        spark.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
