"""The examples: one program in all its shapes gives one result, and the documents show what the others print."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(name: str) -> str:
    """What the documents say that an example prints."""
    text = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    return text.partition(f"## `{name}.py`")[2].partition("```text\n")[2].partition("```")[0]


@pytest.mark.parametrize("name", ["flights", "embeddings", "in_step"])
def test_examples_print_what_the_documents_show(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    from pyspark import cloudpickle

    module = example(name)
    sys.modules[module.__name__] = module
    cloudpickle.register_pickle_by_value(module)  # executors cannot import the examples
    try:
        module.run(spark, str(tmp_path))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
        del sys.modules[module.__name__]
    assert capsys.readouterr().out == shown(name)


@pytest.mark.parametrize("name", ["frames", "dask_jobs"])
def test_programs_print_what_the_documents_show(name: str) -> None:
    # As a program, whose functions Dask's processes get by value.
    call = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    assert done.stdout == shown(name)


@pytest.mark.parametrize("shape", ["here", "processes", "spark", "dask"])
def test_one_job_in_every_shape(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    rows = pa.table({"id": list(range(400)), "price": [float(at) for at in range(400)]})
    table = pennon.write_dataset(rows, str(tmp_path / shape), max_rows_per_file=100)
    table.delete("id % 9 = 0")
    before = table.to_table(with_row_id=True).sort_by("_rowid")
    plan = jobs.plan_update(table, {"price": "price * 1.1"}, tasks=4)
    report = plan.commit(example("jobs").SHAPES[shape](plan))
    after = report.dataset.to_table(with_row_id=True).sort_by("_rowid")
    assert after["_rowid"] == before["_rowid"]
    assert after["price"].to_pylist() == [price * 1.1 for price in before["price"].to_pylist()]
    assert report.rows == 355
