"""`pennon seal`: checksums for files whose writers left none in them."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pennon.sealing import seal

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "seal",
        help="add checksums to the files of a table that have none",
        description="Verifies the table with its data, then writes the checksums of files that have none into files"
        " of their own, below `_seals`. Nothing else of the table is changed. Exit status: 0 if nothing is wrong"
        " with the table, 1 if something is, and those files were not sealed, 2 if the table could not be sealed.",
    )
    parser.add_argument("uri", help="path or URI of the directory of a table")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> tuple[str, int]:
    """The report, and 1 if something is wrong."""
    report = seal(options.uri)
    return json.dumps(asdict(report), indent=2) if options.json else str(report), 0 if report.ok else 1
