"""A merge of 5 million rows into 20 million by four processes, one of which is killed in the middle.

Without `PENNON_LONG_TESTS=1` of a hundredth, by two processes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.jobs import Task, TaskResult
from support.long import LONG

ROWS, SOURCE, TASKS = (20_000_000, 5_000_000, 4) if LONG else (200_000, 50_000, 2)
PIECE = 1_000_000
GIGABYTE = 1 << 30


def piece(start: int, stop: int, value: int) -> pa.Table:
    import pyarrow.compute as pc

    ids = pa.array(range(start, stop), pa.int64())
    return pa.table({"id": ids, "n": pa.array([value] * len(ids), pa.int64()), "text": pc.cast(ids, pa.string())})


def pieces(start: int, stop: int, value: int) -> pa.RecordBatchReader:
    """Rows in pieces, so that nobody holds all of them."""
    schema = piece(0, 1, 0).schema
    parts = (piece(at, min(at + PIECE, stop), value) for at in range(start, stop, PIECE))
    return pa.RecordBatchReader.from_batches(schema, (batch for part in parts for batch in part.to_batches()))


def source() -> pa.RecordBatchReader:
    """One half is in the table."""
    return pieces(ROWS - SOURCE // 2, ROWS + SOURCE // 2, 1)


def run(task: Task) -> tuple[int, int, TaskResult]:
    """The process, the most memory it had that was its own, and what it did."""
    result = task.run(source=source)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    return os.getpid(), peak, result


def executor() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(TASKS, mp_context=multiprocessing.get_context("spawn"))


def test_a_worker_is_killed_in_the_middle(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    table = pennon.write_dataset(pieces(0, ROWS, 0), uri, max_rows_per_file=ROWS // 20)
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    plan = jobs.plan_merge(merge.memory_limit(256 << 20), source().schema, tasks=TASKS)

    killed = []
    with executor() as workers:
        pending = [workers.submit(run, task) for task in plan.tasks]

        def kill() -> None:
            # As soon as somebody has written a file that nobody refers to yet.
            files = len(os.listdir(f"{uri}/data"))
            until = time.monotonic() + 120
            while len(os.listdir(f"{uri}/data")) == files and time.monotonic() < until:
                time.sleep(0.002)
            killed.append(next(iter(workers._processes)))
            os.kill(killed[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        outcomes = [future.exception() for future in pending]
        killer.join()
    assert killed
    assert any(isinstance(outcome, BrokenProcessPool) for outcome in outcomes)
    assert pennon.dataset(uri).version == table.version

    with executor() as workers:
        done = list(workers.map(run, plan.tasks))
    report = plan.commit(result for _, _, result in done)
    half = SOURCE // 2
    assert report.counts == {"num_inserted_rows": half, "num_updated_rows": half, "num_deleted_rows": 0}
    assert report.dataset.version == table.version + 1
    if LONG:
        assert max(peak for _, peak, _ in done) < GIGABYTE
    found = report.dataset
    assert found.count_rows() == ROWS + half
    assert found.count_rows("n = 1") == SOURCE
    assert found.count_rows(f"n = 1 AND id >= {ROWS - half}") == SOURCE
    ids = found.to_table(columns=["id"], with_row_id=True, filter=f"id >= {ROWS - half - 1000} AND id < {ROWS}")
    assert ids.num_rows == half + 1000
    assert ids["id"] == ids["_rowid"].cast(pa.int64())
    # The same results once more, and those of twins, make no other version.
    again = plan.commit(result for _, _, result in done)
    assert again.dataset.version == report.dataset.version
    with pytest.raises(pennon.InvalidInputError, match="is committed already"):
        plan.renew(result for _, _, result in done)
