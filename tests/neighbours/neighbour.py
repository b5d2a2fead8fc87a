"""A release of pylance in a process of its own, and what comes of asking it for something.

An outcome is a text: `reads`, or what went wrong. `refuses: ...` has the first words of the error, `wrong: ...`
says which values differ; `crashes` and `hangs` are the process.
"""

from __future__ import annotations

import json
import re
import select
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from support.compare import combined

READS, CRASHES, HANGS = "reads", "crashes", "hangs"
DRIVER = Path(__file__).with_name("driver.py")
# Seconds for one request.
PATIENCE = 30
WORDS = 110


class RefusedError(Exception):
    """The release raised; the text is an outcome."""


class Neighbour:
    """Requests to one release. A process that crashed or hangs is replaced by the next request."""

    def __init__(self, python: Path, directory: Path) -> None:
        self._python, self._directory, self._files = python, directory, 0
        self._process: subprocess.Popen[str] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "stderr.log").open("w")

    def ask(self, verb: str, **arguments: Any) -> Any:
        """The value of a request. Raises `RefusedError`."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [str(self._python), "-I", "-W", "ignore", str(DRIVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps([verb, arguments]), file=stdin, flush=True)
        if not select.select([stdout], [], [], PATIENCE)[0]:
            self.close()
            raise RefusedError(HANGS)
        line = stdout.readline()
        if not line:
            self.close()
            raise RefusedError(CRASHES)
        answer = json.loads(line)
        if "error" in answer:
            raise RefusedError(f"refuses: {first_words(answer['error'])}")
        return answer["value"]

    def rows(self, verb: str, **arguments: Any) -> pa.Table:
        """The rows of a request."""
        path = self._directory / "out.arrow"
        self.ask(verb, out=str(path), **arguments)
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_file(file).read_all()

    def give(self, table: pa.Table) -> str:
        """A file with these rows, for a request."""
        self._files += 1
        path = str(self._directory / f"in-{self._files}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return path

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def first_words(error: str) -> str:
    """The first words of an error, without what differs from run to run and from machine to machine."""
    text = " ".join(error.split())
    # Panics of the binding say the same whatever happened.
    text = re.sub(r"^(OSError|ValueError|RuntimeError|Exception|PanicException): ", "", text)
    text = re.sub(r",? ?(at )?(\S*/)?(rust|src|lance\S*)/\S+\.rs:\d+(:\d+)?", "", text)
    text = re.sub(r"(file://|/)?\S*/(data|_versions|_deletions|_indices|tmp)/\S*", "<path>", text)
    text = re.sub(r"(?<![\w<])/\S+/\S*", "<path>", text)
    text = re.sub(r"\bat \d+", "at <n>", text)
    # Names of tables in their paths have spaces.
    text = re.sub(r"<path>( [^<:]* )<path>:?", "<path>", text)
    text = re.sub(r"Encountered internal error\. Please file a bug report at \S+ ", "", text)
    text = re.sub(r"\btask \d+|JoinError::Panic\(Id\(\d+\), ", "task <n>: ", text)
    text = re.sub(r"[0-9a-f]{24,}(?=\.lance)", "<file>", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uuid>", text)
    return text if len(text) <= WORDS else f"{text[:WORDS].rstrip()} ..."


def difference(found: pa.Table, expected: pa.Table, ordered: bool = False) -> str:
    """`reads` if both have the same rows, in any order unless `ordered`; otherwise what differs."""
    if found.schema.names != expected.schema.names:
        return f"wrong: columns {found.schema.names}"
    if found.num_rows != expected.num_rows:
        return f"wrong: {found.num_rows} rows instead of {expected.num_rows}"
    if not ordered:
        found = found.take(pc.sort_indices(found["id"]))
        expected = expected.take(pc.sort_indices(expected["id"]))
    kinds = ""
    for name in expected.schema.names:
        kind, wanted = found.schema.field(name).type, expected.schema.field(name).type
        if kind != wanted:
            kinds = kinds or f"other type: {kind} instead of {wanted}"
        left, right = combined(found.select([name]))[name], combined(expected.select([name]))[name]
        if left.type == right.type and left.equals(right):
            continue
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        wrong = [(a, b) for a, b in pairs if a != b]
        if wrong:
            first, good = (short(value) for value in wrong[0])
            return f"wrong: {len(wrong)} of {len(left)} values of {name}, such as {first} instead of {good}"
    return kinds or READS


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 30 else f"{text[:30]}..."
