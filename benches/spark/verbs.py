"""Reads and row-level verbs from PySpark against parquet, Delta and Iceberg: one session, the same rows, in turns.

    python benches/spark/verbs.py [--rows 5000000] [--rounds 5] [--cores 2] [--only delete,merge] [--results FOLDER]

Claims: delete of 0.1 %, update of 1 % and merge of 1 % (half new) at least 1.5 times as fast as Delta with deletion
vectors; the change feed of 1 % changed at least twice as fast as Delta's; `LanceTable.count()` in 50 ms. Compaction
of 200 files is with the defaults of each side, without a target. Iceberg is format 3, merge-on-read. Whole rows and
one column of three at most 1.3 times parquet's time; 1 % of the rows by a range of keys, a tenth as many rows with
arrays of 128 floats, and an append of as many rows as the table has in parquet's time at most.
Counts and sums over all columns of all sides are compared after each verb, once before the rounds; every round
starts from the table as it was made. Reads go to Spark's sink `noop`. With `--results` the samples go to a file of
that folder, `spark-5M.json` for 5 M rows; `tests/pages.py --write` makes the tables of `docs/performance.md` of the
files in `benches/results`. The page has 5 M rows with all verbs, and 20 M rows without arrays and compaction.

One side is no table: workers in Python that give Spark as many rows of the same columns from one batch in
memory, or that count those which Spark hands them. Whatever goes through such workers takes about that long.

What is comparable: all sides have eight files and as many shuffle partitions as cores. Delta keeps the state of a
log in as many partitions as cores, not in its default of 50, and has read the log of the table before the clock
starts, as in a session that has used the table. Pennon's delete, update, merge and compaction sync their files; its
append does not, and nothing of the others does.
What is not: Pennon's feed follows from row ids, Delta writes files for its feed while rows change, so Delta's verbs
run on a table without a feed, and only the case of the feed on one with it.

It needs the packages of `requirements.txt` next to this file, in an environment of its own: the jars of the peers
are those for Spark 4.1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sides
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from sides import (
    FILES,
    READS,
    VECTOR,
    Delta,
    Iceberg,
    Loaded,
    Parquet,
    Pennon,
    Side,
    Workers,
    asked,
    changes,
    embeddings,
    rows,
)

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
cloudpickle.register_pickle_by_value(sides)  # workers cannot import it

from records import RESULTS, Record, line, result, save  # noqa: E402
from spark_session import start_session  # noqa: E402

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
PEERS = ("load", "delta", "iceberg", "parquet", "workers")
TITLES = {
    "read": "read {rows:,} rows",
    "column": "read one column of three",
    "range": "read 1 % of the rows, by a range of keys",
    "vectors": "read {tenth:,} rows with arrays of 128 floats",
    "append": "append {rows:,} rows",
    "delete": "delete 0.1 % of the rows, anywhere",
    "update": "update 1 % of the rows, anywhere",
    "merge": "merge 1 %, half of it new",
    "feed": "change feed of an update of 1 %",
    "compaction": "compact 200 files",
    "count": "count all rows",
}
# What the page has: the verbs by the number of rows.
ROWS, ROUNDS, CORES = 5_000_000, 5, 2
PAGES = {ROWS: list(TITLES), 20_000_000: [verb for verb in TITLES if verb not in ("vectors", "compaction")]}


def session(arguments: argparse.Namespace, warehouse: Path) -> SparkSession:
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    jars = {"spark.jars": arguments.jars} if arguments.jars else {"spark.jars.packages": ",".join(PACKAGES)}
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(arguments.cores),
        "spark.databricks.delta.snapshotPartitions": str(arguments.cores),
        **jars,
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
    }
    return start_session(f"local[{arguments.cores}]", settings)


def can(side: Side, verb: str) -> bool:
    return verb in READS or hasattr(side, verb)


def has_tables(side: Side) -> bool:
    return not isinstance(side, Workers | Loaded)


def run(side: Side, verb: str, source: DataFrame, count: int) -> float:
    """Seconds of a verb, or of reading all rows that are asked for."""
    side.fresh(verb)
    started = time.perf_counter()
    if verb == "merge":
        side.merge(source)  # type: ignore[union-attr]
    elif verb == "append":
        side.append(rows(source.sparkSession, 0, count))
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


def title(verb: str, rows: int) -> str:
    """What a case is, for the page."""
    return TITLES[verb].format(rows=rows, tenth=rows // 10)


def compared(able: list[Side], verb: str, source: DataFrame, count: int) -> None:
    """Run a verb on each side, and end if they differ."""
    answers = {}
    for side in able:
        run(side, verb, source, count)
        if not isinstance(side, Workers):
            answers[side.name] = answer(side, verb, count)
    if len(set(answers.values())) != 1:
        raise SystemExit(f"{verb}: the sides differ: {answers}")


def measured(able: list[Side], verb: str, source: DataFrame, count: int, rounds: int) -> dict[str, Any]:
    """The case and its samples."""
    seconds: dict[str, list[float]] = {side.name: [] for side in able}
    for number in range(rounds):
        for side in able if number % 2 else reversed(able):
            seconds[side.name].append(run(side, verb, source, count))
    return result(title(verb, count), "local disk", seconds, name=verb)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--only", help="verbs, with commas between, instead of those of the page")
    parser.add_argument("--jars", help="files of the peers, instead of packages that Spark fetches")
    parser.add_argument("--results", type=Path, help="a folder for the file with all samples")
    arguments = parser.parse_args()
    count = arguments.rows
    verbs = arguments.only.split(",") if arguments.only else PAGES.get(count, list(TITLES))
    is_other = verbs != PAGES.get(count) or (arguments.rounds, arguments.cores) != (ROUNDS, CORES)
    if is_other and arguments.results and arguments.results.resolve() == RESULTS:
        parser.error(
            "other rows, rounds, cores or verbs than those of the page: give another folder with --results"
        )
    if unknown := set(verbs) - set(TITLES):
        parser.error(f"no verb {', '.join(sorted(unknown))}, there are {', '.join(TITLES)}")
    record, results = Record(), []
    with tempfile.TemporaryDirectory(prefix="pennon-verbs-") as directory:
        root = Path(directory)
        spark = session(arguments, root / "warehouse")
        every: list[Side] = [
            Pennon(spark, root),
            Loaded(spark, root),
            Delta(spark, root),
            Iceberg(spark, root),
            Parquet(spark, root),
            Workers(spark, count, arguments.cores),
        ]
        for side in filter(has_tables, every):
            make(side, spark, count, verbs)
        source = changes(spark, count)
        for verb in verbs:
            able = [side for side in every if can(side, verb)]
            compared(able, verb, source, count)
            results.append(measured(able, verb, source, count, arguments.rounds))
            print(line(results[-1]), flush=True)
        spark.stop()
    size = {"rows": count, "cores": arguments.cores}
    found = record.of(f"spark-{count // 1_000_000}M", f"PySpark, {count:,} rows", PEERS, size, arguments.rounds)
    for package in PACKAGES:
        _, name, version = package.split(":")
        found["versions"][name.split("-")[0]] = version
    save(arguments.results, found | {"cases": results})


def make(side: Side, spark: SparkSession, count: int, verbs: list[str]) -> None:
    """The tables from which rounds start."""
    side.make(rows(spark, 0, count), "made")  # type: ignore[union-attr]
    if "vectors" in verbs:
        side.make(embeddings(spark, count // 10), "wide")  # type: ignore[union-attr]
    if "compaction" in verbs and can(side, "compaction"):
        side.make(rows(spark, 0, count, FILES), "small")  # type: ignore[union-attr]
        side.fresh("compaction")
        if side.files() != FILES:  # type: ignore[union-attr]
            raise SystemExit(f"{side.name} has another number of files than {FILES}")


if __name__ == "__main__":
    main()
