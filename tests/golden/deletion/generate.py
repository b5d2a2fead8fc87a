"""Makes the golden deletion files with the reference (pylance 14.0.2). Run in an empty folder."""

import glob
import shutil
from pathlib import Path

import lance
import pyarrow as pa

HERE = Path(__file__).parent
ROWS = pa.table({"i": range(12_000)})

for name, predicate in [
    ("every_third.arrow", "i % 3 = 0 and i < 900"),
    ("every_second.bin", "i % 2 = 0"),
]:
    table = f"{name}.lance"
    lance.write_dataset(ROWS, table).delete(predicate)
    [written] = glob.glob(f"{table}/_deletions/*")
    shutil.copy(written, HERE / name)
