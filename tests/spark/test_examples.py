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
from support import torch_stand_in
from support.long import long

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


# PyTorch is several gigabytes, which the tests do not install.
WITH_TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize(
    "name",
    [
        "frames",
        "dask_jobs",
        pytest.param("jobs", marks=long),  # each of its shapes is tested below
        pytest.param("training", marks=WITH_TORCH),
    ],
)
def test_programs_print_what_the_documents_show(name: str) -> None:
    # As a program, whose functions Dask's processes get by value.
    call = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    assert done.stdout == shown(name)


def test_processes_of_the_training_share_the_tagged_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, found = str(tmp_path / "digits"), []
    table = pennon.write_dataset({"row": list(range(200))}, uri)
    table.tags.create("training", 1)
    table.insert({"row": [-1]})
    table.delete("row < 100")
    for rank in range(2):
        for name, module in torch_stand_in.modules(rank, 2).items():
            monkeypatch.setitem(sys.modules, name, module)
        batches, sampler = example("training").share(uri)
        epochs = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            epochs.append([batch.tolist() for batch in batches])
        assert epochs[0] == epochs[2] != epochs[1]
        found += [row for batch in epochs[1] for row in batch]
    assert sorted(found) == list(range(200))


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
