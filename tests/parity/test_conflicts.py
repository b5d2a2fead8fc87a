"""Every ordered pair of operations that Python can express: the second one meets what it meets in the reference.

Both are made for the first version. One table per implementation, equal except who commits, and equal afterwards:
rows, order, ids and versions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_same, contents
from support.long import LONG

pytestmark = pytest.mark.slow

MODULES = {"pennon": pennon, "reference": lance}
OPTIONS = {"pennon": {"durability": "os"}, "reference": {}}


def rows(start: int, count: int) -> pa.Table:
    numbers = pa.array(range(start, start + count), pa.int64())
    return pa.table({"id": numbers, "text": [f"t{i}" for i in range(start, start + count)]})


class Maker:
    """Makes operations on the first version of a table, in one implementation's classes."""

    def __init__(self, module: Any, uri: str) -> None:
        self.module, self.uri = module, uri
        self.operation = module.LanceOperation

    @property
    def table(self) -> Any:
        return self.module.dataset(self.uri, version=1)

    def fragment(self, number: int, **change: object) -> Any:
        metadata = self.table.get_fragment(number).metadata
        parts = {**metadata.to_json(), **change}
        return self.module.fragment.FragmentMetadata.from_json(json.dumps(parts))

    def written(self, data: pa.Table) -> list[Any]:
        written = self.module.fragment.write_fragments(data, self.uri)
        return list(written)

    def append(self) -> Any:
        return self.operation.Append(self.written(rows(100, 2)))

    def delete(self, fragment: int, row: int) -> Any:
        updated = self.table.get_fragment(fragment).delete(f"id = {row}")
        return self.operation.Delete([updated], [], f"id = {row}")

    def drop_fragment(self, fragment: int) -> Any:
        return self.operation.Delete([], [fragment], "true")

    def overwrite(self) -> Any:
        data = rows(200, 3)
        return self.operation.Overwrite(data.schema, self.written(data))

    def restore(self) -> Any:
        return self.operation.Restore(1)

    def rewrite(self, fragment: int) -> Any:
        old = self.fragment(fragment)
        (new,) = self.written(rows(fragment * 10, 10))
        new = {**new.to_json(), "id": 0, "row_id_meta": old.to_json()["row_id_meta"]}
        new = self.module.fragment.FragmentMetadata.from_json(json.dumps(new))
        group = self.operation.RewriteGroup([old], [new])
        return self.operation.Rewrite([group], [])

    def merge(self, preserves_nullability: bool) -> Any:
        fragments = [part.metadata for part in self.table.get_fragments()]
        return self.operation.Merge(fragments, self.table.lance_schema, preserves_nullability)

    def project(self, preserves_nullability: bool) -> Any:
        return self.operation.Project(self.table.lance_schema, preserves_nullability)

    def update(self, fragment: int, row: int) -> Any:
        updated = self.table.get_fragment(fragment).delete(f"id = {row}")
        return self.operation.Update([], [updated], self.written(rows(row, 1)), [], [], "rewrite_rows")

    def config(self, key: str) -> Any:
        return self.operation.UpdateConfig(config_updates=self.operation.UpdateMap({key: "1"}))

    def schema_metadata(self) -> Any:
        return self.operation.UpdateConfig(schema_metadata_updates=self.operation.UpdateMap({"k": "v"}))

    def field_metadata(self) -> Any:
        return self.operation.UpdateConfig(field_metadata_updates={0: self.operation.UpdateMap({"k": "v"})})

    def replace(self, fragment: int) -> Any:
        file = self.fragment(fragment).files[0]
        (written,) = self.written(rows(fragment * 10 + 500, 10))
        new = written.files[0]
        new = type(file)(new.path, file.fields, file.column_indices, 2, 2, new.file_size_bytes)
        group = self.operation.DataReplacementGroup(fragment, new)
        return self.operation.DataReplacement([group])


OPERATIONS: dict[str, Callable[[Maker], Any]] = {
    "append": Maker.append,
    "delete row 1 of 0": lambda maker: maker.delete(0, 1),
    "delete row 2 of 0": lambda maker: maker.delete(0, 2),
    "delete row of 1": lambda maker: maker.delete(1, 15),
    "delete fragment 0": lambda maker: maker.drop_fragment(0),
    "overwrite": Maker.overwrite,
    "restore": Maker.restore,
    "rewrite 0": lambda maker: maker.rewrite(0),
    "rewrite 1": lambda maker: maker.rewrite(1),
    "merge": lambda maker: maker.merge(False),
    "merge, nulls stay": lambda maker: maker.merge(True),
    "project": lambda maker: maker.project(False),
    "project, nulls stay": lambda maker: maker.project(True),
    "update row 1 of 0": lambda maker: maker.update(0, 1),
    "update row of 1": lambda maker: maker.update(1, 15),
    "config a": lambda maker: maker.config("a"),
    "config b": lambda maker: maker.config("b"),
    "schema metadata": Maker.schema_metadata,
    "field metadata": Maker.field_metadata,
    "replace 0": lambda maker: maker.replace(0),
    "replace 1": lambda maker: maker.replace(1),
}


# A schema of before would take back the metadata of a field; with the reference it does.
SAFER = {(mine, "field metadata") for mine in ("project", "project, nulls stay")}
# A rewrite takes the deletions of others along; the reference throws it away.
IMPROVED = {
    ("rewrite 0", "delete row 1 of 0"),
    ("rewrite 0", "delete row 2 of 0"),
    ("rewrite 0", "delete fragment 0"),
    ("rewrite 0", "update row 1 of 0"),
    ("rewrite 1", "delete row of 1"),
    ("rewrite 1", "update row of 1"),
}


def outcome(side: str, uri: str, theirs: str, mine: str) -> tuple[str, pa.Table]:
    """What the second commit meets, and the rows; both operations are made before the first one is committed."""
    module = MODULES[side]
    maker = Maker(module, uri)
    operations = [OPERATIONS[name](maker) for name in (theirs, mine)]
    module.LanceDataset.commit(uri, operations[0], read_version=1, **OPTIONS[side])
    try:
        module.LanceDataset.commit(uri, operations[1], read_version=1, **OPTIONS[side])
    except Exception as error:  # what kind it is is what is compared
        text = str(error).lower()
        if "conflict" not in text and "preempted" not in text and "concurrent" not in text:
            found = f"error: {str(error)[:90]}"
        else:
            found = "retryable" if "retryable" in text else "incompatible"
    else:
        found = "committed"
    return found, contents(module.dataset(uri))


@pytest.mark.parametrize("stable", [True, False], ids=["ids", "addresses"])
@pytest.mark.parametrize("theirs", OPERATIONS)
def test_every_pair(tmp_path: Path, theirs: str, stable: bool) -> None:
    """Without `PENNON_LONG_TESTS=1` each pair is tried with ids or with addresses, as neighbours are not."""
    template = tmp_path / "template"
    lance.write_dataset(rows(0, 20), template, max_rows_per_file=10, enable_stable_row_ids=stable)
    differing, first = [], list(OPERATIONS).index(theirs)
    for number, mine in enumerate(OPERATIONS):
        if not LONG and (first + number) % 2 == stable:
            continue
        found, tables = {}, {}
        for side in MODULES:
            uri = tmp_path / "table"
            shutil.copytree(template, uri)
            found[side], tables[side] = outcome(side, str(uri), theirs, mine)
            shutil.rmtree(uri)
        if (mine, theirs) in SAFER:
            assert found == {"pennon": "retryable", "reference": "committed"}, (mine, theirs)
            continue
        if (mine, theirs) in IMPROVED:
            assert found == {"pennon": "committed", "reference": "retryable"}, (mine, theirs)
            # The same rows, which the rewrite has moved.
            moved = ["_rowaddr"] if stable else ["_rowaddr", "_rowid"]
            tables = {side: table.drop_columns(moved).sort_by("id") for side, table in tables.items()}
        elif found["pennon"] != found["reference"]:
            differing.append(f"{mine} after {theirs}: {found['pennon']}, the reference {found['reference']}")
        try:
            assert_same(tables["pennon"], tables["reference"])
        except AssertionError as error:
            differing.append(f"{mine} after {theirs}: {error}")
    assert not differing, "\n".join(differing)
