"""`pennon du`, `plot` and `completion`: figures against the API and the file system, and charts that fit."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pennon
import pyarrow as pa
import pytest
from pennon._text import in_bytes
from pennon.cli import _charts, _commits, _sketch
from PIL import Image
from rich.cells import cell_len
from support.command import pennon as run
from support.command import process


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    table = pennon.write_dataset({"id": range(100), "text": ["some text"] * 100}, uri, max_rows_per_file=10)
    for number in range(5):
        table.delete(f"id = {number}")
    table.create_scalar_index("id", "BTREE")
    return table


def test_du_by_kind(table: pennon.LanceDataset) -> None:
    on_disk: Counter[str] = Counter()
    for path in Path(table.uri).rglob("*"):
        if path.is_file():
            on_disk[path.relative_to(table.uri).parts[0]] += path.stat().st_size
    found = {row["kind"]: row for row in run("du", table.uri, "--format", "json").json}
    assert found["data"]["bytes"] == on_disk["data"]
    assert found["deletion"]["bytes"] == on_disk["_deletions"]
    assert found["index"]["bytes"] == on_disk["_indices"]
    freed = table.explain_cleanup_old_versions(timedelta(0)).stats.bytes_removed
    assert sum(row["vacuum"] for row in found.values()) == freed > 0
    assert run("du", table.uri).lines[-1] == f"a vacuum of all older versions would free {in_bytes(freed)}"
    table.cleanup_old_versions(timedelta(0))
    assert run("du", table.uri).lines[-1].endswith("would free 0 B")


def test_du_by_others(table: pennon.LanceDataset) -> None:
    versions = run("du", table.uri, "--by", "version", "--format", "json", "--all").json
    sizes = {entry["version"]: int(entry["metadata"]["total_files_size"]) for entry in table.versions()}
    assert {row["version"]: row["bytes"] for row in versions} == sizes
    assert [row["added"] for row in versions] == [0] * 6 + [sizes[1]]
    assert run("du", table.uri, "--by", "version", "-n", 2).lines[-1] == "more follow (--all shows all)"
    columns = run("du", table.uri, "--by", "column", "--format", "json").json
    stored = {field.id: field.bytes_on_disk for field in table.stats.data_stats().fields}
    assert {row["column"]: row["bytes"] for row in columns} == {"id": stored[0], "text": stored[1]}
    files = run("du", table.uri, "--by", "file", "--format", "json").json
    assert {row["file"]: row["bytes"] for row in files} == {
        path.name: path.stat().st_size for path in Path(table.uri, "data").iterdir()
    }
    assert [row["bytes"] for row in files] == sorted((row["bytes"] for row in files), reverse=True)
    assert sum(row["deleted"] for row in files) == 5
    (index,) = run("du", table.uri, "--by", "index", "--format", "json").json
    assert (index["index"], index["bytes"]) == ("id_idx", table.describe_indices()[0].total_size_bytes)


def test_du_reads_what_it_prints(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    of = _commits.figures
    monkeypatch.setattr(_commits, "figures", lambda table, numbers: asked.extend(numbers) or of(table, numbers))
    run("du", table.uri, "--by", "version", "-n", 2)
    assert asked == [7, 6, 5]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_sketches_fit(table: pennon.LanceDataset, width: int, unicode: bool) -> None:
    for chart in _charts.charts(table, 64):
        lines = list(_sketch.sketch(chart, width, unicode))
        # A time is longer than the narrowest.
        assert all(cell_len(line) <= max(width, 21) for line in lines), lines
        assert unicode or "".join(lines).isascii()


def test_a_sketch(table: pennon.LanceDataset) -> None:
    lines = run("plot", table.uri).lines
    assert lines[0] == "Rows of 10 fragments"
    assert lines[1].startswith("  10 ████")
    assert lines[1].endswith(" 10")
    assert lines.count("") == 7
    at = lines.index("Rows by version")
    assert [line.split()[0] for line in (lines[at + 1], lines[at + 5])] == ["100", "95"]
    run_ascii = process("plot", table.uri, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert run_ascii.stdout.decode("ascii").splitlines()[1].startswith("  10 ####")
    empty = pennon.write_dataset({"a": [1]}, "memory://cli/empty", mode="overwrite")
    empty.truncate_table()
    assert "  (none)" in run("plot", "memory://cli/empty").lines


def test_histograms() -> None:
    few = _charts.histogram("", [1, 5, 5], "")
    assert (few.labels, few.counts) == (["1", "5"], [1, 2])
    many = _charts.histogram("", list(range(1000)), "")
    assert many.counts == [100] * 10
    assert (many.labels[0], many.labels[-1]) == ("0 to 99", "900 to 999")
    for top in range(11, 200):
        assert sum(_charts.histogram("", list(range(top)), "").counts) == top
    assert _charts.spaced(range(5000), 64)[:2] == [0, 79]
    assert (len(_charts.spaced(range(5000), 64)), _charts.spaced(range(5000), 64)[-1]) == (64, 4999)
    assert _charts.spaced([1, 2, 3], 1) == [3]


def test_a_page(table: pennon.LanceDataset, tmp_path: Path) -> None:
    file = tmp_path / "plot.html"
    done = run("plot", table.uri, "-o", file)
    assert (done.status, done.err) == (0, "")
    page = file.read_text()
    # It refers to nothing, so it needs no network.
    assert not re.search(r"https?:|src=|@import|url\(", page.replace(table.uri, ""))
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 8
    bars = ElementTree.fromstring(pictures[0])
    assert [title.text for title in bars.iter("title")] == ["10: 10"]
    curve = ElementTree.fromstring(pictures[3])
    assert len(list(curve.iter("circle"))) == 7
    assert sorted(os.listdir(tmp_path)) == ["plot.html", "table.lance"]
    odd = pennon.write_dataset({"a": [1]}, tmp_path / "<b>&", mode="create")
    run("plot", odd.uri, "-o", file)
    assert "<b>" not in file.read_text()


def test_a_png(table: pennon.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plot.png"
    assert run("plot", table.uri, "-o", file).status == 0
    with Image.open(io.BytesIO(file.read_bytes())) as picture:
        assert picture.format == "PNG"
        assert len(picture.convert("RGB").getcolors(100_000) or []) > 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    file.unlink()
    done = run("plot", table.uri, "-o", file)
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1)
    assert "pip install 'pennon[plot]'" in done.err
    assert os.listdir(tmp_path) == ["table.lance"]
    for wrong in ("plot.gif", "plot"):
        assert run("plot", table.uri, "-o", tmp_path / wrong).status == 2
    assert run("plot", table.uri, "-o", tmp_path / "no" / "plot.html").status == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = run("completion", shell)
    assert (done.status, done.err) == (0, "")
    assert "_PENNON_COMPLETE" in done.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.raw, check=True)


def completed(*words: str) -> Iterator[str]:
    variables = {
        "_PENNON_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    if not words[-1]:
        variables["COMP_WORDS"] += " "
    done = process(env={**os.environ, **variables})
    assert done.stderr == b""
    return (line.partition(",")[2] for line in done.stdout.decode().splitlines())


def test_what_is_completed(table: pennon.LanceDataset) -> None:
    table.tags.create("v1", 1)
    table.tags.create("v2", 2)
    table.create_branch("dev")
    assert {"head", "history"} & set(completed("pennon", "h")) == {"head"}
    assert set(completed("pennon", "tag", "")) == {"list", "create", "update", "delete"}
    assert "--oneline" in set(completed("pennon", "log", "--o"))
    assert set(completed("pennon", "count", table.uri, "--tag", "v")) == {"v1", "v2"}
    assert set(completed("pennon", "count", table.uri, "--branch", "d")) == {"dev"}
    assert set(completed("pennon", "show", table.uri, "v")) == {"v1", "v2"}
    assert set(completed("pennon", "show", "nowhere", "v")) <= {""}


def test_columns_whose_paths_have_dots(tmp_path: Path) -> None:
    """A member of a name with a dot is another column than a member of a member."""
    kind = pa.struct({"b.c": pa.int64(), "b": pa.struct({"c": pa.int8()})})
    rows = pa.table({"a": pa.array([{"b.c": n, "b": {"c": 1}} for n in range(1000)], kind)})
    table = pennon.write_dataset(rows, str(tmp_path / "t.lance"))
    columns = run("du", table.uri, "--by", "column", "--format", "json").json
    assert {"a.`b.c`", "a.b.c"} <= {row["column"] for row in columns}
    schema = run("schema", table.uri, "--format", "json").json
    assert [row["column"] for row in schema] == ["a", "a.`b.c`", "a.b", "a.b.c"]
