"""Writes `lance-0.7.5`, a whole table of that release: `pip install pylance==0.7.5`, then `python generate.py`."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa

assert lance.__version__ == "0.7.5"
target = Path(__file__).parent / "lance-0.7.5"
shutil.rmtree(target, ignore_errors=True)
data = pa.table({"id": pa.array(range(10), pa.int64()), "s": [f"s{i}" for i in range(10)]})
lance.write_dataset(data, str(target), max_rows_per_file=6)
lance.dataset(str(target)).delete("id = 3")
assert lance.dataset(str(target)).count_rows() == 9
