"""Reading and writing from PySpark against Spark's own parquet source, in one session, in turns.

    python benches/spark/read_write.py [--rows 2000000] [--vectors 300000] [--rounds 5] [--cores 2] [--json out]
    python benches/spark/read_write.py --peer <format> --packages <Maven coordinates>

Claims: whole rows, one column of three, and rows with arrays of 128 floats in at most 1.3 times parquet's time
(arrays: in parquet's time), a filter that keeps 1 % in parquet's time, an append in parquet's time. Reads go to
Spark's sink `noop`, which takes every row and drops it; a write takes its rows from `spark.range`. The results of
both sides are compared before a time is taken. Ratios are Pennon's median divided by that of parquet: below 1 is
faster. `load` is `spark.read.format("pennon")`, `read` is `pyspark_pennon.read`; `durability="os"`, since Spark
does not sync parquet.

Another source that Spark finds, such as Delta, is measured as well with `--peer <format>`, from `--packages` that
Spark fetches by itself.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import read, write

VECTOR = 128


@dataclass(frozen=True)
class Case:
    """A query on each side: what it reads, or a write."""

    name: str
    target: float
    sides: dict[str, Callable[[], Any]]
    run: Callable[[Any], object]
    answer: Callable[[Any], object]


def session(arguments: argparse.Namespace) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    found = Path(sys.prefix, ".java")
    if "JAVA_HOME" not in os.environ and found.exists():
        os.environ["JAVA_HOME"] = found.read_text().strip()
    builder = (
        SparkSession.builder.master(f"local[{arguments.cores}]")
        .appName("pennon-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
    )
    if arguments.packages:
        builder = builder.config("spark.jars.packages", arguments.packages)
    if arguments.peer == "delta":
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def narrow(spark: SparkSession, rows: int) -> DataFrame:
    """A key, a text of 20 letters and a random number."""
    texts = "format_string('name-%015d', id % 100000) AS text"
    return spark.range(0, rows, 1, 4).selectExpr("id", texts, "pmod(hash(id, 7), 1000003) / 1000003D AS number")


def wide(spark: SparkSession, rows: int) -> DataFrame:
    """A key and a random array of floats."""
    floats = f"transform(sequence(1, {VECTOR}), at -> float(hash(id, at) / 2147483648D)) AS embedding"
    return spark.range(0, rows, 1, 4).selectExpr("id", floats)


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def cases(spark: SparkSession, arguments: argparse.Namespace, root: Path) -> list[Case]:
    sources = ["parquet", *([arguments.peer] if arguments.peer else [])]
    for name, frame in (("narrow", narrow(spark, arguments.rows)), ("wide", wide(spark, arguments.vectors))):
        frame.write.parquet(f"{root}/{name}.parquet")
        stored = spark.read.parquet(f"{root}/{name}.parquet")
        write(stored, f"{root}/{name}.pennon")
        for source in sources[1:]:
            stored.write.format(source).save(f"{root}/{name}.{source}")

    def scan(name: str, columns: list[str] | None, where: str | None) -> dict[str, Callable[[], DataFrame]]:
        uri = f"{root}/{name}.pennon"

        def of(source: str) -> Callable[[], DataFrame]:
            def frame() -> DataFrame:
                found = spark.read.format(source).load(f"{root}/{name}.{source}")
                found = found if where is None else found.where(where)
                return found if columns is None else found.select(*columns)

            return frame

        def load() -> DataFrame:
            reader = spark.read.format("pennon").options(**({"columns": ",".join(columns)} if columns else {}))
            found = reader.load(uri)
            return found if where is None else found.where(where)

        sides: dict[str, Callable[[], DataFrame]] = {
            "read": lambda: read(spark, uri, columns=columns, where=where),
            "load": load,
        }
        return {**sides, **{source: of(source) for source in sources}}

    def total(frame: DataFrame) -> object:
        sums = {"id": "sum(id)", "text": "sum(crc32(text))", "embedding": f"sum(embedding[{VECTOR - 1}])"}
        found = [sums.get(name, f"round(sum({name}), 3)") for name in frame.columns]
        return frame.selectExpr("count(*)", *found).first()

    def append(source: str) -> Callable[[], Callable[[], str]]:
        def started() -> Callable[[], str]:
            path = tempfile.mkdtemp(dir=root) + "/table"
            rows = narrow(spark, arguments.rows)

            def run() -> str:
                if source == "read":
                    write(rows, path, mode="append", durability="os")
                elif source == "load":
                    rows.write.format("pennon").mode("append").option("durability", "os").save(path)
                else:
                    rows.write.format(source).mode("append").save(path)
                return path

            return run

        return started

    def written(source: str) -> Callable[[Any], object]:
        def answer(run: Any) -> object:
            path = run()
            found = read(spark, path) if source in ("read", "load") else spark.read.format(source).load(path)
            return total(found)

        return answer

    ten = (arguments.rows // 2, arguments.rows // 2 + arguments.rows // 100 - 1)
    found = [
        Case("whole rows", 1.3, scan("narrow", None, None), noop, total),
        Case("one column of three", 1.3, scan("narrow", ["number"], None), noop, total),
        Case(
            "1 % of the rows, by a range of keys",
            1.0,
            scan("narrow", None, f"id BETWEEN {ten[0]} AND {ten[1]}"),
            noop,
            total,
        ),
        Case("1 % of the rows, anywhere", 1.0, scan("narrow", None, "number < 0.01"), noop, total),
        Case(f"arrays of {VECTOR} floats", 1.0, scan("wide", None, None), noop, total),
    ]
    sides = {source: append(source) for source in ("read", "load", *sources)}
    writes = Case("append", 1.0, sides, lambda run: shutil.rmtree(Path(run()).parent), lambda _run: None)
    answers = {source: written(source)(append(source)()) for source in sides}
    check("append", answers)
    return [*found, writes]


def check(name: str, answers: dict[str, object]) -> None:
    if len(set(map(str, answers.values()))) != 1:
        raise SystemExit(f"{name}: the sides differ: {answers}")


def measured(case: Case, rounds: int) -> dict[str, list[float]]:
    """Seconds of each side, in turns, in changing order, after a round that does not count."""
    check(case.name, {side: case.answer(make()) for side, make in case.sides.items()})
    times: dict[str, list[float]] = {side: [] for side in case.sides}
    for number in range(rounds + 1):
        order = list(case.sides)
        for side in order if number % 2 else reversed(order):
            started = time.perf_counter()
            case.run(case.sides[side]())
            if number:
                times[side].append(time.perf_counter() - started)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--vectors", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--packages", help="Maven coordinates that Spark fetches, for --peer")
    parser.add_argument("--peer", help="another format to measure")
    parser.add_argument("--json", type=Path, help="a file for all times")
    arguments = parser.parse_args()
    spark = session(arguments)
    results = []
    with tempfile.TemporaryDirectory(prefix="pennon-spark-") as directory:
        every = cases(spark, arguments, Path(directory))
        print(
            f"{arguments.rows:,} rows, {arguments.vectors:,} rows with arrays, {arguments.rounds} rounds, medians"
        )
        print(
            "| case | "
            + " | ".join(f"{side}, s" for side in every[0].sides)
            + " | read / parquet | load / parquet | target |"
        )
        print("|" + "---|" * (len(every[0].sides) + 4))
        for case in every:
            times = measured(case, arguments.rounds)
            medians = {side: statistics.median(found) for side, found in times.items()}
            results.append({"case": case.name, "target": case.target, "seconds": times})
            ratios = [medians[side] / medians["parquet"] for side in ("read", "load")]
            shown = [f"**{ratio:.2f}**" if ratio > case.target else f"{ratio:.2f}" for ratio in ratios]
            cells = [case.name, *(f"{value:.2f}" for value in medians.values()), *shown, str(case.target)]
            print("| " + " | ".join(cells) + " |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    spark.stop()


if __name__ == "__main__":
    main()
