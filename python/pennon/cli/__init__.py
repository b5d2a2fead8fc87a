"""The command `pennon`: one file for each of its commands, which is imported when it is called.

A command's file has `command`. What they share has names that begin with an underscore: `_open.py` the table and
how it is named, `_output.py` what is printed, `_errors.py` what becomes of an error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from pennon.cli import _errors
from pennon.cli._help import HelpContext, fitting

__all__ = ["Commands", "main"]

GROUPS: dict[str, dict[str, str]] = {
    "Rows": {
        "head": "Print the first rows.",
        "count": "Print the number of rows.",
        "take": "Print rows by id or position.",
        "sql": "Print the result of a query.",
        "schema": "Print the columns.",
    },
    "History": {
        "log": "List versions, newest first.",
        "show": "Show one version.",
        "diff": "Show the rows that changed between two versions.",
        "blame": "Show the history of a row.",
        "tag": "List, create, move and delete tags.",
        "branch": "List, create and delete branches.",
        "restore": "Make an older version the newest again.",
    },
    "Data": {
        "import": "Write files to a table.",
        "export": "Write rows to a file.",
    },
    "Upkeep": {
        "du": "Show where the bytes are.",
        "plot": "Draw fragments and versions.",
        "index": "List, create, extend and drop indices.",
        "config": "List and change settings of a table.",
        "compact": "Rewrite small fragments and deleted rows.",
        "vacuum": "Remove old versions and their files.",
    },
    "Damage": {
        "inspect": "Show the parts of a data file or a table.",
        "verify": "Look for damage in a table.",
        "scrub": "Compare all files of a table with their checksums, at a bounded rate.",
        "seal": "Add checksums to files that have none.",
        "repair": "Repair a damaged table as far as that can be done.",
    },
    "Shell": {
        "completion": "Print the completion for a shell.",
    },
}
"""All commands and what they do, by their subjects, in the order of the help."""

_HELP = {name: text for commands in GROUPS.values() for name, text in commands.items()}
# Words that Python does not allow as names of modules.
_MODULES = {"import": "import_"}
_COMPLETE = "_PENNON_COMPLETE"
# What shells call the status of a process that Ctrl-C has ended.
INTERRUPTED = 130
# Commands that have nothing to undo: Ctrl-C ends the process wherever it is, also while threads of DuckDB wait.
_ONLY_READ = {"sql"}


class Commands(click.Group):
    """The commands; the file of each is imported when it is called."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(_HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        del ctx
        if cmd_name not in _HELP:
            return None
        module = importlib.import_module(f"pennon.cli.{_MODULES.get(cmd_name, cmd_name)}")
        found: click.Command = module.command
        return fitting(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of the help, which imports none of them."""
        del ctx
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands that begin like this."""
        found = [CompletionItem(name, help=text) for name, text in _HELP.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _print_version(context: click.Context, option: click.Parameter, value: bool) -> None:
    del option
    if value and not context.resilient_parsing:
        from pennon import __version__

        click.echo(f"pennon {__version__}")
        context.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 if all is well, 1 if something was found that is wrong, 2 if the arguments are invalid,"
    " 3 if the command failed.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def pennon(context: click.Context) -> None:
    """Lance tables whose rows keep their identity."""
    begin: Callable[[], None] | None = context.obj
    if begin is not None and context.invoked_subcommand not in _ONLY_READ:
        begin()


def main(arguments: Sequence[str] | None = None, begin: Callable[[], None] | None = None) -> int:
    """Run the command with these arguments, by default those of the process.

    Parameters
    ----------
    arguments
        The words after `pennon`.
    begin
        Called once the command is imported, before it does anything that an interrupt has to undo.

    Returns
    -------
    int
        0 if all is well, 1 if something was found that is wrong, 2 if the arguments are invalid, 3 if the command
        failed, 130 if it was interrupted.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # text that the terminal has no characters for
            stream.reconfigure(errors="backslashreplace")
    instruction = os.environ.get(_COMPLETE)
    if instruction:
        return shell_complete(pennon, {}, "pennon", _COMPLETE, instruction)
    _errors.nothing_found()
    words = list(sys.argv[1:] if arguments is None else arguments)
    for word in words:
        if word.encode("utf-8", "replace").decode() != word:
            click.echo(f"pennon: the argument {word!r} is not UTF-8", err=True)
            return _errors.USAGE
    try:
        status = _run(words, begin)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads it has seen enough; nothing may be left to flush at exit.
        _errors.discard_output()
        return _errors.status_so_far()
    except (KeyboardInterrupt, click.Abort):
        _errors.discard_output()
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("PENNON_TRACEBACK"):
            raise
        _errors.print_error(error)
        _errors.discard_output()
        return _errors.FAILED
    return status


def _run(arguments: list[str], begin: Callable[[], None] | None) -> int:
    try:
        with pennon.make_context("pennon", arguments, obj=begin) as context:
            found: Any = pennon.invoke(context)
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        error.show()
        return int(error.exit_code)
    return int(found or 0)
