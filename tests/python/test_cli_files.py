"""`pennon import` and `export`: files and pipes in every format, there and back, in little memory."""

from __future__ import annotations

import io
import json
import operator
import os
import subprocess
import sys
from pathlib import Path
from resource import RLIMIT_NOFILE, setrlimit

import pennon
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.command import pennon as run
from support.command import process
from support.long import LONG

FLAT = pa.table({"id": pa.array(range(1000), pa.int64()), "text": [f"row {n}" for n in range(1000)]})
NESTED = (
    FLAT.slice(0, 3)
    .append_column("list", pa.array([[1], [], None], pa.list_(pa.int32())))
    .append_column("raw", pa.array([b"\xff", None, b""], pa.binary()))
)
SUFFIXES = (".parquet", ".csv", ".arrow", ".feather", ".jsonl", ".ndjson")


@pytest.fixture
def flat(uri: str) -> pennon.LanceDataset:
    return pennon.write_dataset(FLAT, uri)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_there_and_back(flat: pennon.LanceDataset, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"rows{suffix}"
    done = run("export", flat.uri, file)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"{file}: 1,000 rows, ")
    copy = tmp_path / "copy.lance"
    assert run("import", copy, file, "-m", "a message").out == "version 1: 1,000 rows\n"
    assert pennon.dataset(copy).to_table() == FLAT
    assert run("log", copy, "--oneline").out == "version 1 (newest) Overwrite: a message\n"
    assert run("import", copy, file).status == 3
    assert run("import", copy, file, file, "--mode", "append").out == "version 2: 2,000 rows\n"
    assert run("import", copy, file, "--mode", "overwrite").out == "version 3: 1,000 rows\n"
    assert pennon.dataset(copy).count_rows() == 1000


def test_what_readers_of_others_see(flat: pennon.LanceDataset, tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        run("export", flat.uri, tmp_path / f"a{suffix}")
    assert pa.parquet.read_table(tmp_path / "a.parquet") == FLAT
    assert pa.csv.read_csv(tmp_path / "a.csv") == FLAT
    assert pa.ipc.open_file(tmp_path / "a.arrow").read_all() == FLAT
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == FLAT.to_pylist()


@pytest.mark.parametrize("form", ["csv", "arrow", "jsonl", "parquet"])
def test_pipes(flat: pennon.LanceDataset, tmp_path: Path, form: str) -> None:
    raw = process("export", flat.uri, "-", "--format", form).stdout
    assert raw == run("export", flat.uri, "-", "--format", form).raw
    copy = tmp_path / "copy.lance"
    done = run("import", copy, "-", "--input-format", form, stdin=raw)
    if form == "parquet":
        assert pa.parquet.read_table(io.BytesIO(raw)) == FLAT
        assert (done.status, "standard input" in done.err) == (2, True)
    else:
        assert done.out == "version 1: 1,000 rows\n"
        assert pennon.dataset(copy).to_table() == FLAT


def test_selections(flat: pennon.LanceDataset, tmp_path: Path) -> None:
    file = tmp_path / "some.parquet"
    run("export", flat.uri, file, "-c", "id", "-w", "id >= 990", "--limit", 3, "--row-id")
    assert pa.parquet.read_table(file).to_pydict() == {"id": [990, 991, 992], "_rowid": [990, 991, 992]}
    done = run("export", flat.uri, file)
    assert (done.status, done.err) == (3, f"pennon: {file} exists: --force replaces it\n")
    assert pa.parquet.read_table(file).num_rows == 3
    assert run("export", flat.uri, file, "--force").status == 0
    assert pa.parquet.read_table(file).num_rows == 1000


def test_nested_values_and_bytes(tmp_path: Path) -> None:
    table = pennon.write_dataset(NESTED, tmp_path / "t")
    assert run("export", table.uri, "-", "--format", "csv").lines[1:] == [
        '0,"row 0","[1]","/w=="',
        '1,"row 1","[]",',
        '2,"row 2",,""',
    ]
    assert run("export", table.uri, "-", "--format", "jsonl").json[0] == {
        "id": 0,
        "text": "row 0",
        "list": [1],
        "raw": "/w==",
    }
    run("export", table.uri, tmp_path / "n.arrow")
    assert pa.ipc.open_file(tmp_path / "n.arrow").read_all() == NESTED


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_bytes_come_back(tmp_path: Path, form: str) -> None:
    """Text has them as base64; blobs are written as bytes."""
    raw = [b"\xff\x00", None, b"", b"YWI="]
    columns = {
        "id": pa.array(range(4)),
        "raw": pa.array(raw, pa.binary()),
        "large": pa.array(raw, pa.large_binary()),
        "fixed": pa.array([b"ab", b"\xff\x00", None, b"YQ"], pa.binary(2)),
        "file": pennon.blob_array(raw),
    }
    if form != "csv":
        columns["list"] = pa.array([raw, [], None, [b"a"]], pa.list_(pa.binary()))
        columns["struct"] = pa.array([{"x": value} for value in raw[:3]] + [None], pa.struct({"x": pa.binary()}))
    table = pennon.write_dataset(pa.table(columns), tmp_path / "t")
    expected = table.to_table(blob_handling="all_binary")
    file = tmp_path / f"rows.{form}"
    assert run("export", table.uri, file).status == 0
    for mode, rows in (("append", 8), ("overwrite", 4)):
        done = run("import", table.uri, file, "--mode", mode)
        assert (done.status, done.err) == (0, "")
        found = pennon.dataset(table.uri).to_table(blob_handling="all_binary")
        assert found.num_rows == rows
        assert found.slice(rows - 4).to_pylist() == expected.to_pylist()
    if form in ("csv", "jsonl"):
        # What is bytes in the first file is bytes in the others.
        run("export", table.uri, tmp_path / "first.arrow")
        assert run("import", tmp_path / "both", tmp_path / "first.arrow", file).status == 0
        assert pennon.dataset(tmp_path / "both").to_table()["raw"].to_pylist() == raw * 2


def test_base64_that_looks_like_a_number(tmp_path: Path) -> None:
    table = pennon.write_dataset({"raw": pa.array([b"\xd7\x6d\xf8"])}, tmp_path / "t")
    run("export", table.uri, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == '"raw"\n"1234"\n'
    (tmp_path / "a.csv").write_text("raw\n1234\n")
    run("import", table.uri, tmp_path / "a.csv", "--mode", "overwrite")
    assert pennon.dataset(table.uri).to_table() == table.to_table()


@pytest.mark.parametrize("text", ["not base64!", "YWI", "äö", "YWJj"])
def test_text_that_is_no_base64(tmp_path: Path, text: str) -> None:
    table = pennon.write_dataset({"id": [1], "raw": pa.array([b"ab"], pa.binary(2))}, tmp_path / "t")
    (tmp_path / "a.csv").write_text(f"id,raw\n1,YWI=\n1,{text}\n")
    (tmp_path / "a.jsonl").write_text(f'{{"id": 1, "raw": "YWI="}}\n{{"id": 1, "raw": "{text}"}}\n')
    for file in ("a.csv", "a.jsonl"):
        done = run("import", table.uri, tmp_path / file, "--mode", "append")
        assert (done.status, done.err.count("\n")) == (3, 1)
        assert f"{file}: Column 'raw': " in done.err
    assert pennon.dataset(table.uri).version == 1


def test_only_the_empty_field_is_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('code,x\nNA,1.5\nnan,NaN\nNULL,nan\n"",inf\n,\n')
    run("import", tmp_path / "t", tmp_path / "a.csv")
    found = pennon.dataset(tmp_path / "t").to_table()
    assert found["code"].to_pylist() == ["NA", "nan", "NULL", "", None]
    assert repr(found["x"].to_pylist()) == "[1.5, nan, nan, inf, None]"


def test_line_breaks_in_several_blocks(tmp_path: Path) -> None:
    # Some of the blocks end within \r\n.
    rows = pa.table({"id": pa.array(range(80_000)), "text": [f"{n}" + "\r\n" * 80 for n in range(80_000)]})
    table = pennon.write_dataset(rows, tmp_path / "t")
    assert run("export", table.uri, tmp_path / "rows.csv").status == 0
    assert run("import", tmp_path / "copy", tmp_path / "rows.csv").out == "version 1: 80,000 rows\n"
    assert pennon.dataset(tmp_path / "copy").to_table() == rows


def test_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    pa.parquet.write_table(FLAT, tmp_path / "rows.parquet")
    files = [tmp_path / "rows.parquet"] * 200
    done = process("import", tmp_path / "t", *files, preexec_fn=lambda: setrlimit(RLIMIT_NOFILE, (100, 100)))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"version 1: 200,000 rows\n", b"")


def test_types_of_the_table(tmp_path: Path) -> None:
    """Text is read as the columns of the table it is added to, and null is not the empty text."""
    table = pennon.write_dataset({"id": ["007"], "n": pa.array([1.5])}, tmp_path / "t")
    (tmp_path / "more.csv").write_text('id,n\n008,2\n"",\n,3\n')
    (tmp_path / "more.jsonl").write_text('{"id": "9", "n": 4}\n\n{"n": null}\n')
    done = run("import", table.uri, tmp_path / "more.csv", tmp_path / "more.jsonl", "--mode", "append")
    assert (done.status, done.err) == (0, "")
    assert pennon.dataset(table.uri).to_table().to_pydict() == {
        "id": ["007", "008", "", None, "9", None],
        "n": [1.5, 2.0, None, 3.0, 4.0, None],
    }


WRONG = {
    "none.csv": None,
    "empty.csv": b"",
    "empty.jsonl": b"\n",
    "array.json": b'[{"id": 1}]',
    "broken.jsonl": b'{"id": 1}\n{"id": ',
    "other.jsonl": b'{"id": 1}\n' + b'{"id": 1}\n' * 500_000 + b'{"more": 1}\n',
    "broken.parquet": b"PAR1 is not enough",
    "broken.arrow": b"ARROW1 is not enough",
    "ragged.csv": b"id,text\n1,a\n2\n",
    "latin.csv": b"id,text\n1,\xff\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_none(flat: pennon.LanceDataset, tmp_path: Path, name: str) -> None:
    content = WRONG[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for mode in ("create", "append"):
        uri = flat.uri if mode == "append" else tmp_path / "new.lance"
        done = run("import", uri, tmp_path / name, "--mode", mode)
        if (name, mode) == ("empty.jsonl", "append"):
            continue  # no rows are nothing wrong
        assert (done.status, done.out) == (3, ""), (mode, done)
        assert done.err.count("\n") == 1
        assert name in done.err
    assert pennon.dataset(flat.uri).count_rows() == 1000


OTHER_TEXT = "not UTF-8: say which encoding it is, as in --encoding latin-1"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("value.csv", b"id,name\n1,\xe9t\xe9\n", f"Column 'name' has text that is {OTHER_TEXT}"),
        ("header.csv", b"id,\xe9\n1,a\n", f"The names of columns are {OTHER_TEXT}"),
        (
            "late.csv",
            b"id,name\n" + b"1,ab\n" * 1_000_000 + b"1,\xe9\n",
            f"Column 'name' has text that is {OTHER_TEXT}",
        ),
        ("value.jsonl", b'{"id": 1, "name": "\xe9"}\n', f"The text is {OTHER_TEXT}"),
    ],
)
def test_text_that_is_not_utf8(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.csv").write_text("id,name\n1,a\n")
    uri, before = tmp_path / "t", tmp_path / "before.lance"
    pennon.write_dataset({"id": [1], "name": ["a"]}, before)
    for arguments in (
        [uri, tmp_path / name],
        [uri, tmp_path / "good.csv", tmp_path / name],
        [before, tmp_path / name, "--mode", "append"],
        [before, tmp_path / name, "--mode", "overwrite"],
    ):
        done = run("import", *arguments)
        assert (done.status, done.out, done.err) == (3, "", f"pennon: {tmp_path / name}: {says}\n")
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(uri)
    assert pennon.dataset(before).version == 1


def test_encodings(tmp_path: Path) -> None:
    table = pa.table({"é": ["ü\r\n€", "", None], "n": [1, 2, 3]})
    pennon.write_dataset(table, tmp_path / "t")
    for form in ("csv", "jsonl"):
        text = run("export", tmp_path / "t", "-", "--format", form).out
        for encoding in ("cp1252", "utf-16", "utf-8"):
            file = tmp_path / f"{encoding}.{form}"
            file.write_bytes(text.encode(encoding))
            for source, stdin in ((file, b""), ("-", file.read_bytes())):
                copy = tmp_path / "copy"
                options = ["--mode", "overwrite", "--encoding", encoding, "--input-format", form]
                done = run("import", copy, source, *options, stdin=stdin)
                assert (done.status, done.err) == (0, ""), (form, encoding)
                assert pennon.dataset(copy).to_table() == table
    (tmp_path / "a.csv").write_bytes(b"a\n\x81\n")
    done = run("import", tmp_path / "new", tmp_path / "a.csv", "--encoding", "cp1252")
    assert (done.status, done.err) == (3, f"pennon: {tmp_path}/a.csv: The bytes 0x81 are no text in cp1252\n")
    for encoding in ("latin-0", "base64", ""):
        done = run("import", tmp_path / "new", tmp_path / "a.csv", "--encoding", encoding)
        assert (done.status, f"{encoding!r} is not an encoding of text" in done.err) == (2, True)
    done = run("import", tmp_path / "new", tmp_path / "a.parquet", "--encoding", "cp1252")
    assert (done.status, "--encoding is for CSV and JSON" in done.err) == (2, True)


def test_names_that_say_nothing(flat: pennon.LanceDataset, tmp_path: Path) -> None:
    assert run("export", flat.uri, tmp_path / "a.txt").status == 2
    assert run("import", flat.uri, tmp_path / "a.txt").status == 2
    assert run("import", flat.uri).status == 2
    done = run("export", flat.uri, tmp_path / "no" / "folder.csv")
    assert (done.status, done.err) == (3, f"pennon: {tmp_path}/no/folder.csv: No such file or directory\n")
    assert run("export", flat.uri, tmp_path, "--format", "csv").status == 3
    assert os.listdir(tmp_path) == ["table.lance"]


def test_a_full_disk_leaves_no_file(flat: pennon.LanceDataset, tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pennon.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)); sys.exit(main(sys.argv[1:]))"
    )
    for name in ("a.csv", "a.parquet", "a.arrow", "a.jsonl"):
        arguments = ["export", flat.uri, str(tmp_path / "out" / name)]
        (tmp_path / "out").mkdir(exist_ok=True)
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
        assert "File too large" in done.stderr
        assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read there")
def test_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several times the rows take no more memory, within what allocators keep.

    The smaller file is double what a scan reads ahead: a unit of 16 MiB for each of two cores, and one more.
    How threads take turns moves a peak by up to 50 MB, so the least of three runs counts; of the larger file, the
    first one that is low enough.
    """
    monkeypatch.setenv("PENNON_CPU_COUNT", "2")
    code = (
        "import re, sys; from pennon.cli import main; status = main(sys.argv[1:]);"
        "memory = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1];"
        "print(memory, file=sys.stderr); sys.exit(status)"
    )

    def peak(*arguments: object) -> int:
        call = [sys.executable, "-c", code, *map(str, arguments)]
        return int(subprocess.run(call, capture_output=True, text=True, check=True).stderr) // 1024

    def peaks(rows: int, attempt: int) -> tuple[int, int]:
        table = tmp_path / f"{rows}-{attempt}.lance"
        imported = peak("import", table, tmp_path / f"{rows}.parquet")
        return imported, peak("export", table, tmp_path / f"{table.stem}.jsonl")

    few, many = 100_000, 400_000 if LONG else 250_000
    for rows in (few, many):
        table = pa.table({"id": pa.array(range(rows)), "text": ["x" * 1_000] * rows})
        pa.parquet.write_table(table, tmp_path / f"{rows}.parquet", row_group_size=5_000)
        del table
    most = [min(found) + 60 for found in zip(*(peaks(few, attempt) for attempt in range(3)), strict=True)]
    least = [sys.maxsize, sys.maxsize]
    for attempt in range(3):
        least = [min(found) for found in zip(least, peaks(many, attempt), strict=True)]
        if all(map(operator.lt, least, most)):
            return
    pytest.fail(f"import and export of {many} rows took {least} MB, expected less than {most}")
