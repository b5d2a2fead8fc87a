"""A merge of 5 M rows into 20 M with executors of 1 GB: that it completes, and what is shuffled.

    python benches/spark/merge_large.py [--rows 20000000] [--source 5000000] [--results FOLDER]

The table has an int64 key, a text of 20 letters and a float64; half of the source is new. Two executors with a core
and 1 GB each, as processes of their own (`local-cluster`). The rows of the result are checked by `pennon` before
anything is said: their number, the sums over all columns, and rows drawn at random. What is shuffled is Spark's own
count, stage by stage, set against the bytes of keys, addresses and source rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

from records import Record, check_whole, line, result, save
from spark_session import start_session

BATCH = 500_000


def session() -> SparkSession:
    settings = {
        # It says what was shuffled.
        "spark.ui.enabled": "true",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "16",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    return start_session("local-cluster[2,1,1024]", settings)


def rows(count: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, BATCH):
        ids = pa.array(range(start, min(start + BATCH, count)), pa.int64())
        texts = pc.binary_join_element_wise("name-", pc.utf8_lpad(ids.cast(pa.string()), 15, "0"), "")
        yield pa.record_batch({"id": ids, "text": texts, "number": pc.divide(ids.cast(pa.float64()), 2)})


def shuffled(spark: SparkSession) -> list[dict[str, Any]]:
    """Stages that wrote to a shuffle, by Spark."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(url) as answer:
        return [stage for stage in json.load(answer) if stage["shuffleWriteBytes"]]


class Memory(threading.Thread):
    """The most memory that each child process of a kind had, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, int] = {}

    def run(self) -> None:
        while True:
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                    command = status.with_name("cmdline").read_text().replace("\0", " ")
                except OSError:
                    continue
                kind = "worker in Python" if "pyspark.daemon" in command else None
                kind = "executor" if "CoarseGrainedExecutorBackend" in command else kind
                if kind:
                    peak = int(text.partition("VmHWM:")[2].split()[0]) * 1024
                    self.peaks[kind] = max(self.peaks.get(kind, 0), peak)
            time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--source", type=int, default=5_000_000)
    parser.add_argument("--results", type=Path, help="a folder for a file with what was found")
    arguments = parser.parse_args()
    check_whole(parser, arguments)
    record = Record()
    count, source = arguments.rows, arguments.source
    spark = session()
    memory = Memory()
    memory.start()
    with tempfile.TemporaryDirectory(prefix="pennon-merge-") as folder:
        uri = f"{folder}/table.lance"
        schema = next(rows(1)).schema
        reader = pa.RecordBatchReader.from_batches(schema, rows(count))
        before = pennon.write_dataset(reader, uri, max_rows_per_file=1_000_000, durability="os")
        # Known keys are spread over the table, new ones follow it.
        half, step = source // 2, count // (source // 2)
        key = f"CASE WHEN id < {half} THEN id * {step} ELSE {count} + id - {half} END"
        merged = spark.range(0, source, 1, 16).selectExpr(
            f"{key} AS id", "concat('new-', id) AS text", "-1D AS number"
        )
        started = time.perf_counter()
        merge = LanceTable.forPath(spark, uri).alias("t").merge(merged.alias("s"), "t.id = s.id")
        done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first()
        seconds = time.perf_counter() - started
        assert (done.num_updated_rows, done.num_inserted_rows) == (half, source - half), done
        after = pennon.dataset(uri)
        assert after.count_rows() == count + source - half
        assert after.count_rows("number = -1") == source
        total = sum(pc.sum(batch["id"]).as_py() for batch in after.scanner(columns=["id"]).to_batches())
        assert total == sum(range(count + source - half))
        for at in random.Random(0).sample(range(half), 20):
            (row,) = after.to_table(filter=f"id = {at * step}", with_row_id=True).to_pylist()
            old = before.to_table(columns=["id"], filter=f"id = {at * step}", with_row_id=True).to_pylist()[0]
            assert row == {"id": at * step, "text": f"new-{at}", "number": -1.0, "_rowid": old["_rowid"]}
        stages = shuffled(spark)
        counts = {
            "shuffled MB": round(sum(stage["shuffleWriteBytes"] for stage in stages) / 1e6, 1),
            "shuffled rows": sum(stage["shuffleWriteRecords"] for stage in stages),
            **{f"MB, {kind}": round(peak / 1e6) for kind, peak in sorted(memory.peaks.items())},
        }
        claim = f"merge of {source:,} rows, half of them new, into {count:,}"
        merged = result(claim, "local disk", {"pennon": [seconds]}, {"pennon": counts}, name="merge")
        print(line(merged))
        for stage in stages:
            size, number = stage["shuffleWriteBytes"], stage["shuffleWriteRecords"]
            print(f"  stage {stage['stageId']}: {size / 1e6:,.1f} MB, {number:,} rows, {size / number:.1f} B a row")
    found = record.of("merge_large", "A large merge", (), {}, 1)
    save(arguments.results, found | {"cases": [merged]})
    spark.stop()


if __name__ == "__main__":
    main()
