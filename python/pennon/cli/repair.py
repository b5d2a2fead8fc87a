"""`pennon repair`: what can be had of damaged files."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pennon.repairing import repair

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "repair",
        help="repair a damaged table as far as that can be done",
        description="Verifies a table with its data and prints what repairs it; does that with --yes. Exit status:"
        " 0 if nothing is wrong, or nothing is wrong any more, 1 if something is, 2 if the table could not be"
        " verified.",
    )
    parser.add_argument("uri", help="path or URI of the directory of a table")
    parser.add_argument("--from", dest="copy", metavar="URI", help="take files from this copy of the table")
    parser.add_argument("--yes", action="store_true", help="do it; without, the table stays as it is")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> tuple[str, int]:
    """The report, and 1 if something is wrong."""
    report = repair(options.uri, copy=options.copy, apply=options.yes)
    status = 0 if report.ok else 1
    if options.json:
        return json.dumps(asdict(report), indent=2), status
    hint = "" if options.yes or not report.actions else "\nnothing was changed: --yes does this"
    return f"{report}{hint}", status
