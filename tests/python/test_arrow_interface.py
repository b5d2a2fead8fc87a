"""Whatever has rows or a schema is read by everything that speaks Arrow; and what `pyarrow.dataset` leads one to
expect of a dataset, scanner or fragment is there, or is left as it is on purpose."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pennon
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
from pennon import jobs
from pennon.file import LanceFileReader, LanceFileWriter
from pennon.types import ArrowArray, ArrowSchema, ArrowStream

from .conftest import numbers


def sources(table: pennon.LanceDataset, tmp_path: Path) -> dict[str, tuple[Any, pa.Table]]:
    """One of each kind of object that has rows, and its rows."""
    rows = numbers(10)
    path = str(tmp_path / "file.lance")
    with LanceFileWriter(path) as writer:
        writer.write_batch(rows)
    (task,) = jobs.plan_scan(table, columns=["id"], filter="id > 6", tasks=1).tasks
    return {
        "dataset": (table, rows),
        "scanner": (table.scanner(columns=["id"], filter="id < 5"), rows.slice(0, 5).select(["id"])),
        "expression": (table.scanner(filter=pa.compute.field("id") < 5), rows.slice(0, 5)),
        "builder": (pennon.ScannerBuilder(table).limit(3).to_scanner(), rows.slice(0, 3)),
        "fragment": (table.get_fragments()[1], rows.slice(4, 4)),
        "changes": (table.changes(0, columns=["id", "text"]), None),
        "delta": (table.delta(begin_version=0, end_version=1).get_inserted_rows(), None),
        "task": (task, rows.slice(7).select(["id"])),
        "file": (LanceFileReader(path).read_all(), rows),
        "empty": (table.scanner(filter="id > 99"), rows.slice(0, 0)),
    }


KINDS = ["dataset", "scanner", "expression", "builder", "fragment", "changes", "delta", "task", "file", "empty"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows(table: pennon.LanceDataset, tmp_path: Path, kind: str) -> None:
    def read(by: Any) -> pa.Table:
        found, expected = sources(table, tmp_path)[kind]
        assert isinstance(found, ArrowStream)
        result = by(found)
        if expected is None:
            return result.select(["id", "text"])
        assert result == expected
        return result

    rows = read(lambda source: pa.table(source))
    assert (rows.num_rows == 0) == (kind == "empty")
    assert read(lambda source: pa.RecordBatchReader.from_stream(source).read_all()) == rows
    found = polars.DataFrame(sources(table, tmp_path)[kind][0]).select(rows.column_names)
    assert found.to_dicts() == rows.to_pylist()
    if kind not in ("changes", "delta"):  # they have ids, which a table has by itself
        written = pennon.write_dataset(sources(table, tmp_path)[kind][0], "memory://interface", mode="overwrite")
        assert written.to_table() == rows


@pytest.mark.parametrize("kind", ["dataset", "scanner", "fragment"])
def test_duckdb_reads_by_name(table: pennon.LanceDataset, tmp_path: Path, kind: str) -> None:
    source, expected = sources(table, tmp_path)[kind]
    with duckdb.connect() as connection:
        connection.register("source", pa.RecordBatchReader.from_stream(source))
        assert connection.execute("SELECT sum(id) FROM source").fetchone() == (sum(expected["id"].to_pylist()),)
    if kind != "fragment":
        found = duckdb.sql("SELECT count(*) FROM source WHERE id > 2").fetchall()
        assert found == [(sum(number > 2 for number in expected["id"].to_pylist()),)]


def test_columns_may_be_asked_for_in_another_type(table: pennon.LanceDataset) -> None:
    wanted = pa.schema([("id", pa.int64()), ("text", pa.large_string())])
    for source in (table, table.scanner(), table.get_fragments()[0]):
        reader = pa.RecordBatchReader.from_stream(source, schema=wanted)
        assert reader.schema == wanted
        assert reader.read_all()["text"][1].as_py() == "row 1"
        with pytest.raises(ValueError, match="field names are not matching"):
            pa.RecordBatchReader.from_stream(source, schema=pa.schema([("id", pa.list_(pa.int8()))]))


def test_schemas(table: pennon.LanceDataset, tmp_path: Path) -> None:
    plain = numbers(0).schema
    for source, expected in (
        (table, plain),
        (table.scanner(columns={"double": "id * 2"}), pa.schema([("double", pa.int64())])),
        (table.scanner(filter=pa.compute.field("id") < 5, columns=["text"]), pa.schema([("text", pa.utf8())])),
        (table.get_fragments()[0], plain),
        (table.lance_schema, plain),
        (sources(table, tmp_path)["file"][0], plain),
        (pennon.dataset(table.uri, default_scan_options={"with_row_id": True}), None),
    ):
        assert isinstance(source, ArrowSchema)
        found = pa.schema(source)
        assert found == (source.schema if expected is None else expected)
    assert pa.field(table.lance_schema.field("text")) == pa.field("text", pa.utf8())
    assert isinstance(table.lance_schema.field("text"), ArrowSchema)
    assert not isinstance(table.lance_schema, ArrowStream)
    assert isinstance(pa.record_batch({"a": [1]}), ArrowArray)


def test_objects_that_only_look_like_arrow(table: pennon.LanceDataset) -> None:
    class Looks:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return object()

    class Raises:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            raise ZeroDivisionError("no rows today")

    with pytest.raises((TypeError, ValueError)):
        table.insert(Looks())
    with pytest.raises(ZeroDivisionError, match="no rows today"):
        table.insert(Raises())
    (task,) = jobs.plan_delete(table, "true", tasks=1).tasks
    with pytest.raises(pennon.InvalidInputError):
        pa.table(task)
    assert table.version == 1


# What `pyarrow.dataset` defines and Pennon does not define again, with the reason.
OF_CYTHON = {
    "__new__": "objects are made empty: no method that looks into them is inherited",
    "__pyx_vtable__": "Cython's own",
    "__setstate__": "refuses; datasets and fragments pickle by __reduce__",
}
INHERITED: dict[str, dict[str, str]] = {
    "Dataset": {
        **OF_CYTHON,
        "_scan_options": "None, and nothing reads it",
        "_scanner_options": "called by methods that are overridden",
    },
    "Scanner": {**OF_CYTHON, "__reduce__": "refuses: a scanner is not pickled"},
    "Fragment": OF_CYTHON,
}
CLASSES = {"Dataset": pennon.LanceDataset, "Scanner": pennon.LanceScanner, "Fragment": pennon.LanceFragment}


@pytest.mark.parametrize("name", CLASSES)
def test_members_of_pyarrow(name: str) -> None:
    base, ours = getattr(pyarrow.dataset, name), CLASSES[name]
    theirs = {member for cls in base.__mro__ if cls is not object for member in vars(cls)}
    own = {member for cls in ours.__mro__ if cls.__module__.startswith("pennon") for member in vars(cls)}
    assert "to_table" in theirs & own
    assert theirs - own == set(INHERITED[name])


def test_members_that_are_inherited(table: pennon.LanceDataset) -> None:
    with pytest.raises(TypeError, match=r"cannot be converted|no default __reduce__"):
        pickle.dumps(table.scanner())
    for value in (table, table.scanner(), table.get_fragments()[0]):
        with pytest.raises(TypeError, match=r"cannot be converted|no default __reduce__"):
            value.__setstate__({})


# Not here: `pads.Scanner.from_dataset(dataset)` and `pads.UnionDataset(...)`, which end the process, of pylance's
# datasets too. They look into the object without asking it.
CALLS = {
    "print(len(list(dataset._get_fragments(None))))": "3",
    "dataset._scanner_options({})": "AttributeError",
    "print(dataset._scan_options)": "None",
    "pads.Scanner.from_fragment(fragment)": "UnsupportedError",
    "pads.dataset([dataset])": "UnsupportedError",
    "pads.write_dataset(dataset, directory, format='parquet'); print(pads.dataset(directory).count_rows())": "10",
    "pads.write_dataset(fragment, directory, format='parquet'); print(pads.dataset(directory).count_rows())": "4",
}


def test_pyarrow_does_not_look_into_what_is_empty(table: pennon.LanceDataset, tmp_path: Path) -> None:
    """An error, and not the end of the process."""
    program = f"""
import pennon, pyarrow.dataset as pads
dataset = pennon.dataset({table.uri!r})
fragment = dataset.get_fragments()[0]
for at, call in enumerate({list(CALLS)!r}):
    directory = {str(tmp_path)!r} + f"/parquet-{{at}}"
    try:
        exec(call)
    except Exception as error:
        print(type(error).__name__, " ".join(str(error).split()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr[-500:])
    for (call, expected), printed in zip(CALLS.items(), done.stdout.splitlines(), strict=True):
        assert expected in printed, call
