"""The command `pennon`: one file for each of its commands.

A command's file has `register`, which adds its parser, and `execute`, which makes of the arguments what to print
and the exit status.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pennon import __version__
from pennon.cli import inspect, repair, scrub, seal, verify
from pennon.errors import PennonError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process.

    Returns
    -------
    int
        0 for success, 1 if a table has a fault, 2 if the arguments are invalid or what they name cannot be
        read.
    """
    parser = argparse.ArgumentParser(prog="pennon", description="Lance tables whose rows keep their identity.")
    parser.add_argument("--version", action="version", version=f"pennon {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in (inspect, verify, scrub, seal, repair):
        command.register(commands)
    options = parser.parse_args(arguments)
    try:
        shown, status = options.execute(options)
    except PennonError as error:
        print(f"pennon: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        print(shown)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; nothing may be left to flush at exit.
        sys.stdout = None
    return int(status)
