"""Pennon's functions against the Lance project's own connector, on PySpark 3.5: one session, one table, in turns.

    python benches/spark/connector.py lance-spark-bundle-3.5_2.12-0.0.14.jar [--rows 2000000] [--rounds 5]
        [--results FOLDER]

Claims: reads at least as fast as the connector, a delete of 0.1 % at least twice as fast. The table is written
by Pennon, in eight files of version 2.0, and both sides read it, the connector through its catalog of a
directory; each delete works on a copy. Reads go to Spark's sink `noop`; counts and sums of both sides are
compared before a time is taken.

It needs the packages of `requirements/lanes/3.5.txt` in an environment of its own. The bundle is
`com.lancedb:lance-spark-bundle-3.5_2.12:0.0.14`, the newest that Maven Central has of it; those of the group
`org.lance` are not there. Its writer is left out: tasks that write wait for ever, see `benches/README.md`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable, read, write

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

from records import Record, check_whole, line, result, save
from spark_session import start_session

CATALOG = "com.lancedb.lance.spark.LanceNamespaceSparkCatalog"


def session(jar: Path, root: Path) -> SparkSession:
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": str(jar),
        "spark.sql.catalog.lance": CATALOG,
        "spark.sql.catalog.lance.impl": "dir",
        "spark.sql.catalog.lance.root": str(root),
    }
    return start_session("local[2]", settings)


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def total(frame: DataFrame) -> str:
    names = {"id": "sum(id)", "text": "sum(crc32(text))", "number": "round(sum(number), 3)"}
    return str(frame.selectExpr("count(*)", *(names[name] for name in frame.columns)).first())


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jar", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    arguments = parser.parse_args()
    check_whole(parser, arguments)
    record, results = Record(), []
    with tempfile.TemporaryDirectory(prefix="pennon-connector-") as folder:
        root = Path(folder)
        spark = session(arguments.jar, root)
        made = str(root / "made.lance")
        texts = "format_string('name-%015d', id % 100000) AS text"
        numbers = "pmod(hash(id, 7), 1000003) / 1000003D AS number"
        write(
            spark.range(0, arguments.rows, 1, 8).selectExpr("id", texts, numbers),
            made,
            durability="os",
            data_storage_version="2.0",
        )
        first = arguments.rows // 2
        where = f"id BETWEEN {first} AND {first + arguments.rows // 100 - 1}"

        def theirs(condition: str | None = None, names: tuple[str, ...] = ("id", "text", "number")) -> DataFrame:
            frame = spark.table("lance.default.made")
            return (frame if condition is None else frame.where(condition)).select(*names)

        reads: dict[str, tuple[Callable[[], DataFrame], Callable[[], DataFrame]]] = {
            "whole rows": (lambda: read(spark, made), theirs),
            "one column of three": (
                lambda: read(spark, made, columns=["number"]),
                lambda: theirs(names=("number",)),
            ),
            "1 % of the rows, by a range of keys": (
                lambda: read(spark, made, where=where),
                lambda: theirs(where),
            ),
        }

        def note(name: str, ours: list[float], other: list[float]) -> None:
            results.append(result(name, "local disk, warm", {"pennon": ours, "connector": other}))
            print(line(results[-1]), flush=True)

        for name, (ours, other) in reads.items():
            if total(ours()) != total(other()):
                raise SystemExit(f"{name}: the sides differ: {total(ours())}, {total(other())}")
            times: list[list[float]] = [[], []]
            for number in range(arguments.rounds):
                for side in (0, 1) if number % 2 else (1, 0):
                    frame = (ours, other)[side]
                    times[side].append(timed(lambda frame=frame: noop(frame())))  # type: ignore[misc]
            note(name, *times)

        times = [[], []]
        for number in range(arguments.rounds):
            copies = [f"mine{number}", f"theirs{number}"]
            for copy in copies:
                shutil.copytree(made, root / f"{copy}.lance")
            table = LanceTable.forPath(spark, str(root / f"{copies[0]}.lance"))
            times[0].append(timed(lambda table=table: table.delete("number < 0.001")))  # type: ignore[misc]
            sql = f"DELETE FROM lance.default.{copies[1]} WHERE number < 0.001"
            times[1].append(timed(lambda sql=sql: spark.sql(sql)))  # type: ignore[misc]
            left = [total(read(spark, str(root / f"{copy}.lance"))) for copy in copies]
            if left[0] != left[1]:
                raise SystemExit(f"delete: the sides differ: {left}")
        note("delete 0.1 % of the rows, anywhere", *times)
        spark.stop()
    size = {"rows": arguments.rows}
    found = record.of("connector", "The connector", ("connector",), size, arguments.rounds)
    found["versions"]["connector"] = arguments.jar.stem.rpartition("-")[2]
    save(arguments.results, found | {"cases": results})


if __name__ == "__main__":
    main()
