"""Every command with what is not as it should be: one sentence, the right status, and never a traceback."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pennon
import pyarrow as pa
import pyarrow.parquet
import pytest
from pennon import cli
from pennon.cli._grid import folded
from rich.cells import cell_len
from support.command import pennon as run
from support.command import process
from support.long import LONG

# How each command is called; TABLE, FILE and OUT are filled in.
CALLS: dict[str, list[str]] = {
    "head": ["head", "TABLE"],
    "count": ["count", "TABLE"],
    "take": ["take", "TABLE", "0"],
    "sql": ["sql", "TABLE", "SELECT * FROM dataset"],
    "schema": ["schema", "TABLE"],
    "log": ["log", "TABLE"],
    "show": ["show", "TABLE"],
    "diff": ["diff", "TABLE"],
    "blame": ["blame", "TABLE", "0"],
    "tag list": ["tag", "list", "TABLE"],
    "tag create": ["tag", "create", "TABLE", "t"],
    "tag update": ["tag", "update", "TABLE", "v1", "1"],
    "tag delete": ["tag", "delete", "TABLE", "v1"],
    "branch list": ["branch", "list", "TABLE"],
    "branch create": ["branch", "create", "TABLE", "b"],
    "branch delete": ["branch", "delete", "TABLE", "dev", "--yes"],
    "restore": ["restore", "TABLE", "1"],
    "import": ["import", "TABLE", "FILE", "--mode", "append"],
    "export": ["export", "TABLE", "-", "--format", "csv"],
    "du": ["du", "TABLE"],
    "plot": ["plot", "TABLE"],
    "index list": ["index", "list", "TABLE"],
    "index create": ["index", "create", "TABLE", "text"],
    "index optimize": ["index", "optimize", "TABLE"],
    "index drop": ["index", "drop", "TABLE", "id_idx"],
    "index stats": ["index", "stats", "TABLE", "id_idx"],
    "config list": ["config", "list", "TABLE"],
    "config get": ["config", "get", "TABLE", "key"],
    "config set": ["config", "set", "TABLE", "key", "value"],
    "config unset": ["config", "unset", "TABLE", "key"],
    "compact": ["compact", "TABLE"],
    "vacuum": ["vacuum", "TABLE", "--yes"],
    "inspect": ["inspect", "TABLE"],
    "verify": ["verify", "TABLE"],
    "scrub": ["scrub", "TABLE"],
    "seal": ["seal", "TABLE"],
    "repair": ["repair", "TABLE"],
}
# Those that make a table where there is none.
MAKES = {"import"}


def call(name: str, table: object, file: object = "") -> list[str]:
    return [str(table) if word == "TABLE" else str(file) if word == "FILE" else word for word in CALLS[name]]


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    data = pa.table(
        {"id": range(200), "text": ["some text\n\x1b[2J" * 9] * 200, "raw": pa.array([b"\xff\xfe"] * 200)}
    )
    table = pennon.write_dataset(data, uri, max_rows_per_file=50, durability="os")
    table.update({"text": "'ü' || text"}, where="id < 3")
    table.tags.create("v1", 1)
    table.create_branch("dev", 1)
    table.update_config({"key": "value"})
    table.create_scalar_index("id", "BTREE")
    table.update({"text": "'new'"}, where="id < 2")
    return table


@pytest.fixture
def file(tmp_path: Path, table: pennon.LanceDataset) -> Path:
    pa.parquet.write_table(table.to_table(), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def is_a_sentence(err: str) -> bool:
    return err.startswith("pennon: ") and err.count("\n") == 1 and "Traceback" not in err and "\x1b" not in err


def test_every_command_is_called() -> None:
    assert {name.split()[0] for name in CALLS} == set(cli._HELP) - {"completion"}
    for group in ("tag", "branch", "index", "config"):
        known = cli.pennon.get_command(None, group).commands  # type: ignore[arg-type,union-attr]
        assert {f"{group} {name}" for name in known} == {name for name in CALLS if name.startswith(f"{group} ")}


@pytest.mark.parametrize("name", CALLS)
def test_all_is_well(name: str, table: pennon.LanceDataset, file: Path) -> None:
    done = run(*call(name, table.uri, file))
    assert (done.status, done.err) == (0, ""), done.err


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_path(name: str, tmp_path: Path, file: Path) -> None:
    for wrong in (tmp_path / "nothing" / "here", tmp_path / "odd\n\x1b[31mname"):
        done = run(*call(name, wrong, file))
        if name in MAKES:
            assert done.status == 0
            continue
        assert (done.status, done.out) == (3, ""), done
        assert is_a_sentence(done.err), done.err
    assert run(*call(name, "", file)).status == 2
    done = run(*call(name, "odd://bucket/table", file))
    assert (done.status, is_a_sentence(done.err)) == (3, True), done.err


def others(root: Path) -> dict[str, str]:
    """Directories of other formats, and what is said of each."""
    for folder in ("delta/_delta_log", "iceberg/metadata", "parquet", "empty", "text"):
        (root / folder).mkdir(parents=True)
    (root / "delta/_delta_log/00000000000000000000.json").write_text("{}")
    (root / "iceberg/metadata/v1.metadata.json").write_text("{}")
    pa.parquet.write_table(pa.table({"a": [1]}), root / "parquet/a.parquet")
    (root / "text/a.txt").write_text("text")
    return {
        "delta": "is a Delta table",
        "iceberg": "is an Iceberg table",
        "parquet": "is a directory of Parquet files",
        "empty": "is an empty directory",
        "text": "is a directory without versions",
        "parquet/a.parquet": "is a Parquet file",
    }


@pytest.mark.parametrize("name", CALLS)
def test_a_table_of_another_format(name: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    for path, says in others(tmp_path).items():
        if name in MAKES and path == "empty":
            continue
        before = sorted(tmp_path.rglob("*"))
        done = run(*call(name, tmp_path / path, tmp_path / "rows.csv"))
        assert (done.status, done.out) == (3, ""), done
        assert is_a_sentence(done.err), done.err
        assert says in done.err
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_where_a_table_may_begin(mode: str, tmp_path: Path) -> None:
    """In no directory of another format; in an empty one, and in what a write left that failed."""
    (tmp_path / "rows.csv").write_text("a\n1\n")
    for path, says in others(tmp_path).items():
        done = run("import", tmp_path / path, tmp_path / "rows.csv", "--mode", mode)
        assert done.status == (0 if path == "empty" else 3)
        assert says in done.err or path == "empty"
    (tmp_path / "left" / "data").mkdir(parents=True)
    (tmp_path / "left" / "data" / "a.lance").write_bytes(b"")
    assert run("import", tmp_path / "left", tmp_path / "rows.csv", "--mode", mode).out == "version 1: 1 row\n"


def test_names_of_columns_do_nothing_to_a_terminal(uri: str) -> None:
    data = pa.table({"a\x1b[2J\n": [1], "s": pa.array([{"b\x1b\n": 1}])})
    table = pennon.write_dataset(data, uri)
    for path in (uri, next(Path(table.uri, "data").iterdir())):
        out = run("inspect", path).out
        assert "\x1b" not in out
        assert "\na\\x1b[2J\\n " in out


def test_inspect_of_what_is_no_data_file(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"ARROW1 and more")
    (tmp_path / "a.txt").write_text("text")
    for name, says in {
        "a.arrow": "{} is an Arrow file (`pennon import` reads it), not a data file",
        "a.txt": "{} is a file, not a data file",
        "none.lance": "Not found: {}",
    }.items():
        done = run("inspect", tmp_path / name)
        assert (done.status, done.err) == (3, f"pennon: {says.format(tmp_path / name)}\n")


@pytest.mark.parametrize("name", CALLS)
def test_arguments_that_are_no_text(name: str, table: pennon.LanceDataset, file: Path) -> None:
    done = run(*call(name, table.uri, file), "--color", "a\udcff")
    assert (done.status, done.out, done.err) == (2, "", "pennon: the argument 'a\\udcff' is not UTF-8\n")


def test_a_closed_output(table: pennon.LanceDataset) -> None:
    """As a pipe that nobody reads."""
    for arguments, status in ((["head", table.uri], 0), (["take", table.uri, "999"], 1), (["count", "nothing"], 3)):
        command = shlex.join([sys.executable, "-m", "pennon", *arguments])
        done = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", min(status, 1)), done
        assert subprocess.run(["sh", "-c", f"{command} >&- 2>&- <&-"], check=False).returncode == status


PINNED = [name for name in CALLS if "--as-of" in run(*CALLS[name][: len(name.split())], "--help").out]


@pytest.mark.parametrize("name", PINNED)
def test_a_version_that_is_gone(name: str, table: pennon.LanceDataset, file: Path) -> None:
    table.tags.delete("v1")
    table.branches.delete("dev")
    table.cleanup_old_versions(retain_versions=1)
    newest = table.version
    says = {
        ("--version", "1"): f"has no version 1 any more: it was removed; the oldest is {newest}",
        ("--version", "99"): f"has no version 99: the newest is {newest}",
        ("--tag", "gone"): "has no tag 'gone': it has none",
        ("--branch", "gone"): "has no branch 'gone': it has none",
        ("--as-of", "2001-01-01"): "",
    }
    for option, text in says.items():
        if name == "blame" and option[0] != "--branch":
            continue  # the version is for its condition
        done = run(*call(name, table.uri, file), *option)
        assert (done.status, done.out) == (3, ""), (option, done)
        assert is_a_sentence(done.err), done.err
        assert text in done.err
    for number in (-1, "x", 2**64):
        assert run(*call(name, table.uri, file), "--version", number).status == 2
    assert run(*call(name, table.uri, file), "--version", "1", "--tag", "v").status == 2
    assert run(*call(name, table.uri, file), "--storage-option", "secret").status == 2


class Refusing(BaseHTTPRequestHandler):
    """A store that knows nobody."""

    def answer(self) -> None:
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.mark.parametrize("name", CALLS)
def test_no_credentials(name: str, file: Path, refusing: str) -> None:
    settings = {
        "aws_endpoint": refusing,
        "allow_http": "true",
        "aws_access_key_id": "somebody",
        "aws_secret_access_key": "verysecret",
        "aws_region": "us-east-1",
    }
    options = [word for key, value in settings.items() for word in ("--storage-option", f"{key}={value}")]
    done = run(*call(name, "s3://bucket/table", file), *options)
    assert (done.status, done.out) == (3, ""), done
    assert is_a_sentence(done.err), done.err
    assert "credentials" in done.err
    assert "verysecret" not in done.err


# Of each form of what is written one, or all.
WRITERS = list(CALLS) if LONG else ["head", "export", "log", "scrub"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_closed_pipe(name: str, table: pennon.LanceDataset, file: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = process(*call(name, table.uri, file), stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_finding_is_one_though_nobody_reads_it(table: pennon.LanceDataset) -> None:
    next(Path(table.uri, "data").iterdir()).unlink()
    reading, writing = os.pipe()
    os.close(reading)
    done = process("verify", table.uri, stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(name: str, table: pennon.LanceDataset, file: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = process(*call(name, table.uri, file), stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 3
    err = done.stderr.decode()
    assert is_a_sentence(err), err
    assert "No space left on device" in err


def terminal(columns: int = 40) -> tuple[int, int]:
    """Our end, and that of a command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return ours, theirs


def written_to(ours: int) -> bytes:
    """All that is written to the other end until it is closed."""
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:  # how a terminal ends
        pass
    os.close(ours)
    return seen


def in_a_terminal(arguments: list[str], folder: Path) -> str:
    """What a command writes to a terminal, in a folder."""
    ours, theirs = terminal()
    environment = {**{key: value for key, value in os.environ.items() if key != "COLUMNS"}, "TERM": "xterm"}
    command = [sys.executable, "-m", "pennon", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder
    ) as started:
        os.close(theirs)
        seen = written_to(ours)
        assert started.wait(60) == 0, seen
    return seen.decode()


def here_in_a_terminal(arguments: list[str], folder: Path, patch: pytest.MonkeyPatch) -> str:
    """The same of a command in this process."""
    ours, theirs = terminal()
    with ThreadPoolExecutor(1) as pool, patch.context() as patched:
        seen = pool.submit(written_to, ours)
        patched.chdir(folder)
        patched.delenv("COLUMNS", raising=False)
        patched.setenv("TERM", "xterm")
        with open(theirs, encoding="utf-8") as stdin, open(theirs, "w", encoding="utf-8", closefd=False) as out:
            for name, stream in {"stdin": stdin, "stdout": out, "stderr": out}.items():
                patched.setattr(sys, name, stream)
                patched.setattr(sys, f"__{name}__", stream)
            status = cli.main(arguments)
    assert status == 0, seen.result()
    return seen.result().decode()


# What differs from `CALLS` in form.
MORE = {
    "show older": ["show", "TABLE", "2"],
    "diff of two": ["diff", "TABLE", "1"],
    "diff of each": ["diff", "TABLE", "1..5", "--each", "--limit", "5"],
    "diff counted": ["diff", "TABLE", "1", "--stat"],
    "log in lines": ["log", "TABLE", "--oneline", "--stat"],
    "restore tried": ["restore", "TABLE", "1", "--dry-run"],
    "compact tried": ["compact", "TABLE", "--dry-run"],
    "vacuum tried": ["vacuum", "TABLE", "--dry-run", "--older-than", "0", "--files"],
    "du of versions": ["du", "TABLE", "--by", "version"],
    "inspect a file": ["inspect", "DATA"],
}
# Files as they are, which others read.
RAW = {"export", "completion"}


@pytest.mark.parametrize("name", [*CALLS, *MORE])
def test_a_terminal_of_forty_columns(
    name: str, table: pennon.LanceDataset, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines fit. Values cannot do anything to it."""
    data = next(Path(table.uri, "data").iterdir())
    os.symlink(data, file.parent / "data.lance")
    words = {"TABLE": "table.lance", "FILE": "rows.parquet", "DATA": "data.lance"}
    arguments = [words.get(word, word) for word in (CALLS | MORE)[name]]
    if LONG:
        text = in_a_terminal(arguments, file.parent)
    else:
        text = here_in_a_terminal(arguments, file.parent, monkeypatch)
    assert "Traceback" not in text
    assert "\x1b[2J" not in text or name == "export"
    if name not in RAW:
        assert max(cell_len(line) for line in plain(text).splitlines()) <= 40, plain(text)


def test_help_of_forty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\r\n          jsonl]\r\n" in in_a_terminal(["import", "--help"], tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    for name in ("", *cli._HELP, *(name for name in CALLS if " " in name)):
        lines = run(*name.split(), "--help").lines
        # Commands that are copied are in one line.
        assert max(cell_len(line) for line in lines if "pennon completion" not in line) <= 40, lines


def test_nothing_is_cut_where_no_terminal_is(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [["diff", "1"], ["blame", "0"], ["show"], ["inspect"], ["index", "stats", "id_idx"]]
    for command, *rest in calls:
        arguments = (
            [command, *rest[:1], table.uri, *rest[1:]] if command == "index" else [command, table.uri, *rest]
        )
        monkeypatch.delenv("COLUMNS", raising=False)
        expected = run(*arguments).out
        monkeypatch.setenv("COLUMNS", "40")
        assert run(*arguments).out == expected
        assert max(map(len, expected.splitlines())) > 60


@pytest.mark.parametrize("width", [1, 5, 12, 40])
@pytest.mark.parametrize("breaks_words", [False, True])
def test_folding_loses_nothing(width: int, breaks_words: bool) -> None:
    text = "  some \x1b[31mwords and\x1b[0m averyverylongone, 漢字漢字漢字 \x1b[1mend\x1b[0m"
    lines = list(folded(text, width, 4, breaks_words=breaks_words))
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    for line in map(plain, lines):
        assert cell_len(line) <= width or width < 5 or (not breaks_words and " " not in line.strip())
    assert list(folded(text, 100, 4)) == [text]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def until_it_waits(process: subprocess.Popen[bytes]) -> None:
    """For half a second it has slept, and computed nothing."""
    if not Path("/proc/self/stat").exists():
        time.sleep(2.5)
        return
    before, equal = None, 0
    while equal < 5:
        assert process.poll() is None
        # After the name in parentheses: the state, and behind others the ticks of processors.
        state, *numbers = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        now = (state, *numbers[10:12])
        equal = equal + 1 if state == "S" and now == before else 0
        before = now
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["import", "head", "export", "scrub"])
def test_ctrl_c(name: str, tmp_path: Path) -> None:
    """While it waits for input, for a store, or for a reader: it ends by the signal, and no word."""
    uri: object = tmp_path / "table.lance"
    stdin, stdout = None, subprocess.PIPE
    if name == "import":
        arguments = ["import", str(uri), "-", "--input-format", "csv"]
        stdin = subprocess.PIPE
    else:
        pennon.write_dataset({"id": range(300_000)}, uri)
        arguments = [*call(name, uri)]
        if name == "head":
            arguments += ["-n", "300000", "--format", "json"]
        if name == "scrub":
            arguments += ["--rate", "1000"]
    command = [sys.executable, "-m", "pennon", *arguments]
    with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE) as started:
        until_it_waits(started)
        started.send_signal(signal.SIGINT)
        time.sleep(0.2)
        # Whoever waits for the reader of a pipe gets one.
        _, err = started.communicate(timeout=30)
    assert (started.returncode, err.strip()) == (-signal.SIGINT, b""), err
    assert name != "import" or not Path(str(uri)).exists() or not list(Path(str(uri)).rglob("*.manifest"))


def test_errors_of_the_command_itself(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("what nobody thought of")

    monkeypatch.setattr(pennon.LanceDataset, "count_rows", broken)
    done = run("count", table.uri)
    assert (done.status, is_a_sentence(done.err)) == (3, True)
    assert "ZeroDivisionError: what nobody thought of" in done.err
    monkeypatch.setenv("PENNON_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run("count", table.uri)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"id": 1, "wrong": 2}', "wrong"),
        ('{"id": 1, "s": {"x": 1, "y": 2}}', "s.y"),
        ('{"l": [{}, {"a": 1}]}', "l.a"),
    ],
)
def test_a_field_that_is_no_column(uri: str, tmp_path: Path, line: str, field: str) -> None:
    kinds = {"id": pa.int64(), "s": pa.struct([("x", pa.int64())]), "l": pa.list_(pa.struct([("b", pa.int64())]))}
    pennon.write_dataset(pa.schema(list(kinds.items())).empty_table(), uri)
    (tmp_path / "f.jsonl").write_text(f'{{"id": 1}}\n\n{line}\n')
    done = run("import", uri, tmp_path / "f.jsonl", "--mode", "append")
    assert done.status == 3
    assert is_a_sentence(done.err), done.err
    assert f"Line 3 has an unexpected field '{field}'; expected 'id', 's', 'l'" in done.err
