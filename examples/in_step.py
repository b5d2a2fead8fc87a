"""A second table is kept in step with a first one, by its change feed as a stream.

    python examples/in_step.py

Each batch of the stream is one commit of the second table, and happens once, whatever stops in between.
"""

from __future__ import annotations

import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark_pennon import LanceTable, apply_changes, read, write


def catch_up(spark: SparkSession, first: str, second: str, checkpoint: str) -> None:
    """Apply what happened since the last call, which may have been another program's."""
    feed = spark.readStream.format("pennon").option("readChangeFeed", True).load(first)
    writer = feed.writeStream.foreachBatch(apply_changes(second, on="id")).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def run(spark: SparkSession, folder: str) -> None:
    """Two tables, four rounds."""
    first, second, checkpoint = f"{folder}/orders.lance", f"{folder}/copy.lance", f"{folder}/checkpoint"
    orders = spark.range(1000).select("id", fn.expr("id * 7 % 100 AS price"), fn.lit("new").alias("state"))
    write(orders, first)
    table = LanceTable.forPath(spark, first)

    def compare(what: str) -> None:
        catch_up(spark, first, second, checkpoint)
        rows, copy = read(spark, first), read(spark, second)
        missing, wrong = rows.exceptAll(copy).count(), copy.exceptAll(rows).count()
        version = LanceTable.forPath(spark, second).version
        print(f"{what}: {copy.count():,} rows in version {version}, {missing} missing, {wrong} wrong")

    compare("snapshot")
    table.update("price < 20", {"state": "'cheap'"})
    table.delete("id % 10 = 3")
    compare("updated and deleted")
    newer = spark.range(990, 1010).select(
        "id", fn.lit(5).cast("long").alias("price"), fn.lit("late").alias("state")
    )
    table.alias("t").merge(
        newer.alias("n"), "t.id = n.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.optimize().executeCompaction()
    compare("merged and compacted")
    table.restoreToVersion(1)
    compare("restored")


if __name__ == "__main__":
    session = SparkSession.builder.master("local[*]").appName("in_step").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        run(session, directory)
