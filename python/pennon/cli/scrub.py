"""`pennon scrub`: all files of a table compared with their checksums, slowly and with breaks."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pennon.scrubbing import scrub

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def register(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "scrub",
        help="compare all files of a table with their checksums, at a bounded rate",
        description="Compares all files of all versions with their checksums, one after the other. Exit status: 0"
        " if nothing is wrong, 1 if something is, 2 if the table could not be looked at.",
    )
    parser.add_argument("uri", help="path or URI of the directory of a table")
    parser.add_argument("--rate", type=rate, metavar="BYTES", help="the most in a second: 50M, 1GiB")
    parser.add_argument("--state", metavar="FILE", help="remember what is done in this file, and go on there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def rate(text: str) -> int:
    """A number of bytes with a unit."""
    upper = text.strip().upper().removesuffix("/S").removesuffix("B")
    digits = upper.rstrip("KMGI")
    try:
        value = float(digits) * (_UNITS[upper[len(digits) :]] if len(upper) > len(digits) else 1)
    except (ValueError, KeyError):
        value = 0
    if not 1 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate: expected bytes in a second, such as 50M or 200MiB")
    return int(value)


def execute(options: argparse.Namespace) -> tuple[str, int]:
    """The report, and 1 if something is wrong."""
    report = scrub(options.uri, bytes_per_second=options.rate, state=options.state)
    return json.dumps(asdict(report), indent=2) if options.json else str(report), 0 if report.ok else 1
