"""Tables of `growth.py`: of many fragments, of many versions, and of many moved rows. Pennon makes them all."""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pennon
import pyarrow as pa

ROWS_PER_FRAGMENT = 4
# The row of the newest version: no other one has its id.
LAST_ID = 1_000_000
UPDATES = 66
# Ext4 allows 65,000 names of a file.
LINKS = 50_000


def rows(ids: np.ndarray) -> pa.Table:
    return pa.table({"id": pa.array(ids.astype(np.int64)), "value": pa.array(np.zeros(len(ids)))})


def many_fragments(uri: str, fragments: int) -> None:
    """Two versions: one with fragments of four rows each, and one with a row more.

    Each fragment has a data file of its own name. The files have the same contents, most are links, and so a table
    of a million fragments is made in half a minute.
    """
    (first,) = pennon.fragment.write_fragments(rows(np.arange(ROWS_PER_FRAGMENT)), uri, enable_stable_row_ids=True)
    (file,) = first.files
    data = Path(uri, "data")
    contents = (data / file.path).read_bytes()
    parts = []
    for number in range(fragments):
        name = f"{number:024b}{number:026x}.lance"
        if number % LINKS == 0:
            source = data / name
            source.write_bytes(contents)
        else:
            os.link(source, data / name)
        part = copy.copy(first)
        part.files = [dataclasses.replace(file, path=name)]
        parts.append(part)
    operation = pennon.LanceOperation.Overwrite(rows(np.arange(1)).schema, parts)
    pennon.LanceDataset.commit(uri, operation, enable_stable_row_ids=True)
    table = pennon.write_dataset(rows(np.array([LAST_ID])), uri, mode="append", durability="os")
    assert (table.version, table.count_rows()) == (2, fragments * ROWS_PER_FRAGMENT + 1)


def many_versions(uri: str, versions: int) -> None:
    """One fragment of four rows; each version after the first changes a setting."""
    table = pennon.write_dataset(
        rows(np.arange(ROWS_PER_FRAGMENT)), uri, enable_stable_row_ids=True, durability="os"
    )
    for number in range(versions - 1):
        table.update_config({"benchmark": str(number)})
    assert table.version == versions


def many_moved_rows(uri: str, count: int) -> None:
    """Ten fragments, whose rows 66 updates moved, 45 % of them; each update is of rows that are everywhere."""
    each = max(1, count // 10)
    for start in range(0, count, each):
        ids = np.arange(start, min(count, start + each))
        pennon.write_dataset(rows(ids), uri, mode="append", enable_stable_row_ids=True, durability="os")
    table = pennon.dataset(uri)
    step = UPDATES * 100 // 45
    for number in range(UPDATES):
        table.update({"value": "value + 1.0"}, where=f"id % {step} = {number}")
    assert table.version == 10 + UPDATES


def linked(uri: str, target: Path) -> str:
    """A copy that changes independently of the table, of which it shares the data files."""
    target.mkdir()
    (target / "data").symlink_to(Path(uri, "data"))
    for name in ("_versions", "_transactions"):
        (target / name).mkdir()
        for file in os.scandir(Path(uri, name)):
            hint = file.name.endswith(".json")  # is overwritten
            (shutil.copy if hint else os.link)(file.path, target / name / file.name)
    return str(target)
