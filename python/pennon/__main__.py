"""The command `pennon`, and `python -m pennon`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from pennon import __version__
from pennon._inspect import report, text
from pennon.errors import PennonError
from pennon.verification import verify

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process.

    Returns
    -------
    int
        0 for success, 1 if a verified table has a fault, 2 if the arguments are invalid or what they name cannot be
        read.
    """
    parser = argparse.ArgumentParser(prog="pennon", description="Lance tables whose rows keep their identity.")
    parser.add_argument("--version", action="version", version=f"pennon {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    inspect = commands.add_parser(
        "inspect",
        help="show the parts of a data file or a table",
        description="Shows the columns, pages, encodings and sizes of a data file, or the version, schema,"
        " fragments and columns of a table. A ratio is bytes in memory divided by bytes in the file.",
    )
    inspect.add_argument("file", help="path or URI of a data file, or of the directory of a table")
    inspect.add_argument("--json", action="store_true", help="print JSON, with every page and fragment")
    check = commands.add_parser(
        "verify",
        help="look for damage in a table",
        description="Checks the newest version down to its rows and looks for the files of all others; counts the"
        " files that no version needs. Exit status: 0 if nothing is wrong, 1 if something is, 2 if the table could"
        " not be verified.",
    )
    check.add_argument("uri", help="path or URI of the directory of a table")
    check.add_argument("--version", type=int, metavar="N", help="check this version down to its rows")
    check.add_argument("--data", action="store_true", help="decode all data of that version as well")
    check.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    status = 0
    try:
        if options.command == "verify":
            verified = verify(options.uri, options.version, data=options.data)
            status = 0 if verified.ok else 1
            shown = json.dumps(asdict(verified), indent=2) if options.json else str(verified)
        else:
            found = report(options.file)
            shown = json.dumps(found, indent=2) if options.json else text(found)
    except PennonError as error:
        print(f"pennon: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        print(shown)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; nothing may be left to flush at exit.
        sys.stdout = None
    return status


if __name__ == "__main__":
    sys.exit(main())
