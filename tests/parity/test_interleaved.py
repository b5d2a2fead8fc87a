"""Both implementations writing one table in turn, and at the same time from several processes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree
from support.long import LONG
from support.seeds import SEED
from support.spread import spread

pytestmark = pytest.mark.slow

WRITER = str(Path(__file__).parents[1] / "support" / "writer.py")
NAMES = pa.list_(pa.string())


def ids(start: int, rows: int) -> pa.Table:
    numbers = pa.array(range(start, start + rows), pa.int64())
    names = pa.array([f"row {i}" for i in range(start, start + rows)])
    lists = pa.array([[name] * (i % 3) if i % 4 else None for i, name in enumerate(names.to_pylist())], NAMES)
    pairs = pa.StructArray.from_arrays([numbers, lists], names=["a", "b"])
    return pa.table({"id": numbers, "text": names, "pair": pairs})


@spread()
@pytest.mark.parametrize("first", [lance, pennon], ids=["reference-creates", "pennon-creates"])
def test_taking_turns(tmp_path: Path, first: object, stable: bool, file_version: str) -> None:
    """Appends, deletes, an overwrite and a restore by either side, checked against a plain list after each."""
    uri, rng = str(tmp_path / "t"), random.Random(SEED + 7)
    first.write_dataset(ids(0, 50), uri, enable_stable_row_ids=stable, data_storage_version=file_version)  # type: ignore[attr-defined]
    model, history, next_id = list(range(50)), {1: list(range(50))}, 50
    for step in range(24):
        module = (lance, pennon)[step % 2] if rng.random() < 0.8 else rng.choice([lance, pennon])
        dataset = module.dataset(uri)
        kind = rng.choice(["append", "append", "delete", "delete", "overwrite", "restore"])
        if kind == "append":
            module.write_dataset(ids(next_id, 20), uri, mode="append")
            model += range(next_id, next_id + 20)
            next_id += 20
        elif kind == "delete":
            divisor = rng.randint(3, 9)
            dataset.delete(f"id % {divisor} = 0")
            model = [i for i in model if i % divisor]
        elif kind == "overwrite":
            module.write_dataset(ids(next_id, 30), uri, mode="overwrite")
            model = list(range(next_id, next_id + 30))
            next_id += 30
        else:
            version = rng.choice(sorted(history))
            module.dataset(uri, version=version).restore()
            model = list(history[version])
        table = assert_both_agree(uri)
        assert table["id"].to_pylist() == model, f"step {step}: {kind} by {module.__name__}"
        history[lance.dataset(uri).version] = list(model)
    for version, expected in history.items():
        assert assert_both_agree(uri, version)["id"].to_pylist() == expected


def test_row_ids_are_never_given_twice(tmp_path: Path) -> None:
    """Over overwrite and restore, whoever writes."""
    uri = str(tmp_path / "t")
    pennon.write_dataset(ids(0, 10), uri)
    lance.write_dataset(ids(10, 10), uri, mode="append")
    pennon.write_dataset(ids(20, 10), uri, mode="overwrite")
    lance.write_dataset(ids(30, 10), uri, mode="append")
    pennon.dataset(uri, version=1).restore()
    pennon.write_dataset(ids(40, 10), uri, mode="append")
    table = assert_both_agree(uri)
    assert table["_rowid"].to_pylist() == list(range(10)) + list(range(40, 50))


def test_four_processes_at_once(tmp_path: Path) -> None:
    """Two Pennon and two reference processes append and delete `rounds` times each, on disjoint rows."""
    uri = str(tmp_path / "t")
    writers, rounds, rows = 4, 50 if LONG else 20, 4
    pennon.write_dataset(ids(0, writers * rounds).select(["id", "text"]), uri)
    processes = [
        subprocess.Popen(
            [sys.executable, WRITER, "mix", module, uri, str(number), str(rounds), str(rows)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, module in enumerate(["pennon", "lance", "pennon", "lance"])
    ]
    done = [json.loads(process.communicate(timeout=600)[0]) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert [(d["appends"], d["deletes"]) for d in done] == [(rounds, rounds)] * writers

    table = assert_both_agree(uri)
    appended = {1_000_000 * (w + 1) + i for w in range(writers) for i in range(rounds * rows)}
    assert sorted(table["id"].to_pylist()) == sorted(appended)
    assert len(set(table["_rowid"].to_pylist())) == table.num_rows
    newest = pennon.dataset(uri)
    assert newest.version == 1 + 2 * writers * rounds
    sample = table["_rowid"].to_pylist()[::17]
    assert newest._take_rows(sample)["id"].to_pylist() == table["id"].to_pylist()[::17]
