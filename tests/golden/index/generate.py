"""Writes the files of indices that only the reference makes: see `tests/golden/CATALOGUE.md`.

python tests/golden/index/generate.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
ROWS, DIMENSION = 150, 16


def vectors() -> pa.Array:
    """Element j of vector i is (37 i + 11 j + i j) modulo 101, divided by 8."""
    rows, elements = np.indices((ROWS, DIMENSION))
    values = ((37 * rows + 11 * elements + rows * elements) % 101 / 8).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), DIMENSION)


def main() -> None:
    for bits in (1, 4, 9):
        with tempfile.TemporaryDirectory() as folder:
            table = lance.write_dataset(pa.table({"v": vectors()}), f"{folder}/t")
            table.create_index("v", "IVF_RQ", metric="l2", num_partitions=2, num_bits=bits)
            target = HERE / f"rabit-{bits}"
            target.mkdir(exist_ok=True)
            for name in ("index.idx", "auxiliary.idx"):
                (file,) = Path(folder, "t", "_indices").rglob(name)
                shutil.copy(file, target / name)


if __name__ == "__main__":
    main()
