"""Whether a stream into a second table keeps pace with a writer of 20 commits a second.

    python benches/spark/stream_pace.py [--commits 1000] [--rate 20] [--results FOLDER]

A process of its own appends ten rows at a time. A query reads the appended rows and writes them to a second table
through the sink, a batch as soon as the one before is done. Counted are the commits that the query was behind, once
a second; the time ends when the query has caught up, and the rows of both tables are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pennon
import pyarrow as pa

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

from records import Record, check_whole, line, result, save
from spark_session import start_session

WRITER = """
import sys, time, pennon, pyarrow as pa
uri, commits, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
table = pennon.dataset(uri)
started = time.perf_counter()
for at in range(commits):
    time.sleep(max(0.0, started + at / rate - time.perf_counter()))
    table.insert(pa.table({"id": pa.array(range(10 * at, 10 * at + 10), pa.int64())}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--results", type=Path, help="a folder for a file with what was found")
    arguments = parser.parse_args()
    check_whole(parser, arguments)
    record = Record()
    spark = start_session("local[2]", {})
    with tempfile.TemporaryDirectory(prefix="pennon-pace-") as folder:
        first, second = f"{folder}/first.lance", f"{folder}/second.lance"
        pennon.write_dataset(pa.table({"id": pa.array([], pa.int64())}), first)
        writer = spark.readStream.format("pennon").load(first).writeStream.format("pennon")
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start(second)
        while not query.lastProgress:  # started
            time.sleep(0.1)
        call = [sys.executable, "-c", WRITER, first, str(arguments.commits), str(arguments.rate)]
        process = subprocess.Popen(call)
        behind: list[float] = []
        started = time.perf_counter()
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            missing = pennon.dataset(first).count_rows() - pennon.dataset(second).count_rows()
            behind.append(missing / 10)
        total = 10 * arguments.commits
        while pennon.dataset(second).count_rows() < total and query.exception() is None:
            time.sleep(0.05)
        seconds = time.perf_counter() - started
        query.stop()
        assert query.exception() is None, query.exception()
        rows = pennon.dataset(second).to_table()["id"].to_pylist()
        assert sorted(rows) == list(range(total))
        batches = pennon.dataset(second).version - 1
    counts = {
        "batches": batches,
        "commits behind, median": round(statistics.median(behind), 1),
        "commits behind, most": round(max(behind), 1),
    }
    claim = f"{arguments.commits:,} commits, {arguments.rate:g} a second, then until the stream has them all"
    found = result(claim, "local disk", {"pennon": [seconds]}, {"pennon": counts}, name="pace")
    print(line(found))
    save(arguments.results, record.of("stream_pace", "A stream", (), {}, 1) | {"cases": [found]})
    spark.stop()


if __name__ == "__main__":
    main()
