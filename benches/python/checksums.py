"""What checksums cost: scans and takes that look at those of all blocks, of the metadata, and at none.

All read the same files, in a random order, each through a session of its own, and so does pylance, which passes
over the checksums; the results are compared first. `metadata` is the default.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
from records import Record, check_whole, line, result, save

POLICIES = {"pennon": "metadata", "off": "off", "pages": "pages"}


def rows(count: int) -> Any:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    words = pa.array([f"word {n}" for n in rng.integers(0, 1 << 20, count)])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * 16, dtype=np.float32)), 16)
    return pa.table({"key": rng.permutation(count), "value": rng.random(count), "word": words, "vector": vectors})


def sampled(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The times of calls in a random order, after their results were compared."""
    results = [call() for call in calls.values()]
    assert all(result == results[0] for result in results[1:])
    times: dict[str, list[float]] = {name: [] for name in calls}
    names, rng = list(calls), random.Random(2)
    for _ in range(rounds):
        # What ran before decides what is in the caches of the processor.
        rng.shuffle(names)
        for name in names:
            start = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--results", type=Path, help="a folder for a file with all samples")
    options = parser.parse_args()
    check_whole(parser, options)
    record, results = Record(), []
    with tempfile.TemporaryDirectory() as directory:
        uri = str(Path(directory) / "table")
        table = rows(options.rows)
        pennon.write_dataset(table, uri)
        opened = {
            side: pennon.dataset(uri, storage_options={"verify_reads": policy}, session=pennon.Session())
            for side, policy in POLICIES.items()
        }
        opened["pylance"] = lance.dataset(uri, session=lance.Session())
        for dataset in opened.values():
            assert dataset.to_table() == table
        rng = random.Random(1)
        few = sorted(rng.sample(range(options.rows), 1_000))
        cases: dict[str, Callable[[Any], Any]] = {
            "scan of all columns": lambda dataset: sum(batch.num_rows for batch in dataset.to_batches()),
            "scan of a column of int64": lambda dataset: sum(
                batch.num_rows for batch in dataset.to_batches(columns=["key"])
            ),
            "scan of a column of vectors": lambda dataset: sum(
                batch.num_rows for batch in dataset.to_batches(columns=["vector"])
            ),
            "take of 1,000 rows": lambda dataset: dataset.take(few),
            "take of one row": lambda dataset: dataset.take(few[:1]),
        }
        for name, call in cases.items():
            repeated = 200 if name == "take of one row" else 1

            def repeat(dataset: Any, call: Callable[[Any], Any] = call, repeated: int = repeated) -> Any:
                return [call(dataset) for _ in range(repeated)][-1]

            calls = {side: (lambda dataset=dataset: repeat(dataset)) for side, dataset in opened.items()}
            found = sampled(calls, options.rounds)
            seconds = {side: [taken / repeated for taken in times] for side, times in found.items()}
            results.append(result(name, "local disk, warm", seconds, repeat=repeated))
            print(line(results[-1]), flush=True)
    found = record.of("checksums", "Checksums", ("off", "pages", "pylance"), {"rows": options.rows}, options.rounds)
    save(options.results, found | {"cases": results})


if __name__ == "__main__":
    main()
