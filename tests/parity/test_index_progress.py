"""How far an index is that is being made: by the stages of the reference, and what hears of it can end it."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon.progress import IndexProgress
from support.vectors import KINDS, PARTITIONS, ROWS, column, table_of, vectors, written

STAGES = ["train_ivf", "train_quantizer", "shuffle", "merge_partitions"]


def stages_of(events: list[IndexProgress]) -> list[str]:
    """The stages in their order. Each begins, goes on and is complete."""
    found = []
    for stage, group in itertools.groupby(events, lambda event: event.stage):
        of_stage = list(group)
        assert [event.event for event in of_stage] == [
            "start",
            *["progress"] * (len(of_stage) - 2),
            "complete",
        ], stage
        done = [event.completed for event in of_stage]
        assert done == sorted(done)
        assert done[-1] == done[-2]
        assert all(event.total is None or event.completed <= event.total for event in of_stage)
        found.append(stage)
    return found


def build(table: Any, kind: str, callback: Callable[[IndexProgress], object], **more: Any) -> None:
    options = {**KINDS[kind], "num_partitions": PARTITIONS, **more}
    table.create_index("vec", kind, progress_callback=callback, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_stages_of_vectors(uri: str, kind: str) -> None:
    written(uri, vectors(), stable=True)
    ours: list[IndexProgress] = []
    theirs: list[Any] = []
    build(pennon.dataset(uri), kind, ours.append)
    build(lance.dataset(uri), kind, theirs.append, replace=True)
    found = stages_of(ours)
    assert found == [stage for stage in STAGES if stage != "train_quantizer" or "PQ" in kind]
    assert set(found) <= {event.stage for event in theirs}
    ends = {event.stage: event for event in ours if event.event == "complete"}
    of_reference = {event.stage: event for event in theirs if event.event == "complete"}
    for stage in ("train_ivf", "shuffle", "merge_partitions"):
        assert ends[stage].unit == of_reference[stage].unit
    # Of partitions the reference leaves out those without rows.
    assert (ends["shuffle"].completed, ends["shuffle"].total) == (
        of_reference["shuffle"].completed,
        of_reference["shuffle"].total,
    )
    assert (ends["train_ivf"].total, ends["train_ivf"].unit) == (50, "iterations")
    assert ends["train_ivf"].completed >= 2
    assert ends["shuffle"].completed == ROWS
    assert ends["merge_partitions"].completed == PARTITIONS


def raising_at(stage: str) -> Callable[[IndexProgress], None]:
    def tell(progress: IndexProgress) -> None:
        if progress.stage == stage and progress.event == "progress":
            raise ZeroDivisionError(stage)

    return tell


def files(uri: str) -> list[Path]:
    return [path for path in Path(uri, "_indices").rglob("*") if path.is_file()]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_PQ"])
def test_what_is_raised_ends_the_build_of_vectors(uri: str, kind: str, stage: str) -> None:
    written(uri, vectors(), stable=False)
    table = pennon.dataset(uri)
    with pytest.raises(ZeroDivisionError, match=stage):
        build(table, kind, raising_at(stage))
    with pytest.raises(ZeroDivisionError, match=stage):
        table.create_index_uncommitted(
            "vec",
            kind,
            fragment_ids=[0, 1, 2],
            num_partitions=PARTITIONS,
            progress_callback=raising_at(stage),
            **KINDS[kind],
        )
    assert (table.version, pennon.dataset(uri).version) == (1, 1)
    assert files(uri) == []


def test_segments_and_rows_that_are_taken_in(uri: str) -> None:
    written(uri, vectors(), stable=False)
    table = pennon.dataset(uri)
    parts: list[IndexProgress] = []
    table.create_index_uncommitted(
        "vec", "IVF_FLAT", fragment_ids=[0], num_partitions=2, progress_callback=parts.append
    )
    assert stages_of(parts) == ["train_ivf", "shuffle", "merge_partitions"]
    assert parts[-3].completed <= 2
    of_values: list[IndexProgress] = []
    table.create_index_uncommitted("id", "BTREE", fragment_ids=[0, 1], progress_callback=of_values.append)
    assert stages_of(of_values) == ["load_data"]
    assert of_values[-1].completed == 1400
    table.create_index("vec", "IVF_FLAT", num_partitions=PARTITIONS)
    table.create_scalar_index("id", "BTREE")
    table.create_scalar_index("s", "ZONEMAP")
    pennon.write_dataset(table_of(vectors(200, seed=3), ROWS), uri, mode="append")
    table = pennon.dataset(uri)
    for stage in ("load_data", "shuffle", "merge_partitions"):
        before = (table.version, len(files(uri)))
        with pytest.raises(ZeroDivisionError):
            table.optimize.optimize_indices(progress_callback=raising_at(stage))
        assert (pennon.dataset(uri).version, len(files(uri))) == before
    taken: list[IndexProgress] = []
    table.optimize.optimize_indices(progress_callback=taken.append)
    stages = stages_of(taken)
    assert set(stages) == {"load_data", "shuffle", "merge_partitions"}
    assert [event.completed for event in taken if event.stage == "shuffle"][-1] == 200
    assert table.stats.index_stats("vec_idx")["num_unindexed_rows"] == 0


@pytest.mark.parametrize("call", ["create_index", "create_index_uncommitted", "optimize_indices"])
def test_what_is_no_function_is_refused(uri: str, call: str) -> None:
    written(uri, vectors(100), stable=True)
    table = pennon.dataset(uri)
    calls: dict[str, Callable[[], object]] = {
        "create_index": lambda: table.create_index("vec", "IVF_FLAT", progress_callback=7),
        "create_index_uncommitted": lambda: table.create_index_uncommitted(
            "vec", "IVF_FLAT", fragment_ids=[0], progress_callback=7
        ),
        "optimize_indices": lambda: table.optimize.optimize_indices(progress_callback=7),
    }
    with pytest.raises(pennon.errors.InvalidTypeError, match="progress_callback is a int"):
        calls[call]()


def test_a_build_is_interrupted(uri: str) -> None:
    """Ctrl-C in the training; it does not go on behind the caller's back."""
    values = np.random.default_rng(0).normal(size=(100_000, 128)).astype("f4")
    pennon.write_dataset(pa.table({"vec": column(values)}), uri)
    script = textwrap.dedent(
        """
        import signal, sys, time, pennon

        # Who starts this may ignore the signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def tell(progress):
            if (progress.stage, progress.completed) == ("train_ivf", 1):
                print("training", flush=True)

        table = pennon.dataset(sys.argv[1])
        try:
            table.create_index(
                "vec", "IVF_FLAT", num_partitions=2000, sample_rate=50, max_iters=100, progress_callback=tell
            )
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        # At most a pass later nothing computes any more.
        deadline, idle = time.monotonic() + 60, 0
        while idle < 4 and time.monotonic() < deadline:
            before = time.process_time()
            time.sleep(0.3)
            idle = idle + 1 if time.process_time() - before < 0.1 else 0
        print("idle" if idle == 4 else "computes", flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script, uri], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "training\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == "interrupted\nidle\n"
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert pennon.dataset(uri).version == 1
    assert files(uri) == []
