"""`pennon verify`: damage in a table."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pennon.verification import verify

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="look for damage in a table",
        description="Checks the newest version down to its rows and looks for the files of all others; counts the"
        " files that no version needs. Exit status: 0 if nothing is wrong, 1 if something is, 2 if the table could"
        " not be verified.",
    )
    parser.add_argument("uri", help="path or URI of the directory of a table")
    parser.add_argument("--version", type=int, metavar="N", help="check this version down to its rows")
    parser.add_argument("--data", action="store_true", help="decode all data of that version as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> tuple[str, int]:
    """The report, and 1 if something is wrong."""
    report = verify(options.uri, options.version, data=options.data)
    return json.dumps(asdict(report), indent=2) if options.json else str(report), 0 if report.ok else 1
