"""The command `pennon` as tests run it: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from pennon.cli import main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass
class Done:
    """A command that has ended."""

    status: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class _Text(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def close(self) -> None:  # click closes what it wraps
        self.flush()


def pennon(*arguments: object, stdin: bytes = b"") -> Done:
    """Run a command in this process."""
    out, err = _Text(), _Text()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    return Done(status, out.buffer.getvalue(), err.buffer.getvalue().decode())


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    settings = {"capture_output": True, "timeout": 120, **options}
    return subprocess.run([sys.executable, "-m", "pennon", *map(str, arguments)], check=False, **settings)
