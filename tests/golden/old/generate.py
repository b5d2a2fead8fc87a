"""Writes `lance-*`, tables of old releases: `pip install pylance==0.7.5` or `4.0.0`, then `python generate.py`.

The tables of the installed release are written; with the argument `merged` only the one whose name ends like this.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import lance
import pyarrow as pa

FOLDER = Path(__file__).parent


def rows() -> None:
    target = FOLDER / "lance-0.7.5"
    shutil.rmtree(target, ignore_errors=True)
    data = pa.table({"id": pa.array(range(10), pa.int64()), "s": [f"s{i}" for i in range(10)]})
    lance.write_dataset(data, str(target), max_rows_per_file=6)
    lance.dataset(str(target)).delete("id = 3")
    assert lance.dataset(str(target)).count_rows() == 9


def merged() -> None:
    """Columns of a second file, whose smallest field id is not 0."""
    target = FOLDER / "lance-0.7.5-merged"
    shutil.rmtree(target, ignore_errors=True)
    numbers = [1, 2, 3, 4, 5]
    lance.write_dataset(pa.table({"k": numbers, "s": list("abcde")}), str(target), max_rows_per_group=2)
    more = {"k": numbers, "v": [f"v{i}" for i in numbers], "w": [i + 0.5 for i in numbers]}
    # This release reads the page table of all fields from the first file, which is shorter.
    lance.dataset(str(target)).merge(pa.table(more), "k")


def graphs() -> None:
    """Element j of vector i is (37 i + 11 j + i j) modulo 101; levels of graphs do not count their entry points."""
    target = FOLDER / "lance-4.0.0-graphs"
    shutil.rmtree(target, ignore_errors=True)
    values = [float((37 * i + 11 * j + i * j) % 101) for i in range(90) for j in range(4)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), 4)
    table = lance.write_dataset(pa.table({"id": range(90), "v": vectors}), str(target))
    table.create_index("v", "IVF_HNSW_SQ", metric="l2", num_partitions=2)


if lance.__version__ == "4.0.0":
    graphs()
else:
    assert lance.__version__ == "0.7.5"
    if sys.argv[1:] != ["merged"]:
        rows()
    merged()
