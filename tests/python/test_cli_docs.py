"""The examples of docs/command-line.md run, and print what it says; every command is among them.

`python tests/python/test_cli_docs.py --write`, with `tests` on the path, writes what they print into the page.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest
from pennon import cli
from support.command import pennon as run

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {
    "people.csv": "id,name,age\n1,ada,36\n2,grace,85\n3,alan,41\n",
    "more.jsonl": '{"id": 4, "name": "katherine", "age": 101}\n',
}
# What differs each time, or with the release: times, names of files, sizes and with them widths of columns.
VARIABLE = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( [+-]\d{4})?"), "TIME"),
    (re.compile(r"\b[01]{24}[0-9a-f]{26}\.lance"), "FILE"),
    (re.compile(r"[+-]?[\d,.]+ (B|kB)\b"), "SIZE"),
    (re.compile(r"[ ▁▂▃▄▅▆▇█]+"), " "),
]


def steps(block: str) -> list[tuple[str, str]]:
    """Commands, and what they print."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def same(text: str) -> list[str]:
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.splitlines()]


def printed(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "pennon"
    done = run(*arguments)
    assert (done.status, done.err) == (0, ""), (command, done.err)
    return "\n".join(line.rstrip() for line in done.lines) + "\n"


def test_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    called = set()
    for block in BLOCK.findall(PAGE.read_text()):
        for command, expected in steps(block):
            assert same(printed(command)) == same(expected), command
            called.add(shlex.split(command)[1])
    assert called == set(cli._HELP) - {"completion"}


def write() -> None:
    """Fills the page in."""
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text)

        def filled(block: re.Match[str]) -> str:
            lines = [f"$ {command}\n{printed(command)}" for command, _ in steps(block[1])]
            return f"```console\n{''.join(lines)}```"

        PAGE.write_text(BLOCK.sub(filled, page))


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], __doc__
    write()
