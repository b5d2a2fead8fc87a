"""One job in five shapes: here, in processes, in Spark, with Ray and with Dask.

    python examples/jobs.py
    python examples/jobs.py TABLE here|processes|spark|ray|dask

sets `price` to `price * 1.1` in all rows of a table that has such a column; without a table it makes one, and runs
the job here and in processes. A job is planned where the program runs; its tasks are small, go anywhere as pickles
or JSON, and their results come back the same way; one commit publishes them. Spark, Ray and Dask are not needed
unless they are asked for.
"""

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pennon
from pennon import jobs


def here(plan: jobs.JobPlan) -> list[jobs.TaskResult]:
    return [task.run() for task in plan.tasks]


def in_processes(plan: jobs.JobPlan) -> list[jobs.TaskResult]:
    with ProcessPoolExecutor() as executor:
        return list(executor.map(jobs.Task.run, plan.tasks))


def run_batches(batches: Iterator) -> Iterator:
    import pyarrow as pa

    for batch in batches:
        results = [jobs.Task.from_json(text).run().json() for text in batch["json"].to_pylist()]
        yield pa.RecordBatch.from_pydict({"json": results})


def in_spark(plan: jobs.JobPlan) -> list[jobs.TaskResult]:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    tasks = spark.createDataFrame([(task.json(),) for task in plan.tasks], "json string")
    rows = tasks.repartition(max(1, len(plan.tasks))).mapInArrow(run_batches, "json string").collect()
    return [jobs.TaskResult.from_json(row.json) for row in rows]


def in_ray(plan: jobs.JobPlan) -> list[jobs.TaskResult]:
    import ray

    run = ray.remote(jobs.Task.run)
    return ray.get([run.remote(task) for task in plan.tasks])


def in_dask(plan: jobs.JobPlan) -> list[jobs.TaskResult]:
    from dask.distributed import Client

    with Client() as client:
        return client.gather([client.submit(jobs.Task.run, task, pure=False) for task in plan.tasks])


SHAPES = {"here": here, "processes": in_processes, "spark": in_spark, "ray": in_ray, "dask": in_dask}


def raise_prices(uri: str, shape: str) -> None:
    plan = jobs.plan_update(uri, {"price": "price * 1.1"}, tasks=4)
    report = plan.commit(SHAPES[shape](plan))
    print(f"{shape}: {report.rows:,} rows, version {report.dataset.version}")


def on_a_table_of_its_own() -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = f"{folder}/prices.lance"
        before = pennon.write_dataset(
            {"price": [number / 2 for number in range(1, 1001)]}, uri, max_rows_per_file=100
        )
        for shape in ("here", "processes"):
            raise_prices(uri, shape)
        after = pennon.dataset(uri).to_table()["price"].to_pylist()
        times = sum(after) / sum(before.to_table()["price"].to_pylist())
        print(f"{len(after):,} rows cost {times:.2f} times as much")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        on_a_table_of_its_own()
    else:
        uri, shape = sys.argv[1:]
        raise_prices(uri, shape)
