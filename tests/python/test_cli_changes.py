"""Commands that change a table: tags, branches, restores, settings, indices, compaction and vacuum."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.command import pennon as run


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    table = pennon.write_dataset({"id": range(8)}, uri, max_rows_per_file=4)
    table.insert({"id": [8]})
    table.delete("id < 2")
    return table


def newest(table: pennon.LanceDataset) -> pennon.LanceDataset:
    return pennon.dataset(table.uri)


def test_tags(table: pennon.LanceDataset) -> None:
    assert run("tag", "create", table.uri, "now").out == "tag now: version 3\n"
    assert run("tag", "create", table.uri, "then", 1).out == "tag then: version 1\n"
    assert run("tag", "create", table.uri, "then", 1).status == 3
    assert run("tag", "update", table.uri, "then", "2").out == "tag then: version 2 (was 1)\n"
    found = run("tag", "list", table.uri, "--format", "json").json
    assert [(row["tag"], row["version"], row["branch"]) for row in found] == [
        ("now", 3, "main"),
        ("then", 2, "main"),
    ]
    assert run("tag", "list", table.uri).lines[1].split()[:3] == ["now", "3", "main"]
    assert run("tag", "update", table.uri, "other", 1).err == f"pennon: {table.uri} has no tag 'other'\n"
    assert run("tag", "delete", table.uri, "now", "other").status == 3
    assert run("tag", "delete", table.uri, "now", "then").out == (
        "deleted tag now (was version 3)\ndeleted tag then (was version 2)\n"
    )
    assert list(newest(table).tags) == []
    assert run("tag", "create", table.uri, "bad name").status == 3
    assert run("tag", "create", table.uri, "x", 99).status == 3


def test_branches(table: pennon.LanceDataset) -> None:
    assert run("branch", "create", table.uri, "dev", 2).out == "branch dev: version 2\n"
    assert run("count", table.uri, "--branch", "dev").out == "9\n"
    assert run("tag", "create", table.uri, "--branch", "dev", "dev-tag").out == "tag dev-tag: version 2\n"
    assert newest(table).tags.list()["dev-tag"]["branch"] == "dev"
    found = run("branch", "list", table.uri, "--format", "json").json
    assert [(row["branch"], row["parent"], row["version"]) for row in found] == [("dev", "main", 2)]
    done = run("branch", "delete", table.uri, "dev")
    assert (done.status, "--yes" in done.err) == (2, True)
    assert f"`pennon log {table.uri} --branch dev` shows them" in done.err
    assert run("branch", "delete", table.uri, "dev", "--yes").status == 3  # the tag refers to it
    run("tag", "delete", table.uri, "dev-tag")
    assert run("branch", "delete", table.uri, "dev", "--yes").out == "deleted branch dev (1 version)\n"
    assert run("branch", "delete", table.uri, "dev", "--yes").status == 3
    assert list(newest(table).branches) == []


def test_what_undoes_a_restore(tmp_path: Path) -> None:
    """What is printed, typed as it is, except the values of storage options, which may be secrets."""
    uri = str(tmp_path / "a table")
    table = pennon.write_dataset({"id": [1, 2]}, uri)
    dev = table.create_branch("dev", 1)
    dev.delete("id = 1")
    before = newest(dev).version
    hint = run("restore", uri, 1, "--branch", "dev", "--storage-option", "client_max_retries=7").lines[-1]
    assert hint == f"pennon restore '{uri}' {before} --branch dev --storage-option client_max_retries=… undoes this"
    words = shlex.split(hint.partition(" --storage-option")[0])
    assert run(*words[1:]).status == 0
    assert pennon.dataset(uri, ("dev", None)).count_rows() == 1
    assert (newest(table).version, newest(table).count_rows()) == (1, 2)
    assert f"`pennon log '{uri}' --branch dev` shows them" in run("branch", "delete", uri, "dev").err


def test_restore(table: pennon.LanceDataset) -> None:
    difference = "2 rows changed: 2 inserted (+), 0 deleted (-), 0 updated (~)"
    assert run("restore", table.uri, 2, "--dry-run").out == f"would restore version 2: {difference}\n"
    assert newest(table).version == 3
    lines = run("restore", table.uri, 2).lines
    assert lines == [
        f"version 4 has the rows of version 2 again: {difference}",
        f"pennon restore {table.uri} 3 undoes this",
    ]
    assert newest(table).count_rows() == 9
    run("restore", table.uri, 3)
    assert run("restore", table.uri, 1, "--row", 0, "--dry-run").out == "would restore 1 row of version 1\n"
    assert run("restore", table.uri, 1, "--row", 0).out == "version 6 has 1 row of version 1 again\n"
    assert newest(table).count_rows() == 8
    table.create_branch("dev", 2)
    assert run("restore", table.uri, "dev:2").status == 2
    assert run("restore", table.uri, 99).status == 3
    newest(table).checkout_version(("dev", None)).delete("id = 3")
    assert run("restore", table.uri, "--branch", "dev", 2).status == 0
    assert run("count", table.uri, "--branch", "dev").out == "9\n"
    assert newest(table).version == 6


def test_config(table: pennon.LanceDataset) -> None:
    assert run("config", "set", table.uri, "a.b", "1").out == "version 4: a.b=1\n"
    assert run("config", "set", table.uri, "a.b", "2").out == "version 5: a.b=2 (was 1)\n"
    assert run("config", "get", table.uri, "a.b").out == "2\n"
    assert run("config", "get", table.uri, "a.b", "--version", 4).out == "1\n"
    done = run("config", "get", table.uri, "nothing")
    assert (done.status, done.out, done.err) == (1, "", "")
    assert run("config", "list", table.uri, "--format", "json").json == [{"key": "a.b", "value": "2"}]
    assert run("config", "unset", table.uri, "a.b", "nothing").out == "version 6: removed a.b\n"
    assert run("config", "unset", table.uri, "a.b").status == 1
    assert newest(table).version == 6


def test_indices(table: pennon.LanceDataset) -> None:
    assert run("index", "create", table.uri, "id").out == "version 4: index id_idx\n"
    assert run("index", "list", table.uri).lines[1].split()[:4] == ["id_idx", "BTree", "id", "7"]
    newest(table).insert({"id": [100]})
    assert run("index", "optimize", table.uri).out == "version 6: all rows are in the indices\n"
    assert run("index", "optimize", table.uri).out == "nothing to do: all rows are in the indices\n"
    found = run("index", "stats", table.uri, "id_idx", "--format", "json").json[0]
    assert (found["num_indexed_rows"], found["num_unindexed_rows"]) == (8, 0)
    assert "BTree" in run("index", "stats", table.uri, "id_idx").out
    assert run("index", "create", table.uri, "nothing").status == 3
    done = run("index", "create", table.uri, "id")
    assert (done.status, done.err) == (3, f"pennon: {table.uri} has an index id_idx: --replace replaces it\n")
    assert run("index", "create", table.uri, "id", "--replace").out == "version 7: index id_idx\n"
    assert run("index", "create", table.uri, "id", "--type", "NOTHING").status == 3
    assert run("index", "drop", table.uri, "id_idx").status == 0
    assert run("index", "drop", table.uri, "id_idx").status == 3
    assert run("index", "optimize", table.uri).out == "nothing to do: all rows are in the indices\n"
    assert newest(table).list_indices() == []


def test_rows_that_no_index_takes(uri: str) -> None:
    """pylance extends indices over trigrams."""
    rows = {"id": range(4), "text": ["one", "two", "three", "four"]}
    lance.write_dataset(pa.table(rows), uri).create_scalar_index("text", "NGRAM")
    table = pennon.dataset(uri)
    table.create_scalar_index("id", "BTREE")
    table.insert({"id": [4], "text": ["five"]})
    assert run("index", "optimize", uri).out == "version 5: 1 row not in text_idx\n"
    assert run("index", "optimize", uri).out == "nothing to do: 1 row not in text_idx\n"
    assert run("index", "optimize", uri, "id_idx").out == "nothing to do: all rows are in id_idx\n"


def test_an_index_over_vectors(uri: str) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(n % 7) for n in range(4000)], pa.float32()), 4)
    pennon.write_dataset(pa.table({"v": vectors}), uri)
    done = run("index", "create", uri, "v", "--type", "ivf_flat", "--partitions", 2, "--name", "near")
    assert (done.status, done.out) == (0, "version 2: index near\n")
    assert run("index", "list", uri, "--format", "json").json[0]["type"] == "IVF_FLAT"


def test_compact(table: pennon.LanceDataset) -> None:
    lines = run("compact", table.uri, "--dry-run").lines
    assert lines[0].startswith("would rewrite 3 fragments with 7 rows, ")
    assert run("compact", table.uri, "--dry-run", "--format", "json").json[0]["deleted"] == 2
    assert newest(table).version == 3
    assert run("compact", table.uri).out == f"version {newest(table).version}: 3 fragments rewritten to 1\n"
    assert run("compact", table.uri).out == "nothing to do\n"
    assert run("compact", table.uri, "--dry-run").out == "nothing to do\n"
    assert len(newest(table).get_fragments()) == 1


def test_vacuum(table: pennon.LanceDataset) -> None:
    table.tags.create("kept", 1)
    run("compact", table.uri)
    files = {path for path in Path(table.uri).rglob("*") if path.is_file()}
    assert run("vacuum", table.uri, "--dry-run").out == "would remove 0 versions: 0 B\n"
    done = run("vacuum", table.uri)
    assert (done.status, done.out, done.err) == (0, "removed 0 versions: 0 B\n", "")
    announced = run("vacuum", table.uri, "--older-than", 0, "--dry-run", "--format", "json").json[0]
    listed = run("vacuum", table.uri, "--older-than", 0, "--dry-run", "--files", "--format", "json").json
    assert sum(row["size_bytes"] for row in listed) == announced["bytes_removed"] > 0
    done = run("vacuum", table.uri, "--older-than", "0")
    assert (done.status, done.out) == (2, "")
    assert "Nobody can be asked: --yes does it, --dry-run shows it" in done.err
    assert {path for path in Path(table.uri).rglob("*") if path.is_file()} == files
    done = run("vacuum", table.uri, "--older-than", "0s", "--yes", "--format", "json")
    assert done.json == [announced]
    assert newest(table).versions()[0]["version"] == 1
    assert run("vacuum", table.uri, "--keep", 1, "--yes").out == "removed 0 versions: 0 B\n"
    for wrong in ("yesterday", "-1d", "1", "1.5d"):
        assert run("vacuum", table.uri, f"--older-than={wrong}", "--yes").status == 2
    assert run("vacuum", table.uri, "--files").status == 2


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 3), (b"y\n", 1)])
def test_a_vacuum_asks(table: pennon.LanceDataset, answer: bytes, left: int) -> None:
    ours, theirs = pty.openpty()
    arguments = ["vacuum", table.uri, "--older-than", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "pennon", *arguments], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        os.close(theirs)
        os.write(ours, answer)
        out, err = started.communicate(timeout=60)
    os.close(ours)
    assert started.returncode == 0
    assert b"Remove 2 versions" in err
    assert out == b"" if left == 3 else out.startswith(b"removed 2 versions")
    assert len(newest(table).versions()) == left
