"""`pennon inspect`: files and tables as text and as JSON, and one line for what is neither."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon.__main__ import main
from pennon.file import LanceFileReader, LanceFileWriter

DATA = pa.table(
    {
        "id": pa.array(range(3000), pa.int64()),
        "text": [f"row {i}" for i in range(3000)],
        "point.like": pa.array([[i, i] for i in range(3000)], pa.list_(pa.float32(), 2)),
    }
).rename_columns(["id", "text", "pair"])
NESTED = pa.table(
    {
        "s": [{"a.b": i, "l": [{"x": 1}]} for i in range(10)],
        "m": pa.array([[(1, "a")]] * 10, pa.map_(pa.int8(), pa.utf8())),
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.lance"
    with LanceFileWriter(path, max_page_bytes=2_000) as writer:
        writer.write_batch(DATA)
        writer.add_global_buffer(b"xyz")
    return path


def test_ratios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all leaves but those of which a row has any number, however they are named."""
    order = pa.struct({"item_price": "int64", "entries": "int64"})
    items = pa.list_(pa.field("element", pa.int64()))
    data = {
        "order": pa.array([{"item_price": at, "entries": at * at} for at in range(1000)], order),
        "sizes": pa.array([[at, 2 * at] for at in range(1000)], items),
    }
    path = tmp_path / "ratios.lance"
    with LanceFileWriter(path) as writer:
        writer.write_batch(pa.table(data))
    found = {
        column["name"]: column["ratio"] for column in json.loads(show(capsys, path, "--format", "json"))["columns"]
    }
    leaves = ("order.item_price", "order.entries", "sizes.element")
    assert [found[name] is not None for name in leaves] == [True, True, False]


def show(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["inspect", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(show(capsys, file, "--format", "json"))
    metadata = LanceFileReader(file).metadata()
    assert (found["kind"], found["version"], found["rows"]) == ("file", "2.2", 3000)
    assert found["bytes"] == file.stat().st_size
    assert [column["name"] for column in found["columns"]] == ["id", "text", "pair"]
    assert [column["type"] for column in found["columns"]] == ["int64", "string", "fixed_size_list<item: float>[2]"]
    assert found["global_buffers"][1] == 3
    for column, expected in zip(found["columns"], metadata.columns, strict=True):
        assert len(column["pages"]) == len(expected.pages) > 10
        assert column["rows"] == 3000
        assert column["bytes"] == sum(sum(page["buffers"]) for page in column["pages"])
        assert [page["encoding"] for page in column["pages"]] == [page.encoding for page in expected.pages]
    ratios = [column["ratio"] for column in found["columns"]]
    assert ratios[0] == round(24_000 / found["columns"][0]["bytes"], 2)
    assert ratios[1] is None
    assert ratios[2] == round(24_000 / found["columns"][2]["bytes"], 2)

    lines = show(capsys, file).splitlines()
    assert lines[0].startswith(f"{file}: data file of version 2.2, 3,000 rows, ")
    assert "global buffers" in lines[1]
    assert lines[3].split() == ["column", "type", "rows", "bytes", "ratio", "buffers", "encoding"]
    assert any(line.startswith("id ") and "pages" in line for line in lines)
    assert any(line.startswith("  page 0") and "mini-block: " in line for line in lines)
    assert any(line.startswith("  and ") and line.endswith(" more") for line in lines)


def test_nested_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "n.lance"
    with LanceFileWriter(path) as writer:
        writer.write_batch(NESTED)
    columns = json.loads(show(capsys, path, "--format", "json"))["columns"]
    assert [(column["name"], column["type"]) for column in columns] == [
        ("s.`a.b`", "int64"),
        ("s.l.item.x", "int64"),
        ("m.entries.key", "int8"),
        ("m.entries.value", "string"),
    ]
    assert columns[1]["ratio"] is columns[3]["ratio"] is None


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = tmp_path / "t.lance"
    table = pennon.write_dataset(DATA, uri, max_rows_per_file=250)
    table.delete("id % 100 = 3 and id < 500")
    found = json.loads(show(capsys, uri, "--format", "json"))
    assert (found["kind"], found["version"], found["rows"], found["deleted"]) == ("table", 2, 2995, 5)
    assert (found["file_version"], found["stable_row_ids"]) == ("2.2", True)
    assert [(f["id"], f["rows"], f["deleted"]) for f in found["fragments"]][:3] == [
        (0, 250, 3),
        (1, 250, 2),
        (2, 250, 0),
    ]
    files = {path.name: path.stat().st_size for path in (uri / "data").iterdir()}
    for fragment in found["fragments"]:
        assert fragment["bytes"] == sum(files[name] for name in fragment["files"])
    sizes = [0, 0, 0]
    for name in files:
        for at, figures in enumerate(LanceFileReader(uri / "data" / name).file_statistics().columns):
            sizes[at] += figures.size_bytes
    assert [column["bytes"] for column in found["columns"]] == sizes
    assert sum(found["columns"][0]["encodings"].values()) == found["columns"][0]["pages"] == 12

    lines = show(capsys, uri).splitlines()
    assert "table, version 2, 2,995 rows (5 deleted), files of version 2.2, stable row ids" in lines[0]
    assert any(line.startswith("  id: int64") for line in lines)
    assert "and 2 more" in lines


def test_uris(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    pennon.write_dataset({"a": [1, 2]}, "memory://inspect/table", mode="overwrite")
    assert "table, version 1, 2 rows" in show(capsys, "memory://inspect/table")
    assert "data file of version 2.2" in show(capsys, file.as_uri())


def test_what_is_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "junk.lance").write_bytes(b"junk" * 100)
    (tmp_path / "empty").mkdir()
    for wrong, says in (
        ("junk.lance", "junk.lance"),
        ("empty", "empty"),
        ("none.lance", "Not found"),
        ("none", "Not found"),
    ):
        assert main(["inspect", str(tmp_path / wrong)]) == 3
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("pennon: ")
        assert says in captured.err
        assert captured.err.count("\n") == 1
    for arguments in ([], ["inspect"], ["explode", "x"]):
        assert main(arguments) == 2
    capsys.readouterr()
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pennon {pennon.__version__}\n"


def test_as_a_module(file: Path) -> None:
    run = subprocess.run([sys.executable, "-m", "pennon", "inspect", str(file)], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert "data file of version 2.2" in run.stdout
    run = subprocess.run([sys.executable, "-m", "pennon", "inspect", "nope"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (3, "")


def test_a_reader_that_goes_away(file: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [sys.executable, "-m", "pennon", "inspect", str(file), "--format", "json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert run.stderr == ""
