"""The command `pennon`, and `python -m pennon`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from pennon import __version__
from pennon._inspect import report, text
from pennon.errors import PennonError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process.

    Returns
    -------
    int
        0, or 2 if the arguments or what they name are wrong.
    """
    parser = argparse.ArgumentParser(prog="pennon", description="Lance tables whose rows keep their identity.")
    parser.add_argument("--version", action="version", version=f"pennon {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    inspect = commands.add_parser(
        "inspect",
        help="show what a data file or a table consists of",
        description="Shows the columns, pages, encodings and sizes of a data file, or the version, schema,"
        " fragments and columns of a table. A ratio is bytes in memory by bytes in the file.",
    )
    inspect.add_argument("file", help="path or URI of a data file, or of the directory of a table")
    inspect.add_argument("--json", action="store_true", help="print JSON, with every page and fragment")
    options = parser.parse_args(arguments)
    try:
        found = report(options.file)
    except PennonError as error:
        print(f"pennon: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        print(json.dumps(found, indent=2) if options.json else text(found))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; nothing may be left to flush at exit.
        sys.stdout = None
    return 0


if __name__ == "__main__":
    sys.exit(main())
