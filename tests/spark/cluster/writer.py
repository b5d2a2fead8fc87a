"""A process that changes a table until it is done or dies: one of several writers, or a driver that is killed.

    python writer.py spark|reference <uri> <name> <commits>     commits, each with a key of its own
    python writer.py before|after <uri> merge|append 1          a driver that is killed around its commit
    python writer.py between <uri> compaction 1                 the same between two groups of a compaction

Prints each key after its commit, one a line.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema({"key": pa.string(), "n": pa.int64()})


def session() -> Any:
    sys.path.append(str(Path(__file__).resolve().parents[2]))

    from support.spark_session import start_session

    return start_session("local[1]", {"spark.driver.memory": "600m", "spark.sql.shuffle.partitions": "1"})


def by_spark(uri: str, name: str, commits: int) -> None:
    """Appends, merges of a new and a known key, deletes of a key that was inserted before."""
    from pyspark_pennon import LanceTable, write

    spark = session()
    table = LanceTable.forPath(spark, uri)
    for at in range(commits):
        frame = spark.createDataFrame([(f"{name}-{at}", at)], "key string, n long")
        if at % 3 == 0:
            write(frame, uri, mode="append")
            said = f"+{name}-{at}"
        elif at % 3 == 1:
            known = spark.createDataFrame([(f"{name}-{at - 1}", 1000 + at)], "key string, n long")
            merge = table.alias("t").merge(frame.union(known).alias("s"), "t.key = s.key")
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
            said = f"+{name}-{at}"
        else:
            table.delete(f"key = '{name}-{at - 1}'")
            said = f"-{name}-{at - 1}"
        print(said, flush=True)
    spark.stop()


def by_reference(uri: str, name: str, commits: int) -> None:
    import lance

    for at in range(commits):
        row = pa.Table.from_pylist([{"key": f"{name}-{at}", "n": at}], SCHEMA)
        lance.write_dataset(row, uri, mode="append")
        print(f"+{name}-{at}", flush=True)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(uri: str, verb: str, when: str) -> None:
    """A merge of the keys `old` and `new`, or an append of `new`; the driver dies before or after its commit."""
    from pennon.jobs import JobPlan
    from pyspark_pennon import LanceTable, write

    commit = JobPlan.commit

    def dies(plan: JobPlan, results: Any, **options: Any) -> Any:
        if when == "after":
            commit(plan, results, **options)
        die()

    JobPlan.commit = dies  # type: ignore[method-assign, assignment]
    spark = session()
    frame = spark.createDataFrame([("old", 7), ("new", 8)], "key string, n long").alias("s")
    if verb == "append":
        write(frame.where("key = 'new'"), uri, mode="append")
        return
    merge = LanceTable.forPath(spark, uri).alias("t").merge(frame, "t.key = s.key")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def killed_between(uri: str) -> None:
    """A compaction in groups of two tasks; the driver dies when the files of the second group are written."""
    from pennon.optimize import Compaction
    from pyspark_pennon import LanceTable

    commit, groups = Compaction.commit, list[int]()

    def dies(*given: Any) -> Any:
        groups.append(1)
        if len(groups) == 2:
            die()
        return commit(*given)

    Compaction.commit = staticmethod(dies)  # type: ignore[method-assign, assignment]
    LanceTable.forPath(session(), uri).optimize().executeCompaction(target_rows_per_fragment=20)


if __name__ == "__main__":
    kind, uri, own, number = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    if kind == "spark":
        by_spark(uri, own, number)
    elif kind == "reference":
        by_reference(uri, own, number)
    elif kind == "between":
        killed_between(uri)
    else:
        killed(uri, own, kind)
